package cachedir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// VerifyOptions configure [Dir.Verify].
type VerifyOptions struct {
	ListOptions

	// Recorded hashes only packages whose files have changed since they were recorded.
	Recorded bool

	// Report is called with the number of bytes hashed so far, one call at a time. It
	// may be nil.
	Report func(done, of int64)
}

// A Verification is the result of reading all files in a cache.
type Verification struct {
	*Listing                  // with all findings
	Packages []sources.Stored // without a finding, sorted
	Unknown  int              // those of Packages that had no record
	Bytes    int64            // bytes hashed

	checked []checked // without intact entries that have a valid record, because they require no repair
}

// checked is an entry that has been hashed.
type checked struct {
	Entry
	fresh record // the contents; zero if they could not be hashed
	old   record // the record; zero if there was none
}

// Verify hashes every package and compares it with its record and its evidence. It
// changes nothing, opens no connection, and follows no link.
func (d *Dir) Verify(ctx context.Context, opts VerifyOptions) (*Verification, error) {
	listing, err := d.List(ctx, opts.ListOptions)
	if err != nil {
		return nil, err
	}
	v := &verifier{Dir: d, opts: opts}
	v.Listing = listing
	v.findMissing()
	found := packagesOf(v.Findings)
	var whole []*Entry
	for i := range v.Entries {
		if e := &v.Entries[i]; e.Target == "" && !found[e.ID.Path()] {
			whole = append(whole, e)
			v.total += sizeOf(e.marks)
		}
	}
	v.Packages = make([]sources.Stored, 0, len(whole))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, e := range whole {
		g.Go(func() error { return v.check(ctx, e) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(v.Findings, func(a, b Finding) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(v.Packages, func(a, b sources.Stored) int { return a.ID.Compare(b.ID) })
	return &v.Verification, nil
}

// findMissing notes the packages that root modules use, and that a repair has removed or something else has replaced. What
// just isn't there may have been removed by a user, or by a prune of another one.
func (v *verifier) findMissing() {
	found := packagesOf(v.Findings)
	for _, id := range v.users.all() {
		if found[id.Path()] || v.tree == nil {
			continue
		}
		_, err := v.tree.Lstat(id.Path())
		r, recorded := recordIn(v.ledger, id)
		unwanted := errors.Is(err, fs.ErrNotExist) && !r.Removed
		if err != nil && recorded && !unwanted && !disk.IsUnread(err) {
			v.Findings = append(v.Findings, Entry{ID: id}.finding(Missing, "a root module uses it, but it is not there"))
		}
	}
}

// packagesOf returns the paths of the packages that contain findings.
func packagesOf(findings []Finding) map[string]bool {
	paths := map[string]bool{}
	for _, f := range findings {
		parts := strings.Split(f.Path, "/")
		paths[path.Join(parts[:min(len(parts), platformDepth+1)]...)] = true
	}
	return paths
}

// A verifier hashes entries concurrently.
type verifier struct {
	*Dir
	Verification
	opts  VerifyOptions
	total int64
	mu    sync.Mutex
}

// contents returns a record of the contents of an entry.
func (v *verifier) contents(ctx context.Context, e Entry) (record, error) {
	if v.opts.Recorded && !v.Dir.opts.Paranoid {
		if r, ok := recordOf(v.ledger, e.ID, e.marks); ok {
			return r, nil
		}
		if !v.isRecorded(e.ID) { // there is nothing to compare with
			return record{Files: e.marks}, nil
		}
	}
	times := readTimes(e)
	defer times.restore()
	return hash(ctx, e.Dir)
}

// isRecorded reports whether there is a record of the contents of a package.
func (d *Dir) isRecorded(id sources.PackageID) bool {
	all, _ := d.recorded(id, d.ledger)
	return len(all) > 0
}

// check determines the contents of an entry and judges them. It returns an error only if
// ctx is done.
func (v *verifier) check(ctx context.Context, e *Entry) error {
	fresh, err := v.contents(ctx, *e)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c := checked{Entry: *e, fresh: fresh}
	var findings []Finding
	switch {
	case errors.Is(err, sources.ErrNotFound) && gone(e.Dir):
		return nil
	case disk.IsUnread(err):
		findings = append(findings, e.finding(Unreadable, "%v", err))
	case err != nil:
		findings = append(findings, e.finding(Incomplete, "%v", err))
	default:
		c.old, findings = v.judge(ctx, *e, fresh)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		sound := c.old.H1 == "" || c.old.H1 == fresh.H1
		if _, err := checkExecutable(e.Dir, fresh.Files, e.ID); err != nil && sound {
			f := e.finding(Changed, "%v", err)
			f.sound = true
			findings = append(findings, f)
		}
		if slices.ContainsFunc(findings, func(f Finding) bool { return f.Kind == Unreadable }) {
			c.fresh = record{} // whether the contents are unchanged is unknown, so they are not recorded
		}
	}
	stored := v.describe(e, fresh, findings)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Findings = append(v.Findings, findings...)
	if len(findings) > 0 || !slices.Equal(c.old.Files, fresh.Files) || !c.old.survives() {
		v.checked = append(v.checked, c)
	}
	if len(findings) == 0 {
		v.Packages = append(v.Packages, stored)
		if c.old.H1 == "" {
			v.Unknown++
		}
	}
	v.Bytes += sizeOf(e.marks)
	if v.opts.Report != nil {
		v.opts.Report(v.Bytes, v.total)
	}
	return nil
}

// describe completes an entry with what is known about its contents.
func (v *verifier) describe(e *Entry, fresh record, findings []Finding) sources.Stored {
	r, err := v.inherit(e.ID, fresh, v.ledger)
	if err != nil {
		r = fresh
	}
	s := v.stored(e.ID, e.Dir, r)
	e.H1, e.ZH, e.Origin, e.Report, e.Evidence = s.H1, s.ZH, s.Origin, s.Report, s.Signed != nil
	e.Changed = slices.ContainsFunc(findings, func(f Finding) bool { return f.Kind == Changed })
	return s
}

// judge compares the contents of an entry with its record, with the hashes verified
// before, and with the evidence. It returns the best record, which is zero if there
// is none.
func (v *verifier) judge(ctx context.Context, e Entry, fresh record) (record, []Finding) {
	r, err := v.ledger.Find(e.ID.Provider, store.KeyOf(e.ID))
	known, knownErr := v.known.Of(e.ID)
	if i := slices.IndexFunc([]error{err, knownErr}, disk.IsUnread); i >= 0 {
		return record{}, []Finding{e.finding(Unreadable, "%v", []error{err, knownErr}[i])}
	}
	if known.Imported { // imported claims are unproven
		known = store.Facts{}
	}
	if r.H1 == "" {
		r.Facts = known
	}
	for _, was := range []record{r, {Facts: known}} {
		if was.H1 != "" && was.H1 != fresh.H1 {
			return was, []Finding{e.finding(Changed, "%s", change(was, fresh))}
		}
	}
	if r.H1 == "" {
		return r, nil
	}
	_, err = v.evidence.Check(ctx, e.ID, r.Facts)
	switch {
	case disk.IsUnread(err):
		return r, []Finding{e.finding(Unreadable, "%v", err)}
	case err != nil:
		return r, []Finding{e.finding(BadEvidence, "%v", err)}
	}
	return r, nil
}

// change describes how contents differ from a record.
func change(was, now record) string {
	day := cmp.Or(was.Since, was.Written).Format(time.DateOnly)
	if text := now.Sums.Differ(was.Sums, " from what was verified on "+day); text != "" {
		return text
	}
	return fmt.Sprintf("its contents are %s; those verified on %s were %s", now.H1, day, was.H1)
}

func (e Entry) finding(kind FindingKind, format string, args ...any) Finding {
	return Finding{Kind: kind, Path: e.ID.Path(), Package: &e.ID, Text: fmt.Sprintf(format, args...)}
}

// readTimes returns the access times of an entry's files. Verifying must not change
// them, because they count as use.
func readTimes(e Entry) accessTimes {
	times := accessTimes{}
	for _, m := range e.marks {
		path := filepath.Join(e.Dir, filepath.FromSlash(m.Path))
		times[path] = disk.LastRead(path)
	}
	return times
}

type accessTimes map[string]time.Time

// restore sets the access times, which requires the owner of the files. If another
// user verifies a cache, its packages appear to have been used.
func (t accessTimes) restore() {
	for path, read := range t {
		if !read.IsZero() && !disk.LastRead(path).Equal(read) {
			_ = disk.RestoreAccess(path, read)
		}
	}
}

// A FindingKind is a kind of problem in a cache.
type FindingKind string

// The kinds of problems.
const (
	Dangling    FindingKind = "dangling link"      // the target does not exist
	Elsewhere   FindingKind = "link"               // a link to another place, not followed
	NoDirectory FindingKind = "not a directory"    // a file instead of a directory
	Collision   FindingKind = "case collision"     // a name that differs from another only in case
	Stranger    FindingKind = "foreign file"       // does not belong in a cache
	Unreadable  FindingKind = "unreadable"         // permission denied
	Incomplete  FindingKind = "incomplete package" // no package that an engine could use
	Changed     FindingKind = "changed package"    // contents differ from the stored ones
	Missing     FindingKind = "missing package"    // a root module uses it
	BadEvidence FindingKind = "broken evidence"    // no longer supports the package's verdict
	Leftover    FindingKind = "leftover"           // from a killed process
)

// A Finding is a problem in a cache.
type Finding struct {
	Kind    FindingKind
	Path    string             // relative to the cache, with forward slashes
	Package *sources.PackageID // nil if the finding is not about a package
	Text    string             // description of the problem

	sound bool // a changed package whose contents are the stored ones
}

func (f Finding) String() string { return f.Path + ": " + string(f.Kind) + ": " + f.Text }
