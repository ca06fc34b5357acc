package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/staging"
	"github.com/larder-cli/larder/sources/store"
)

// Get describes the package id, in the layout of new packages. It reads the package
// only if there is no valid record. The error matches [sources.ErrNotFound] if the
// mirror has no such package.
func (b *Builder) Get(ctx context.Context, id sources.PackageID) (sources.Stored, error) {
	return b.get(ctx, b.place(id, b.opts.Unpacked))
}

// Find returns a package that was found anywhere in the mirror, with its hashes. It
// reads the package only if there is no valid record.
func (b *Builder) Find(ctx context.Context, p fsmirror.Package) (sources.Stored, error) {
	return b.get(ctx, spotOf(p))
}

func (b *Builder) get(ctx context.Context, at spot) (sources.Stored, error) {
	r, err := b.look(ctx, at)
	for try := 0; errors.Is(err, fs.ErrNotExist) && try < 5; try++ { // another process replaced it
		r, err = b.look(ctx, at)
	}
	if err != nil {
		return sources.Stored{}, sources.InPackage(at.id, err)
	}
	return b.stored(at, r), nil
}

// Recall returns the record of a package.
func (b *Builder) Recall(id sources.PackageID) (sources.Stored, error) {
	at := b.place(id, b.opts.Unpacked)
	r, err := b.recall(at)
	if err == nil && !r.Proven() {
		err = sources.ErrNotFound
	}
	if err != nil {
		return sources.Stored{}, sources.InPackage(id, err)
	}
	s := b.stored(at, r)
	s.Dir = ""
	return s, nil
}

// look returns the record of a package. It hashes the package if it has changed.
func (b *Builder) look(ctx context.Context, at spot) (record, error) {
	now, err := mark(at)
	if err != nil {
		return record{}, err
	}
	if now == "" {
		return record{}, sources.ErrNotFound
	}
	old, recallErr := b.recall(at)
	switch {
	case recallErr != nil && !errors.Is(recallErr, sources.ErrNotFound):
		return record{}, recallErr
	case recallErr == nil && old.Mark == now && !b.opts.Paranoid:
		return b.letExecute(at, old)
	}
	fresh, _, err := hash(ctx, at.path)
	if err != nil {
		return record{}, err
	}
	switch {
	case recallErr != nil:
		fresh.Since = b.opts.Now().UTC()
		fresh = b.knows(at.id, fresh)
	case old.Same(fresh.Facts):
		fresh = old
	default: // damage is never recorded
		fresh.differs, fresh.Mark = cmp.Or(old.ZH, old.H1), now
		return fresh, nil
	}
	fresh.Mark = now
	b.note(at, fresh)
	return b.letExecute(at, fresh)
}

// letExecute restores the execute permission of the provider in an unpacked package
// with the right contents, and returns the record with the new fingerprint. If
// that fails, it warns, because Larder can still install the package.
func (b *Builder) letExecute(at spot, r record) (record, error) {
	if !at.unpacked || b.opts.ReadOnly {
		return r, nil
	}
	restored, err := store.LetExecute(at.path, at.id, b.warn)
	if errors.Is(err, archive.ErrNotExecutable) {
		b.warn(sources.InPackage(at.id, err))
	}
	if !restored {
		return r, nil
	}
	r.Mark, err = mark(at)
	b.note(at, r)
	return r, err
}

// hash reads and hashes a package.
func hash(ctx context.Context, path string) (record, sources.Contents, error) {
	info, err := os.Stat(path)
	if err != nil {
		return record{}, sources.Contents{}, err
	}
	if info.IsDir() {
		contents, err := archive.Hash(ctx, path)
		return record{Facts: store.Facts{H1: contents.H1}}, contents, err
	}
	contents, zh, err := archive.Read(ctx, path)
	return record{Facts: store.Facts{H1: contents.H1, ZipH1: contents.ZipH1, ZH: zh}}, contents, err
}

// stored describes a package. Evidence that was put into the mirror since the package was
// recorded counts as well, if it covers the package; what it proves is recorded.
func (b *Builder) stored(at spot, r record) sources.Stored {
	s := b.evidence.Describe(at.id, at.path, r.Facts)
	s.Filename, s.Differs = at.id.Filename(), r.differs
	switch is := evidence.Reference(s.Signed); {
	case r.differs != "":
		s.Proof, s.Signed = sources.Proof{}, nil
		s.Report = b.opts.Judge.Report(at.id.Provider, s.Proof)
	case s.Signed != nil && is != r.Evidence:
		r.Proof, r.Evidence = s.Proof, is
		b.note(at, r)
	}
	return s
}

// split splits a path in the mirror.
func split(file string) (dir, name string) { return path.Dir(file), path.Base(file) }

// A tx is the transaction of one package, see [sources.Tx].
type tx struct {
	store.Tx
	b  *Builder
	at spot
}

