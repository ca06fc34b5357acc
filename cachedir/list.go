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

// An Entry is a package in the cache as found on disk, with or without a record,
// intact or not.
type Entry struct {
	ID     sources.PackageID
	Dir    string
	Target string       // target of the link, if the entry is a symlink
	Size   int64        // bytes on disk, without files that an earlier entry shares
	Freed  int64        // bytes on disk that removing the entry would free: those of files without other links
	Linked bool         // whether files of the entry also have links outside the cache
	Used   time.Time    // last recorded use
	H1     sources.Hash // empty if unknown
	ZH     sources.Hash // of the archive; empty if unknown
	Origin string       // empty if unknown
	Roots  []string     // directories of the root modules that use the entry

	// These are set if requested in [ListOptions].
	Report   sources.Report // what was proved about the package is worth
	Evidence bool           // whether its evidence is kept
	Changed  bool           // the contents differ from the verified ones

	marks []mark // nil for a symlink
	files []extent
}

// A Listing describes the contents of a cache.
type Listing struct {
	Entries  []Entry   // sorted by provider, version and platform
	Findings []Finding // files that do not belong in a cache
	Roots    []Root    // known root modules
	Unclear  []error   // why it is unknown which packages some root modules use
	Saved    int64     // bytes on disk that root modules save by sharing files with the cache

	stale []string // registrations of root modules that no longer exist
}

// ListOptions configure a listing.
type ListOptions struct {
	Roots  []Root     // additional root modules, besides the registered ones
	Locked LockReader // nil to ignore lock files

	// Proofs determines what was proved about the entries. Hash also hashes those whose
	// files have changed since they were recorded, and records the hashes, as
	// [Dir.Get] does.
	Proofs, Hash bool
}

// A file identifies a file on this machine.
type file struct{ inode, device uint64 }

// An extent is the disk usage of a file.
type extent struct {
	file  file
	bytes int64
	links uint64 // number of hard links
}

