package cachedir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"sync"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/staging"
	"github.com/larder-cli/larder/sources/store"
)

// A tx is the transaction of one package, see [sources.Tx]. It holds the package's
// locks.
type tx struct {
	store.Tx
	d      *Dir
	home   *disk.Dir // directory of the entry; nil if the package is only hashed, or if denied is set
	denied error     // why this user can't replace or add the entry of a cache of several users

	old     record    // of the entry in place; without H1 if there is no usable one
	from    *original // of the payload; nil if it was downloaded, or changed meanwhile
	bundled bool      // see [sources.Provenance]
}

// Begin begins a transaction, see [sources.Tx]. It waits until no other process
// stores the package. If another process downloads it meanwhile, Begin returns the
// downloaded package.
func (d *Dir) Begin(
	ctx context.Context, id sources.PackageID, purpose sources.Purpose,
) (sources.Held, sources.Tx, error) {
	t := &tx{d: d, Tx: store.Tx{
		Evidence: d.evidence, Now: d.opts.Now, ID: id, Root: d.root, Place: d.place(), ReadOnly: d.seals(),
		KeepArchive: d.opts.KeepArchives,
	}}
	t.Layout = t
	if purpose == sources.ToHash {
		t.Form = store.Hashed
	}
	held, err := t.begin(ctx)
	if err != nil {
		t.Close()
		return held, nil, t.Explain(err)
	}
	return held, t, nil
}

func (t *tx) begin(ctx context.Context) (held sources.Held, err error) {
	d := t.d
	if d.readOnly != nil {
		return held, d.unwritable()
	}
	release, err := d.Use(ctx)
	if err != nil {
		return held, err
	}
	t.Finally(release)
	d.sweep.Do(d.removeLeftovers)
	unlock, err := d.lock(ctx, t.ID)
	if err != nil {
		return held, err
	}
	t.Finally(unlock)
	d.ledger.Refresh() // another process may have improved the record
	d.known.Refresh()
	d.evidence.Forget(t.ID.Release())
	if held.Known, err = d.Recall(t.ID); err != nil && !errors.Is(err, sources.ErrNotFound) {
		return held, err
	}
	if t.Form == store.Hashed {
		return held, nil
	}
	held.Package, err = t.lookUp(ctx)
	if under := d.opts.Under; under != nil && err == nil && held.Package.ZH == "" {
		if s, err := under.Get(ctx, t.ID); err == nil {
			held.Package = s
		}
	}
	return held, err
}

// lookUp examines the entry under its locks.
func (t *tx) lookUp(ctx context.Context) (sources.Stored, error) {
	d := t.d
	if err := t.openHome(ctx); d.denies(err) {
		t.denied = err
	} else if err != nil {
		return sources.Stored{}, err
	}
	if d.checkHome(t.ID) == nil {
		t.old, _ = d.find(ctx, t.ID, d.entry(t.ID), d.ledger) // an error of any kind leads to the replacement of the entry
		d.warn(d.ledger.Write(ctx))
	}
	if ctx.Err() != nil {
		return sources.Stored{}, ctx.Err()
	}
	if t.old.H1 == "" {
		return sources.Stored{}, nil
	}
	return d.stored(t.ID, d.entry(t.ID), t.old), nil
}

// openHome opens the directory of the entry and takes OpenTofu's lock in it. In a cache of
// several users, a lack of permission means that this user can't replace the entry.
func (t *tx) openHome(ctx context.Context) error {
	d := t.d
	home, err := d.tree.MakeSub(path.Dir(t.ID.Path()))
	if err != nil {
		return err
	}
	t.home = home
	t.Finally(func() { home.Close() })
	ours := d.seals() && !d.shared && !home.Exists(tofuLockName(t.ID.Platform)) // no engine uses this cache
	if ours || d.through != "" {                                                // nor replaces an entry behind a link
		return nil
	}
	unlock, err := d.lockTofu(ctx, home, t.ID)
	if err != nil {
		return err
	}
	t.Finally(unlock)
	if d.shared {
		return home.Replaceable(t.ID.Platform.String())
	}
	return nil
}

// Stage implements [sources.Tx].
func (t *tx) Stage(seen sources.Observer) (sources.Stage, error) {
	d := t.d
	if err := d.checkReplaced(t.home, t.ID); err != nil {
		return nil, t.Explain(err)
	}
	work, err := d.packageScratch()
	var kept *disk.Dir // for interrupted downloads; nil without a directory for them
	if err == nil && d.private != nil {
		kept, err = d.private.MakeSub(partialDir)
	}
	if err != nil {
		return nil, t.Explain(err)
	}
	if kept != nil {
		t.Finally(func() { kept.Close() })
	}
	return t.Prepare(work, kept, d.Archives(), seen, d.warn), nil
}

