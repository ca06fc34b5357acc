package trust

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
)

// A Judge applies the trust settings of one run to the packages of any provider. All
// verdicts come from a Judge: stores record what was proved, and a Judge computes what
// that is worth. The zero Judge has Terraform's rules and requires nothing.
type Judge struct {
	Options Options
	Require Requirement
}

// Options are trust settings. The zero Options mean Terraform's rules.
type Options struct {
	Engine sources.Engine

	// Policy has the rules of this run. The keys in its rules are the only ones that may sign the
	// providers that they match, and those of the site and the user are trusted. Accepted are
	// additional trusted keys for every provider. All are fingerprints of primary keys.
	Policy   *policy.Policy
	Accepted []sources.Fingerprint

	Carrier sources.KeyOrigin // origin of the keys that came with the package; empty means KeyFromMirror

	// By default, OpenTofu verifies no signature if its registry lists no keys,
	// and accepts signatures that an expired key made before it expired. These
	// options disable that.
	EnforceGPGValidation bool
	EnforceGPGExpiration bool

	HashiCorpKey sources.Fingerprint // replaces HashiCorp's

	Now func() time.Time // nil means time.Now
}

// A Requirement is the least that packages must be worth.
type Requirement int

// The requirements, each including those above it.
const (
	RequireNothing Requirement = iota
	RequireSigned              // a valid signature
	RequireTrusted             // a signature by HashiCorp's key, or by a key that the user trusts
)

// KeysOptional reports whether the engine accepts an empty list of keys for a provider.
func (j Judge) KeysOptional(p sources.Provider) bool {
	tofu := sources.OpenTofu
	return j.Options.Engine == tofu && p.Host == tofu.DefaultHost() && !j.Options.EnforceGPGValidation
}

// Report returns what a proof about a package of p is worth. If none of its signers is
// acceptable, Refused is set, and the signatures are worth nothing.
func (j Judge) Report(p sources.Provider, proof sources.Proof) sources.Report {
	r, err := j.stored(p).accepted(proof)
	if err != nil {
		r = sources.Report{Refused: err}
	}
	if proof.Matched {
		r.Verdict = max(r.Verdict, sources.HashOnly)
	}
	r.Approvals = proof.Approvals
	return r
}

// Check returns a [policy.Violation] for a package that the policy excludes, and a [NotSignedError] if a
// package doesn't meet the requirement. The checksums must contain the archive under its own name: a
// signature under another name may be that of another release.
func (j Judge) Check(id sources.PackageID, r sources.Report) error {
	if err := j.Options.Policy.CheckPackage(id.Provider, id.Version); err != nil {
		return err // with its hint
	}
	if err := j.CheckApproved(id, r.Approvals); err != nil {
		return err
	}
	err := j.checkSigned(id, r)
	if rule, ok := j.signatureRule(id.Provider, r); ok && err != nil {
		return (&policy.Violation{Rule: rule, Provider: id.Provider, Version: id.Version, Err: err}).With()
	}
	return err
}

// signatureRule returns the rule that a package of p with a report violates, if it is not signed as required.
func (j Judge) signatureRule(p sources.Provider, r sources.Report) (policy.Rule, bool) {
	if errors.Is(r.Refused, UntrustedKey) {
		for _, rule := range j.Options.Policy.KeyRules(p) {
			if !slices.Contains(rule.KeysFor(p), r.Best().Fingerprint) {
				return rule, true
			}
		}
	}
	return j.Options.Policy.SignedBy(p)
}

// checkSigned returns a [NotSignedError] if a package is not signed as required.
func (j Judge) checkSigned(id sources.PackageID, r sources.Report) error {
	best := r.Best()
	if _, ok := j.Options.Policy.SignedBy(id.Provider); ok {
		j.Require = max(j.Require, RequireSigned)
	}
	refused := &NotSignedError{Required: j.Require, Verdict: r.Verdict, By: best, Err: r.Refused}
	switch {
	case j.Require == RequireNothing:
		return nil
	case r.Refused != nil:
		return sources.WithHint(refused, "if the publisher has announced the new key, add its fingerprint to trusted_keys")
	case len(r.By) == 0:
		return sources.WithHint(refused,
			"use the origin registry, or a mirror with signed checksums, such as one that mirror sync created")
	case j.Require == RequireTrusted && best.Verdict < sources.SignedByTrusted:
		return sources.WithHint(refused,
			"if the publisher has announced this key, add its fingerprint with --trust-key")
	case r.Signed != id.Filename():
		refused.Signed = r.Signed
		return refused
	}
	return nil
}

// The rules are the settings of a Judge for one provider.
type rules struct {
	Options
	pinned  [][]sources.Fingerprint // a key must be in each of these
	vouched []sources.Fingerprint   // trusted by the site and the user
	trusted []sources.Fingerprint   // vouched, and those that are accepted for every provider
	now     time.Time
}

