package report

import (
	"cmp"
	"strconv"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/store"
)

// moment returns a time for programs, which have no use for fractions of seconds.
func moment(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }

// A CachePath is the path of the plugin cache.
type CachePath struct {
	Typed `type:"cache"`
	Path  string `json:"path"`
}

// Text implements [Value].
func (p CachePath) Text(*Output) string { return p.Path }

// A CacheKey is a key for the caches of CI systems.
type CacheKey struct {
	Typed     `type:"key"`
	Key       string   `json:"key"`
	Platforms []string `json:"platforms"`
	Exact     bool     `json:"exact"`
}

// Text implements [Value].
func (k CacheKey) Text(*Output) string { return k.Key }

// A CachedSize is the space that a package takes in the cache, and for whom.
type CachedSize struct {
	PackageID
	Size   int64     `json:"size"`
	Freed  int64     `json:"freed"`
	Used   time.Time `json:"used,omitzero"`
	Roots  []string  `json:"roots"`
	Linked bool      `json:"linked"`
	Kept   bool      `json:"kept,omitempty"`
}

func sizeOf(e cachedir.Entry) CachedSize {
	return CachedSize{InJSON(e.ID), e.Size, e.Freed, moment(e.Used), append([]string{}, e.Roots...), e.Linked, e.Kept}
}

// A Cached is a package in the cache.
type Cached struct {
	Typed `type:"cached"`
	CachedSize
	Verification
	Changed  bool   `json:"changed,omitempty"`
	Problem  string `json:"problem,omitempty"`
	Evidence bool   `json:"evidence"`
	H1       string `json:"h1,omitempty"`
	Origin   string `json:"origin,omitempty"`
	Target   string `json:"target,omitempty"`
}

// CachedOf returns an entry of the cache that was verified, and why it can't be used, if it can't.
func CachedOf(e cachedir.Entry, problem store.Kind) Cached {
	return Cached{
		CachedSize: sizeOf(e), Verification: VerificationOf(e.Report),
		Changed: e.Changed, Problem: string(problem), Evidence: e.Evidence, H1: string(e.H1), Origin: e.Origin, Target: e.Target,
	}
}

// Cells implements [Row].
func (c Cached) Cells(o *Output) []Cell {
	verified := c.As()
	switch {
	case c.Problem != "":
		verified = c.Problem
	case c.Changed:
		verified = ChangedSince
	}
	return append(c.cells(), sizeColumn.Of(ui.Size(c.Size)), c.lastUsed(),
		Cell{ui.Column{Head: "USED BY"}, ui.Plain.Of(c.users())}, verifiedColumn.Of(verified), c.signedBy(o))
}

// lastUsed returns the cell with the last use.
func (c CachedSize) lastUsed() Cell { return usedColumn.Of(ui.Since(c.Used, time.Now())) }

// users describes the users of a package: known root modules, or else the directories that
// share its files by hard links.
func (c CachedSize) users() string {
	switch {
	case len(c.Roots) > 0:
		return ui.Count(len(c.Roots), "root module")
	case c.Linked:
		return "linked"
	case c.Kept:
		return "kept"
	}
	return "unused"
}

// A Listed is the summary of a list.
type Listed struct {
	Packages int   `json:"packages"`
	Size     int64 `json:"size"`
	Problems int   `json:"problems"` // in the whole cache
}

// A Removal is a package that was removed from the cache, or that would be.
type Removal struct {
	Typed `type:"removal"`
	CachedSize
	Reason string `json:"reason"`
	DryRun bool   `json:"dry_run"`
}

// reasons are the reasons of removals, as the table shows them. With --all, the table shows the users instead.
var reasons = map[string]string{
	string(cachedir.NoUser): "unused", string(cachedir.TooOld): "not used recently",
	string(cachedir.TooMuch): "least recently used",
}