// Begin begins a transaction, see [sources.Tx]. [Builder.Finish] adds the package to
// the index. A mirror records hashes only for packages that it has.
func (b *Builder) Begin(ctx context.Context, id sources.PackageID, purpose sources.Purpose) (held sources.Held, _ sources.Tx, err error) {
	if purpose != sources.ToStore {
		return held, nil, sources.InPackage(id, fmt.Errorf("hashing for a mirror: %w", errors.ErrUnsupported))
	}
	leave, err := b.enter(ctx, id)
	if err != nil {
		return held, nil, sources.InPackage(id, err)
	}
	t := &tx{b: b, at: b.place(id, b.opts.Unpacked), Tx: store.Tx{
		Evidence: b.evidence, Now: b.opts.Now, ID: id, Root: b.path, Place: b.opts.Place,
		KeepArchive: true, Sharing: staging.ByCopy, // a second link would change its fingerprint when it is removed
	}}
	t.Layout = t
	if !t.at.unpacked {
		t.Form, t.NoArchive = store.Packed, "use a source that has the archive, or create the mirror with --unpacked"
	}
	if b.opts.Temporary {
		t.Sharing = staging.ByLink
		t.NoArchive = "use a source that has the archive; without one, copy the directory of the mirror"
	}
	t.Finally(leave)
	noLink := func(*disk.Dir) error { return nil }
	if err := store.Within(b.dir, path.Dir(b.relative(t.at.path)), noLink); err != nil {
		t.Close()
		return held, nil, sources.InPackage(id, err)
	}
	if s, err := b.Get(ctx, id); err == nil {
		held.Package = s
	}
	if held.Known, err = b.Recall(id); err != nil && !errors.Is(err, sources.ErrNotFound) {
		t.Close()
		return held, nil, err
	}
	return held, t, nil
}

// Stage implements [sources.Tx].
func (t *tx) Stage(seen sources.Observer) (sources.Stage, error) {
	b := t.b
	return t.Prepare(b.work, b.partial, b.opts.Archives, seen, b.warn), nil
}

// Commit implements [sources.Tx].
func (t *tx) Commit(ctx context.Context, by sources.Provenance) (sources.Stored, error) {
	done, err := t.b.alter(ctx)
	if err != nil {
		return sources.Stored{}, t.Explain(err)
	}
	defer done()
	return t.Tx.Commit(ctx, by)
}

// Old implements [store.Layout].
func (t *tx) Old() store.Facts {
	r, _ := t.b.recall(t.at)
	return r.Facts
}

// Improve implements [store.Layout].
func (t *tx) Improve(_ context.Context, f store.Facts) (sources.Stored, error) {
	r, err := t.b.recall(t.at)
	if err != nil {
		return sources.Stored{}, err
	}
	r.Facts = f
	return t.b.added(t.at, r), nil
}

// Put implements [store.Layout].
func (t *tx) Put(ctx context.Context, f store.Facts) (sources.Stored, error) {
	if t.at.unpacked {
		if err := t.SyncMade(ctx); err != nil {
			return sources.Stored{}, err
		}
	}
	if err := t.b.publish(t.at, t.Made); err != nil {
		return sources.Stored{}, err
	}
	is, err := mark(t.at)
	if err != nil {
		return sources.Stored{}, err
	}
	return t.b.added(t.at, record{Facts: f, Mark: is}), nil
}

// added records a package that is in the mirror now.
func (b *Builder) added(at spot, r record) sources.Stored {
	b.note(at, r)
	b.noteRemoved(at.id, "", false)
	b.learn(at.id, r.Facts)
	return b.stored(at, r)
}

// publish removes the old package from the index and moves the file name from the
// scratch directory to its place.
func (b *Builder) publish(at spot, name string) error {
	defer b.forgetTree()
	dir, base, err := b.within(at.path)
	if err != nil && strings.Contains(string(at.id.Provider.Host), ":") && !errors.Is(err, fs.ErrPermission) && !disk.IsFull(err) {
		return sources.WithHint(err,
			"FAT, exFAT and Windows allow no colons in names: create the mirror on another file system, or leave out providers of this host")
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if there, err := dir.Lstat(base); !at.unpacked && err == nil && there.IsDir() { // no larder has created it
		err := &fs.PathError{Op: "replace", Path: at.path, Err: syscall.EISDIR}
		return sources.WithHint(error(err), "move or remove the directory")
	}
	b.mu.Lock()
	err = b.change()
	if err == nil && !at.unpacked {
		err = b.unindex(at.id)
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	if !at.unpacked { // a rename replaces a file
		return disk.Rename(b.work.Dir, name, dir, base)
	}
	old, err := b.work.Replace(name, dir, base)
	if err == nil && old != "" {
		b.warn(b.work.RemoveTree(old))
	}
	return err
}

// forgetTree is called after a package was added or removed.
func (b *Builder) forgetTree() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tree = nil
}
