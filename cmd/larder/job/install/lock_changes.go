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
	platforms     []sources.Platform // that were required
	declared      bool               // by the policy

	before *lockfile.File
	result *installer.Result // nil after errors
	wrong  error             // the problems that a check has found

	changes    []LockChange     // of the lock file, sorted by provider
	checkedOut []report.Finding // providers that are a problem because the checkout serves them
}

// take takes the result over.
func (m *lockedModule) take(result *installer.Result) {
	m.result = result
	for _, d := range result.Lock.Differences {
		m.changes = append(m.changes, lockChangeOf(d, result.Packages, m.module))
	}
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
	for _, c := range m.changes {
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

// problems returns the problems that a check has found in the lock file, by line, with or without unknown hashes of
// providers that were refused with an error, which is about the hash too.
func (m *lockedModule) problems(refused bool) (all []report.Finding) {
	if !m.check || m.result == nil {
		return nil
	}
	for _, c := range m.changes {
		all = append(all, c.finding(m.file, m.before.Block(c.of.Now.Provider)))
	}
	for _, u := range m.result.Unknown {
		if u.Refused && !refused {
			continue
		}
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
	completable bool // a run without --check would complete a lock file
	outdated    bool // it would change more than hashes

	packages map[sources.PackageID]bool
}

// add counts a root module, in the order in which they are shown.
func (t *tally) add(m *lockedModule, failed bool) {
	t.Platforms = append(t.Platforms, sources.Texts(m.platforms)...)
	if m.result != nil {
		for _, p := range m.result.Packages { // an upgrade also locks for the platforms that were locked before
			t.Platforms = append(t.Platforms, p.Package.ID.Platform.String())
		}
	}
	t.Platforms = report.Unique(t.Platforms)
	switch {
	case failed:
		t.Failed++
		return
	case m.before == nil: // the root module requires no providers
		return
	}
	t.Modules++
	t.declared = t.declared || m.declared
	if m.wrong != nil || !m.result.Lock.None() {
		t.Incomplete++
		t.completable = t.completable || m.wrong == nil
	}
	t.outdated = t.outdated || m.wrong == nil && slices.ContainsFunc(m.changes, func(c LockChange) bool {
		return c.Was != c.Version || c.of.Constrained()
	})
	t.Problems += len(sources.Errors(m.wrong))
	for _, f := range m.problems(false) {
		t.Problems++
		switch f.Kind {
		case ruleUnknownHash:
			t.Unknown++
		case ruleCheckoutMirror:
			t.CheckedOut++
		}
	}
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

const unknownFault = "matches no signed checksum and no package known on this machine"

// unknownHint says what to do about unknown hashes. Only a strict check finds those of platforms that were not checked.
func (l *lockers) unknownHint() string {
	const remove = "find out who added the unknown hashes, and remove them from the lock file"
	if l.Strict {
		return "name other platforms with --platform, which makes their hashes known; " + remove
	}
	return remove
}