// Cells implements [Row].
func (r Removal) Cells(*Output) []Cell {
	why := cmp.Or(reasons[r.Reason], r.users())
	if r.Reason == string(cachedir.Everything) && len(r.Roots) > 0 {
		why = "used by " + why
	}
	// What is freed is less than the size if root modules share files with the package.
	frees := Cell{ui.Column{Head: "FREES", Right: true}, ui.Plain.Of(ui.Size(r.Freed))}
	return append(r.cells(), frees, r.lastUsed(), Cell{ui.Column{Head: "REASON"}, ui.Plain.Of(why)})
}

// Removals shows packages that were removed, or that would be if they are planned.
func (o *Output) Removals(all []cachedir.Removal, planned bool) {
	gridOf(o, all, func(r cachedir.Removal) Removal {
		return Removal{Typed{}, sizeOf(r.Entry), string(r.Reason), planned}
	})
}

// A CacheUsage is one kind of cache contents other than packages.
type CacheUsage struct {
	Typed `type:"usage"`
	What  string `json:"kind"`
	Count int    `json:"count"`
	Bytes int64  `json:"bytes"`

	Hint string `json:"-"`
}

// Cells implements [Row].
func (u CacheUsage) Cells(*Output) []Cell {
	return []Cell{
		{Span: ui.Plain.Of("  " + u.What)},
		{ui.Column{Right: true}, ui.Plain.Of(strconv.Itoa(u.Count))},
		{ui.Column{Right: true}, ui.Plain.Of(ui.Size(u.Bytes))},
		{ui.Column{}, ui.Faint.Of(u.Hint)},
	}
}

func usageOf(what string, a cachedir.Amount, hint string) CacheUsage {
	return CacheUsage{What: what, Count: a.Count, Bytes: a.Bytes, Hint: hint}
}

// UsageOf returns the kinds of cache contents other than packages that there are, in display order.
func UsageOf(u cachedir.Usage) (rows []CacheUsage) {
	for _, kind := range []struct {
		what cachedir.Content
		hint string
	}{
		{cachedir.Evidence, "signed checksums and keys"},
		{cachedir.Records, "root modules and locks"},
		{cachedir.Working, "in use by other larder processes"},
		{cachedir.Archives, "of recent downloads; larder cache prune removes them"},
		{cachedir.Interrupted, "partial downloads, resumable"},
		{cachedir.Abandoned, "partial downloads; larder cache prune removes them"},
		{cachedir.Leftover, "from killed processes; larder cache prune removes it"},
		{cachedir.Quarantine, "damaged and changed files; larder cache prune removes those in .larder/quarantine after 30 days"},
		{cachedir.Foreign, "files that are not part of a cache"},
		{cachedir.Others, "temporary files and downloads; only the users who own them can remove them"},
	} {
		if u[kind.what].Count > 0 {
			rows = append(rows, usageOf(string(kind.what), u[kind.what], kind.hint))
		}
	}
	return rows
}

// A Forgotten is a package whose recorded hashes were removed.
type Forgotten struct {
	Typed `type:"forgotten"`
	PackageID
	H1 sources.Hash `json:"h1"`
	ZH sources.Hash `json:"zh,omitempty"`
	Verification
	Origin string    `json:"origin,omitempty"`
	Since  time.Time `json:"since"`
}

// ForgottenOf returns what was recorded for a package.
func ForgottenOf(s sources.Stored) Forgotten {
	return Forgotten{Typed{}, InJSON(s.ID), s.H1, s.ZH, VerificationOf(s.Report), s.Origin, moment(s.Since)}
}

// Text implements [Value].
func (f Forgotten) Text(*Output) string {
	hashes := string(f.H1)
	if f.ZH != "" {
		hashes += " or " + string(f.ZH)
	}
	return f.text() + "  " + hashes + ", " + f.As() + ", seen on " + f.Since.Format(time.DateOnly)
}

// A Released is a package that is no longer kept, see prefetch --keep.
type Released struct {
	Typed `type:"released"`
	PackageID
}

// Text implements [Value].
func (r Released) Text(*Output) string { return r.text() + ": no longer kept" }

// A Forgot is the summary of removing recorded hashes.
type Forgot struct {
	Packages int `json:"packages"`
}
