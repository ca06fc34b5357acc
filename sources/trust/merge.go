package trust

import (
	"bytes"
	"errors"
	"slices"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/larder-cli/larder/sources"
)

// Merge merges evidence for a version of opts.Provider: old is the stored
// evidence, new may come from anywhere. The result is the one with the better
// verdict; keys marked as listed count as listed by a registry. If both have
// the same checksums, the result contains the signatures and keys of both.
// Otherwise new replaces old only if it is better, or if it is equally good and
// signed by a key that also signed old or that a registry lists. Keys that only this run
// accepts don't make new evidence replace that of a registry's key or of HashiCorp's.
//
// The error is a [DowngradeError] if new is rejected because it is worse. It is
// a [KeyChangeError] if new is accepted although none of its keys signed old.
// In both cases the result is valid.
func Merge(old, new *sources.Signed, opts Options) (*sources.Signed, error) {
	switch {
	case old == nil:
		return new, nil
	case new == nil:
		return old, nil
	}
	opts = opts.withDefaults()
	a, b := appraise(old, new.Keys, opts), appraise(new, old.Keys, opts)
	better := b.verdict() > a.verdict()
	switch {
	case better && !bytes.Equal(old.Sums, new.Sums) && a.outlasts(b, opts):
		return old, downgrade(a, b)
	case bytes.Equal(old.Sums, new.Sums) && better:
		return b.join(a, opts), nil
	case bytes.Equal(old.Sums, new.Sums) && a.verdict() > sources.Unverified:
		return a.join(b, opts), nil
	case better, a.verdict() <= sources.HashOnly && b.verdict() == a.verdict():
		return b.join(a, opts), nil
	case b.verdict() < a.verdict():
		return old, downgrade(a, b)
	case !a.sharesKey(b) && b.verdict() == sources.MirrorEvidence:
		return old, downgrade(a, b)
	case covers(old.Sums, new.Sums):
		return a.join(b, opts), a.changed(b)
	}
	return b.join(a, opts), a.changed(b)
}

// An appraisal is evidence and the keys that signed it.
type appraisal struct {
	*sources.Signed
	by     []*signer      // without those that the options refuse; empty if no signature is valid
	report sources.Report // on by
}

func appraise(s *sources.Signed, others []sources.Key, opts Options) appraisal {
	found, _ := examine(s, opts, others...)
	a := appraisal{Signed: s}
	var proof sources.Proof
	for _, f := range found {
		if _, err := opts.accept(f.Signer); err == nil {
			a.by, proof.Signers = append(a.by, f), append(proof.Signers, f.Signer)
		}
	}
	a.report, _ = opts.accepted(proof) // all of them are acceptable
	return a
}

func (a appraisal) verdict() sources.Verdict {
	switch {
	case len(a.by) > 0:
		return a.report.Verdict
	case len(a.Keys) == 0: // OpenTofu's registry lists no keys for some providers
		return sources.HashOnly
	}
	return sources.Unverified
}

// outlasts reports whether b is better than a only because a flag of this run accepts its
// key. Without the flag, a has a key that counts and is better.
func (a appraisal) outlasts(b appraisal, opts Options) bool {
	opts.Accepted = nil
	worth := func(x appraisal) sources.Verdict { return appraise(x.Signed, nil, opts).verdict() }
	return worth(a) >= sources.SelfSigned && worth(a) > worth(b)
}

func (a appraisal) has(f sources.Fingerprint) bool {
	return slices.ContainsFunc(a.by, func(s *signer) bool { return s.Fingerprint == f })
}

func (a appraisal) sharesKey(b appraisal) bool {
	return slices.ContainsFunc(a.by, func(s *signer) bool { return b.has(s.Fingerprint) })
}

// changed returns an error if different keys signed a and b.
func (a appraisal) changed(b appraisal) error {
	if a.sharesKey(b) || len(a.by) == 0 || len(b.by) == 0 {
		return nil
	}
	return &KeyChangeError{Was: a.report.By, Now: b.report.By}
}

func downgrade(kept, refused appraisal) error {
	return &DowngradeError{Kept: kept.report.By, Refused: refused.report.By}
}

// maxMergedKeys is the maximum number of keys in merged evidence, unless a
// source had more.
const maxMergedKeys = 16

// join returns a with additions from b: the signatures that are valid for a's
// checksums, with their keys, and other states of a's keys, such as revoked
// ones. It drops other keys of b, and anything that would make the evidence too
// large or its verdict worse.
func (a appraisal) join(b appraisal, opts Options) *sources.Signed {
	joined := *a.Signed
	joined.Keys = slices.Clone(a.Keys)
	for i, k := range joined.Keys {
		listed := slices.Contains(b.Keys, k.AsListed(true))
		joined.Keys[i] = k.AsListed(k.Listed() || listed)
	}
	if bytes.Equal(a.Sums, b.Sums) {
		for _, s := range b.by {
			addKey(&joined, s.listed)
			addSignature(&joined, s.packet)
		}
	}
	known := readKeyring(nil, joined.Keys).fingerprints()
	for _, block := range readKeyring(nil, b.Keys).blocks {
		if slices.ContainsFunc(block.entities, func(e *openpgp.Entity) bool { return known[fingerprint(e)] }) {
			addKey(&joined, block.key)
		}
	}
	if again := appraise(&joined, b.Keys, opts); again.verdict() < a.verdict() || !again.hasAll(a.by) {
		return a.Signed
	}
	return &joined
}

func (a appraisal) hasAll(by []*signer) bool {
	return !slices.ContainsFunc(by, func(s *signer) bool { return !a.has(s.Fingerprint) })
}

func addKey(to *sources.Signed, key sources.Key) {
	same := func(k sources.Key) bool { return k.AsListed(false) == key.AsListed(false) }
	if !slices.ContainsFunc(to.Keys, same) && len(to.Keys) < maxMergedKeys {
		to.Keys = append(to.Keys, key)
	}
}

func addSignature(to *sources.Signed, signature []byte) {
	all, err := splitSignature(to.Signature)
	same := func(s []byte) bool { return bytes.Equal(s, signature) }
	if err != nil || slices.ContainsFunc(all, same) || len(all) == maxSignatures || len(to.Signature)+len(signature) > maxSignatureSize {
		return
	}
	to.Signature = slices.Concat(append(all, signature)...)
}

// covers reports whether all has every line of some.
func covers(all, some []byte) bool {
	a, err := ParseSums(all)
	b, err2 := ParseSums(some)
	has := map[sumsLine]bool{}
	for _, l := range a.lines {
		has[l] = true
	}
	return err == nil && err2 == nil && !slices.ContainsFunc(b.lines, func(l sumsLine) bool { return !has[l] })
}

// CompareKeys returns a [KeyChangeError] if different keys signed the evidence
// for a version of a provider, now, and that for another version. It ignores
// evidence without a valid signature.
func CompareKeys(version sources.Version, was, now *sources.Signed, opts Options) error {
	opts = opts.withDefaults()
	err := appraise(was, now.Keys, opts).changed(appraise(now, was.Keys, opts))
	if change := (*KeyChangeError)(nil); errors.As(err, &change) {
		change.Version = version
	}
	return err
}
