package cachedir

import (
	"cmp"
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
	"github.com/larder-cli/larder/sources/store"
)

// An Entry is a package in the cache as found on disk, with or without a record,
// intact or not.
type Entry struct {
	ID     sources.PackageID
	Dir    string
	Target string    // target of the link, if the entry is a symlink
	Size   int64     // bytes on disk
	Freed  int64     // bytes on disk that removing the entry would free: those of files without other links
	Linked bool      // whether files of the entry also have links elsewhere
	Kept   bool      // whether a user wants the entry to stay, see [Dir.Keep]
	Used   time.Time // last recorded use
	Roots  []string  // directories of the root modules that use the entry

	// These are set by [Dir.Verify].
	H1       sources.Hash   // empty if unknown
	Origin   string         // empty if unknown
	Report   sources.Report // what was proved about the package is worth
	Evidence bool           // whether its evidence is kept
	Changed  bool           // the contents differ from the verified ones

	marks []mark // nil for a symlink
}

// A Listing describes the contents of a cache.
type Listing struct {
	Entries  []Entry          // sorted by provider, version and platform
	Findings []*store.Finding // files that do not belong in a cache
	Roots    []Root           // known root modules
	Unclear  []error          // why it is unknown which packages some root modules use

	stale []string // what this user has registered of root modules and packages that no longer exist
	users users
}

// ListOptions configure a listing.
type ListOptions struct {
	Roots  []Root     // additional root modules, besides the registered ones
	Locked LockReader // nil to ignore lock files
}

// List describes the contents of the cache, including those of other programs. It
// changes nothing but records.
func (d *Dir) List(ctx context.Context, opts ListOptions) (*Listing, error) {
	l := &lister{Dir: d, Listing: &Listing{users: users{}}}
	if d.tree != nil {
		root := d.root + string(filepath.Separator) // the cache may be a link
		err := filepath.WalkDir(root, func(full string, e fs.DirEntry, err error) error {
			at, _ := filepath.Rel(d.root, full) // which can't fail for what is below it
			return cmp.Or(ctx.Err(), l.visit(filepath.ToSlash(at), e, err))
		})
		if err == nil {
			err = eachOf(ctx, l.Entries, l.examine)
		}
		if err != nil {
			return nil, err
		}
		l.Entries = slices.DeleteFunc(l.Entries, func(e Entry) bool { return e.Dir == "" })
	}
	slices.SortFunc(l.Entries, func(a, b Entry) int { return a.ID.Compare(b.ID) })
	slices.SortStableFunc(l.Findings, func(a, b *store.Finding) int { return strings.Compare(a.Path, b.Path) })
	registered, kept, stale, err := d.registered()
	if err != nil {
		return nil, fmt.Errorf("reading which root modules use the cache: %w", err)
	}
	if opts.Locked == nil {
		opts.Locked = func(string) (Selections, error) { return nil, nil }
	}
	l.findUsers(mergeRoots(registered, opts.Roots), opts.Locked)
	for i := range l.Entries {
		e := &l.Entries[i]
		e.Roots, e.Kept = l.users.of(e.ID), kept[e.ID.Path()]
		delete(kept, e.ID.Path())
	}
	l.stale = stale
	for at := range kept {
		if _, err := d.roots.Find(noProvider, at); err == nil {
			l.stale = append(l.stale, at)
		}
	}
	return l.Listing, ctx.Err()
}

// PackagesOf returns the IDs of the packages of a provider that [Dir.List] lists, and those in [Options].Under.
func (d *Dir) PackagesOf(ctx context.Context, p sources.Provider) (ids []sources.PackageID, _ error) {
	paths, err := below(filepath.Join(d.root, filepath.FromSlash(p.String())), platformDepth-typeDepth)
	for _, rel := range paths {
		at := path.Join(p.String(), rel)
		info, err := os.Stat(filepath.Join(d.root, filepath.FromSlash(at)))
		if id, ok := packageAt(at); ok && err == nil && info.IsDir() {
			ids = append(ids, id)
		}
	}
	if under := d.opts.Under; under != nil {
		more, underErr := under.PackagesOf(ctx, p)
		ids, err = append(ids, more...), errors.Join(err, underErr)
	}
	slices.SortFunc(ids, sources.PackageID.Compare)
	return slices.Compact(ids), err
}

// Users returns the number of root modules that use packages of the cache.
func (l *Listing) Users() int {
	users := map[string]bool{}
	for _, e := range l.Entries {
		for _, dir := range e.Roots {
			users[dir] = true
		}
	}
	return len(users)
}

// A lister walks the levels of a cache.
type lister struct {
	*Dir
	*Listing
	mu sync.Mutex // of the findings
}

// The depths below the cache directory.
const (
	hostDepth = iota
	_
	typeDepth
	versionDepth
	platformDepth
)

// visit visits a name in the cache. It collects the packages, which are examined later, and what does not belong there.
func (l *lister) visit(at string, e fs.DirEntry, err error) error {
	depth := strings.Count(at, "/")
	id, isPackage := packageAt(at)
	switch {
	case at == ".":
		return err
	case errors.Is(err, fs.ErrNotExist): // removed meanwhile
	case err != nil:
		l.note(store.Unreadable, at, sources.Text(err))
	case strings.HasPrefix(e.Name(), "."), depth == hostDepth && disk.MadeBySystem(e.Name()),
		depth == platformDepth && isTofuLock(e):
		return skip(e)
	case disk.IsLink(e.Type()):
		l.visitLink(at)
	case isPackage && e.IsDir():
		l.Entries = append(l.Entries, Entry{ID: id, Dir: l.entry(id)})
		return fs.SkipDir
	case !e.IsDir() && depth == hostDepth:
		l.note(Stranger, at, "not the directory of a registry's host")
	case !e.IsDir():
		l.note(NoDirectory, at, "a file where a directory should be")
	case depth == platformDepth || !canonical(at):
		l.note(Stranger, at, "not a name used in a cache")
		return fs.SkipDir
	}
	return nil
}

