package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A lockedModule is what has come of a root module.
type lockedModule struct {
	out           *ui.Output
	file          string // the lock file's path
	check, dryRun bool
	engine        sources.Engine

	before *lockfile.File
	result *installer.Result // nil if nothing could be found out
	wrong  error             // what a check has found
}

// incomplete reports whether the lock file had to be completed.
func (m *lockedModule) incomplete() bool {
	return m.wrong != nil || m.result != nil && !m.result.Lock.None()
}

// show shows what is different in the lock file, or would be.
func (m *lockedModule) show(ctx context.Context) {
	m.out.Fail(ctx, m.wrong)
	m.showUnknown()
	if m.result == nil {
		return
	}
	for _, p := range m.result.Packages {
		if m.out.JSON {
			m.out.Object("package", ui.OutcomeInJSON(p))
		} else {
			m.out.Detail("%s: %s", p.Package.ID, ui.OutcomeText(p))
		}
	}
	for _, c := range m.changes() {
		if m.dryRun && !m.out.JSON {
			m.out.Say("%s", c.text(false))
			continue
		}
		m.out.Result("change", c.inJSON(), "%s", c.text(m.check))
	}
	if m.dryRun && !m.result.Lock.None() {
		m.showDiff()
	}
	if m.result.Lock.Written {
		m.out.LockFile(m.result.Lock)
	}
}

// showDiff shows how the lock file would change, in a form that can be applied.
func (m *lockedModule) showDiff() {
	name := m.out.ShortenHere(m.file)
	old, was := []byte{}, "/dev/null"
	if m.before.Exists {
		was = "a/" + name
		old, _ = disk.ReadFile(m.file, lockfile.MaxSize) // it was there before
	}
	text := diff.Diff(was, old, "b/"+name, m.result.Lock.Text)
	if _, after, ok := bytes.Cut(text, []byte("\n")); ok {
		text = after // which begins with what git and patch need
	}
	if m.out.JSON {
		m.out.Object("diff", struct {
			File string `json:"file"`
			Text string `json:"text"`
		}{m.file, string(text)})
		return
	}
	for line := range strings.Lines(string(text)) {
		m.out.Print(line)
	}
}

// A lockChange is how the block of a provider is different from what it was.
type lockChange struct {
	was, now lockfile.Entry // was is zero if there was none
	added    []addedHash
	removed  []sources.Hash
}

// An addedHash is a hash that the lock file did not have.
type addedHash struct {
	sources.Hash
	of *installer.Outcome // the package that it is of; nil if that is unknown
}

// changes are those of the lock file, sorted by provider.
func (m *lockedModule) changes() []lockChange {
	var all []lockChange
	for _, p := range slices.SortedFunc(slices.Values(slices.Concat(m.result.Lock.Added, m.result.Lock.Changed)), sources.Provider.Compare) {
		var c lockChange
		c.was, _ = m.before.Entry(p)
		c.now = m.result.Lock.Entries[slices.IndexFunc(m.result.Lock.Entries, func(e lockfile.Entry) bool { return e.Provider == p })]
		for _, h := range sources.SortHashes(c.now.Hashes) {
			if !slices.Contains(c.was.Hashes, h) {
				c.added = append(c.added, addedHash{h, m.packageOf(p, h)})
			}
		}
		for _, h := range c.was.Hashes {
			if !slices.Contains(c.now.Hashes, h) {
				c.removed = append(c.removed, h)
			}
		}
		all = append(all, c)
	}
	return all
}

// packageOf is the package of a provider that has a hash, nil if it is not known.
func (m *lockedModule) packageOf(p sources.Provider, h sources.Hash) *installer.Outcome {
	i := slices.IndexFunc(m.result.Packages, func(o installer.Outcome) bool {
		return o.Package.ID.Provider == p && (o.Package.H1 == h || o.Package.ZH == h)
	})
	if i < 0 {
		return nil
	}
	return &m.result.Packages[i]
}

// text tells of the change in a line: what was done or, if that is only found
// out, what is missing.
func (c lockChange) text(missing bool) string {
	say := func(done, found string) string {
		if missing {
			return found
		}
		return done
	}
	var parts []string
	switch {
	case c.was.Version == (sources.Version{}):
		parts = append(parts, say("new", "not locked"))
	case c.was.Version != c.now.Version:
		parts = append(parts, say("was ", "locked is ")+c.was.Version.String())
	}
	for _, hashes := range c.addedByKind() {
		parts = append(parts, say("+ ", "lacks ")+hashes)
	}
	if c.was.Version == c.now.Version && len(c.removed) > 0 {
		parts = append(parts, removedByKind(c.removed)...)
	}
	if c.was.Version == c.now.Version && c.was.Constraints.String() != c.now.Constraints.String() {
		parts = append(parts, fmt.Sprintf(say("constraints now %q", "constraints are not %q"), c.now.Constraints))
	}
	if len(parts) == 0 {
		parts = append(parts, say("put in order", "not in order"))
	}
	return fmt.Sprintf("%s %s: %s", c.now.Provider, c.now.Version, strings.Join(parts, ", "))
}