func (j Judge) rules(e sources.Engine, p sources.Provider) rules {
	r := rules{Options: j.Options, now: time.Now()}
	r.Engine = e
	r.HashiCorpKey, r.Carrier = cmp.Or(r.HashiCorpKey, hashicorpKey), cmp.Or(r.Carrier, sources.KeyFromMirror)
	if r.Now != nil {
		r.now = r.Now()
	}
	for _, rule := range r.Policy.KeyRules(p) {
		keys := rule.KeysFor(p)
		r.pinned = append(r.pinned, keys)
		if rule.Layer != policy.Repository {
			r.vouched = append(r.vouched, keys...)
		}
	}
	r.trusted = slices.Concat(r.vouched, r.Accepted)
	return r
}

// stored returns the rules for packages of p in a store: those of the engine whose
// registry has the provider.
func (j Judge) stored(p sources.Provider) rules {
	if p.Host == sources.OpenTofu.DefaultHost() {
		return j.rules(sources.OpenTofu, p)
	}
	return j.rules(j.Options.Engine, p)
}

// accepted returns the report on the acceptable signers, the best first. The error is
// the reason why there is none, unless the proof has no signers.
func (r rules) accepted(p sources.Proof) (report sources.Report, err error) {
	signers := slices.Clone(p.Signers)
	slices.SortStableFunc(signers, func(a, b sources.Signer) int { return later(a.KeyEnds, b.KeyEnds) })
	var refused error
	var best sources.Signer
	for _, s := range signers {
		by, err := r.accept(s)
		if err != nil {
			refused = cmp.Or(refused, err)
			continue
		}
		if by.Verdict > report.Verdict {
			best, report.Verdict = s, by.Verdict
		}
		report.By = append(report.By, by)
	}
	if len(report.By) == 0 {
		return report, refused
	}
	slices.SortStableFunc(report.By, func(a, b sources.SignedBy) int { return cmp.Compare(b.Verdict, a.Verdict) })
	report.Signed, report.Notes = p.Name, r.notes(best)
	if r.untrusted(best.Fingerprint) {
		only := "the only trusted keys for this provider are " + strings.Join(sources.Texts(r.allowed()), ", ")
		if len(r.allowed()) == 0 {
			only = "no key is in all trusted_keys for this provider"
		}
		report.Refused = fault(UntrustedKey, "signed by %s; %s", keysOf(report.By), only)
		report.Notes = append(report.Notes, report.Refused.Error())
	}
	return report, nil
}

// untrusted reports whether a rule about the keys of the provider excludes a key.
func (r rules) untrusted(key sources.Fingerprint) bool {
	return slices.ContainsFunc(r.pinned, func(keys []sources.Fingerprint) bool { return !slices.Contains(keys, key) })
}

// allowed returns the keys that no rule excludes, if there are rules.
func (r rules) allowed() []sources.Fingerprint {
	if len(r.pinned) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.pinned[0]), r.untrusted)
}

// accept returns what the signature of s is worth, or why it is worth nothing.
func (r rules) accept(s sources.Signer) (sources.SignedBy, error) {
	by := sources.SignedBy{KeyID: s.KeyID(), Fingerprint: s.Fingerprint, UserID: s.UserID}
	if err := r.checkAge(s); err != nil {
		return by, err
	}
	by.Verdict, by.From = sources.MirrorEvidence, r.Carrier
	if s.From == sources.KeyFromRegistry {
		by.Verdict, by.From = sources.SelfSigned, sources.KeyFromRegistry
	}
	if slices.Contains(r.trusted, s.Fingerprint) {
		by.Verdict, by.From = sources.SignedByTrusted, sources.KeyTrusted
	}
	if s.Fingerprint == r.HashiCorpKey {
		by.Verdict, by.From = sources.SignedByHashiCorp, sources.KeyBuiltIn
	}
	if r.untrusted(s.Fingerprint) {
		by.Verdict = min(by.Verdict, sources.MirrorEvidence)
	}
	return by, nil
}

// checkAge returns an error for a signature that is not valid now.
func (r rules) checkAge(s sources.Signer) error {
	switch {
	case s.Signed.After(r.now):
		err := fault(SignatureExpired, "the signature is dated in the future: %s", day(s.Signed))
		return sources.WithHint(err, "check the clock of this machine")
	case ended(s.SignatureEnds, r.now):
		return fault(SignatureExpired, "signature expired on %s", day(s.SignatureEnds))
	case r.EnforceGPGExpiration && ended(s.KeyEnds, r.now):
		return sources.WithHint(expiredKey(s), "the key was valid then; unset OPENTOFU_ENFORCE_GPG_EXPIRATION to accept it")
	}
	return nil
}

// notes returns what a user should know about the key that counts.
func (r rules) notes(s sources.Signer) []string {
	if !ended(s.KeyEnds, r.now) {
		return nil
	}
	return []string{fmt.Sprintf("the key %s expired on %s, after it signed the checksums on %s",
		s.KeyID(), day(s.KeyEnds), day(s.Signed))}
}