// Unpack implements [sources.Tx].
func (t *tx) Unpack(ctx context.Context, from sources.Payload) (sources.Contents, error) {
	t.from = originalOf(from)
	c, err := t.Tx.Unpack(ctx, from)
	if now := originalOf(from); now == nil || t.from == nil || *now != *t.from {
		t.from = nil
	}
	return c, err
}

// originalOf returns the identity of the path that a payload is a copy of. It returns
// nil if there is none, or if the archive at the path has been replaced meanwhile.
func originalOf(from sources.Payload) *original {
	path := from.Dir
	if from.Archive != nil {
		path = from.Archive.Name()
		opened, err := from.Archive.Stat()
		named, namedErr := os.Stat(path)
		if err != nil || namedErr != nil || !os.SameFile(opened, named) {
			return nil
		}
	}
	if path == "" {
		return nil
	}
	fingerprint, err := disk.PrintTree(path)
	if err != nil {
		return nil
	}
	return &original{path, fingerprint}
}

// Commit implements [sources.Tx].
func (t *tx) Commit(ctx context.Context, by sources.Provenance) (sources.Stored, error) {
	if t.bundled = by.Bundled; t.Received && t.Form != store.Hashed {
		by = t.recognize(by)
	}
	return t.Tx.Commit(ctx, by)
}

// Old implements [store.Layout].
func (t *tx) Old() store.Facts { return t.old.Facts }

// Improve implements [store.Layout].
func (t *tx) Improve(ctx context.Context, f store.Facts) (sources.Stored, error) {
	t.old.Facts = f
	t.d.keep(ctx, t.ID, t.old)
	t.keepKnown(ctx, f)
	return t.d.stored(t.ID, t.d.entry(t.ID), t.old), nil
}

// Put implements [store.Layout].
func (t *tx) Put(ctx context.Context, f store.Facts) (sources.Stored, error) {
	d := t.d
	if t.Form == store.Hashed {
		return d.stored(t.ID, "", record{Facts: t.keepKnown(ctx, f)}), nil
	}
	r, err := t.finish(ctx, f)
	if err != nil {
		return sources.Stored{}, err
	}
	switch {
	case t.old.H1 == r.H1 && t.home != nil && isDir(t.home, t.ID.Platform.String()):
		// The entry already has the same contents, and may be linked and running.
		// Only the record was missing.
		r.Files, r.Boot = t.old.Files, t.old.Boot
	case t.apart():
		t.keepKnown(ctx, f)
		return t.setApart(r), nil
	default:
		if err := t.replace(ctx, r); err != nil {
			return sources.Stored{}, err
		}
		if d.inside {
			d.distrust(d.entry(t.ID), r.Files)
		}
	}
	d.keep(ctx, t.ID, r)
	t.keepKnown(ctx, f)
	return d.stored(t.ID, d.entry(t.ID), r), nil
}

// apart reports whether this user can't put the package into the cache.
func (t *tx) apart() bool { return t.denied != nil }

// setApart describes a package that stays apart: among the temporary files, long enough
// to be copied to a working directory.
func (t *tx) setApart(r record) sources.Stored {
	t.Kept = true
	t.d.warn(fmt.Errorf("%s: not added to the plugin cache: %w", t.ID, t.d.explainOwner(t.denied)))
	s := t.d.stored(t.ID, t.Scratch.Path(t.Made), r)
	s.Temporary = true
	return s
}

// finish returns the record of the unpacked package.
func (t *tx) finish(ctx context.Context, f store.Facts) (record, error) {
	made, err := t.Scratch.Sub(t.Made)
	if err != nil {
		return record{}, err
	}
	defer made.Close()
	r, err := written(ctx, made, f)
	if err != nil {
		return r, err
	}
	r.From = t.from
	if err := checkExecutable(made.Path("."), r.Files, t.ID); err != nil { // although Larder has just made it executable
		place := t.d.place()
		return r, sources.WithHint(err, "the file system keeps no execute permissions: choose another one for %s", place)
	}
	return r, nil
}