// addedByKind says which hashes are new: h1: hashes of the requested platforms and of
// others, and zh: hashes of archives.
func (c lockChange) addedByKind() []string {
	var own, stated []string
	archives, others := 0, 0
	for _, h := range c.added {
		switch {
		case h.Scheme() == sources.ZH:
			archives++
		case h.of == nil:
			others++
		case h.of.How == installer.Stated:
			stated = append(stated, h.of.Package.ID.Platform.String())
		default:
			own = append(own, h.of.Package.ID.Platform.String())
		}
	}
	var kinds []string
	if len(own) > 0 {
		kinds = append(kinds, sources.H1+": of "+sorted(own))
	}
	if len(stated) > 0 {
		kinds = append(kinds, sources.H1+": of "+sorted(stated)+" as stated by the registry")
	}
	if others > 0 {
		kinds = append(kinds, fmt.Sprintf("%d %s: of other platforms", others, sources.H1))
	}
	if archives > 0 {
		kinds = append(kinds, fmt.Sprintf("%d %s:", archives, sources.ZH))
	}
	return kinds
}

// removedByKind counts the hashes that were removed, by scheme.
func removedByKind(hashes []sources.Hash) []string {
	n := map[string]int{}
	for _, h := range hashes {
		n[h.Scheme()]++
	}
	var kinds []string
	for _, scheme := range slices.Sorted(maps.Keys(n)) {
		kinds = append(kinds, fmt.Sprintf("- %d %s:", n[scheme], scheme))
	}
	return kinds
}

// sorted lists names in a sentence, in order.
func sorted(names []string) string { return ui.List("and", slices.Sorted(slices.Values(names))) }

// changeInJSON is a change for programs.
type changeInJSON struct {
	Provider    string      `json:"provider"`
	Version     string      `json:"version"`
	Was         string      `json:"was,omitempty"`
	Constraints *string     `json:"constraints,omitempty"`
	Added       []addedJSON `json:"added"`
	Removed     []string    `json:"removed"`
}

// addedJSON is an added hash for programs.
type addedJSON struct {
	Hash     sources.Hash  `json:"hash"`
	Platform string        `json:"platform,omitempty"`
	How      installer.How `json:"how,omitempty"`
}

// inJSON is the change for programs. Constraints are in it only if they have changed.
func (c lockChange) inJSON() changeInJSON {
	told := changeInJSON{
		Provider: c.now.Provider.String(), Version: c.now.Version.String(), Was: c.was.Version.String(),
		Added: []addedJSON{}, Removed: sources.Texts(c.removed),
	}
	if constraints := c.now.Constraints.String(); constraints != c.was.Constraints.String() {
		told.Constraints = &constraints
	}
	for _, h := range c.added {
		one := addedJSON{Hash: h.Hash}
		if h.of != nil {
			one.Platform, one.How = h.of.Package.ID.Platform.String(), h.of.How
		}
		told.Added = append(told.Added, one)
	}
	return told
}

// A tally is what has come of several root modules.
type tally struct {
	modules    int // that were found out about
	incomplete int
	missing    int // providers that lack something or are wrong
	unknown    int // hashes that nothing covers; a check fails because of them
	unchecked  int // hashes that may belong to a platform that was not examined
	packages   map[sources.PackageID]installer.How
}

// add counts a root module. The caller holds the lock of the tally.
func (t *tally) add(m *lockedModule) {
	if m.before == nil {
		return // there is nothing to be locked
	}
	t.modules++
	if m.incomplete() {
		t.incomplete++
	}
	if t.packages == nil {
		t.packages = map[sources.PackageID]installer.How{}
	}
	if m.wrong != nil {
		t.missing += len(sources.Errors(m.wrong))
	}
	t.missing += len(m.result.Lock.Added) + len(m.result.Lock.Changed)
	for _, u := range m.unknown() {
		switch {
		case u.Refused: // which counts as what is wrong
		case u.Maybe:
			t.unchecked++
		default:
			t.unknown++
		}
	}
	for _, p := range slices.Concat(m.result.Packages, m.result.Examined) {
		t.packages[p.Package.ID] = p.How
	}
}

// String tells where the hashes of the packages came from.
func (t *tally) String() string {
	n := map[installer.How]int{}
	for _, how := range t.packages {
		n[how]++
	}
	var parts []string
	for _, how := range []installer.How{installer.Fetched, installer.Remembered, installer.Stated} {
		if n[how] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[how], how))
		}
	}
	text := fmt.Sprintf("%s, %d incomplete", ui.Count(t.modules, "lock file"), t.incomplete)
	if t.unknown > 0 {
		text += ", " + hashes(t.unknown, "unknown")
	}
	if t.unchecked > 0 {
		text += ", " + hashes(t.unchecked, "unchecked")
	}
	text += "; " + ui.Count(len(t.packages), "package")
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text
}
