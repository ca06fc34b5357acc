package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
)

// An Entry is a package in the cache, as it lies there: known or not, good or
// not.
type Entry struct {
	ID       sources.PackageID
	Dir      string
	Target   string          // whither it leads, if it is a symlink
	Size     int64           // bytes on disk, of every file that no entry before it has too
	Freed    int64           // bytes on disk that would be free without it: those of files that are nowhere else
	Linked   bool            // whether files of it have names outside of the cache too
	Used     time.Time       // last, as far as that is noted
	H1       sources.Hash    // empty if it is not known
	ZH       sources.Hash    // of the archive it came from; empty if that is not known
	Verdict  sources.Verdict // unverified if it is not known
	Origin   string          // empty if it is not known
	Evidence bool            // whether what vouches for it is kept, if [ListOptions] ask for that
	Roots    []string        // directories of the root modules that use it

	marks []mark // nil if it is a symlink
	files []extent
}

// A Listing is what a cache holds.
type Listing struct {
	Entries  []Entry   // by provider, version and platform
	Findings []Finding // what does not belong into a cache
	Roots    []Root    // that are known
	Unclear  []error   // what some root modules use cannot be told
	Saved    int64     // bytes that root modules would take on disk if none shared files with the cache

	stale []string // registrations of root modules that no longer exist
}

// ListOptions adjust what is listed.
type ListOptions struct {
	Roots    []Root     // known besides those that are registered
	Locked   LockReader // nil if lock files do not count
	Evidence bool       // find out whether evidence is kept
}

// A file is what no other file on this machine is.
type file struct{ inode, device uint64 }

// An extent is what a file takes on disk.
type extent struct {
	file  file
	bytes int64
	links uint64 // names that it has, anywhere
}

