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
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/store"
)

// A Change is a document of the index that was written or removed.
type Change struct {
	Path    string // relative to the mirror, with forward slashes
	Removed bool
	text    []byte // that is written
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
func (b *Builder) Finish(ctx context.Context) error { return b.finish(ctx, indexing{keep: true}) }

// FinishStored is [Builder.Finish] for the providers whose packages this process has stored, unless other processes
// have unfinished changes. In a mirror of thousands of packages, it is quick.
func (b *Builder) FinishStored(ctx context.Context) error {
	return b.finish(ctx, indexing{keep: true, stored: true})
}

func (b *Builder) finish(ctx context.Context, how indexing) error {
	p, err := b.index(ctx, how, b.opts.ReadOnly)
	if err == nil && len(p.leftOut) > 0 {
		err = &DamagedError{p.leftOut}
	}
	return err
}

// Index is [Builder.Finish], except that it also removes entries of damaged archives, and those that refer to files
// outside the mirror's layout. Contents requests the hash of the contents of every archive: otherwise, signed ones may
// lack it. It returns the changes it made, or would make if it is a dry run, and the reasons for
// which archives were left out.
func (b *Builder) Index(ctx context.Context, contents, dry bool) (changes []Change, leftOut []error, err error) {
	p, err := b.index(ctx, indexing{contents: contents}, dry)
	return p.steps, p.leftOut, err
}

// index plans the index, and carries out the plan unless it is a dry run. After an error, the plan has only the reasons
// for which archives were left out.
func (b *Builder) index(ctx context.Context, how indexing, dry bool) (*plan, error) {
	result := &plan{}
	err := b.update(ctx, how, func(p *plan, err error) error {
		if dry {
			result = p
			return err
		}
		result.leftOut = p.leftOut
		if err = errors.Join(err, b.apply(ctx, p)); err != nil { // the next run writes the other documents
			return errors.Join(err, b.syncDirs(ctx, p.only))
		}
		result = p
		return b.settle(ctx, p.only)
	})
	return result, disk.Explain(err, b.opts.Place)
}

// mostHashing is how often [Builder.update] hashes archives before it does so under the lock of the mirror.
const mostHashing = 5

// A looked is what was found out about an archive without the lock of the mirror.
type looked struct {
	record
	err      error
	mark     string // fingerprint of the archive
	contents bool
}

// update plans the index, and calls do with the plan while no other process changes the mirror. It hashes archives
// without a record before that, so that other processes don't wait for it, unless they add new ones all the time.
func (b *Builder) update(ctx context.Context, how indexing, do func(*plan, error) error) error {
	known := map[fsmirror.Package]looked{}
	for try := 0; ; try++ {
		var unknown []func()
		how.look = func(ctx context.Context, at fsmirror.Package, contents bool) (record, error) {
			now, _ := mark(at)
			if is, ok := known[at]; ok && is.mark == now && (is.contents || !contents) {
				return is.record, is.err
			}
			r, err := b.remembered(ctx, at, ListOptions{Contents: contents, Hash: try > mostHashing})
			if err == nil && r.Mark == "" {
				unknown = append(unknown, func() {
					r, err := b.look(ctx, at, contents)
					known[at] = looked{r, err, now, contents}
				})
			}
			return r, err
		}
		release, err := b.exclude(ctx)
		if err != nil {
			return err
		}
		p, err := b.plan(ctx, how)
		if len(unknown) == 0 || ctx.Err() != nil {
			defer release()
			return do(p, err)
		}
		release()
		for _, look := range unknown {
			look()
		}
	}
}

// Indexed reports whether the index names a package.
func (b *Builder) Indexed(id sources.PackageID) bool {
	_, ok := b.readDocument(document(home(id.Provider), id.Version)).Archives[id.Platform.String()]
	return ok
}

// A placed document is a document in the mirror.
type placed struct {
	fsmirror.Document
	text []byte
	err  error // why it is invalid; there is then no document
}

// documentNames returns the paths of the documents in each HOST/NAMESPACE/TYPE, including hosts in
// punycode. Other programs have files with these names too.
func (b *Builder) documentNames() (names []string, err error) {
	root := b.path + string(filepath.Separator) // the mirror may be a link
	return names, filepath.WalkDir(root, func(full string, e fs.DirEntry, err error) error {
		name := b.relative(full)
		depth := strings.Count(name, "/")
		switch {
		case err != nil:
			return fmt.Errorf("reading %s: %w", full, disk.Cause(err))
		case name == ".":
		case e.IsDir() && (depth > 2 || strings.HasPrefix(e.Name(), ".") || depth == 0 && !isHost(name)):
			return fs.SkipDir
		case depth == 3 && e.Type().IsRegular() && isDocument(e.Name()):
			names = append(names, name)
		}
		return nil
	})
}

func isHost(name string) bool {
	_, err := sources.ParsePunycodeHost(name)
	return err == nil
}

func isDocument(name string) bool {
	_, ok := fsmirror.VersionOf(name)
	return ok || name == fsmirror.Index
}

// readDocument reads a document. A link to it, or to a directory above it, is a [disk.StrayError].
func (b *Builder) readDocument(name string) (d placed) {
	if b.dir == nil {
		return placed{err: fs.ErrNotExist}
	}
	if d.text, _, d.err = b.dir.ReadFile(name, fsmirror.MaxDocument); d.err == nil {
		d.Document, d.err = fsmirror.ParseDocument(path.Base(name), d.text)
	}
	return d
}

// document returns the path of the document of a version in the directory of a provider.
func document(home string, v sources.Version) string { return home + "/" + v.String() + ".json" }

// A plan is how to make the index match the archives.
type plan struct {
	steps   []Change
	leftOut []error            // why archives in the mirror do not belong in the index
	only    []sources.Provider // that were surveyed; nil for all
}

// An indexing determines what the index names: all archives that can be read.
type indexing struct {
	without map[fsmirror.Package]bool // except these
	keep    bool                      // and present entries, of damaged archives and of no packages of the mirror

	contents bool // with the hash of the contents of each
	stored   bool // only in the directories that this process has changed, if no other one has changed any

	look func(_ context.Context, _ fsmirror.Package, contents bool) (record, error)
}

// plan plans the changes. The index is correct after each step. The error is about directories whose documents have to
// stay as they are.
func (b *Builder) plan(ctx context.Context, how indexing) (*plan, error) {
	p := &plan{}
	if how.stored && b.isMarked() && !b.changed[sources.Provider{}] {
		p.only = slices.Collect(maps.Keys(b.changed))
	}
	var errs []error
	err := b.survey(ctx, how, p.only, func(h *homeIndex) {
		steps, err := h.compare()
		p.steps, p.leftOut = append(p.steps, steps...), append(p.leftOut, h.leftOut...)
		errs = append(errs, err)
	})
	return p, errors.Join(append(errs, err)...)
}

// A homeIndex is the part of the index in the directory of one provider. On a case-sensitive file system, there may be
// several directories with its name.
type homeIndex struct {
	b        *Builder
	home     string             // relative to the mirror
	provider sources.Provider   // zero if the mirror knows none there
	names    []string           // of the documents
	archives []fsmirror.Package // that belong there
	stays    map[string]bool    // whether the entry of a package stays, by the paths of its documents and its platform

	there     map[string]placed            // by path
	want      map[string]fsmirror.Document // what the documents are to be, by path
	unread    map[string]error             // why the documents of a directory have to stay as they are
	leftOut   []error                      // see plan
	isPackage func(file string) bool       // reports whether a file is a package in the mirror's layout
}

// survey determines what the documents are and what they are to be, of some providers or of all. It examines one
// directory at a time, so only the documents of one are in memory.
func (b *Builder) survey(ctx context.Context, how indexing, only []sources.Provider, each func(*homeIndex)) error {
	all, err := b.homeIndexes(ctx, how.without)
	if only != nil {
		of := map[string]bool{}
		for _, p := range only {
			for _, home := range homes(p) {
				of[folded(home)] = true
			}
		}
		maps.DeleteFunc(all, func(name string, _ *homeIndex) bool { return !of[name] })
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		h := all[name]
		if err = h.read(ctx, how); err != nil {
			break
		}
		each(h)
		delete(all, name)
	}
	return err
}

// homeIndexes returns the directories with documents, or that are to have some, by their folded names.
func (b *Builder) homeIndexes(ctx context.Context, without map[fsmirror.Package]bool) (map[string]*homeIndex, error) {
	packages, err := b.packages(ctx)
	if err != nil {
		return nil, err
	}
	names, err := b.documentNames()
	if err != nil {
		return nil, err
	}
	paths := sync.OnceValue(func() map[string]bool {
		paths := map[string]bool{}
		for _, pkg := range packages {
			paths[folded(pkg.Path())] = true
		}
		return paths
	})
	all := map[string]*homeIndex{}
	in := func(home string, of sources.Provider) *homeIndex {
		h := all[folded(home)]
		if h == nil {
			h = &homeIndex{
				b: b, stays: map[string]bool{}, there: map[string]placed{}, want: map[string]fsmirror.Document{},
				unread: map[string]error{}, isPackage: func(file string) bool { return paths()[folded(file)] },
			}
			all[folded(home)] = h
		}
		h.home, h.provider = home, of
		return h
	}
	for _, name := range names {
		h := in(path.Dir(name), sources.Provider{})
		h.names = append(h.names, name)
	}
	stays := func(id sources.PackageID, stays bool) {
		for _, home := range homes(id.Provider) {
			in(home, id.Provider).setStays(id, stays)
		}
	}
	for _, id := range b.doubted {
		stays(id, true)
	}
	for at := range without {
		if !at.Unpacked() {
			stays(at.ID, false)
		}
	}
	for _, at := range b.packed(packages, without) {
		for _, home := range homes(at.ID.Provider) {
			h := in(home, at.ID.Provider)
			h.archives = append(h.archives, at)
		}
	}
	return all, nil
}

// setStays determines whether the entry of a package stays, wherever it leads.
func (h *homeIndex) setStays(id sources.PackageID, stays bool) {
	h.stays[document(h.home, id.Version)+"/"+id.Platform.String()] = stays
}

// read reads the documents, and determines what they are to be.
func (h *homeIndex) read(ctx context.Context, how indexing) error {
	for _, name := range h.names {
		h.there[name] = h.b.readDocument(name)
	}
	for _, at := range h.archives {
		contents := how.contents || !how.keep && sources.AnyOf(sources.H1, h.stated(at))
		r, err := how.look(ctx, at, contents)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		h.enter(at, r, err)
	}
	if how.keep {
		h.keepOthers()
	}
	h.complete()
	return nil
}

// complete adds the evidence to the documents of versions, and the lists of versions.
func (h *homeIndex) complete() {
	for _, name := range slices.Collect(maps.Keys(h.want)) {
		home, doc := path.Dir(name), h.want[name]
		v, _ := fsmirror.VersionOf(path.Base(name))
		if home == h.home && h.provider != (sources.Provider{}) {
			larder, err := h.b.extension(sources.Release{Provider: h.provider, Version: v})
			if err != nil {
				h.unread[home] = fmt.Errorf("%s: %w", name, err)
			}
			doc.Larder = larder
			h.want[name] = doc
		}
		index := home + "/" + fsmirror.Index
		if h.want[index].Versions == nil {
			h.want[index] = fsmirror.Document{Versions: map[string]struct{}{}}
		}
		h.want[index].Versions[v.String()] = struct{}{}
	}
	for name := range h.want {
		if _, ok := h.there[name]; !ok { // a case-insensitive file system may have it under another name
			if doc := h.b.readDocument(name); !errors.Is(doc.err, fs.ErrNotExist) {
				h.there[name] = doc
			}
		}
	}
}

// packed returns one archive for each package. If there are several, it prefers the
// one with the standard name, and then the one that engines use.
func (b *Builder) packed(packages []fsmirror.Package, without map[fsmirror.Package]bool) []fsmirror.Package {
	chosen := map[sources.PackageID]int{}
	var spots []fsmirror.Package
	for _, at := range packages {
		i, ok := chosen[at.ID]
		switch {
		case at.Unpacked() || without[at]:
		case !ok:
			chosen[at.ID] = len(spots)
			spots = append(spots, at)
		case at == b.place(at.ID, false):
			spots[i] = at
		}
	}
	return spots
}

// add adds an entry to a document.
func (h *homeIndex) add(name, platform string, entry fsmirror.Archive) {
	if h.want[name].Archives == nil {
		h.want[name] = fsmirror.Document{Archives: map[string]fsmirror.Archive{}}
	}
	h.want[name].Archives[platform] = entry
}

// stated returns the hashes of an archive in its present entry.
func (h *homeIndex) stated(at fsmirror.Package) []sources.Hash {
	return h.there[document(h.home, at.ID.Version)].Archives[at.ID.Platform.String()].Hashes
}

// enter adds the entry of an archive that was read, or the reason for which it has none. The current entry of a
// damaged archive stays: clients refuse the archive, and without the entry they would choose another version.
func (h *homeIndex) enter(at fsmirror.Package, r record, err error) {
	switch {
	case disk.IsUnread(err): // its entry may be correct
		h.unread[h.home] = sources.InPackage(at.ID, err)
	case err == nil && r.differs != "":
		err = &ChangedError{Was: r.differs, Is: cmp.Or(r.ZH, r.H1)}
		fallthrough
	case err != nil:
		if h.home == home(at.ID.Provider) { // it is told once
			h.leftOut = append(h.leftOut, sources.InPackage(at.ID, err))
		}
		h.setStays(at.ID, true)
	default:
		// Engines compute the second hash from the archive.
		hashes := sources.SortHashes(sources.Stored{H1: r.H1, ZipH1: cmp.Or(r.ZipH1, r.H1), ZH: r.ZH}.Hashes())
		if stated := h.stated(at); r.H1 == "" && slices.Contains(stated, r.ZH) { // another user has computed the others
			hashes = sources.SortHashes(append(hashes, sources.HashesOf(sources.H1, stated)...))
		}
		rel, _ := filepath.Rel(h.b.dir.Path(h.home), at.Path()) // both are in the mirror
		entry := fsmirror.Archive{Hashes: hashes, URL: (&url.URL{Path: filepath.ToSlash(rel)}).String()}
		h.add(document(h.home, at.ID.Version), at.ID.Platform.String(), entry)
	}
}

// keepOthers adds the current entries that stay: those of damaged archives, and those that name no package in the
// mirror's layout, but an archive on another server or in a directory outside the layout.
func (h *homeIndex) keepOthers() {
	for name, doc := range h.there {
		if path.Base(name) == fsmirror.Index {
			continue
		}
		if disk.IsUnread(doc.err) {
			h.unread[path.Dir(name)] = doc.err
		}
		for platform, entry := range doc.Archives {
			if _, ours := h.want[name].Archives[platform]; ours {
				continue
			}
			stays, known := h.stays[name+"/"+platform]
			if stays || !known && h.leadsElsewhere(name, entry.URL) {
				h.add(name, platform, entry)
			}
		}
	}
}

// leadsElsewhere reports whether a URL in a document refers to another server, or to
// a file in the mirror that is not a package in the layout.
func (h *homeIndex) leadsElsewhere(doc, text string) bool {
	file, ok := resolve(doc, text)
	if !ok {
		_, err := url.Parse(text)
		return err == nil && text != ""
	}
	file = h.b.dir.Path(file)
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && !h.isPackage(file)
}

// folded returns the path as a case-insensitive file system compares it.
func folded(path string) string { return strings.ToLower(path) }

// compare plans the steps. Names of versions begin with a digit, so index.json is the last document of a directory
// that is written, and the first that is removed.
func (h *homeIndex) compare() (steps []Change, err error) {
	var errs []error
	for _, home := range slices.Sorted(maps.Keys(h.unread)) {
		errs = append(errs, h.unread[home])
	}
	for _, name := range slices.Sorted(maps.Keys(h.want)) {
		text := h.want[name].Text()
		if h.unread[path.Dir(name)] == nil && !bytes.Equal(text, h.there[name].text) {
			steps = append(steps, Change{Path: name, text: text})
		}
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(h.there))) {
		home, err := path.Dir(name), h.there[name].err
		wanted := h.want[home+"/"+fsmirror.Index].Versions != nil
		_, stays := h.want[name]
		switch {
		case stays || h.unread[home] != nil:
		case !wanted && len(h.want) > 0: // a case-insensitive file system may not distinguish the directories
		case disk.IsUnread(err):
			errs = append(errs, err)
		case err == nil || wanted: // otherwise it may belong to another program
			steps = append(steps, Change{Path: name, Removed: true})
		}
	}
	return steps, errors.Join(errs...)
}

