package trust

import (
	"bytes"
	"errors"
	"slices"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/larder-cli/larder/sources"
)

// Merge returns the evidence to keep for a version of opts.Provider, of the evidence
// kept so far, old, and evidence from anywhere, new. The one with the better verdict is
// kept, where keys that are marked as listed count as a registry's. If both have the
// same checksums, the result has the signatures and keys of both. Otherwise old stays,
// unless new is better, or is as good and signed by a key that signed old, or by one
// that a registry lists.
//
// The error is a [DowngradeError] if new is refused because it is worse, and a
// [KeyChangeError] if new is kept although none of its keys signed old. In both cases
// the result is still what to keep.
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

// An appraisal is evidence, and the keys that signed it.
type appraisal struct {
	*sources.Signed
	by  []*signer // the best first; empty if nothing is verified
	err error     // why
}

func appraise(s *sources.Signed, others []sources.Key, opts Options) appraisal {
	by, err := examine(s, opts, others...)
	return appraisal{s, by, err}
}

func (a appraisal) verdict() sources.Verdict {
	switch {
	case len(a.by) > 0:
		return a.by[0].Verdict
	case len(a.Keys) == 0: // as OpenTofu's registry lists for some
		return sources.HashOnly
	}
	return sources.Unverified
}

func (a appraisal) has(f sources.Fingerprint) bool {
	return slices.ContainsFunc(a.by, func(s *signer) bool { return s.Fingerprint == f })
}

func (a appraisal) sharesKey(b appraisal) bool {
	return slices.ContainsFunc(a.by, func(s *signer) bool { return b.has(s.Fingerprint) })
}

func (a appraisal) signedBy() []SignedBy {
	var all []SignedBy
	for _, s := range a.by {
		all = append(all, s.SignedBy)
	}
	return all
}

// changed is an error if other keys signed b than a.
func (a appraisal) changed(b appraisal) error {
	if a.sharesKey(b) || len(a.by) == 0 || len(b.by) == 0 {
		return nil
	}
	return &KeyChangeError{Was: a.signedBy(), Now: b.signedBy()}
}

func downgrade(kept, refused appraisal) error {
	return &DowngradeError{Kept: kept.signedBy(), Refused: refused.signedBy()}
}

// Evidence that was merged has at most so many keys, unless it came with more.
const maxMergedKeys = 16

// join adds to a what b has besides: the signatures that hold for a's checksums, with
// the keys that made them, and a's keys in other states, such as revoked. b's other
// keys are not worth keeping. What would make a too large, or worse, is left out.
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

// covers reports whether all lines of some checksums are among others.
func covers(all, some []byte) bool {
	a, err := ParseSums(all)
	b, err2 := ParseSums(some)
	return err == nil && err2 == nil && !slices.ContainsFunc(b.lines, func(l sumsLine) bool { return !slices.Contains(a.lines, l) })
}

// CompareKeys returns a [KeyChangeError] if the evidence for a version of a provider,
// now, and that for another version were signed by different keys. Evidence without a
// valid signature is not compared.
func CompareKeys(version sources.Version, was, now *sources.Signed, opts Options) error {
	opts = opts.withDefaults()
	err := appraise(was, now.Keys, opts).changed(appraise(now, was.Keys, opts))
	if change := (*KeyChangeError)(nil); errors.As(err, &change) {
		change.Version = version
	}
	return err
}
