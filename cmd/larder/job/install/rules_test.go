package install

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/site/sitetest"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Check finds what is wrong with a lock file at its place there, or else where the provider is required.
func TestCheckFindings(t *testing.T) {
	const lock = "-- .terraform.lock.hcl --\nprovider \"registry.terraform.io/acme/a\" {\n  version = \"1.0.0\"\n}\n"
	requires := func(address, constraint string) string {
		return fmt.Sprintf("-- main.tf --\nterraform {\n required_providers {\n"+
			"  a = {\n   source = %q\n   version = %q\n  }\n }\n}\n", address, constraint)
	}
	policy := func(rule string) string { return "-- .larder.hcl --\npolicy {\n  " + rule + "\n}\n" }
	for _, c := range []struct{ files, want string }{
		{requires("acme/a", "1.0.0"), "no-lock-file main.tf:3"},
		{requires("acme/b", "1.0.0") + lock, "not-locked main.tf:3"},
		{requires("acme/a", "2.0.0") + lock, "lock-conflict .terraform.lock.hcl:1"},
		{requires("odd.test/acme/a", "1.0.0") + lock, "unexpected-host main.tf:3"},
		{requires("acme/a", "1.0.0") + lock + policy(`deny = ["acme/*"]`), "policy-deny main.tf:3"},
		{requires("acme/a", "1.0.0") + lock + policy(`allow = ["acme/b"]`), "policy-allow main.tf:3"},
		{requires("odd.test/acme/a", "1.0.0") + policy(`allow = ["odd.test/*/*"]`), "no-lock-file main.tf:3"},
	} {
		s, shown := sitetest.Open(t, c.files, site.Options{Offline: true})
		err := Check(t.Context(), s, CheckRequest{})
		found := report.FoundError{}
		sourcetest.Expect(t, errors.As(err, &found), "%s: %v", c.want, err)
		rule, at, _ := strings.Cut(c.want, " ")
		for _, text := range []string{rule, at} {
			sourcetest.Expect(t, strings.Contains(shown.String(), text), "%s: %s", c.want, shown)
		}
	}
}

// Of errors, some are findings. The others remain errors, and name their subject.
func TestErrorFinding(t *testing.T) {
	id := sourcetest.PackageID(t, "example.test/acme/a", "1.0.0", "linux_amd64")
	for _, c := range []struct {
		err  error
		want string
	}{
		{&installer.LockConflictError{Requirement: sources.Requirement{Provider: id.Provider}}, ruleLockConflict},
		{&installer.LockConflictError{Gone: true}, ""},
		{&acquire.RepublishedError{}, ruleRepublished},
		{&acquire.HashMismatchError{By: "the lock file"}, ruleWrongHash},
		{&acquire.HashMismatchError{}, ""},
		{errors.New("other"), ""},
	} {
		p, f := findingOf(&sources.PackageError{ID: id, Err: c.err})
		sourcetest.Equal(t, f.Kind, c.want)
		sourcetest.Expect(t, p == id.Provider && f.Version == "1.0.0", "%v: %+v", c.err, f)
	}
	_, f := findingOf(errors.New("other"))
	sourcetest.Expect(t, f.Kind == "", "any error is a finding")
}

// The tally counts what a check has found once, and each package once for all root modules.
func TestLockTally(t *testing.T) {
	id := sourcetest.PackageID(t, "example.test/acme/a", "1.0.0", "linux_amd64")
	at := func(line int, refused bool) installer.UnknownHash {
		return installer.UnknownHash{Release: id.Release(), Line: line, Hash: "zh:a", Refused: refused}
	}
	m := &lockedModule{file: "lock", check: true, before: new(lockfile.File), platforms: []sources.Platform{id.Platform}}
	result := &installer.Result{Unknown: []installer.UnknownHash{at(9, true), at(2, false)}}
	result.Packages = []installer.Outcome{{Package: sources.Stored{ID: id}, How: installer.Fetched, Size: 5}}
	result.Lock.Added = []sources.Provider{id.Provider}
	was, now := lockfile.Entry{Provider: id.Provider, Version: id.Version}, lockfile.Entry{Provider: id.Provider}
	result.Lock.Differences = []lockfile.Difference{{Was: was, Now: now}}
	m.take(result)
	var got tally
	got.add(&lockedModule{}, false) // requires nothing
	for range 2 {
		got.add(m, false)
	}
	sum := fmt.Sprint(got.Modules, got.Incomplete, got.Unknown, got.Packages, got.Fetched, got.Bytes, got.Platforms)
	sourcetest.Equal(t, sum, "2 2 2 1 1 5 [linux_amd64]")
	sourcetest.Expect(t, got.Problems == 4 && got.completable && got.outdated, "%+v", got)
	problems := m.problems(true)
	byLine := func(a, b report.Finding) int { return a.Line - b.Line }
	sourcetest.Expect(t, slices.IsSortedFunc(problems, byLine) && len(problems) == 3, "%v", problems)
	m.check = false
	sourcetest.Expect(t, len(m.problems(true)) == 0, "only a check has problems")
	var failed tally
	m.wrong, m.result = errors.Join(errors.New("a"), errors.New("b")), new(installer.Result)
	failed.add(m, false)
	sourcetest.Expect(t, failed.Problems == 2 && failed.Incomplete == 1 && !failed.completable, "%+v", failed)
}