// A location is what a document says about evidence, as long as the file that is written last has a fingerprint.
type location struct {
	*evidence.Extension
	print string
}

// extension returns the part of a VERSION.json besides the archives: the file names
// of the evidence. It is nil if there is no readable evidence. With thousands of versions, the evidence isn't in memory
// any more when the documents are written, and is read again only if it has changed.
func (b *Builder) extension(of sources.Release) (*evidence.Extension, error) {
	last, print := b.evidence.Path(of)+"/"+evidence.Sums, ""
	if info, err := b.dir.Lstat(last); err == nil {
		print = disk.Print(b.dir.Path(last), info)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if is := b.located[of]; print != "" && is.print == print {
		return is.Extension, nil
	}
	files, err := b.evidence.Files(of)
	if err != nil {
		if !disk.IsUnread(err) {
			err = nil // Verify reports broken evidence, and archives are served without it
		}
		return nil, err
	}
	is := location{&evidence.Extension{Evidence: evidence.Locate(of.Provider, of.Version, files)}, print}
	b.located[of] = is
	return is.Extension, nil
}

// apply writes the records, syncs the evidence, and then carries out the steps of a plan. After an error, it carries
// out those for other directories.
func (b *Builder) apply(ctx context.Context, p *plan) error {
	errs := []error{b.writeRecords(ctx)}
	if b.isChanged() {
		sync := func(evidence *disk.Dir) error { return evidence.SyncTree(ctx) } // it was written without syncing
		for _, name := range evidenceOf(p.only) {
			if err := store.Within(b.dir, name, sync); err != nil {
				return errors.Join(append(errs, err)...)
			}
		}
	}
	failed := map[string]bool{}
	for _, s := range p.steps {
		if failed[path.Dir(s.Path)] {
			continue
		}
		var err error
		if p.only == nil { // otherwise the changes of these providers are noted
			err = b.change(sources.Provider{})
		}
		switch {
		case err != nil:
		case s.Removed:
			err = b.dir.Remove(s.Path)
		default:
			err = b.write(s.Path, s.text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("writing the index: %w", err))
			failed[path.Dir(s.Path)] = true
			if disk.IsFull(err) {
				break
			}
		}
	}
	return errors.Join(errs...)
}

// write replaces a document by rename. After an error, the scratch directory may contain the rest until the end.
func (b *Builder) write(name string, data []byte) error {
	dir, err := b.dir.MakeSub(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	made := b.work.Name()
	if err := store.WriteFile(b.work.Dir, made, 0o644, bytes.NewReader(data)); err != nil {
		return err
	}
	return disk.Rename(b.work.Dir, made, dir, path.Base(name))
}

// resolve returns the path of the file in the mirror that a URL in a document refers
// to. Both paths are relative to the mirror, with forward slashes.
func resolve(doc, text string) (file string, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Path == "" || strings.HasPrefix(u.Path, "/") {
		return "", false
	}
	file = path.Join(path.Dir(doc), u.Path)
	return file, filepath.IsLocal(filepath.FromSlash(file))
}

// isChanged reports whether some changes may not be on the disk yet, or not in the index.
func (b *Builder) isChanged() bool { return b.own.Exists(unsettled) }

// change marks unfinished changes by a file, and notes whose they are: of no provider, if they may be of any. The file
// has the mark of this process if no other process has made changes since it was created. The caller excludes other
// processes, see [Builder.settle].
func (b *Builder) change(of sources.Provider) error {
	f, err := b.own.Create(unsettled, 0o644)
	switch {
	case err == nil:
		b.changed = map[sources.Provider]bool{}
		_, _ = f.WriteString(b.mark) // there may be no space
		err = f.Close()
	case errors.Is(err, fs.ErrExist) && b.isMarked():
		err = nil
	case errors.Is(err, fs.ErrExist): // another process may have to know that it is not the only one
		made := b.work.Name()
		if err = store.WriteFile(b.work.Dir, made, 0o644, strings.NewReader("")); err == nil {
			err = disk.Rename(b.work.Dir, made, b.own, unsettled)
		}
	}
	if err == nil {
		b.changed[of] = true
	}
	return err
}

// isMarked reports whether only this process has made changes that are not finished.
func (b *Builder) isMarked() bool {
	text, _, err := b.own.ReadFile(unsettled, int64(len(b.mark)))
	return err == nil && string(text) == b.mark
}

// settle returns when everything is on the disk, and then removes the file that marks unfinished changes, also those of
// other processes: the caller has excluded them since it read the mirror. All files have been synced before: packages
// and documents before their rename, evidence by [Builder.apply]. Only is that of the plan.
func (b *Builder) settle(ctx context.Context, only []sources.Provider) error {
	if !b.isChanged() {
		return nil
	}
	if err := b.syncDirs(ctx, only); err != nil {
		return err
	}
	return b.own.Remove(unsettled)
}

// syncDirs syncs the directories of some providers, or all if it is nil.
func (b *Builder) syncDirs(ctx context.Context, only []sources.Provider) error {
	if only == nil {
		return b.dir.SyncDirs(ctx)
	}
	names := evidenceOf(only)
	for _, p := range only {
		names = append(names, homes(p)...)
	}
	for _, name := range names {
		if err := store.Within(b.dir, name, func(d *disk.Dir) error { return d.SyncDirs(ctx) }); err != nil {
			return err
		}
		for name != "." { // it may be new
			name = path.Dir(name)
			if err := store.Within(b.dir, name, (*disk.Dir).Sync); err != nil {
				return err
			}
		}
	}
	return nil
}

// evidenceOf returns the directories of the evidence of some providers, or that of all if it is nil.
func evidenceOf(only []sources.Provider) (names []string) {
	const all = own + "/evidence"
	if only == nil {
		return []string{all}
	}
	for _, p := range only {
		names = append(names, all+"/"+home(p))
	}
	return names
}