// List describes the contents of the cache, including those of other programs. It
// changes nothing but records.
func (d *Dir) List(ctx context.Context, opts ListOptions) (*Listing, error) {
	l := &lister{Dir: d, ctx: ctx, opts: opts, seen: map[file]uint64{}, places: d.places()}
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

// PackagesOf returns the IDs of the packages of a provider that [Dir.List] lists.
func (d *Dir) PackagesOf(ctx context.Context, p sources.Provider) ([]sources.PackageID, error) {
	if d.tree == nil {
		return nil, nil
	}
	return packagesIn(ctx, d.root, p)
}

// packagesIn returns the IDs of the packages of a provider in a directory with the
// layout of a cache, sorted.
func packagesIn(ctx context.Context, root string, p sources.Provider) ([]sources.PackageID, error) {
	l := &lister{Dir: &Dir{root: root}, ctx: ctx}
	if err := l.level(p.String(), versionDepth); err != nil {
		return nil, err
	}
	var ids []sources.PackageID
	for _, at := range slices.Concat(l.packages...) {
		ids = append(ids, idOf(at))
	}
	for _, link := range l.entries {
		ids = append(ids, link.ID)
	}
	slices.SortFunc(ids, sources.PackageID.Compare)
	return ids, nil
}

// mergeRoots merges both lists without duplicates.
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

// A lister walks the levels of a cache.
type lister struct {
	*Dir
	ctx      context.Context
	opts     ListOptions
	packages [][]string // paths of possible packages, grouped by version
	entries  []Entry
	findings []Finding
	seen     map[file]uint64 // number of links in the cache for each file
	places   []string        // see [Dir.places]
}

// The depths below the cache directory.
const (
	hostDepth = iota
	_
	typeDepth
	versionDepth
	platformDepth
)

// level examines the contents of a directory at the given depth below the cache.
func (l *lister) level(rel string, depth int) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	names, err := os.ReadDir(filepath.Join(l.root, filepath.FromSlash(rel)))
	if errors.Is(err, fs.ErrNotExist) && rel != "" {
		return nil // removed meanwhile
	}
	if err != nil && rel != "" {
		l.note(Unreadable, rel, err.Error())
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

// name examines one name in a cache.
func (l *lister) name(at string, e fs.DirEntry, siblings []fs.DirEntry, depth int) error {
	if e.Type()&fs.ModeSymlink != 0 {
		l.symlink(at, depth)
		return nil
	}
	switch {
	case depth == hostDepth && disk.MadeBySystem(e.Name()):
	case !e.IsDir() && depth == hostDepth:
		l.note(Stranger, at, "not the directory of a registry's host")
	case !e.IsDir():
		l.note(NoDirectory, at, "a file where a directory should be")
	case !canonical(at, depth):
		if twin, ok := twinOf(e.Name(), siblings); ok {
			l.note(Collision, at, fmt.Sprintf("differs from %s only in case", twin))
			return nil
		}
		l.note(Stranger, at, "not a name used in a cache")
	case depth < platformDepth:
		return l.level(at, depth+1)
	default:
		last := len(l.packages) - 1
		l.packages[last] = append(l.packages[last], at)
	}
	return nil
}

// canonical reports whether a path has the spelling that Larder and the engines use.
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
	return strings.ToLower(name) == name // a namespace; it is checked together with its type
}

// twinOf returns a sibling whose name differs from name only in case.
func twinOf(name string, siblings []fs.DirEntry) (string, bool) {
	for _, s := range siblings {
		if s.Name() != name && strings.EqualFold(s.Name(), name) {
			return s.Name(), true
		}
	}
	return "", false
}

// symlink examines a symlink without following it, except to check that its target
// exists.
func (l *lister) symlink(at string, depth int) {
	full := filepath.Join(l.root, filepath.FromSlash(at))
	target, err := os.Readlink(full)
	if err != nil {
		return // removed meanwhile
	}
	info, err := os.Stat(full)
	switch {
	case err != nil && depth == platformDepth && canonical(at, depth):
		l.noteIn(idOf(at), Dangling, "", "a link to "+target+", which does not exist")
		return
	case err != nil:
		l.note(Dangling, at, "a link to "+target+", which does not exist")
		return
	case depth == platformDepth && info.IsDir() && canonical(at, depth):
		l.noteIn(idOf(at), Elsewhere, "", "a link to "+target)
		l.entries = append(l.entries, Entry{ID: idOf(at), Dir: full, Target: target, Used: info.ModTime()})
		return
	}
	l.note(Elsewhere, at, "a link to "+target)
}

// idOf returns the package at a canonical path.
func idOf(at string) sources.PackageID {
	parts := strings.Split(at, "/")
	// Parsing succeeds because the path is canonical.
	p, _ := sources.ParseStoredProvider(path.Join(parts[:3]...))
	v, _ := sources.ParseVersion(parts[3])
	platform, _ := sources.ParsePlatform(parts[4])
	return sources.PackageID{Provider: p, Version: v, Platform: platform}
}

// lookAtAll examines the packages, several versions at a time.
func (l *lister) lookAtAll() error {
	versions := make([]*lister, len(l.packages))
	g, ctx := errgroup.WithContext(l.ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, packages := range l.packages {
		versions[i] = &lister{Dir: l.Dir, ctx: ctx, opts: l.opts, places: l.places}
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

// A release holds data that the packages of a version share.
type release struct {
	records  func() (*disk.Dir, error) // opens the directory of their records
	evidence func() (*sources.Signed, error)
}

// version examines the packages of a version.
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
		id.Platform, _ = sources.ParsePlatform(path.Base(at)) // succeeds because the name is canonical
		l.entry(id, of)
	}
	if l.state != nil {
		if records, err := of.records(); err == nil {
			records.Close()
		}
	}
}

// entry examines a package.
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
		sizeErr = l.extents(&e) // of all files, because scanning stopped at the failing one
	} else {
		_, err = executableOf(marks, id)
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
	e.Used = lastUse(e, l.lastRecorded(id, r.used))
	if err == nil && l.opts.Hash && !(recordErr == nil && slices.Equal(r.Files, marks)) {
		r, recordErr = l.rehash(id, e)
	}
	if recordErr == nil && slices.Equal(r.Files, marks) {
		e.H1, e.ZH, e.Origin, e.Changed = r.H1, r.ZH, r.Origin, r.was != nil
		if l.opts.Proofs {
			proof, signed := l.proofBy(id, r, of.evidence)
			e.Report, e.Evidence = l.Dir.opts.Judge.Report(id.Provider, proof), signed != nil
			_, runErr := checkExecutable(e.Dir, marks, id)
			e.Changed = e.Changed || runErr != nil
		}
	}
	if errors.Is(err, sources.ErrNotFound) || errors.Is(err, archive.ErrNoExecutable) {
		l.noteIn(id, Incomplete, "", err.Error())
	} else if i := slices.IndexFunc([]error{err, recordErr, sizeErr}, disk.IsUnread); i >= 0 {
		l.noteIn(id, Unreadable, "", []error{err, recordErr, sizeErr}[i].Error())
	}
	l.entries = append(l.entries, e)
}

// lastRecorded returns the last use of an entry that any user has recorded. used is
// that of this user.
func (l *lister) lastRecorded(id sources.PackageID, used time.Time) time.Time {
	for _, at := range l.places {
		if at == l.own {
			continue
		}
		if info, err := l.common.Lstat(at + recordPath(id)); err == nil && info.ModTime().After(used) {
			used = info.ModTime()
		}
	}
	return used
}

// rehash returns the record of an entry whose files have changed since they were
// recorded. Nothing was proved about an entry without any record, so it is not hashed.
func (l *lister) rehash(id sources.PackageID, e Entry) (record, error) {
	_, err := l.tryRecord(recordPath(id))
	if err != nil && !disk.IsUnread(err) {
		_, err = l.tryRecord(knownPath(id))
	}
	if err != nil {
		return record{}, err
	}
	times := readTimes(e)
	defer times.restore()
	return l.find(l.ctx, id, e.Dir, recordPath(id))
}

// executableOf returns the name of the file of a package that engines run.
func executableOf(marks []mark, id sources.PackageID) (string, error) {
	var c sources.Contents
	for _, m := range marks {
		c.Files = append(c.Files, sources.File{Path: m.Path})
	}
	return archive.ExecutableIn(c, id.Provider.Type)
}

// checkExecutable returns the name of the file in dir, the package id, that engines
// run, and an error if they could not start it.
func checkExecutable(dir string, marks []mark, id sources.PackageID) (name string, err error) {
	if name, err = executableOf(marks, id); err == nil {
		err = archive.CheckExecutable(dir, name, id)
	}
	return name, err
}

// lastUse returns when a package was last used. That is the recorded time or, without
// a record, the time of its last change. An access time of the files that is later
// counts.
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

// extents measures the disk usage of the files of e and finds links that lead out of
// the cache.
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

// inner examines a symlink in a package.
func (l *lister) inner(e *Entry, full string) {
	rel, err := filepath.Rel(e.Dir, full)
	if err != nil {
		return
	}
	real, err := filepath.EvalSymlinks(full)
	if err != nil {
		l.noteIn(e.ID, Dangling, rel, "a broken link")
		return
	}
	within, err := filepath.EvalSymlinks(e.Dir)
	if out, relErr := filepath.Rel(within, real); err != nil || relErr != nil || !filepath.IsLocal(out) {
		l.noteIn(e.ID, Elsewhere, rel, "a link out of the package, to "+real)
	}
}

// measureAll adds up the disk usage of the entries.
func (l *lister) measureAll() {
	counted := map[file]bool{}
	for i := range l.entries {
		e := &l.entries[i]
		own := map[file]uint64{}
		for _, x := range e.files {
			own[x.file]++
		}
		for _, x := range e.files {
			if x.file == (file{}) { // the file has no identity
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

// saved returns the bytes that sharing saves: for each package, the bytes of its
// links in all root modules but one.
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

func (l *lister) note(kind FindingKind, at, text string) {
	l.findings = append(l.findings, Finding{Kind: kind, Path: at, Text: text})
}

// noteIn is note for the path rel in a package.
func (l *lister) noteIn(id sources.PackageID, kind FindingKind, rel, text string) {
	at := path.Join(id.Path(), filepath.ToSlash(rel))
	l.findings = append(l.findings, Finding{Kind: kind, Path: at, Package: &id, Text: text})
}
