package report

import (
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources/policy"
)

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

// A CheckedModule is the result of check for one root module.
type CheckedModule struct {
	Name      string   // path as shown
	LockFile  string   // absolute path
	Providers []string // required ones
	Findings  []Finding
	Unchecked []Finding // what could not be checked without the network
	Errors    []Finding // why it could not be checked
}

// Ruled returns the finding of check in a root module at a place, which people see with the name of its rule.
func (o *Output) Ruled(f Finding, at Place) Finding {
	f.Severity, f.File, f.Line, f.module = Broken, at.File, at.Line, o.module
	f.cause, f.named = fmt.Sprintf("%s [%s]", f.Message(), f.Kind), true
	f.line = at.String() + ": " + f.cause
	return f
}

// Same reports whether two findings of check differ only in their places.
func (f Finding) Same(other Finding) bool { return f.cause == other.cause }

// Grouped returns the findings of all root modules, those that are the same as one.
func Grouped(modules []CheckedModule) (all []Finding) {
	for _, m := range modules {
		all = append(all, m.Findings...)
	}
	return byCause(all, true)
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
