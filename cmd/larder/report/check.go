package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
)

// A CheckFinding is a problem that check has found, with all places that have it.
type CheckFinding struct {
	Typed    `type:"check_finding"`
	Rule     string       `json:"rule"`     // permanent, one of CheckRules
	Severity string       `json:"severity"` // always "error"
	Provider string       `json:"provider,omitempty"`
	Version  string       `json:"version,omitempty"`
	Text     string       `json:"text"`
	Hints    []string     `json:"hints,omitempty"`
	Places   []CheckPlace `json:"places"`
	Related  []Place      `json:"related,omitempty"` // of the policy's rule, or of the constraints

	Of sources.Release `json:"-"`
}

// A CheckPlace is where a finding is. It has the root module if there are several.
type CheckPlace struct {
	Module string `json:"module,omitempty"`
	Place
}

// About returns the finding for a provider, with a version unless that is zero.
func (f CheckFinding) About(p sources.Provider, v sources.Version) CheckFinding {
	f.Provider, f.Version, f.Of = p.String(), v.String(), sources.Release{Provider: p, Version: v}
	return f
}

// A CheckSubject is what findings have in common that differ only in their root modules.
type CheckSubject struct {
	Rule, Text string
	Of         sources.Release
}

// Subject returns what the finding is about.
func (f CheckFinding) Subject() CheckSubject { return CheckSubject{f.Rule, f.Text, f.Of} }

// Message returns the text with the provider.
func (f CheckFinding) Message() string {
	if f.Provider == "" {
		return f.Text
	}
	return strings.TrimSpace(f.Provider+" "+f.Version) + ": " + f.Text
}

// A CheckRule is what check can find.
type CheckRule struct{ ID, Does string }

// The rules of check about lock files, sources and packages. Their names are permanent.
const (
	RuleNoLockFile     = "no-lock-file"
	RuleNotLocked      = "not-locked"
	RuleLockIncomplete = "lock-incomplete"
	RuleLockOutOfDate  = "lock-out-of-date"
	RuleLockConflict   = "lock-conflict"
	RuleWrongHash      = "wrong-hash"
	RuleUnknownHash    = "unknown-hash"
	RuleCheckoutMirror = "checkout-mirror"
	RuleRepublished    = "republished"
	RuleUnexpectedHost = "unexpected-host"
)

// rulePolicyOverride is the rule for a provider that a directory or a running program replaces.
const rulePolicyOverride = "policy-override"

// PolicyRule returns the rule of check that a violation of the policy is one of.
func PolicyRule(v *policy.Violation) string {
	if v.Override {
		return rulePolicyOverride
	}
	return "policy-" + strings.ReplaceAll(string(v.Rule.Setting), "_", "-")
}

// CheckRules are all rules of check, in the order of the document.
var CheckRules = []CheckRule{
	{"policy-allow", "The policy allows only other providers."},
	{"policy-deny", "The policy denies the provider."},
	{"policy-versions", "The policy excludes the locked version."},
	{"policy-min-age", "The locked version is younger than the policy requires."},
	{"policy-require-signed", "The policy requires a valid signature."},
	{"policy-trusted-keys", "The policy requires a signature by one of certain keys."},
	{"policy-engines", "The policy doesn't list the engine of the root module."},
	{rulePolicyOverride, "A development override or a running program replaces a provider that the policy has rules about."},
	{RuleUnexpectedHost, "The provider's host is no default registry, and neither the CLI configuration nor the policy names it."},
	{RuleNoLockFile, "The root module requires providers, and has no lock file."},
	{RuleNotLocked, "The lock file lacks a required provider."},
	{RuleLockConflict, "The constraints don't allow the locked version."},
	{RuleLockIncomplete, "The lock file lacks hashes for a platform."},
	{RuleLockOutOfDate, "The lock file has other constraints than the configuration, or its hashes are not in order."},
	{RuleWrongHash, "No locked hash matches the package."},
	{RuleUnknownHash, "A locked hash matches no signed checksum and no known package."},
	{RuleCheckoutMirror, "A mirror in the checkout serves the provider. Only with --strict."},
	{RuleRepublished, "The locked version was republished with different contents."},
}

