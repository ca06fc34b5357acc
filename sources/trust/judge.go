package trust

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/larder-cli/larder/sources"
)

// A Judge applies the trust settings of one run to the packages of any provider. All
// verdicts come from a Judge: stores record what was proved, and a Judge computes what
// that is worth. The zero Judge has Terraform's rules and requires nothing.
type Judge struct {
	Options Options
	Require Requirement
}

// A Requirement is the least that packages must be worth.
type Requirement int

// The requirements, each including those above it.
const (
	RequireNothing Requirement = iota
	RequireSigned              // a valid signature
	RequireTrusted             // a signature by HashiCorp's key, or by a key that the user trusts
)

// For returns the options for packages of p in a store, by the rules of the engine
// whose registry has the provider.
func (j Judge) For(p sources.Provider) Options {
	engine := j.Options.Engine
	if p.Host == sources.OpenTofu.DefaultHost() {
		engine = sources.OpenTofu
	}
	return j.Options.For(engine, p).withDefaults()
}

// Report returns what a proof about a package of p is worth.
func (j Judge) Report(p sources.Provider, proof sources.Proof) sources.Report {
	return j.For(p).Report(proof)
}

// Prove returns what evidence for a version of p proves about an archive with the hash
// zh. It doesn't depend on the settings. Keys marked as listed count as listed by a
// registry. OpenTofu's registry lists no keys for some providers: their evidence proves
// only that the hash is the stated one.
func (j Judge) Prove(p sources.Provider, s *sources.Signed, zh sources.Hash) (sources.Proof, error) {
	name, err := signedName(s, zh)
	if err != nil {
		return sources.Proof{}, err
	}
	proof := sources.Proof{Matched: true, Name: name}
	if len(s.Keys) == 0 && p.Host == sources.OpenTofu.DefaultHost() {
		return proof, nil
	}
	x, err := newExamination(s, j.Options.withDefaults())
	if err != nil {
		return sources.Proof{}, fmt.Errorf("checksums: %w", err)
	}
	for _, f := range x.good {
		proof.Signers = append(proof.Signers, f.Signer)
	}
	proof.Revoked = x.revoked
	return proof, nil
}

// Merge returns the evidence to keep for a version of p, see [Merge].
func (j Judge) Merge(p sources.Provider, kept, new *sources.Signed) (*sources.Signed, error) {
	return Merge(kept, new, j.For(p))
}

// CompareKeys warns if another version of p is signed with other keys, see
// [CompareKeys].
func (j Judge) CompareKeys(p sources.Provider, other sources.Version, was, now *sources.Signed) error {
	return CompareKeys(other, was, now, j.For(p))
}

// Check returns a [NotSignedError] if a package doesn't meet the requirement. The
// checksums must contain the archive under its own name: a signature under another name
// may be that of another release.
func (j Judge) Check(id sources.PackageID, r sources.Report) error {
	best := r.Best()
	refused := &NotSignedError{Required: j.Require, Verdict: r.Verdict, By: best, Err: r.Refused}
	switch {
	case j.Require == RequireNothing:
		return nil
	case r.Refused != nil:
		return sources.WithHint(refused, "if the publisher has announced the new key, add its fingerprint to trusted_keys")
	case len(r.By) == 0:
		return sources.WithHint(refused, "use the origin registry, or a mirror with signed checksums, such as larder mirror sync makes")
	case j.Require == RequireTrusted && best.Verdict < sources.SignedByTrusted:
		return sources.WithHint(refused, "if the publisher has announced this fingerprint, add --trust-key %s", best.Fingerprint)
	case r.Signed != id.Filename():
		refused.Signed = r.Signed
		return refused
	}
	return nil
}

// Report returns what a proof is worth by the options. If none of its signers is
// acceptable, Refused is set, and the signatures are worth nothing.
func (o Options) Report(p sources.Proof) sources.Report {
	r, err := o.withDefaults().accepted(p)
	if err != nil {
		r = sources.Report{Refused: err}
	}
	if p.Matched {
		r.Verdict = max(r.Verdict, sources.HashOnly)
	}
	return r
}

