package builder

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// A Change is a document of the index that was written or removed.
type Change struct {
	Path    string // relative to the mirror, with forward slashes
	Removed bool
}

// A DamagedError reports archives in a mirror that are damaged. Everything else was done.
type DamagedError struct {
	Packages []error // the reason for each, with the package
}

func (e *DamagedError) Error() string { return errors.Join(e.Packages...).Error() }

// Unwrap returns an error for each package.
func (e *DamagedError) Unwrap() []error { return e.Packages }

// Finish makes the index match the archives, and returns when everything is on the
// disk. It keeps the entries of damaged archives, for which it returns a [DamagedError], and
// entries that refer to files outside the mirror's layout.
func (b *Builder) Finish(ctx context.Context) error {
	_, leftOut, err := b.index(ctx, keepOthers)
	if err == nil && len(leftOut) > 0 {
		err = &DamagedError{leftOut}
	}
	return err
}

// Complete is [Builder.Finish] if an earlier process was killed before it finished.
// Otherwise it changes nothing.
func (b *Builder) Complete(ctx context.Context) error {
	b.mu.Lock()
	changed := b.changed
	b.mu.Unlock()
	if !changed {
		return nil
	}
	return b.Finish(ctx)
}

// Index is [Builder.Finish], except that it also removes entries of damaged archives, and those
// that refer to files outside the mirror's layout. It returns the changes it made, or would make with
// Options.ReadOnly, and the reasons for which archives were left out.
func (b *Builder) Index(ctx context.Context) (changes []Change, leftOut []error, err error) {
	return b.index(ctx, dropOthers)
}

// A keeping determines whether the index keeps entries of damaged archives, and those that name
// no package in the mirror's layout.
type keeping bool

const (
	keepOthers keeping = true
	dropOthers keeping = false
)

