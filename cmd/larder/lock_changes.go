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

// A lockedModule is the result for a root module.
type lockedModule struct {
	out           *ui.Output
	file          string // the lock file's path
	module        string // path of the root module, with --recursive
	check, dryRun bool
	engine        sources.Engine

	before *lockfile.File
	result *installer.Result // nil after errors
	wrong  error             // the problems that a check has found

	checkedOut []served // providers that are a problem because the checkout serves them
}

// incomplete reports whether the lock file had to be completed.
func (m *lockedModule) incomplete() bool {
	return m.wrong != nil || m.result != nil && !m.result.Lock.None()
}

// show shows the changes of the lock file, or the planned changes. Without --json, changes
// are rows of a table for all root modules, which [locking.sum] prints.
func (m *lockedModule) show(ctx context.Context) {
	m.out.Fail(ctx, m.wrong)
	m.showUnknown()
	m.showServed()
	if m.result == nil {
		return
	}
	for _, p := range m.result.Packages {
		if m.out.JSON {
			m.out.Object("package", ui.OutcomeInJSON(p))
		} else {
			m.out.Detail("%s: %s", m.out.Package(p.Package.ID), ui.OutcomeText(p))
		}
	}
	for _, c := range m.changes() {
		if m.out.JSON {
			m.out.Object("change", c.inJSON())
		}
	}
	if m.dryRun && !m.result.Lock.None() {
		m.showDiff()
	}
	if m.result.Lock.Written && m.out.JSON {
		m.out.LockFile(m.result.Lock)
	}
}

// rows returns the changes as rows of a table, or for a check the problems by line.
func (m *lockedModule) rows(detailed bool) []ui.Row {
	if m.result == nil {
		return nil
	}
	lines := map[int][]ui.Row{}
	for _, c := range m.changes() {
		line := 0
		if m.check {
			line = m.before.Block(c.now.Provider)
		}
		lines[line] = append(lines[line], m.row(c, detailed))
	}
	for _, u := range m.unknown() {
		if u.problem() {
			lines[u.Line] = append(lines[u.Line], m.problem(u.Line, u.Provider, u.Version, u.text()))
		}
	}
	for _, s := range m.checkedOut {
		lines[s.line] = append(lines[s.line], m.problem(s.line, s.Provider, s.Version, s.text))
	}
	var rows []ui.Row
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		rows = append(rows, lines[line]...)
	}
	return rows
}

// problem returns a problem in the lock file as a row of a table. It has the place in the
// format of compilers, so that editors can open it.
func (m *lockedModule) problem(line int, p sources.Provider, v sources.Version, text string) ui.Row {
	place := m.out.ShortenHere(m.file)
	if line > 0 {
		place += fmt.Sprintf(":%d", line)
	}
	return ui.Row{Cells: []ui.Span{{Text: place}, {Text: m.out.Name(p) + " " + v.String(), Paint: ui.Bold}, {Text: text}}}
}

// changeColumns are the columns of changes, and problemColumns those of problems.
var (
	changeColumns  = []ui.Column{{}, {Shorten: true}, {Shorten: true}, {}, {}}
	problemColumns = []ui.Column{{}, {}, {}}
)

