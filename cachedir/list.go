package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

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
	Evidence bool            // whether what vouches for it is kept
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
	Roots  []Root     // known besides those that are registered
	Locked LockReader // nil if lock files do not count
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
	l := &lister{Dir: d, ctx: ctx, seen: map[file]uint64{}}
	if d.tree != nil {
		if err := l.level("", 0); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(l.entries, func(a, b Entry) int { return a.ID.Compare(b.ID) })
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
	listing.Saved = d.saved(listing)
	return listing, ctx.Err()
}

// mergeRoots are all roots, each once.
func mergeRoots(registered, found []Root) []Root {
	known := slices.Clone(registered)
	for _, r := range found {
		same := func(k Root) bool { return k.Dir == r.Dir && k.Providers == r.Providers }
		if !slices.ContainsFunc(known, same) {
			known = append(known, r)
		}
	}
	return known
}

// A lister walks through the levels of a cache.
type lister struct {
	*Dir
	ctx      context.Context
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
		l.find(Stranger, at, "no directory of a registry's host")
	case !e.IsDir():
		l.find(NoDirectory, at, "a file where a directory should be")
	case !canonical(at, depth):
		if twin, ok := twinOf(e.Name(), siblings); ok {
			l.find(Collision, at, fmt.Sprintf("differs from %s only in case", twin))
			return nil
		}
		l.find(Stranger, at, "no name that a cache has")
	case depth < platformDepth:
		return l.level(at, depth+1)
	default:
		l.entry(at)
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
		p, err := sources.ParseProvider(at, sources.Terraform)
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
		l.findIn(idOf(at), Dangling, "", "a link to "+target+", which is not there")
		return
	case err != nil:
		l.find(Dangling, at, "a link to "+target+", which is not there")
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
	p, _ := sources.ParseProvider(path.Join(parts[:3]...), sources.Terraform)
	v, _ := sources.ParseVersion(parts[3])
	platform, _ := sources.ParsePlatform(parts[4])
	return sources.PackageID{Provider: p, Version: v, Platform: platform}
}

// entry looks at a package.
func (l *lister) entry(at string) {
	id := idOf(at)
	e := Entry{ID: id, Dir: l.Dir.entry(id)}
	marks, err := scan(e.Dir)
	if errors.Is(err, fs.ErrNotExist) && gone(e.Dir) {
		return
	}
	if err == nil {
		_, err = archive.Executable(e.Dir, id.Provider.Type)
	}
	e.marks = marks
	r, recordErr := l.tryRecord(recordPath(id))
	if recordErr == nil && slices.Equal(r.Files, marks) {
		e.H1, e.ZH, e.Verdict, e.Origin = r.H1, r.ZH, r.Verdict, r.Origin
		e.Evidence = l.evidenceOf(id, r) != nil
	}
	e.Used = lastUse(e, r.used)
	sizeErr := l.extents(&e)
	if errors.Is(err, sources.ErrNotFound) || errors.Is(err, archive.ErrNoExecutable) {
		l.findIn(id, Incomplete, "", err.Error())
	} else if i := slices.IndexFunc([]error{err, recordErr, sizeErr}, disk.IsUnread); i >= 0 {
		l.findIn(id, Unreadable, "", []error{err, recordErr, sizeErr}[i].Error())
	}
	l.entries = append(l.entries, e)
}

func gone(dir string) bool {
	_, err := os.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// lastUse is when a package was last used: as recorded, or else when it was changed,
// or later, when an engine read it.
func lastUse(e Entry, recorded time.Time) time.Time {
	last := recorded
	if info, err := os.Stat(e.Dir); err == nil && last.IsZero() {
		last = info.ModTime()
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
		x := extentOf(full, info)
		e.files = append(e.files, x)
		l.seen[x.file]++
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
		l.findIn(e.ID, Dangling, rel, "a link that leads nowhere")
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
	}
}

// saved is what sharing saves: for each package, what all root modules but one
// have of it by links.
func (d *Dir) saved(l *Listing) int64 {
	var saved int64
	for _, e := range l.Entries {
		sharing := 0
		for _, r := range l.Roots {
			mode := d.workdir(r.Dir, r.Providers).linked(sources.Stored{ID: e.ID, Dir: e.Dir, H1: e.H1}, e.marks)
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