func (b *Builder) index(ctx context.Context, keep keeping) (changes []Change, leftOut []error, err error) {
	if err := b.busy.Acquire(ctx, everything); err != nil {
		return nil, nil, err
	}
	defer b.busy.Release(everything)
	found, err := b.survey(ctx, nil)
	if err != nil {
		return nil, nil, err
	}
	leftOut = found.leftOut
	steps, err := b.planIndex(found, keep)
	if b.opts.ReadOnly {
		return b.changes(steps), leftOut, err
	}
	if err = errors.Join(err, b.apply(ctx, steps)); err != nil { // the next run writes the other documents
		return nil, leftOut, disk.Explain(errors.Join(err, b.dir.SyncDirs(ctx)), b.opts.Place)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes(steps), leftOut, disk.Explain(b.settle(ctx), b.opts.Place)
}

// Indexed reports whether the index names a package.
func (b *Builder) Indexed(id sources.PackageID) bool {
	_, ok := b.readDocument(b.document(b.home(id.Provider), id.Version)).Archives[id.Platform.String()]
	return ok
}

func (b *Builder) changes(steps []step) []Change {
	var changes []Change
	for _, s := range steps {
		changes = append(changes, Change{b.relative(s.path), s.text == nil})
	}
	return changes
}

// An indexed archive is one that belongs in the index.
type indexed struct {
	spot
	record
}

// A survey is the input for building the index.
type survey struct {
	archives []indexed           // belong in the index
	leftOut  []error             // why other archives do not belong in it
	damaged  []sources.PackageID // these archives
	paths    map[string]bool     // of all packages in the mirror's layout
	dropped  map[string]bool     // paths of documents, each with a platform, whose entries are removed wherever they lead

	unread map[string]error // why the documents of a directory have to stay as they are
}

// survey finds the archives that belong in the index: all except those in without and
// those that cannot be read.
func (b *Builder) survey(ctx context.Context, without map[spot]bool) (found survey, err error) {
	packages, err := b.packages(ctx)
	if err != nil {
		return found, err
	}
	found.paths, found.unread, found.dropped = map[string]bool{}, map[string]error{}, map[string]bool{}
	for at := range without {
		for _, home := range b.homes(at.id.Provider) {
			found.dropped[filepath.Join(b.document(home, at.id.Version), at.id.Platform.String())] = !at.unpacked
		}
	}
	for _, pkg := range packages {
		found.paths[folded(spotOf(pkg).path)] = true
	}
	for _, at := range b.packed(packages, without) {
		r, err := b.look(ctx, at)
		switch {
		case ctx.Err() != nil:
			return found, ctx.Err()
		case disk.IsUnread(err):
			for _, home := range b.homes(at.id.Provider) { // the index entry may be correct
				found.unread[home] = sources.InPackage(at.id, err)
			}
		case err == nil && r.differs == "":
			found.archives = append(found.archives, indexed{at, r})
		default:
			if err == nil {
				err = &ChangedError{Was: r.differs, Is: cmp.Or(r.ZH, r.H1)}
			}
			found.leftOut = append(found.leftOut, sources.InPackage(at.id, err))
			found.damaged = append(found.damaged, at.id)
		}
	}
	return found, nil
}

// packed returns one archive for each package. If there are several, it prefers the
// one with the standard name, and then the one that engines use.
func (b *Builder) packed(packages []fsmirror.Package, without map[spot]bool) []spot {
	chosen := map[sources.PackageID]int{}
	var spots []spot
	for _, pkg := range packages {
		at := spotOf(pkg)
		i, ok := chosen[pkg.ID]
		switch {
		case at.unpacked || without[at]:
		case !ok:
			chosen[pkg.ID] = len(spots)
			spots = append(spots, at)
		case at == b.place(pkg.ID, false):
			spots[i] = at
		}
	}
	return spots
}

func spotOf(pkg fsmirror.Package) spot {
	if pkg.Location.Archive != "" {
		return spot{pkg.ID, false, pkg.Location.Archive}
	}
	return spot{pkg.ID, true, pkg.Location.Dir}
}

// A step is a change to one document.
type step struct {
	path string
	text []byte // nil to remove it
}

// documents are the documents of one directory, by version.
type documents map[string]fsmirror.Document

// planIndex plans the changes after which the index names the archives found. If keep
// is false, it then names nothing else. The index is correct after each step. The error
// is about directories whose documents have to stay as they are.
func (b *Builder) planIndex(found survey, keep keeping) ([]step, error) {
	there, err := b.readShelves()
	if err != nil {
		return nil, err
	}
	wanted := map[string]documents{} // by directory
	for _, a := range found.archives {
		for _, home := range b.homes(a.id.Provider) {
			if wanted[home] == nil {
				wanted[home] = documents{}
			}
			entry, err := a.entry(home)
			if err == nil {
				err = b.add(wanted[home], a.id, entry)
			}
			if err != nil {
				found.unread[home] = err
			}
		}
	}
	if keep {
		for _, id := range append(found.damaged, b.doubted...) {
			if err := b.addDamaged(wanted, id, there); err != nil {
				return nil, err
			}
		}
		for home, docs := range there {
			if err := b.addElsewhere(wanted, home, docs, found); err != nil {
				found.unread[home] = err
			}
		}
	}
	homes := slices.Sorted(maps.Keys(wanted))
	same := map[string]bool{} // directories that a case-insensitive file system may not distinguish
	for _, home := range homes {
		same[folded(home)] = true
	}
	for _, home := range slices.Sorted(maps.Keys(there)) {
		if !same[folded(home)] {
			homes = append(homes, home)
		}
	}
	var steps []step
	var errs []error
	for _, home := range slices.Sorted(maps.Keys(found.unread)) {
		errs = append(errs, found.unread[home])
	}
	for _, home := range homes {
		if found.unread[home] != nil {
			continue
		}
		more, err := planHome(home, wanted[home], there[home])
		errs, steps = append(errs, err), append(steps, more...)
	}
	return steps, errors.Join(errs...)
}

// add adds an archive to its document, which also names the evidence.
func (b *Builder) add(to documents, id sources.PackageID, entry fsmirror.Archive) error {
	v := id.Version.String()
	if to[v].Archives == nil {
		larder, err := b.extension(id.Provider, id.Version)
		if err != nil {
			return sources.InPackage(id, err)
		}
		to[v] = fsmirror.Document{Archives: map[string]fsmirror.Archive{}, Larder: larder}
	}
	to[v].Archives[id.Platform.String()] = entry
	return nil
}

// addDamaged adds the current entry of a damaged archive. Clients refuse the archive, and without the
// entry they would choose another version.
func (b *Builder) addDamaged(to map[string]documents, id sources.PackageID, there map[string]shelf) error {
	v, platform := id.Version.String(), id.Platform.String()
	for _, home := range b.homes(id.Provider) {
		entry, ok := there[home][v+".json"].Archives[platform]
		if _, replaced := to[home][v].Archives[platform]; !ok || replaced {
			continue
		}
		if to[home] == nil {
			to[home] = documents{}
		}
		if err := b.add(to[home], id, entry); err != nil {
			return err
		}
	}
	return nil
}

// addElsewhere adds the current entries of a directory's documents for other platforms and
// versions, and those that name no package in the mirror's layout: an archive on
// another server, or in a directory outside the layout.
func (b *Builder) addElsewhere(to map[string]documents, home string, there shelf, found survey) error {
	for name, doc := range there {
		version, ok := fsmirror.VersionOf(name)
		v := version.String()
		if ok && disk.IsUnread(doc.err) {
			return doc.err
		}
		for platform, entry := range doc.Archives {
			path := filepath.Join(home, name)
			_, ours := to[home][v].Archives[platform]
			if ours || found.dropped[filepath.Join(path, platform)] || !b.leadsElsewhere(path, entry.URL, found.paths) {
				continue
			}
			if to[home] == nil {
				to[home] = documents{}
			}
			if to[home][v].Archives == nil {
				to[home][v] = fsmirror.Document{Archives: map[string]fsmirror.Archive{}}
			}
			to[home][v].Archives[platform] = entry
		}
	}
	return nil
}

// leadsElsewhere reports whether a URL in a document refers to another server, or to
// a file in the mirror that is not a package in the layout.
func (b *Builder) leadsElsewhere(doc, text string, paths map[string]bool) bool {
	path, ok := b.resolve(doc, text)
	if !ok {
		_, err := url.Parse(text)
		return err == nil && text != ""
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && !paths[folded(path)]
}

// entry returns the entry for an archive in a document of the directory home.
func (a indexed) entry(home string) (fsmirror.Archive, error) {
	rel, err := filepath.Rel(home, a.path)
	if err != nil {
		return fsmirror.Archive{}, err
	}
	hashes := []sources.Hash{a.H1, a.ZH}
	if a.ZipH1 != "" && a.ZipH1 != a.H1 {
		hashes = append(hashes, a.ZipH1) // engines compute this h1: hash from the archive
	}
	slices.Sort(hashes)
	return fsmirror.Archive{Hashes: hashes, URL: (&url.URL{Path: filepath.ToSlash(rel)}).String()}, nil
}

// planHome plans the documents of one directory.
func planHome(home string, wanted documents, there shelf) (steps []step, err error) {
	plan := func(name string, doc fsmirror.Document) error {
		text, err := doc.Text()
		if err == nil && !bytes.Equal(text, there[name].text) {
			steps = append(steps, step{filepath.Join(home, name), text})
		}
		return err
	}
	index := fsmirror.Document{Versions: map[string]struct{}{}}
	for _, v := range slices.Sorted(maps.Keys(wanted)) {
		index.Versions[v] = struct{}{}
		if err := plan(v+".json", wanted[v]); err != nil {
			return nil, err
		}
	}
	unwanted := []string{fsmirror.Index}
	if len(wanted) > 0 {
		unwanted = nil
		if err := plan(fsmirror.Index, index); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		v, ok := fsmirror.VersionOf(name)
		if _, stays := wanted[v.String()]; ok && !stays {
			unwanted = append(unwanted, name)
		}
	}
	for _, name := range unwanted {
		doc, ok := there[name]
		if disk.IsUnread(doc.err) {
			return nil, doc.err
		}
		if ok && (doc.err == nil || len(wanted) > 0) { // otherwise it may belong to another program
			steps = append(steps, step{path: filepath.Join(home, name)})
		}
	}
	return steps, nil
}

// apply writes the records, syncs the evidence, and then carries out the steps. After an error, it carries out those for
// other directories.
func (b *Builder) apply(ctx context.Context, steps []step) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writeRecords(ctx)
	errs := []error{b.writeRemovals()}
	if b.changed {
		sync := func(evidence *disk.Dir) error { return evidence.SyncTree(ctx) } // it was written without syncing
		if err := store.Within(b.own, "evidence", sync); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	failed := ""
	for _, s := range steps {
		if filepath.Dir(s.path) == failed {
			continue
		}
		err := b.change()
		switch {
		case err != nil:
		case s.text == nil:
			err = b.dir.Remove(b.relative(s.path))
		default:
			err = b.write(s.path, s.text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("writing the index: %w", err))
			failed = filepath.Dir(s.path)
			if disk.IsFull(err) {
				break
			}
		}
	}
	return errors.Join(errs...)
}

// change creates the file that marks unfinished changes. The caller holds b.mu.
func (b *Builder) change() error {
	if b.changed {
		return nil
	}
	f, err := b.own.Create(unsettled, 0o644)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	b.changed = true
	if f == nil {
		return nil
	}
	return f.Close()
}

// settle returns when everything is on the disk, and then removes the file that marks
// unfinished changes. All files have been synced before: packages
// and documents before their rename, evidence by [Builder.apply].
// The caller holds b.mu.
func (b *Builder) settle(ctx context.Context) error {
	if !b.changed {
		return nil
	}
	if err := b.dir.SyncDirs(ctx); err != nil {
		return err
	}
	b.changed = false
	return b.own.Remove(unsettled)
}
