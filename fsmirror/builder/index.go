package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A Change is a document of the index that was written or removed.
type Change struct {
	Path    string // below the mirror, with forward slashes
	Removed bool
}

// Finish makes the index match the archives, and returns when everything is on the
// disk. Archives that cannot be read are left out, with a warning. What the index names
// outside the mirror's layout stays.
func (b *Builder) Finish(ctx context.Context) error {
	_, leftOut, err := b.index(ctx, keepElsewhere)
	for _, err := range leftOut {
		b.warn(fmt.Errorf("left out of the index: %w", err))
	}
	return err
}

// Complete is [Builder.Finish] if an earlier process was stopped before it had
// finished. Else it changes nothing.
func (b *Builder) Complete(ctx context.Context) error {
	b.mu.Lock()
	changed := b.changed
	b.mu.Unlock()
	if !changed {
		return nil
	}
	return b.Finish(ctx)
}

// Index is [Builder.Finish], except that the index names nothing but the archives then.
// It returns what it has changed, or with Options.ReadOnly would change, and why archives
// were left out.
func (b *Builder) Index(ctx context.Context) (changes []Change, leftOut []error, err error) {
	return b.index(ctx, dropElsewhere)
}

// An elsewhere says what becomes of entries in the index that name no package in the
// mirror's layout.
type elsewhere bool

const (
	keepElsewhere elsewhere = true
	dropElsewhere elsewhere = false
)

func (b *Builder) index(ctx context.Context, keep elsewhere) (changes []Change, leftOut []error, err error) {
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
	if err != nil || b.opts.ReadOnly {
		return b.changes(steps), leftOut, err
	}
	if err := b.apply(ctx, steps); err != nil {
		return nil, leftOut, disk.Explain(err, b.opts.Place)
	}
	return b.changes(steps), leftOut, disk.Explain(b.settle(ctx), b.opts.Place)
}

func (b *Builder) changes(steps []step) []Change {
	var changes []Change
	for _, s := range steps {
		changes = append(changes, Change{b.relative(s.path), s.text == nil})
	}
	return changes
}

// An indexed archive is one that the index is to name.
type indexed struct {
	spot
	record
}

// A survey is what the index is to be made of.
type survey struct {
	archives []indexed       // which it is to name
	leftOut  []error         // why it isn't to name others
	paths    map[string]bool // of all packages in the mirror's layout
}

// survey finds the archives that the index is to name: all except those in without.
// Those that cannot be read are left out.
func (b *Builder) survey(ctx context.Context, without map[spot]bool) (found survey, err error) {
	packages, err := fsmirror.New(b.path, fsmirror.Options{}).Packages(ctx)
	if err != nil {
		return found, err
	}
	found.paths = map[string]bool{}
	for _, pkg := range packages {
		found.paths[folded(spotOf(pkg).path)] = true
	}
	for _, at := range b.packed(packages, without) {
		r, err := b.look(ctx, at)
		switch {
		case ctx.Err() != nil:
			return found, ctx.Err()
		case disk.IsUnread(err):
			return found, sources.InPackage(at.id, err) // the index has it rightly, for all that is known
		case err == nil && r.differs != "":
			found.leftOut = append(found.leftOut, sources.InPackage(at.id, &ChangedError{Was: r.differs, Is: cmp.Or(r.ZH, r.H1)}))
		case err != nil:
			found.leftOut = append(found.leftOut, sources.InPackage(at.id, err))
		default:
			found.archives = append(found.archives, indexed{at, r})
		}
	}
	return found, nil
}

// packed are the archives, one of each package. Where there are several, the one
// counts whose name is as it should be, else the one that engines take.
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

// documents are those of one provider, by version.
type documents map[string]versionDocument

// planIndex plans how the index comes to name the archives found and, unless entries that
// lead elsewhere are kept, no others. The steps are in such an order that it is right
// after each.
func (b *Builder) planIndex(found survey, keep elsewhere) ([]step, error) {
	wanted := map[string]documents{} // by directory
	for _, a := range found.archives {
		for _, home := range b.homes(a.id.Provider) {
			entry, err := a.entry(home)
			if err != nil {
				return nil, err
			}
			if wanted[home] == nil {
				wanted[home] = documents{}
			}
			if err := b.add(wanted[home], a.id, entry); err != nil {
				return nil, err
			}
		}
	}
	if keep {
		if err := b.addElsewhere(wanted, found.paths); err != nil {
			return nil, err
		}
	}
	others, err := b.documented(wanted)
	if err != nil {
		return nil, err
	}
	var steps []step
	for _, home := range slices.Sorted(maps.Keys(wanted)) {
		more, err := planHome(home, wanted[home])
		if err != nil {
			return nil, err
		}
		steps = append(steps, more...)
	}
	for _, home := range others {
		more, err := planHome(home, nil)
		if err != nil {
			return nil, err
		}
		steps = append(steps, more...)
	}
	return steps, nil
}

// add adds an archive to its document, which also names the evidence.
func (b *Builder) add(to documents, id sources.PackageID, entry archiveEntry) error {
	v := id.Version.String()
	if to[v].Archives == nil {
		larder, err := b.extension(id.Provider, id.Version)
		if err != nil {
			return sources.InPackage(id, err)
		}
		to[v] = versionDocument{map[string]archiveEntry{}, larder}
	}
	to[v].Archives[id.Platform.String()] = entry
	return nil
}