// A CheckedModule is the result of check for one root module. Each of its findings has one place.
type CheckedModule struct {
	Name      string   // path as shown
	LockFile  string   // absolute path
	Providers []string // required ones
	Findings  []CheckFinding
	Unchecked []Unchecked
	Errors    []Fault // why it could not be checked
}

// Unchecked is what could not be checked without the network.
type Unchecked struct{ Provider, Text string }

// A Fault is an error with its place, which may be empty.
type Fault struct {
	Place
	Text string
}

// Faults returns the errors that are joined in err.
func Faults(err error) (all []Fault) {
	for _, err := range sources.Errors(err) {
		var many *sources.DiagnosticsError
		if !errors.As(err, &many) {
			all = append(all, Fault{Text: sources.Text(err)})
			continue
		}
		for _, d := range many.Diagnostics {
			if !d.Warning {
				all = append(all, Fault{Place{d.File, d.Line}, d.Text})
			}
		}
	}
	return all
}

// Grouped returns the findings of all root modules, those that are the same as one.
func Grouped(modules []CheckedModule) (all []CheckFinding) {
	for _, m := range modules {
		all = append(all, m.Findings...)
	}
	same := grouped(all, CheckFinding.Subject)
	all = make([]CheckFinding, len(same))
	for i, findings := range same {
		f := findings[0]
		for _, other := range findings[1:] {
			f.Places, f.Related = slices.Concat(f.Places, other.Places), unique(slices.Concat(f.Related, other.Related))
		}
		all[i] = f
	}
	return all
}

// CheckFindings shows findings: one line if there is one place, or else the places below the text.
func (o *Output) CheckFindings(all []CheckFinding) {
	for _, f := range all {
		o.Tell(f)
		places := make([]string, len(f.Places))
		for i, p := range f.Places {
			places[i] = cmp.Or(p.String(), p.Module)
		}
		o.Sentence("%s", o.ShortenHere(about(fmt.Sprintf("%s [%s]", f.Message(), f.Rule), unique(places), o.most())))
	}
}

// A CheckSum is the summary of check.
type CheckSum struct {
	Modules   int `json:"root_modules"`                   // checked
	Failed    int `json:"failed"`                         // root modules
	Unchanged int `json:"skipped_root_modules,omitempty"` // root modules that --since skipped
	Problems  int `json:"problems"`                       // findings; the same one in several root modules is one
	Unchecked int `json:"unchecked_providers,omitempty"`  // with --offline, those that only the network could check
}

// Text sums up: "2 problems in 3 root modules; 1 provider not checked (--offline)".
func (t CheckSum) Text() string {
	text := ui.Count(t.Modules, "root module") + ": no problems"
	if t.Problems > 0 {
		text = ui.Count(t.Problems, "problem") + " in " + ui.Count(t.Modules+t.Failed, "root module")
	}
	return also(text, ui.N(t.Unchanged, "unchanged"), ui.N(t.Failed, "failed"),
		ui.N(t.Unchecked, "not checked (--offline)"))
}

// A CheckFormat is the form of the results of check.
type CheckFormat string

// The formats.
const (
	CheckText  CheckFormat = "text"
	CheckJSON  CheckFormat = "json"
	CheckSARIF CheckFormat = "sarif"
	CheckJUnit CheckFormat = "junit"
)

// CheckFormats are all formats.
var CheckFormats = []CheckFormat{CheckText, CheckJSON, CheckSARIF, CheckJUnit}

// IsDocument reports whether all results are one document.
func (f CheckFormat) IsDocument() bool { return f == CheckSARIF || f == CheckJUnit }

// CheckDocument writes the results in a format that is one document. Path returns the slashed path of a file relative to
// the repository, or the absolute one if the file is not in it.
func (o *Output) CheckDocument(format CheckFormat, modules []CheckedModule, path func(file string) string, version string) {
	d := document{modules, path, func(text string) string { return ui.Visible(o.ShortenHere(text)) }}
	text := d.junit()
	if format == CheckSARIF {
		text = d.sarif(version)
	}
	o.screen.Write(o.Stdout, text)
}

// A document is the results of check for CI systems.
type document struct {
	modules []CheckedModule
	path    func(file string) string
	shorten func(text string) string // makes paths in texts relative, and hidden characters visible
}
