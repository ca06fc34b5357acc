package site

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/store"
	"github.com/larder-cli/larder/sources/trust"
)

// Judge returns the trust settings of this run, from the configuration and the flags.
func (m *Root) Judge() trust.Judge {
	return trust.Judge{Require: m.Flags.Require, Options: trust.Options{
		Engine: m.Config.Engine, Policy: m.Policy, Accepted: m.Flags.TrustKeys,
		EnforceGPGValidation: m.Config.EnforceSignatures, EnforceGPGExpiration: m.Config.EnforceKeyExpiry,
	}}
}

// BundleJudge is [Root.Judge] for evidence in bundles.
func (m *Root) BundleJudge() trust.Judge {
	j := m.Judge()
	j.Options.Carrier = sources.KeyFromBundle
	return j
}

// A signerLog notes which keys signed the packages of a command. It is safe for concurrent use.
type signerLog struct {
	mu       sync.Mutex
	signed   map[sources.Fingerprint]bool
	packages map[sources.PackageID]bool
}

// Saw notes the keys that signed a package.
func (l *signerLog) Saw(s sources.Stored) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.packages == nil {
		l.signed, l.packages = map[sources.Fingerprint]bool{}, map[sources.PackageID]bool{}
	}
	l.packages[s.ID] = true
	for _, by := range s.Report.By {
		l.signed[by.Fingerprint] = true
	}
}

// SawKeys notes the keys that signed a set.
func (l *signerLog) SawKeys(set *trust.Set) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.packages == nil {
		l.signed, l.packages = map[sources.Fingerprint]bool{}, map[sources.PackageID]bool{}
	}
	for _, by := range set.Signers {
		l.signed[by.Fingerprint] = true
	}
}

// SawAll is Saw for the packages of a root module.
func (l *signerLog) SawAll(outcomes []installer.Outcome) {
	for _, o := range outcomes {
		l.Saw(o.Package)
	}
}

// UnusedKeys returns an error for each key of --trust-key that signed no package. If there was
// no package, there was nothing to sign.
func (s *Site) UnusedKeys() error {
	s.Signers.mu.Lock()
	defer s.Signers.mu.Unlock()
	var errs []error
	for _, key := range s.Flags.TrustKeys {
		if n := len(s.Signers.packages); n > 0 && !s.Signers.signed[key] {
			err := fmt.Errorf("--trust-key %s: the key signed none of the %d packages", key, n)
			if n == 1 {
				err = fmt.Errorf("--trust-key %s: the key did not sign the package", key)
			}
			errs = append(errs, sources.WithHint(err, "compare the fingerprint with the one that the publisher announced"))
		}
	}
	return errors.Join(errs...)
}

// WarnUnusedKeys warns about keys of --trust-key that signed no package, once.
func (s *Site) WarnUnusedKeys() {
	if !s.First("unused keys") {
		return
	}
	for _, err := range sources.Errors(s.UnusedKeys()) {
		s.Output.WarnHint(sources.Hints(err)[0], "%v", err)
	}
}

// AcceptSet returns an error unless the rules about approvals accept the keys that signed a set. If the site and the
// user have no such rule, a key of --trust-key must have signed it: the rules of a repository only exclude keys.
func (m *Root) AcceptSet(set *trust.Set) error {
	m.Signers.SawKeys(set)
	current := m.Judge().Current(set.Signers)
	if len(current) == 0 {
		return fmt.Errorf("its signature by %s, or the key, has expired", set.Signers[0].Fingerprint)
	}
	rules := m.Policy.Approvals()
	if !slices.ContainsFunc(rules, func(r policy.Rule) bool { return r.Layer != policy.Repository }) {
		rules = append(rules, policy.Rule{Approvers: m.Flags.TrustKeys})
	}
	for _, rule := range rules {
		approves := func(s sources.Signer) bool { return slices.Contains(rule.Approvers, s.Fingerprint) }
		if slices.ContainsFunc(current, approves) {
			continue
		}
		err := fmt.Errorf("signed by %s, which is not an approved key", current[0].Fingerprint)
		if rule.Setting != "" {
			return sources.WithHint(fmt.Errorf("%w: %s", err, rule.Place()), "approved_by in a policy lists the approved keys")
		}
		return sources.WithHint(err, "if this key may approve packages, add its fingerprint with --trust-key")
	}
	return nil
}