// addElsewhere adds what the index names now for other platforms and versions, and what
// is no package in the mirror's layout: an archive on another server, or in a directory
// of somebody else's choice.
func (b *Builder) addElsewhere(to map[string]documents, paths map[string]bool) error {
	var unread error
	err := b.eachHome(func(home string, names []string) {
		for _, name := range names {
			v, ok := versionOf(name)
			if !ok {
				continue
			}
			doc, err := readVersion(filepath.Join(home, name))
			if disk.IsUnread(err) {
				unread = errors.Join(unread, err)
			}
			for platform, entry := range doc.Archives {
				if _, ours := to[home][v].Archives[platform]; ours || !b.leadsElsewhere(filepath.Join(home, name), entry.URL, paths) {
					continue
				}
				if to[home] == nil {
					to[home] = documents{}
				}
				if to[home][v].Archives == nil {
					to[home][v] = versionDocument{Archives: map[string]archiveEntry{}}
				}
				to[home][v].Archives[platform] = entry
			}
		}
	})
	return errors.Join(err, unread)
}

// leadsElsewhere reports whether a URL in a document leads out of the mirror, or to a file
// in it that is no package in the layout.
func (b *Builder) leadsElsewhere(doc, text string, paths map[string]bool) bool {
	path, ok := b.resolve(doc, text)
	if !ok {
		_, err := url.Parse(text)
		return err == nil && text != ""
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && !paths[folded(path)]
}

// entry is what a document in the directory home says of an archive.
func (a indexed) entry(home string) (archiveEntry, error) {
	rel, err := filepath.Rel(home, a.path)
	if err != nil {
		return archiveEntry{}, err
	}
	hashes := []sources.Hash{a.H1, a.ZH}
	if a.ZipH1 != "" && a.ZipH1 != a.H1 {
		hashes = append(hashes, a.ZipH1) // what engines compute that hash the archive as it is
	}
	slices.Sort(hashes)
	return archiveEntry{hashes, (&url.URL{Path: filepath.ToSlash(rel)}).String()}, nil
}

// planHome plans the documents of one directory.
func planHome(home string, wanted documents) ([]step, error) {
	var steps []step
	plan := func(name string, doc any) error {
		text, err := documentText(doc)
		if path := filepath.Join(home, name); err == nil && !holds(path, text) {
			steps = append(steps, step{path, text})
		}
		return err
	}
	index := indexDocument{map[string]struct{}{}}
	for _, v := range slices.Sorted(maps.Keys(wanted)) {
		index.Versions[v] = struct{}{}
		if err := plan(v+".json", wanted[v]); err != nil {
			return nil, err
		}
	}
	entries, err := os.ReadDir(home)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var unwanted []string
	if len(wanted) == 0 {
		unwanted = append(unwanted, "index.json")
	} else if err := plan("index.json", index); err != nil {
		return nil, err
	}
	for _, e := range entries {
		v, ok := versionOf(e.Name())
		if _, stays := wanted[v]; ok && !stays {
			unwanted = append(unwanted, e.Name())
		}
	}
	for _, name := range unwanted {
		path := filepath.Join(home, name)
		ours, err := isDocument(path)
		if err != nil {
			return nil, err
		}
		if ours || len(wanted) > 0 {
			steps = append(steps, step{path: path})
		}
	}
	return steps, nil
}

// documented are the directories, other than those known, that have documents of
// an index. Whether they are meant as such only their contents tell, as anyone may
// have an index.json.
func (b *Builder) documented(known map[string]documents) ([]string, error) {
	homes := map[string]bool{}
	for home := range known {
		homes[folded(home)] = true
	}
	var found []string
	var unread error
	err := b.eachHome(func(home string, names []string) {
		if !homes[folded(home)] && slices.ContainsFunc(names, func(name string) bool {
			if _, ok := versionOf(name); !ok && name != "index.json" {
				return false
			}
			ours, err := isDocument(filepath.Join(home, name))
			unread = errors.Join(unread, err)
			return ours
		}) {
			found = append(found, home)
		}
	})
	return found, errors.Join(err, unread)
}

// eachHome visits HOST/NAMESPACE/TYPE, for hosts in punycode too, with the names of
// the files in it.
func (b *Builder) eachHome(visit func(home string, names []string)) error {
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		var files []string
		for _, e := range entries {
			switch below := filepath.Join(dir, e.Name()); {
			case e.Type().IsRegular():
				files = append(files, e.Name())
			case !e.IsDir() || depth == 3 || strings.HasPrefix(e.Name(), ".") || depth == 0 && !isHost(e.Name()):
			default:
				if err := walk(below, depth+1); err != nil {
					return err
				}
			}
		}
		if depth == 3 {
			visit(dir, files)
		}
		return nil
	}
	return walk(b.path, 0)
}

func isHost(name string) bool {
	_, err := sources.ParsePunycodeHost(name)
	return err == nil
}

// apply writes the records, then takes the steps, once the evidence is on the disk.
func (b *Builder) apply(ctx context.Context, steps []step) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.keepLedgers(); err != nil {
		return err
	}
	if b.changed {
		if err := b.syncEvidence(ctx); err != nil {
			return err
		}
	}
	for _, s := range steps {
		err := b.change()
		switch {
		case err != nil:
		case s.text == nil:
			err = b.dir.Remove(b.relative(s.path))
		default:
			err = b.write(s.path, s.text)
		}
		if err != nil {
			return fmt.Errorf("writing the index: %w", err)
		}
	}
	return nil
}