// accepted returns the report on the acceptable signers, the best first. The error is
// the reason why there is none, unless the proof has no signers.
func (o Options) accepted(p sources.Proof) (r sources.Report, err error) {
	signers := slices.Clone(p.Signers)
	slices.SortStableFunc(signers, func(a, b sources.Signer) int { return later(a.KeyEnds, b.KeyEnds) })
	var refused, late error
	var fine []sources.Signer
	for _, s := range signers {
		by, err := o.accept(s)
		switch {
		case err == nil:
			r.By, fine = append(r.By, by), append(fine, s)
		case isLate(err):
			late = err
		default:
			refused = cmp.Or(refused, err)
		}
	}
	if len(r.By) == 0 {
		return r, cmp.Or(refused, late)
	}
	slices.SortStableFunc(r.By, func(a, b sources.SignedBy) int { return cmp.Compare(b.Verdict, a.Verdict) })
	best := fine[slices.IndexFunc(fine, func(s sources.Signer) bool { return s.Fingerprint == r.Best().Fingerprint })]
	r.Verdict, r.Signed, r.Notes = r.Best().Verdict, p.Name, o.notes(best)
	if len(o.pinned()) > 0 && !slices.Contains(o.trusted(), best.Fingerprint) {
		r.Refused = &UntrustedKeyError{r.By, o.trusted()}
		r.Notes = append(r.Notes, r.Refused.Error())
	}
	return r, nil
}

func isLate(err error) bool {
	_, ok := errors.AsType[*ExpiredKeyError](err)
	return ok
}

// accept returns what the signature of s is worth, or why it is worth nothing.
func (o Options) accept(s sources.Signer) (sources.SignedBy, error) {
	by := sources.SignedBy{KeyID: s.KeyID(), Fingerprint: s.Fingerprint, UserID: s.UserID}
	if err := o.checkAge(s); err != nil {
		return by, err
	}
	by.Verdict, by.From = sources.MirrorEvidence, cmp.Or(o.Carrier, sources.KeyFromMirror)
	if s.From == sources.KeyFromRegistry {
		by.Verdict, by.From = sources.SelfSigned, sources.KeyFromRegistry
	}
	if slices.Contains(o.trusted(), s.Fingerprint) {
		by.Verdict, by.From = sources.SignedByTrusted, sources.KeyTrusted
	}
	switch {
	case s.Fingerprint == o.HashiCorpKey:
		by.Verdict, by.From = sources.SignedByHashiCorp, sources.KeyBuiltIn
	case s.Partner != "" && s.Partner != sources.PartnerClaimed && o.Engine != sources.OpenTofu:
		return by, &TrustSignatureError{by.KeyID, errors.New(s.Partner)}
	}
	if len(o.pinned()) > 0 && !slices.Contains(o.trusted(), s.Fingerprint) {
		by.Verdict = min(by.Verdict, sources.MirrorEvidence)
	}
	return by, nil
}

// checkAge returns an error for a signature that is not valid now.
func (o Options) checkAge(s sources.Signer) error {
	now := o.Now()
	switch {
	case s.Signed.After(now):
		return sources.WithHint(&ExpiredSignatureError{s.KeyID(), s.Signed, time.Time{}}, "check the clock of this machine")
	case ended(s.SignatureEnds, now):
		return &ExpiredSignatureError{s.KeyID(), s.Signed, s.SignatureEnds}
	case o.EnforceGPGExpiration && ended(s.KeyEnds, now):
		return sources.WithHint(&ExpiredKeyError{s.KeyID(), s.Signed, s.KeyEnds},
			"the key was valid then; unset OPENTOFU_ENFORCE_GPG_EXPIRATION to accept it")
	}
	return nil
}

// notes returns what a user should know about the key that counts.
func (o Options) notes(s sources.Signer) (all []string) {
	if ended(s.KeyEnds, o.Now()) {
		all = append(all, fmt.Sprintf("the key %s expired on %s, after it signed the checksums on %s", s.KeyID(), day(s.KeyEnds), day(s.Signed)))
	}
	if s.Partner == sources.PartnerClaimed && s.Fingerprint != o.HashiCorpKey && o.Engine != sources.OpenTofu {
		all = append(all, fmt.Sprintf("the key %s has a trust signature, which cannot be verified without HashiCorp's partner key", s.KeyID()))
	}
	return all
}