// row returns a change as a row of a table: what was done, or for a check what is missing.
func (m *lockedModule) row(c lockChange, detailed bool) ui.Row {
	name, version := m.out.Name(c.now.Provider), c.now.Version.String()
	if m.check {
		return m.problem(m.before.Block(c.now.Provider), c.now.Provider, c.now.Version, strings.Join(c.problems(), ", "))
	}
	mark := ui.Span{Text: " ~", Paint: ui.Changed}
	switch c.was.Version {
	case sources.Version{}:
		mark = ui.Span{Text: " +", Paint: ui.Added}
	case c.now.Version:
	default:
		version = c.was.Version.String() + " → " + version
	}
	return ui.Row{Cells: []ui.Span{mark, {Text: m.module}, {Text: name, Paint: ui.Bold}, {Text: version}, {Text: c.text(detailed)}}}
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

// A lockChange is the difference between two blocks of a provider.
type lockChange struct {
	was, now lockfile.Entry // was is zero if there was no block
	added    []addedHash
	removed  []sources.Hash
}

// An addedHash is a hash that was added to the lock file.
type addedHash struct {
	sources.Hash
	of *installer.Outcome // the package with this hash; nil if it is not known
}

// changes returns the changes of the lock file, sorted by provider.
func (m *lockedModule) changes() []lockChange {
	now := map[sources.Provider]lockfile.Entry{}
	for _, e := range m.result.Lock.Entries {
		now[e.Provider] = e
	}
	var all []lockChange
	for _, p := range slices.SortedFunc(slices.Values(slices.Concat(m.result.Lock.Added, m.result.Lock.Changed)), sources.Provider.Compare) {
		var c lockChange
		c.was, _ = m.before.Entry(p)
		c.now = now[p]
		for _, h := range sources.Without(sources.SortHashes(c.now.Hashes), c.was.Hashes...) {
			c.added = append(c.added, addedHash{h, m.packageOf(p, h)})
		}
		c.removed = sources.Without(slices.Clone(c.was.Hashes), c.now.Hashes...)
		all = append(all, c)
	}
	return all
}

// packageOf returns the package of a provider that has a hash, or nil if it is not known.
func (m *lockedModule) packageOf(p sources.Provider, h sources.Hash) *installer.Outcome {
	i := slices.IndexFunc(m.result.Packages, func(o installer.Outcome) bool {
		return o.Package.ID.Provider == p && (o.Package.H1 == h || o.Package.ZH == h)
	})
	if i < 0 {
		return nil
	}
	return &m.result.Packages[i]
}

// text describes the changed hashes and constraints: "+1 h1, +4 zh". With detail, it includes
// the platforms of the hashes.
func (c lockChange) text(detailed bool) string {
	var parts []string
	for _, scheme := range []string{sources.H1, sources.ZH} {
		if n, of := c.addedOf(scheme); n > 0 {
			part := fmt.Sprintf("+%d %s", n, scheme)
			if detailed && len(of) > 0 {
				part += " (" + strings.Join(of, ", ") + ")"
			}
			parts = append(parts, part)
		}
	}
	if c.was.Version == c.now.Version {
		parts = append(parts, removedByKind(c.removed)...)
	}
	if constraints := c.now.Constraints.String(); c.constrained() {
		parts = append(parts, fmt.Sprintf("constraints %q", constraints))
	}
	if len(parts) == 0 {
		parts = append(parts, "reordered")
	}
	return strings.Join(parts, ", ")
}

// problems describes what the lock file lacks, for a check.
func (c lockChange) problems() []string {
	var parts []string
	switch c.was.Version {
	case sources.Version{}:
		return []string{"not locked"}
	case c.now.Version:
	default:
		return []string{"locked is " + c.was.Version.String()}
	}
	n, of := c.addedOf(sources.H1)
	if len(of) > 0 {
		parts = append(parts, "no hash for "+ui.List("and", of))
	} else if n > 0 {
		parts = append(parts, fmt.Sprintf("%s of other platforms missing", hashes(n, sources.H1)))
	}
	if n, _ := c.addedOf(sources.ZH); n > 0 {
		parts = append(parts, hashes(n, sources.ZH)+" missing")
	}
	if c.constrained() {
		parts = append(parts, fmt.Sprintf("constraints differ from %q", c.now.Constraints))
	}
	if len(parts) == 0 {
		parts = append(parts, "hashes out of order")
	}
	return parts
}

// constrained reports whether the constraints of a version that was locked before have
// changed.
func (c lockChange) constrained() bool {
	return c.was.Version == c.now.Version && c.was.Constraints.String() != c.now.Constraints.String()
}

// addedOf counts the new hashes of a scheme, and lists the platforms of those with a known
// package.
func (c lockChange) addedOf(scheme string) (n int, platforms []string) {
	for _, h := range c.added {
		if h.Scheme() != scheme {
			continue
		}
		n++
		if h.of != nil && scheme == sources.H1 {
			platforms = append(platforms, h.of.Package.ID.Platform.String())
		}
	}
	slices.Sort(platforms)
	return n, slices.Compact(platforms)
}

// removedByKind counts the removed hashes by scheme.
func removedByKind(hashes []sources.Hash) []string {
	n := map[string]int{}
	for _, h := range hashes {
		n[h.Scheme()]++
	}
	var kinds []string
	for _, scheme := range slices.Sorted(maps.Keys(n)) {
		kinds = append(kinds, fmt.Sprintf("-%d %s", n[scheme], scheme))
	}
	return kinds
}

// changeInJSON is a change, in JSON.
type changeInJSON struct {
	Provider    string      `json:"provider"`
	Version     string      `json:"version"`
	Was         string      `json:"was,omitempty"`
	Constraints *string     `json:"constraints,omitempty"`
	Added       []addedJSON `json:"added"`
	Removed     []string    `json:"removed"`
}

// addedJSON is an added hash, in JSON.
type addedJSON struct {
	Hash     sources.Hash  `json:"hash"`
	Platform string        `json:"platform,omitempty"`
	How      installer.How `json:"how,omitempty"`
}

// inJSON returns the change for JSON. It includes constraints only if they have changed.
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

// A tally adds up the results of root modules. It is also the summary in JSON.
type tally struct {
	Modules    int      `json:"root_modules"` // examined
	Incomplete int      `json:"incomplete"`   // lock files that were completed, or would be
	Failed     int      `json:"failed"`       // root modules
	Problems   int      `json:"problems,omitempty"`
	Unknown    int      `json:"unknown_hashes,omitempty"`     // not covered by any package or signed checksums
	Unchecked  int      `json:"unchecked_hashes,omitempty"`   // may belong to a platform that was not examined
	CheckedOut int      `json:"checkout_providers,omitempty"` // served by the checkout; only of a strict check
	Platforms  []string `json:"platforms"`
	Packages   int      `json:"packages"` // packages whose hashes were required
	Fetched    int      `json:"fetched"`
	Bytes      int64    `json:"bytes"`
	DryRun     bool     `json:"dry_run,omitempty"`
	Check      bool     `json:"check,omitempty"`

	missing  int // providers with missing or wrong hashes
	packages map[sources.PackageID]bool
}

// add counts a root module. The caller holds the tally's mutex.
func (t *tally) add(m *lockedModule) {
	if m.before == nil {
		return // the root module requires no providers
	}
	t.Modules++
	if m.incomplete() {
		t.Incomplete++
	}
	if m.wrong != nil {
		t.missing += len(sources.Errors(m.wrong))
	}
	t.CheckedOut += len(m.checkedOut)
	t.missing += len(m.result.Lock.Added) + len(m.result.Lock.Changed)
	for _, u := range m.unknown() {
		switch {
		case u.Refused: // counted as a wrong hash
		case u.Maybe:
			t.Unchecked++
		default:
			t.Unknown++
		}
	}
	for _, p := range m.result.Packages { // an upgrade also locks for the platforms that were locked before
		if name := p.Package.ID.Platform.String(); !slices.Contains(t.Platforms, name) {
			t.Platforms = append(t.Platforms, name)
		}
	}
	for _, p := range slices.Concat(m.result.Packages, m.result.Examined) {
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

// text returns the summary of a run that completes lock files.
func (t *tally) text(out *ui.Output) string {
	files := ui.Count(t.Modules+t.Failed, "lock file")
	complete := t.Modules - t.Incomplete
	var parts []string
	switch {
	case t.Check:
		if t.Failed > 0 {
			files = fmt.Sprintf("%d of %s", t.Modules, files)
		}
		parts = append(parts, fmt.Sprintf("Checked %s for %s", files, ui.List("and", t.Platforms)))
		if t.Incomplete+t.Unknown+t.CheckedOut+t.Failed == 0 {
			parts[0] += ": complete"
		}
	case t.Incomplete+t.Failed == 0:
		return fmt.Sprintf("%s complete for %s (%s)", files, ui.Count(len(t.Platforms), "platform"), ui.Took(out.Elapsed()))
	default:
		did, was := "Completed", "was"
		if t.DryRun {
			did, was = "Would complete", "is"
		}
		if complete > 1 {
			was = map[string]string{"was": "were", "is": "are"}[was]
		}
		if complete+t.Failed > 0 {
			files = fmt.Sprintf("%d of %s", t.Incomplete, files)
		}
		parts = append(parts, fmt.Sprintf("%s %s for %s", did, files, ui.Count(len(t.Platforms), "platform")))
		if complete > 0 {
			parts = append(parts, fmt.Sprintf("%d %s complete", complete, was))
		}
	}
	if t.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", t.Failed))
	}
	if t.Unchecked > 0 {
		parts = append(parts, hashes(t.Unchecked, "unchecked"))
	}
	if t.Unknown > 0 && !t.Check {
		parts = append(parts, hashes(t.Unknown, "unknown"))
	}
	switch {
	case t.Bytes > 0:
		parts = append(parts, ui.Count(t.Fetched, "package")+", "+ui.Fetched(t.Bytes, out.Elapsed()))
	case t.Fetched > 0: // from a directory
		parts = append(parts, ui.Count(t.Fetched, "package")+" read")
	}
	return strings.Join(parts, "; ")
}