// Require fails for packages that the policy excludes, and for those that don't meet the requirement of the flags.
func (m *Root) Require(ctx context.Context, packages []sources.Stored) error {
	var errs []error
	for _, s := range packages {
		m.Signers.Saw(s)
		if err := m.Policy.Learn(ctx, s.ID.Provider, s.ID.Version); err != nil {
			return err
		}
		errs = append(errs, sources.InPackage(s.ID, m.Judge().Check(s.ID, s.Report)))
	}
	return errors.Join(errs...)
}

// Accept is [Root.Require] that also fails for keys of --trust-key that signed no package.
func (m *Root) Accept(ctx context.Context, packages []sources.Stored) error {
	return errors.Join(m.Require(ctx, packages), m.UnusedKeys())
}

// AcceptKept is [Root.Accept] for the packages of the store in a directory. Unless that is part of the checkout, their
// versions are as good as locked.
func (m *Root) AcceptKept(ctx context.Context, dir string, packages []sources.Stored) error {
	if m.Policy.Has(policy.MinAge) && !m.CheckedOut(dir) {
		for _, s := range packages {
			_ = m.AcceptLocked(ctx, s.ID.Provider, s.ID.Version) // Accept refuses what this doesn't accept
		}
	}
	return m.Accept(ctx, packages)
}

// The kinds of problems with trust.
const (
	notAllowed store.Kind = "not allowed"
	notTrusted store.Kind = "not signed as required"
	unusedKey  store.Kind = "unused key"
)

// TrustFindings prints the errors of [Root.Accept] about packages. It returns their number, their first hints and the
// packages that no error is about. Whole is what was verified, and at the part of it that is a package.
func (s *Site) TrustFindings(
	refused error, packages []sources.Stored, at func(sources.Stored) string, whole string,
) (n int, hints []string, accepted []sources.Stored) {
	var all []report.Finding
	first, named := map[sources.PackageID]sources.Stored{}, map[sources.PackageID]bool{}
	for _, p := range slices.Backward(packages) {
		first[p.ID] = p
	}
	for _, err := range sources.Errors(refused) {
		hints = AddHints(hints, sources.Hints(err))
		kind, path, id := unusedKey, whole, (*sources.PackageID)(nil)
		if about := (*sources.PackageError)(nil); errors.As(err, &about) {
			named[about.ID] = true
			kind, path, id = notTrusted, at(first[about.ID]), &about.ID
			if v, ok := errors.AsType[*policy.Violation](err); ok && v.Err == nil { // about no signature of a package
				kind = notAllowed
			}
		}
		found := report.FindingOf(&store.Finding{Kind: kind, Path: path, Package: id, Err: errors.New(sources.Reason(err))})
		if about := ""; id != nil {
			if path == whole { // the path is that of many packages
				found, about = found.Shown(s.Output.Shorten(fmt.Sprintf("%s: %s: %v", path, kind, err))), id.String()
			}
			found = found.Because(fmt.Sprintf("%s: %s", kind, found.Text), about)
		}
		all = append(all, found)
	}
	s.Output.Findings(all...)
	accepted = slices.DeleteFunc(slices.Clone(packages), func(p sources.Stored) bool { return named[p.ID] })
	return len(all), hints, accepted
}

// SuggestsKeys reports whether to suggest trusting the keys that signed: a user who has said
// which keys to trust needs no suggestion.
func (m *Root) SuggestsKeys() bool {
	return len(m.Flags.TrustKeys) == 0 && m.Flags.Require == trust.RequireNothing
}

// mostHints is how many hints of different findings are shown. Programs get the hints of each finding with it.
const mostHints = 8

// AddHints adds hints to those that are shown, each once.
func AddHints(all, hints []string) []string {
	for _, hint := range hints {
		if len(all) < mostHints && !slices.Contains(all, hint) {
			all = append(all, hint)
		}
	}
	return all
}
