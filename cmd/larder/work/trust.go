package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/trust"
)

// judge returns the trust settings of this run, from the configuration and the flags.
func (m *rootModule) judge() trust.Judge {
	return trust.Judge{Require: m.flags.Require, Options: trust.Options{
		Engine: m.config.Engine, Policy: m.policy, Accepted: m.flags.TrustKeys,
		EnforceGPGValidation: m.config.EnforceSignatures, EnforceGPGExpiration: m.config.EnforceKeyExpiry,
	}}
}

// bundleJudge is judge for evidence in bundles.
func (m *rootModule) bundleJudge() trust.Judge {
	j := m.judge()
	j.Options.Carrier = sources.KeyFromBundle
	return j
}

// A signerLog notes which keys signed the packages of a command. It is safe for concurrent use.
type signerLog struct {
	mu       sync.Mutex
	signed   map[sources.Fingerprint]bool
	packages map[sources.PackageID]bool
	told     bool // about the keys that signed none
}

// saw notes the keys that signed a package.
func (l *signerLog) saw(s sources.Stored) {
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

// sawAll is saw for the packages of a root module.
func (l *signerLog) sawAll(outcomes []installer.Outcome) {
	for _, o := range outcomes {
		l.saw(o.Package)
	}
}

// An unusedKeyError reports a key of --trust-key that signed no package of the command.
type unusedKeyError struct {
	key      sources.Fingerprint
	packages int
}

func (e *unusedKeyError) Error() string {
	if e.packages == 1 {
		return fmt.Sprintf("--trust-key %s: the key did not sign the package", e.key)
	}
	return fmt.Sprintf("--trust-key %s: the key signed none of the %d packages", e.key, e.packages)
}

// unusedKeys returns an error for each key of --trust-key that signed no package. If there was
// no package, there was nothing to sign.
func (s *Session) unusedKeys() error {
	s.signers.mu.Lock()
	defer s.signers.mu.Unlock()
	var errs []error
	for _, key := range s.flags.TrustKeys {
		if n := len(s.signers.packages); n > 0 && !s.signers.signed[key] {
			err := &unusedKeyError{key, n}
			errs = append(errs, sources.WithHint(err, "compare the fingerprint with the one that the publisher announced"))
		}
	}
	return errors.Join(errs...)
}

// warnUnusedKeys warns about keys of --trust-key that signed no package, once.
func (s *Session) warnUnusedKeys() {
	if s.signers.told {
		return
	}
	s.signers.told = true
	for _, err := range sources.Errors(s.unusedKeys()) {
		s.output.WarnHint(sources.Hints(err)[0], "%v", err)
	}
}

// require fails for packages that the policy excludes, and for those that don't meet the requirement of the flags.
func (m *rootModule) require(ctx context.Context, packages []sources.Stored) error {
	var errs []error
	for _, s := range packages {
		m.signers.saw(s)
		if err := m.policy.Learn(ctx, s.ID.Provider, s.ID.Version); err != nil {
			return err
		}
		errs = append(errs, sources.InPackage(s.ID, m.judge().Check(s.ID, s.Report)))
	}
	return errors.Join(errs...)
}

// accept is require that also fails for keys of --trust-key that signed no package.
func (m *rootModule) accept(ctx context.Context, packages []sources.Stored) error {
	return errors.Join(m.require(ctx, packages), m.unusedKeys())
}

// bundledAs returns the packages of a bundle with what they are worth.
func bundledAs(packages []bundle.Verified) []sources.Stored {
	all := make([]sources.Stored, len(packages))
	for i, p := range packages {
		all[i] = sources.Stored{ID: p.ID, Proof: p.Proof, Report: p.Report}
	}
	return all
}

// A trustFinding is a kind of finding about trust.
type trustFinding string

// The kinds.
const (
	notAllowed trustFinding = "not allowed"
	notTrusted trustFinding = "not signed as required"
	unusedKey  trustFinding = "unused key"
)

// trustFindings prints the errors of accept about packages. It returns their number, and their first hints. Whole is what
// was verified, and at the part of it that is a package.
func (s *Session) trustFindings(refused error, packages []sources.Stored, at func(sources.Stored) string, whole string) (n int, hints []string) {
	for _, err := range sources.Errors(refused) {
		n++
		hints = addHints(hints, sources.Hints(err))
		kind, path, id := unusedKey, whole, (*sources.PackageID)(nil)
		if named := (*sources.PackageError)(nil); errors.As(err, &named) {
			i := slices.IndexFunc(packages, func(p sources.Stored) bool { return p.ID == named.ID })
			kind, path, id = notTrusted, at(packages[i]), &named.ID
			if v, ok := errors.AsType[*policy.Violation](err); ok && v.Err == nil {
				kind = notAllowed
			}
		}
		found := report.FindingOf(kind, path, id, sources.Reason(err))
		if id != nil && path == whole { // the path is that of many packages
			found = found.Shown(s.output.Shorten(fmt.Sprintf("%s: %s: %v", path, kind, err)))
		}
		s.output.Show(found)
	}
	return n, hints
}

// suggestsKeys reports whether to suggest trusting the keys that signed: a user who has said
// which keys to trust needs no suggestion.
func (m *rootModule) suggestsKeys() bool {
	return len(m.flags.TrustKeys) == 0 && m.flags.Require == trust.RequireNothing
}