// List says what the cache holds, whoever put it there. It changes nothing.
func (d *Dir) List(ctx context.Context, opts ListOptions) (*Listing, error) {
	l := &lister{Dir: d, ctx: ctx, opts: opts, seen: map[file]uint64{}}
	if d.tree != nil {
		if err := l.level("", 0); err != nil {
			return nil, err
		}
		if err := l.lookAtAll(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(l.entries, func(a, b Entry) int { return a.ID.Compare(b.ID) })
	slices.SortStableFunc(l.findings, func(a, b Finding) int { return strings.Compare(a.Path, b.Path) })
	l.measureAll()
	registered, stale, err := d.registered()
	if err != nil {
		return nil, fmt.Errorf("reading which root modules use the cache: %w", err)
	}
	listing := &Listing{Entries: l.entries, Findings: l.findings, stale: stale}
	listing.Roots = mergeRoots(registered, opts.Roots)
	if opts.Locked == nil {
		opts.Locked = func(string) (Selections, error) { return nil, nil }
	}
	users := d.findUsers(listing.Roots, opts.Locked)
	listing.Unclear = users.unclear
	for i := range listing.Entries {
		listing.Entries[i].Roots = users.of(listing.Entries[i].ID)
	}
	listing.Saved = d.saved(listing.Entries, users)
	return listing, ctx.Err()
}

// mergeRoots are all roots, each once.
func mergeRoots(registered, found []Root) []Root {
	known := slices.Clone(registered)
	seen := map[[2]string]bool{}
	for _, r := range registered {
		seen[[2]string{r.Dir, r.Providers}] = true
	}
	for _, r := range found {
		if key := [2]string{r.Dir, r.Providers}; !seen[key] {
			seen[key] = true
			known = append(known, r)
		}
	}
	return known
}

// A lister walks through the levels of a cache.
type lister struct {
	*Dir
	ctx      context.Context
	opts     ListOptions
	packages [][]string // paths of directories that may be packages, those of a version together
	entries  []Entry
	findings []Finding
	seen     map[file]uint64 // names in the cache, by file
}

// The depths below the cache at which names stand for what.
const (
	hostDepth = iota
	_
	typeDepth
	versionDepth
	platformDepth
)

// level looks at what is in a directory, so deep below the cache.
func (l *lister) level(rel string, depth int) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	names, err := os.ReadDir(filepath.Join(l.root, filepath.FromSlash(rel)))
	if errors.Is(err, fs.ErrNotExist) && rel != "" {
		return nil // it has just been removed
	}
	if err != nil && rel != "" {
		l.find(Unreadable, rel, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	if depth == platformDepth {
		l.packages = append(l.packages, nil)
	}
	for _, e := range names {
		at := path.Join(rel, e.Name())
		if strings.HasPrefix(e.Name(), ".") || depth == platformDepth && isTofuLock(e) {
			continue
		}
		if err := l.name(at, e, names, depth); err != nil {
			return err
		}
	}
	return nil
}

// isTofuLock reports whether a file is OpenTofu's lock for a package.
func isTofuLock(e fs.DirEntry) bool {
	platform, ok := strings.CutSuffix(e.Name(), ".lock")
	_, err := sources.ParsePlatform(platform)
	return ok && err == nil && e.Type().IsRegular()
}

// name looks at one name in a cache.
func (l *lister) name(at string, e fs.DirEntry, siblings []fs.DirEntry, depth int) error {
	if e.Type()&fs.ModeSymlink != 0 {
		l.symlink(at, depth)
		return nil
	}
	switch {
	case depth == hostDepth && disk.MadeBySystem(e.Name()):
	case !e.IsDir() && depth == hostDepth:
		l.find(Stranger, at, "not the directory of a registry's host")
	case !e.IsDir():
		l.find(NoDirectory, at, "a file where a directory should be")
	case !canonical(at, depth):
		if twin, ok := twinOf(e.Name(), siblings); ok {
			l.find(Collision, at, fmt.Sprintf("differs from %s only in case", twin))
			return nil
		}
		l.find(Stranger, at, "not a name used in a cache")
	case depth < platformDepth:
		return l.level(at, depth+1)
	default:
		last := len(l.packages) - 1
		l.packages[last] = append(l.packages[last], at)
	}
	return nil
}

// canonical reports whether a path is so written as programs write it that fill
// caches.
func canonical(at string, depth int) bool {
	parts := strings.Split(at, "/")
	name := parts[depth]
	switch depth {
	case hostDepth:
		h, err := sources.ParseHost(name)
		return err == nil && string(h) == name
	case typeDepth:
		p, err := sources.ParseStoredProvider(at)
		return err == nil && p.String() == at
	case versionDepth:
		v, err := sources.ParseVersion(name)
		return err == nil && v.String() == name
	case platformDepth:
		p, err := sources.ParsePlatform(name)
		return err == nil && p.String() == name
	}
	return strings.ToLower(name) == name // a namespace, which is judged with its type
}

// twinOf finds a sibling whose name differs only in case.
func twinOf(name string, siblings []fs.DirEntry) (string, bool) {
	for _, s := range siblings {
		if s.Name() != name && strings.EqualFold(s.Name(), name) {
			return s.Name(), true
		}
	}
	return "", false
}

// symlink looks at a symlink without following it, except to see whether it
// leads anywhere.
func (l *lister) symlink(at string, depth int) {
	full := filepath.Join(l.root, filepath.FromSlash(at))
	target, err := os.Readlink(full)
	if err != nil {
		return // it has just been removed
	}
	info, err := os.Stat(full)
	switch {
	case err != nil && depth == platformDepth && canonical(at, depth):
		l.findIn(idOf(at), Dangling, "", "a link to "+target+", which does not exist")
		return
	case err != nil:
		l.find(Dangling, at, "a link to "+target+", which does not exist")
		return
	case depth == platformDepth && info.IsDir() && canonical(at, depth):
		l.findIn(idOf(at), Elsewhere, "", "a link to "+target)
		l.entries = append(l.entries, Entry{ID: idOf(at), Dir: full, Target: target, Used: info.ModTime()})
		return
	}
	l.find(Elsewhere, at, "a link to "+target)
}

// idOf is the package at a canonical path.
func idOf(at string) sources.PackageID {
	parts := strings.Split(at, "/")
	// The path is canonical, so each of these succeeds.
	p, _ := sources.ParseStoredProvider(path.Join(parts[:3]...))
	v, _ := sources.ParseVersion(parts[3])
	platform, _ := sources.ParsePlatform(parts[4])
	return sources.PackageID{Provider: p, Version: v, Platform: platform}
}

// lookAtAll looks at the packages, several versions at a time.
func (l *lister) lookAtAll() error {
	versions := make([]*lister, len(l.packages))
	g, ctx := errgroup.WithContext(l.ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, packages := range l.packages {
		versions[i] = &lister{Dir: l.Dir, opts: l.opts}
		g.Go(func() error {
			versions[i].version(packages)
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, v := range versions {
		l.entries = append(l.entries, v.entries...)
		l.findings = append(l.findings, v.findings...)
	}
	for _, e := range l.entries {
		for _, x := range e.files {
			l.seen[x.file]++
		}
	}
	return nil
}

// A release is what the packages of a version share.
type release struct {
	records  func() (*disk.Dir, error) // directory of their records
	evidence func() (*sources.Signed, error)
}

// version looks at the packages of a version.
func (l *lister) version(packages []string) {
	if len(packages) == 0 {
		return
	}
	id := idOf(packages[0])
	of := release{
		sync.OnceValues(func() (*disk.Dir, error) { return l.state.Sub(path.Dir(recordPath(id))) }),
		sync.OnceValues(func() (*sources.Signed, error) { return l.Evidence(id.Provider, id.Version) }),
	}
	for _, at := range packages {
		id.Platform, _ = sources.ParsePlatform(path.Base(at)) // which is canonical, so this succeeds
		l.entry(id, of)
	}
	if l.state != nil {
		if records, err := of.records(); err == nil {
			records.Close()
		}
	}
}

// entry looks at a package.
func (l *lister) entry(id sources.PackageID, of release) {
	e := Entry{ID: id, Dir: l.Dir.entry(id)}
	var marks []mark
	var links []string
	var err error
	whileReplaced(e.Dir, func() error {
		e.files, links = nil, nil
		marks, err = scanEach(e.Dir, func(full string, info fs.FileInfo) {
			e.files = append(e.files, extentOf(full, info))
			if info.Mode()&fs.ModeSymlink != 0 {
				links = append(links, full)
			}
		})
		return err
	})
	if errors.Is(err, fs.ErrNotExist) && gone(e.Dir) {
		return
	}
	var sizeErr error
	if err != nil {
		sizeErr = l.extents(&e) // of all files, as scanning stopped at one
	} else {
		err = hasExecutable(marks, id.Provider.Type)
		for _, full := range links {
			l.inner(&e, full)
		}
	}
	e.marks = marks
	r, recordErr := l.tryRecordBy(recordPath(id), func() ([]byte, fs.FileInfo, error) {
		records, err := of.records()
		if err != nil {
			return nil, nil, err
		}
		return records.ReadFile(path.Base(recordPath(id)), maxRecord)
	})
	if recordErr == nil && slices.Equal(r.Files, marks) {
		e.H1, e.ZH, e.Verdict, e.Origin = r.H1, r.ZH, r.Verdict, r.Origin
		e.Evidence = l.opts.Evidence && l.resolved(id, r, of.evidence) != nil
	}
	e.Used = lastUse(e, r.used)
	if errors.Is(err, sources.ErrNotFound) || errors.Is(err, archive.ErrNoExecutable) {
		l.findIn(id, Incomplete, "", err.Error())
	} else if i := slices.IndexFunc([]error{err, recordErr, sizeErr}, disk.IsUnread); i >= 0 {
		l.findIn(id, Unreadable, "", []error{err, recordErr, sizeErr}[i].Error())
	}
	l.entries = append(l.entries, e)
}

// hasExecutable is an error if no file of a package is one that engines run.
func hasExecutable(marks []mark, typ string) error {
	var c sources.Contents
	for _, m := range marks {
		c.Files = append(c.Files, sources.File{Path: m.Path})
	}
	_, err := archive.ExecutableIn(c, typ)
	return err
}

// lastUse is when a package was last used: as recorded, or else when it was changed,
// or later, when an engine read it.
func lastUse(e Entry, recorded time.Time) time.Time {
	last := recorded
	if last.IsZero() {
		if info, err := os.Stat(e.Dir); err == nil {
			last = info.ModTime()
		}
	}
	for _, m := range e.marks {
		if read := lastRead(filepath.Join(e.Dir, filepath.FromSlash(m.Path))); read.After(last) {
			last = read
		}
	}
	return last
}

// extents finds out what the files of e take on disk, and which of them are
// links that lead out of the cache.
func (l *lister) extents(e *Entry) error {
	e.files = nil
	return filepath.WalkDir(e.Dir, func(full string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		if f.Type()&fs.ModeSymlink != 0 {
			l.inner(e, full)
		}
		info, err := f.Info()
		if err != nil {
			return err
		}
		e.files = append(e.files, extentOf(full, info))
		return nil
	})
}

// inner looks at a symlink in a package.
func (l *lister) inner(e *Entry, full string) {
	rel, err := filepath.Rel(e.Dir, full)
	if err != nil {
		return
	}
	real, err := filepath.EvalSymlinks(full)
	if err != nil {
		l.findIn(e.ID, Dangling, rel, "a broken link")
		return
	}
	within, err := filepath.EvalSymlinks(e.Dir)
	if out, relErr := filepath.Rel(within, real); err != nil || relErr != nil || !filepath.IsLocal(out) {
		l.findIn(e.ID, Elsewhere, rel, "a link out of the package, to "+real)
	}
}

// measureAll adds up what the entries take.
func (l *lister) measureAll() {
	counted := map[file]bool{}
	for i := range l.entries {
		e := &l.entries[i]
		own := map[file]uint64{}
		for _, x := range e.files {
			own[x.file]++
		}
		for _, x := range e.files {
			if x.file == (file{}) { // which nobody can tell from others
				e.Size, e.Freed = e.Size+x.bytes, e.Freed+x.bytes
				continue
			}
			e.Linked = e.Linked || x.links > l.seen[x.file]
			if counted[x.file] {
				continue
			}
			counted[x.file] = true
			e.Size += x.bytes
			if x.links == own[x.file] {
				e.Freed += x.bytes
			}
		}
		e.files = nil
	}
}

// saved is what sharing saves: for each package, what all root modules but one
// have of it by links.
func (d *Dir) saved(entries []Entry, users users) int64 {
	var saved int64
	for _, e := range entries {
		sharing := 0
		for _, providers := range users.installed[e.ID.Path()] {
			mode := d.workdir("", providers).linked(sources.Stored{ID: e.ID, Dir: e.Dir, H1: e.H1}, e.marks)
			if mode != "" && mode != sources.LinkCopy && e.marks != nil {
				sharing++
			}
		}
		saved += int64(max(sharing-1, 0)) * e.Size
	}
	return saved
}

func (l *lister) find(kind FindingKind, at, text string) {
	l.findings = append(l.findings, Finding{Kind: kind, Path: at, Text: text})
}

// findIn is find for what is at rel in a package.
func (l *lister) findIn(id sources.PackageID, kind FindingKind, rel, text string) {
	at := path.Join(id.Path(), filepath.ToSlash(rel))
	l.findings = append(l.findings, Finding{Kind: kind, Path: at, Package: &id, Text: text})
}
