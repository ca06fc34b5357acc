package install

import (
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources/policy"
)

// A CheckRule is what check can find.
type CheckRule struct{ ID, Does string }

// The rules of check about lock files, sources and packages. Their names are permanent.
const (
	ruleNoLockFile     = "no-lock-file"
	ruleNotLocked      = "not-locked"
	ruleLockIncomplete = "lock-incomplete"
	ruleLockOutOfDate  = "lock-out-of-date"
	ruleLockConflict   = "lock-conflict"
	ruleWrongHash      = "wrong-hash"
	ruleUnknownHash    = "unknown-hash"
	ruleCheckoutMirror = "checkout-mirror"
	ruleRepublished    = "republished"
	ruleUnexpectedHost = "unexpected-host"
)

// rulePolicyOverride is the rule for a provider that a directory or a running program replaces.
const rulePolicyOverride = "policy-override"

// policyRule returns the rule of check that a violation of the policy is one of.
func policyRule(v *policy.Violation) string {
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
	{rulePolicyOverride, "A development override or a running program replaces a provider " +
		"that the policy has rules about."},
	{ruleUnexpectedHost, "The provider's host is no default registry, " +
		"and neither the CLI configuration nor the policy names it."},
	{ruleNoLockFile, "The root module requires providers, and has no lock file."},
	{ruleNotLocked, "The lock file lacks a required provider."},
	{ruleLockConflict, "The constraints don't allow the locked version."},
	{ruleLockIncomplete, "The lock file lacks hashes for a platform."},
	{ruleLockOutOfDate, "The lock file has other constraints than the configuration, or its hashes are not in order."},
	{ruleWrongHash, "No locked hash matches the package."},
	{ruleUnknownHash, "A locked hash matches no signed checksum and no known package."},
	{ruleCheckoutMirror, "A mirror in the checkout serves the provider. Only with --strict."},
	{ruleRepublished, "The locked version was republished with different contents."},
}

// A checkResult is the result of check for one root module.
type checkResult struct {
	Name      string   // path as shown
	LockFile  string   // absolute path
	Providers []string // required ones
	Findings  []report.Finding
	Unchecked []report.Finding // what could not be checked without the network
	Errors    []report.Finding // why it could not be checked
}

// A CheckSum is the summary of check.
type CheckSum struct {
	Modules   int `json:"root_modules"`                   // checked
	Failed    int `json:"failed"`                         // root modules
	Unchanged int `json:"skipped_root_modules,omitempty"` // root modules that --since skipped
	Problems  int `json:"problems"`                       // findings; the same one in several root modules is one
	Unchecked int `json:"unchecked_providers,omitempty"`  // with --offline, those that only the network could check
}

// text sums up: "2 problems in 3 root modules; 1 provider not checked (--offline)".
func (t CheckSum) text() string {
	text := ui.Count(t.Modules, "root module") + ": no problems"
	if t.Problems > 0 {
		text = ui.Count(t.Problems, "problem") + " in " + ui.Count(t.Modules+t.Failed, "root module")
	}
	return report.Also(text, ui.N(t.Unchanged, "unchanged"), ui.N(t.Failed, "failed"),
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

// A document is the results of check as one text for CI systems.
type document struct {
	modules []checkResult
	path    func(file string) string // slashed, relative to the repository, or absolute if the file is not in it
	shorten func(text string) string // makes paths in texts relative, and hidden characters visible
	version string                   // of Larder
}

// documents are the formats that are one document.
var documents = map[CheckFormat]func(document) string{CheckSARIF: document.sarif, CheckJUnit: document.junit}