// skip leaves out a name, and what is below it.
func skip(e fs.DirEntry) error {
	if e.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// isTofuLock reports whether a file is OpenTofu's lock for a package.
func isTofuLock(e fs.DirEntry) bool {
	platform, ok := strings.CutSuffix(e.Name(), ".lock")
	_, err := sources.ParsePlatform(platform)
	return ok && err == nil && e.Type().IsRegular()
}

// packageAt returns the package at a path in a cache, if the path has the spelling that Larder and the engines use.
func packageAt(at string) (id sources.PackageID, ok bool) {
	parts := strings.Split(at, "/")
	if len(parts) != platformDepth+1 {
		return id, false
	}
	p, providerErr := sources.ParseStoredProvider(path.Join(parts[:versionDepth]...))
	v, versionErr := sources.ParseVersion(parts[versionDepth])
	platform, platformErr := sources.ParsePlatform(parts[platformDepth])
	id = sources.PackageID{Provider: p, Version: v, Platform: platform}
	return id, providerErr == nil && versionErr == nil && platformErr == nil && id.Path() == at
}

// canonical reports whether a path may be that of a package, or of a directory above packages.
func canonical(at string) bool {
	example := []string{"example.com", "a", "a", "1.0.0", "linux_amd64"}
	_, ok := packageAt(path.Join(at, path.Join(example[strings.Count(at, "/")+1:]...)))
	return ok
}

// visitLink examines a link without following it, except to find out what it leads to.
func (l *lister) visitLink(at string) {
	full := filepath.Join(l.root, filepath.FromSlash(at))
	target, err := os.Readlink(full)
	if err != nil {
		return // removed meanwhile
	}
	info, err := os.Stat(full)
	if err != nil {
		l.note(Dangling, at, "a link to "+target+", which does not exist")
		return
	}
	if id, ok := packageAt(at); ok && info.IsDir() {
		l.Entries = append(l.Entries, Entry{ID: id, Dir: full, Target: target, Used: info.ModTime()})
	}
	l.note(Elsewhere, at, "a link to "+target)
}

// eachOf calls do for each entry, for several at a time. The error is that of ctx.
func eachOf(ctx context.Context, entries []Entry, do func(*Entry)) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for part := range slices.Chunk(entries, 64) {
		g.Go(func() error {
			for i := range part {
				do(&part[i])
			}
			return ctx.Err()
		})
	}
	return g.Wait()
}

// examine completes the entry of a package, unless it is a link. It has no Dir any more if it was removed meanwhile.
func (l *lister) examine(e *Entry) {
	if e.Target != "" {
		return
	}
	var links []string
	var err error
	whileReplaced(e.Dir, func() error {
		e.Size, e.Freed, e.Linked, links = 0, 0, false, nil
		e.marks, err = scanEach(e.Dir, func(full string, info fs.FileInfo) {
			x := disk.UsageOf(full, info)
			if e.Size += x.Bytes; x.Links > 1 {
				e.Linked = true
			} else {
				e.Freed += x.Bytes
			}
			if disk.IsLink(info.Mode()) {
				links = append(links, full)
			}
		})
		return err
	})
	if errors.Is(err, fs.ErrNotExist) && gone(e.Dir) {
		e.Dir = ""
		return
	}
	if err == nil {
		_, err = executableOf(e.marks, e.ID)
	}
	for _, full := range links {
		l.visitInner(e, full)
	}
	e.Used = l.lastUse(e.ID)
	switch {
	case errors.Is(err, sources.ErrNotFound) || errors.Is(err, archive.ErrNoExecutable):
		l.note(store.Broken, e.ID.Path(), sources.Text(err))
	case err != nil:
		l.note(store.Unreadable, e.ID.Path(), sources.Text(err))
	}
}

// executableOf returns the name of the file of a package that engines run.
func executableOf(marks []mark, id sources.PackageID) (string, error) {
	var c sources.Contents
	for _, m := range marks {
		c.Files = append(c.Files, sources.File{Path: m.Path})
	}
	return archive.ExecutableIn(c, id.Provider.Type)
}

// checkExecutable returns an error if engines could not start the package id in dir.
func checkExecutable(dir string, marks []mark, id sources.PackageID) error {
	name, err := executableOf(marks, id)
	if err != nil {
		return err
	}
	return archive.CheckExecutable(dir, name, id)
}

// visitInner examines a link in a package.
func (l *lister) visitInner(e *Entry, full string) {
	at := e.ID.Path() + filepath.ToSlash(strings.TrimPrefix(full, e.Dir))
	real, err := disk.Resolve(full)
	if err != nil {
		l.note(Dangling, at, "a broken link")
		return
	}
	within, err := disk.Resolve(e.Dir)
	if err != nil || !isBelow(within, real) {
		l.note(Elsewhere, at, "a link out of the package, to "+real)
	}
}

// note adds a finding about a path, which is about a package if the path leads to one, or into it.
func (l *lister) note(kind store.Kind, at, text string) {
	f := &store.Finding{Kind: kind, Path: at, Err: errors.New(text)}
	parts := strings.Split(at, "/")
	if id, ok := packageAt(path.Join(parts[:min(len(parts), platformDepth+1)]...)); ok {
		f.Package = &id
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Findings = append(l.Findings, f)
}
