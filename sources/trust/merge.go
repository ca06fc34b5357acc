package trust

import (
	"bytes"
	"context"
	"slices"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/larder-cli/larder/sources"
)

// Merge merges evidence for a version of p: old is the stored
// evidence, new may come from anywhere. The result is the one with the better
// verdict; keys marked as listed count as listed by a registry. If both have
// the same checksums, the result contains the signatures and keys of both.
// Otherwise new replaces old only if it is better, or if it is equally good and
// signed by a key that also signed old or that a registry lists. Keys that only this run
// accepts don't make new evidence replace that of a registry's key or of HashiCorp's.
//
// The error matches [Downgraded] if new is rejected because it is worse. It matches
// [KeyChanged] if new is accepted although none of its keys signed old.
// In both cases the result is valid. If the context ends, the result is old.
func (j Judge) Merge(ctx context.Context, p sources.Provider, old, new *sources.Signed) (*sources.Signed, error) {
	switch {
	case old == nil:
		return new, nil
	case new == nil:
		return old, nil
	}
	merged, err := j.stored(p).merge(ctx, old, new)
	if ctx.Err() != nil { // what was verified is incomplete
		return old, ctx.Err()
	}
	return merged, err
}

func (r rules) merge(ctx context.Context, old, new *sources.Signed) (*sources.Signed, error) {
	a, b := r.appraise(ctx, old, new.Keys), r.appraise(ctx, new, old.Keys)
	same, better := bytes.Equal(old.Sums, new.Sums), b.verdict() > a.verdict()
	downgrade := fault(Downgraded,
		"the new evidence has other checksums and is signed by %s; the evidence kept here is signed by %s",
		keysOf(b.report.By), keysOf(a.report.By))
	switch {
	case same && !better && a.verdict() > sources.Unverified:
		return r.join(ctx, a, b), nil
	case same && better:
		return r.join(ctx, b, a), nil
	case better && r.outlasts(ctx, a, b):
		return old, downgrade
	case better, a.verdict() <= sources.HashOnly && b.verdict() == a.verdict():
		return r.join(ctx, b, a), nil
	case b.verdict() < a.verdict(), !a.sharesKey(b) && b.verdict() == sources.MirrorEvidence:
		return old, downgrade
	case covers(old.Sums, new.Sums):
		return r.join(ctx, a, b), a.changed(b, "the earlier evidence")
	}
	return r.join(ctx, b, a), a.changed(b, "the earlier evidence")
}

// An appraisal is evidence and the keys that signed it.
type appraisal struct {
	*sources.Signed
	by     []*signer      // without those that the options refuse; empty if no signature is valid
	report sources.Report // on by
}

// appraise examines evidence, with additional states of its keys.
func (r rules) appraise(ctx context.Context, s *sources.Signed, others []sources.Key) appraisal {
	x, _ := examine(ctx, s, r, others...)
	a := appraisal{Signed: s}
	var proof sources.Proof
	for _, f := range x.good {
		if _, err := r.accept(f.Signer); err == nil {
			a.by, proof.Signers = append(a.by, f), append(proof.Signers, f.Signer)
		}
	}
	a.report, _ = r.accepted(proof) // all of them are acceptable
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
func (r rules) outlasts(ctx context.Context, a, b appraisal) bool {
	r.trusted = r.vouched
	was, now := r.appraise(ctx, a.Signed, nil).verdict(), r.appraise(ctx, b.Signed, nil).verdict()
	return was >= sources.SelfSigned && was > now
}

func (a appraisal) has(f sources.Fingerprint) bool {
	return slices.ContainsFunc(a.by, func(s *signer) bool { return s.Fingerprint == f })
}

func (a appraisal) sharesKey(b appraisal) bool {
	return slices.ContainsFunc(a.by, func(s *signer) bool { return b.has(s.Fingerprint) })
}

// changed returns an error if different keys signed a and b. Of is the name of a in the error.
func (a appraisal) changed(b appraisal, of string) error {
	if a.sharesKey(b) || len(a.by) == 0 || len(b.by) == 0 {
		return nil
	}
	return fault(KeyChanged, "the signing key changed: %s is signed by %s, this version by %s",
		of, keysOf(a.report.By), keysOf(b.report.By))
}

// maxMergedKeys is the maximum number of keys in merged evidence, unless a
// source had more.
const maxMergedKeys = 16

// join returns a with additions from b: the signatures that are valid for a's
// checksums, with their keys, and other states of a's keys, such as revoked
// ones. It drops other keys of b, and anything that would make the evidence too
// large or its verdict worse.
func (r rules) join(ctx context.Context, a, b appraisal) *sources.Signed {
	joined := *a.Signed
	joined.Keys = slices.Clone(a.Keys)
	for i, k := range joined.Keys {
		joined.Keys[i] = k.AsListed(k.Listed() || slices.Contains(b.Keys, k.AsListed(true)))
	}
	if bytes.Equal(a.Sums, b.Sums) {
		joined.Protocols = slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.Protocols, b.Protocols))))
		for _, s := range b.by {
			addKey(&joined, s.listed)
			addSignature(&joined, s.packet)
		}
	}
	ring := readKeyring(ctx, nil, joined.Keys)
	known := func(e *openpgp.Entity) bool { return ring.known[fingerprint(e.PrimaryKey)] }
	for _, block := range readKeyring(ctx, nil, b.Keys).blocks {
		if slices.ContainsFunc(block.entities, known) {
			addKey(&joined, block.key)
		}
	}
	again := r.appraise(ctx, &joined, b.Keys)
	lost := func(s *signer) bool { return !again.has(s.Fingerprint) }
	if again.verdict() < a.verdict() || slices.ContainsFunc(a.by, lost) {
		return a.Signed
	}
	return &joined
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
	large := len(all) == maxSignatures || len(to.Signature)+len(signature) > maxSignatureSize
	if err != nil || large || slices.ContainsFunc(all, same) {
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

// CompareKeys returns an error that matches [KeyChanged] if different keys signed the evidence
// for a version of p, now, and that for another version. It ignores
// evidence without a valid signature.
func (j Judge) CompareKeys(
	ctx context.Context, p sources.Provider, other sources.Version, was, now *sources.Signed,
) error {
	r := j.stored(p)
	return r.appraise(ctx, was, now.Keys).changed(r.appraise(ctx, now, was.Keys), other.String())
}