// checkReplaced returns an error if there is a package, in the open directory home, that is reached through a link. The
// target of the link may be used elsewhere, so Larder does not replace the package.
func (d *Dir) checkReplaced(home *disk.Dir, id sources.PackageID) error {
	if d.through == "" || home == nil || !home.Exists(id.Platform.String()) {
		return nil
	}
	err := fmt.Errorf("%s is another build of the package, and is not replaced because %s is a symbolic link",
		d.entry(id), d.through)
	return sources.WithHint(err, "replace the link with a directory, then run the command again")
}

const runPrefix, stagePrefix = "run-", ".larder-"

// A lazyScratch is a scratch directory that is created when it is first required.
type lazyScratch struct {
	mu   sync.Mutex
	made *disk.Scratch
}

func (l *lazyScratch) get(create func() (*disk.Scratch, error)) (_ *disk.Scratch, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made == nil {
		l.made, err = create()
	}
	return l.made, err
}

// stateScratch returns the scratch directory of this run for files of the state, or nil without a state.
func (d *Dir) stateScratch() (*disk.Scratch, error) {
	if d.state == nil {
		return nil, nil
	}
	return d.inState.get(d.scratch)
}

// packageScratch returns the scratch directory of this run for packages.
func (d *Dir) packageScratch() (*disk.Scratch, error) {
	if d.inside {
		return d.stateScratch()
	}
	return d.inTree.get(func() (*disk.Scratch, error) { return d.tree.Scratch(stagePrefix) })
}

// scratch creates a scratch directory for writing to the state.
func (d *Dir) scratch() (*disk.Scratch, error) {
	tmp, err := d.state.MakeSub("tmp")
	if err != nil {
		return nil, err
	}
	defer tmp.Close()
	tmp.Reserve()
	return tmp.Scratch(runPrefix)
}

// seals reports whether the files of stored packages are read-only. In an engine's
// own plugin cache they are writable: Terraform unpacks in place there, and would
// fail with "permission denied".
func (d *Dir) seals() bool { return d.inside && !d.opts.Shared }

func isDir(in *disk.Dir, name string) bool {
	info, err := in.Lstat(name)
	return err == nil && info.IsDir()
}

// replace replaces the entry with the unpacked package, which r describes. In a cache, only contents other than
// verified ones are worth keeping: half a package of an engine that was killed is not.
func (t *tx) replace(ctx context.Context, r record) error {
	keep := t.old.unknown()
	if t.d.inside {
		all, _ := t.d.recorded(t.ID, t.d.ledger)
		verified := slices.ContainsFunc(all, func(r record) bool { return r.Proven() })
		keep = keep && (t.old.was != nil || t.old.H1 == "" && verified)
	}
	return t.d.replace(ctx, t.ID, t.home, t.Made, r, keep)
}

// removeLeftovers removes the files of killed processes. The caller holds the lock of
// the cache, shared or exclusive.
func (d *Dir) removeLeftovers() {
	if !d.inside && d.through == "" {
		d.tree.Sweep(stagePrefix, d.opts.Now(), d.warn)
	}
	if d.state == nil {
		return
	}
	d.warn(store.Within(d.state, "tmp", func(tmp *disk.Dir) error {
		tmp.Sweep(runPrefix, d.opts.Now(), func(err error) {
			if !d.denies(err) { // another user's
				d.warn(err)
			}
		})
		return nil
	}))
	if d.private == nil {
		return
	}
	d.warn(store.Within(d.private, partialDir, func(kept *disk.Dir) error {
		return staging.Sweep(kept, d.opts.Now(), func(id sources.PackageID) bool {
			return d.inPlace(id) && d.state.Idle(lockPath(id))
		})
	}))
	d.Archives()
}

// inPlace reports whether there is an entry for id, so that no download of it needs to
// be continued.
func (d *Dir) inPlace(id sources.PackageID) bool { return d.tree != nil && isDir(d.tree, id.Path()) }

// The directories in the state with interrupted downloads, and with the archives of recent ones.
const partialDir, archivesDir = "partial", "archives"

// Archives returns the archives of recent downloads, for other stores too. Its methods
// may be called until the Dir is closed. It is nil if nothing can be kept.
func (d *Dir) Archives() *staging.Archives {
	d.keeping.Do(func() {
		if d.opts.Archives == 0 || d.readOnly != nil || d.private == nil || !d.inside {
			return
		}
		dir, err := d.private.MakeSub(archivesDir)
		if err != nil {
			d.warn(err)
			return
		}
		if err := staging.Sweep(dir, d.opts.Now(), nil); err != nil {
			d.warn(err)
		}
		d.kept, d.archives = dir, staging.ArchivesIn(dir, d.opts.Archives)
	})
	return d.archives
}
