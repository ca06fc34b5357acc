package install

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/rogpeppe/go-internal/diff"
)

// A lockedModule is the result for a root module.
type lockedModule struct {
	out           *report.Output
	file          string // the lock file's path
	module        string // path of the root module, with --recursive
	check, dryRun bool
	engine        sources.Engine
	platforms     []sources.Platform // that were required
	declared      bool               // by the policy

	before *lockfile.File
	result *installer.Result // nil after errors
	wrong  error             // the problems that a check has found

	checkedOut []report.Finding // providers that are a problem because the checkout serves them
}

// incomplete reports whether the lock file had to be completed.
func (m *lockedModule) incomplete() bool {
	return m.wrong != nil || m.result != nil && !m.result.Lock.None()
}

// show shows what was found for a root module. People get changes and problems in one table of all root
// modules, which [locking.sum] shows.
func (m *lockedModule) show(ctx context.Context) {
	m.out.Fail(ctx, m.wrong)
	if m.result == nil {
		return
	}
	for _, p := range m.result.Packages {
		outcome := report.OutcomeOf(p)
		m.out.Tell(outcome)
		m.out.Detail("%s", outcome.Text(m.out))
	}
	for _, c := range m.changes() {
		m.out.Tell(c)
	}
	for _, p := range m.problems(true) {
		m.out.Tell(p)
	}
	if m.dryRun && !m.result.Lock.None() {
		m.showDiff()
	}
	if m.result.Lock.Written {
		m.out.Tell(report.LockFileOf(m.result.Lock))
	}
}

// changes returns the changes of the lock file, sorted by provider.
func (m *lockedModule) changes() []LockChange {
	if m.result == nil {
		return nil
	}
	var all []LockChange
	for _, d := range m.result.Lock.Differences {
		all = append(all, lockChangeOf(d, m.result.Packages, m.module))
	}
	return all
}

// problems returns the problems that a check has found in the lock file, by line. See unknown.
func (m *lockedModule) problems(refused bool) (all []report.Finding) {
	if !m.check || m.result == nil {
		return nil
	}
	for _, c := range m.changes() {
		all = append(all, c.finding(m.file, m.before.Block(c.of.Now.Provider)))
	}
	for _, u := range m.unknown(refused) {
		f := lockFinding(ruleUnknownHash, m.file, u.Line, fmt.Sprintf("%q %s", u.Hash, unknownFault))
		f.Hash = u.Hash
		all = append(all, f.About(u.Release.Provider, u.Release.Version))
	}
	all = append(all, m.checkedOut...)
	slices.SortStableFunc(all, func(a, b report.Finding) int { return cmp.Compare(a.Line, b.Line) })
	return all
}

// lockFinding returns a problem in a line of a lock file, which may be 0.
func lockFinding(kind, file string, line int, text string) report.Finding {
	return report.Finding{Kind: kind, Severity: report.Broken, Text: text, Subject: report.At(file, line)}
}

// showDiff prints the changes of the lock file as a patch.
func (m *lockedModule) showDiff() {
	name := m.out.ShortenHere(m.file)
	old, was := []byte{}, "/dev/null"
	if m.before.Exists {
		was = "a/" + name
		old, _ = disk.ReadFile(m.file, lockfile.MaxSize) // it was readable before
	}
	text := diff.Diff(was, old, "b/"+name, m.result.Lock.Text)
	if _, after, ok := bytes.Cut(text, []byte("\n")); ok {
		text = after // it begins with the lines that git and patch require
	}
	if m.out.Tell(LockDiff{File: m.file, Patch: string(text)}); !m.out.JSON {
		m.out.Patch(string(text))
	}
}

// A tally adds up the results of root modules.
type tally struct {
	LockSum
	missing     int  // providers with missing or wrong hashes
	completable bool // a run without --check would complete a lock file
	outdated    bool // it would change more than hashes

	packages map[sources.PackageID]bool
}

// add counts a root module. The caller holds the tally's mutex.
func (t *tally) add(m *lockedModule) {
	if m.before == nil {
		return // the root module requires no providers
	}
	t.Modules++
	t.declared = t.declared || m.declared
	if m.incomplete() {
		t.Incomplete++
		t.completable = t.completable || m.wrong == nil
	}
	if m.wrong != nil {
		t.missing += len(sources.Errors(m.wrong))
	}
	t.CheckedOut += len(m.checkedOut)
	t.missing += len(m.result.Lock.Added) + len(m.result.Lock.Changed)
	t.outdated = t.outdated || m.wrong == nil && slices.ContainsFunc(m.result.Lock.Differences, func(d lockfile.Difference) bool {
		return d.Was.Version != d.Now.Version || d.Constrained()
	})
	t.Unknown += len(m.unknown(false))
	for _, p := range m.result.Packages {
		if t.packages == nil {
			t.packages = map[sources.PackageID]bool{}
		}
		if t.packages[p.Package.ID] {
			continue
		}
		t.packages[p.Package.ID] = true
		t.Packages++
		if p.How == installer.Fetched {
			t.Fetched++
			t.Bytes += p.Size
		}
	}
}

// addPlatforms adds the platforms that a root module was locked for, in the order in which root modules are shown.
func (t *tally) addPlatforms(m *lockedModule) {
	platforms := m.platforms
	if m.result != nil {
		for _, p := range m.result.Packages { // an upgrade also locks for the platforms that were locked before
			platforms = append(platforms, p.Package.ID.Platform)
		}
	}
	t.Platforms = report.Unique(append(t.Platforms, sources.Texts(platforms)...))
}

// unknown returns the unknown hashes that a check has found, in the order of the lock file, with or without those of
// providers that were refused with an error, which is about the hash too.
func (m *lockedModule) unknown(refused bool) []installer.UnknownHash {
	if m.result == nil || !m.check {
		return nil
	}
	all := slices.SortedStableFunc(slices.Values(m.result.Unknown), func(a, b installer.UnknownHash) int { return cmp.Compare(a.Line, b.Line) })
	return slices.DeleteFunc(all, func(u installer.UnknownHash) bool { return u.Refused && !refused })
}

const unknownFault = "matches no signed checksum and no package known on this machine"

// unknownHint says what to do about unknown hashes. Only a strict check finds those of platforms that were not checked.
func (l *lockers) unknownHint() string {
	const remove = "find out who added the unknown hashes, and remove them from the lock file"
	if l.Strict {
		return "name other platforms with --platform, which makes their hashes known; " + remove
	}
	return remove
}
