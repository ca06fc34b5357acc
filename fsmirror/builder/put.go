package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/staging"
)

// Get describes the package id, in the layout of new packages. It reads the package
// only if there is no valid record. The error matches [sources.ErrNotFound] if the
// mirror has no such package.
func (b *Builder) Get(ctx context.Context, id sources.PackageID) (sources.Stored, error) {
	at := b.place(id, b.opts.Unpacked)
	r, err := b.look(ctx, at)
	for try := 0; errors.Is(err, fs.ErrNotExist) && try < 5; try++ { // another process replaced it
		r, err = b.look(ctx, at)
	}
	if err != nil {
		return sources.Stored{}, sources.InPackage(id, err)
	}
	return b.stored(at, r), nil
}

// Recall returns the record of a package.
func (b *Builder) Recall(id sources.PackageID) (sources.Stored, error) {
	at := b.place(id, b.opts.Unpacked)
	r, err := b.recall(at)
	if err == nil && !r.Proof.Any() && r.Evidence == "" {
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
	case old.same(fresh):
		fresh = old
	default: // damage is never recorded
		fresh.differs = cmp.Or(old.ZH, old.H1)
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
	name, err := archive.Executable(at.path, at.id.Provider.Type)
	if err == nil {
		err = archive.CheckExecutable(at.path, name, at.id)
	}
	if !errors.Is(err, archive.ErrNotExecutable) {
		return r, nil
	}
	if err := archive.LetExecute(strings.TrimSuffix(at.path, filepath.FromSlash(at.id.Path())), name, at.id); err != nil {
		b.warn(sources.InPackage(at.id, err))
		return r, nil
	}
	b.warn(fmt.Errorf("%s: restored the execute permission of %s", at.id, name))
	r.Mark, err = mark(at)
	b.note(at, r)
	return r, err
}

// same reports whether a package has the hashes of its record. fresh lacks the
// checksum of the archive that an unpacked package came from.
func (r record) same(fresh record) bool {
	return r.H1 == fresh.H1 && (fresh.ZH == "" || r.ZH == fresh.ZH)
}

// hash reads and hashes a package.
func hash(ctx context.Context, path string) (record, sources.Contents, error) {
	info, err := os.Stat(path)
	if err != nil {
		return record{}, sources.Contents{}, err
	}
	if info.IsDir() {
		contents, err := archive.Hash(ctx, path)
		return record{H1: contents.H1}, contents, err
	}
	contents, zh, err := archive.Read(ctx, path)
	return record{H1: contents.H1, ZipH1: contents.ZipH1, ZH: zh}, contents, err
}

// stored describes a package. Evidence that was put into the mirror since the package was
// recorded counts as well, if it covers the package.
func (b *Builder) stored(at spot, r record) sources.Stored {
	s := sources.Stored{
		ID: at.id, Dir: at.path, H1: r.H1, ZipH1: r.ZipH1, ZH: r.ZH, Filename: at.id.Filename(),
		Origin: r.Origin, Since: r.Since, Differs: r.differs,
	}
	if r.differs == "" {
		s.Proof, s.Signed = b.proofOf(at, r)
	}
	s.Report = b.opts.Judge.Report(at.id.Provider, s.Proof)
	return s
}

// proofOf returns what is proved about the package of r, and the evidence for it. If the
// evidence proves nothing about the package, the facts in the record still hold, unless
// the key was revoked since.
func (b *Builder) proofOf(at spot, r record) (sources.Proof, *sources.Signed) {
	kept, err := b.readEvidence(at.id.Provider, at.id.Version)
	if err != nil {
		return r.Proof, nil
	}
	signed, same := evidence.Resolve(kept, r.Evidence)
	if same && r.Proof.Signed() {
		return r.Proof, signed
	}
	if r.ZH == "" {
		return r.Proof, nil
	}
	proof, err := b.opts.Judge.Prove(at.id.Provider, signed, r.ZH)
	switch {
	case errors.Is(err, sources.ErrRevoked):
		return sources.Proof{Matched: r.Proof.Matched}, nil
	case err != nil, r.Proof.Lost(proof) != nil && len(proof.Revoked) == 0:
		return r.Proof, nil
	}
	now := r
	now.Proof = r.Proof.And(proof)
	now.Evidence = evidence.Reference(signed)
	b.note(at, now)
	return now.Proof, signed
}

// checkPlace returns an error if a parent directory of the package is not a
// directory.
func (b *Builder) checkPlace(at spot) error {
	d, err := b.dir.Sub(path.Dir(b.relative(at.path)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.Close()
}

// split splits a path in the mirror.
func split(file string) (dir, name string) { return path.Dir(file), path.Base(file) }

// canHave returns an error if the file system cannot have a directory with the name
// of the host. Some do not support colons. It is called before the download.
func (b *Builder) canHave(h sources.Host) error {
	if !strings.Contains(string(h), ":") {
		return nil
	}
	name := b.work.Name() + string(h)
	probe, err := b.mkdir(b.work.Dir, name)
	if err == nil {
		return errors.Join(probe.Close(), b.work.RemoveTree(name))
	}
	err = fmt.Errorf("making a directory for a host with a port: %w", err)
	if disk.IsFull(err) {
		return err
	}
	return sources.WithHint(err,
		"FAT, exFAT and Windows allow no colons in names: create the mirror on another file system, or leave out providers of this host")
}

// A tx is the transaction of one package, see [sources.Tx].
type tx struct {
	b        *Builder
	at       spot
	held     sources.Stored // without H1 if the mirror has no usable package
	made     string         // its name in the scratch directory
	stage    *staging.Stage
	payload  sources.Payload
	contents sources.Contents
	unpacked bool
	undo     []func()
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
	t := &tx{b: b, at: b.place(id, b.opts.Unpacked), undo: []func(){leave}}
	if err := b.checkPlace(t.at); err != nil {
		t.Close()
		return held, nil, sources.InPackage(id, err)
	}
	if s, err := b.Get(ctx, id); err == nil {
		t.held = s
	}
	held.Package = t.held
	if held.Known, err = b.Recall(id); err != nil && !errors.Is(err, sources.ErrNotFound) {
		t.Close()
		return held, nil, err
	}
	return held, t, nil
}

// Close implements [sources.Tx].
func (t *tx) Close() {
	if t.stage != nil {
		t.stage.End(!t.unpacked)
	}
	for i := len(t.undo) - 1; i >= 0; i-- {
		t.undo[i]()
	}
}

// Stage implements [sources.Tx].
func (t *tx) Stage() (sources.Stage, error) {
	if err := t.b.canHave(t.at.id.Provider.Host); err != nil {
		return nil, t.failed(err)
	}
	t.made = t.b.work.Name()
	t.undo = append(t.undo, func() { t.b.warn(t.b.work.RemoveTree(t.made)) })
	t.stage = staging.New(t.b.work.Dir, t.b.partial, staging.Key(t.at.id), t.b.opts.Place, t.b.opts.Archives, t.b.opts.Arrivals)
	return t.stage, nil
}

// Unpack implements [sources.Tx].
func (t *tx) Unpack(ctx context.Context, from sources.Payload) (sources.Contents, error) {
	t.payload, t.unpacked = from, true
	var err error
	if t.contents, err = t.make(ctx, from); err == nil {
		_, err = archive.ExecutableIn(t.contents, t.at.id.Provider.Type)
	}
	return t.contents, t.failed(err)
}

// Commit implements [sources.Tx].
func (t *tx) Commit(ctx context.Context, by sources.Provenance) (sources.Stored, error) {
	old, recallErr := t.b.recall(t.at)
	other := recallErr != nil || old.ZH != by.ZH
	if !t.unpacked && other {
		return t.held, nil // its record is missing, or is about another archive
	}
	r, err := t.commit(ctx, old, by)
	if err != nil {
		return sources.Stored{}, t.failed(err)
	}
	t.b.note(t.at, r)
	return t.b.stored(t.at, r), nil
}

func (t *tx) commit(ctx context.Context, old record, by sources.Provenance) (record, error) {
	if !t.unpacked {
		matched := old.Proof.Matched
		old.Proof = by.Proof
		old.Proof.Matched = old.Proof.Matched || matched
		err := t.b.keepEvidence(t.at.id, &old, by.Signed)
		return old, err
	}
	r := record{
		H1: t.contents.H1, ZipH1: t.contents.ZipH1, ZH: by.ZH,
		Proof: by.Proof, Origin: by.Origin, Since: t.b.opts.Now().UTC(),
	}
	err := t.b.keepEvidence(t.at.id, &r, by.Signed)
	if err == nil && t.at.unpacked {
		err = t.b.syncTree(ctx, t.made)
	}
	if err == nil {
		t.keepArchive(by.ZH)
		t.stage.Drop()
		err = t.b.publish(t.at, t.made)
	}
	if err == nil {
		r.Mark, err = mark(t.at)
	}
	return r, err
}

// keepArchive adds the downloaded archive to those of recent downloads. A second link to an
// archive would change its fingerprint when it is removed, so an archive that stays in the
// mirror is copied: reading it again would take longer.
func (t *tx) keepArchive(zh sources.Hash) {
	switch {
	case t.payload.Local():
	case t.at.unpacked:
		t.stage.Keep(zh)
	case t.b.opts.Temporary:
		t.b.opts.Archives.Keep(t.b.work.Dir, t.made, zh, staging.ByLink)
	default:
		t.b.opts.Archives.Keep(t.b.work.Dir, t.made, zh, staging.ByCopy)
	}
}

func (t *tx) failed(err error) error {
	return sources.InPackage(t.at.id, disk.Explain(err, t.b.opts.Place))
}

// syncTree syncs an unpacked package in the scratch directory.
func (b *Builder) syncTree(ctx context.Context, made string) error {
	dir, err := b.work.Sub(made)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.SyncTree(ctx)
}

// make creates the package in the scratch directory, packed or unpacked.
func (t *tx) make(ctx context.Context, from sources.Payload) (sources.Contents, error) {
	switch {
	case from.Dir != "" && t.at.unpacked:
		return t.fill(from.Hidden, func(to archive.Dest) (sources.Contents, error) {
			return archive.Copy(ctx, from.Dir, to, archive.Limits{})
		})
	case from.Dir != "":
		err := fmt.Errorf("%s is unpacked, and its archive is not available", from.Dir)
		hint := "use a source that has the archive, or create the mirror with --unpacked"
		if t.b.opts.Temporary {
			hint = "use a source that has the archive; without one, copy the directory of the mirror"
		}
		return sources.Contents{}, sources.WithHint(err, "%s", hint)
	}
	file := from.Archive
	if file == nil {
		staged, err := t.stage.File()
		if err != nil {
			return sources.Contents{}, err
		}
		file = staged
	}
	info, err := file.Stat()
	if err != nil {
		return sources.Contents{}, err
	}
	if t.at.unpacked {
		contents, err := t.fill(from.Hidden, func(to archive.Dest) (sources.Contents, error) {
			return archive.Unpack(ctx, file, info.Size(), to, archive.Limits{})
		})
		return contents, unpacking(err)
	}
	contents, err := archive.Sum(ctx, file, info.Size(), archive.Limits{})
	if err != nil {
		return contents, unpacking(err)
	}
	mode := 0o644 &^ from.Hidden
	if from.Archive == nil {
		return contents, t.stage.Move(t.b.work.Dir, t.made, mode)
	}
	return contents, writeFile(t.b.work.Dir, t.made, mode, disk.Reader(ctx, io.NewSectionReader(file, 0, info.Size())))
}

// fill creates the directory of an unpacked package in the scratch directory.
func (t *tx) fill(hidden fs.FileMode, with func(archive.Dest) (sources.Contents, error)) (sources.Contents, error) {
	dir, err := t.b.work.Mkdir(t.made)
	if err != nil {
		return sources.Contents{}, err
	}
	defer dir.Close()
	return with(archive.Dest{Dir: dir, Hidden: hidden})
}

// unpacking adds context to an error, and a hint unless it is an error of the file
// system.
func unpacking(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("unpacking: %w", err)
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) || errors.Is(err, disk.ErrChanged) {
		return err
	}
	return sources.WithHint(err, "the archive is malformed: fetch it from another source, or report it to its publisher")
}

// publish removes the old package from the index and moves the file name from the
// scratch directory to its place.
func (b *Builder) publish(at spot, name string) error {
	b.mu.Lock()
	err := b.change()
	if err == nil && !at.unpacked {
		err = b.unindex(at.id)
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	dir, base, err := b.within(at.path)
	if err != nil {
		return err
	}
	defer dir.Close()
	there, err := dir.Lstat(base)
	if !at.unpacked && (err != nil || !there.IsDir()) { // a rename replaces a file
		return disk.Rename(b.work.Dir, name, dir, base)
	}
	old, err := b.work.Replace(name, dir, base)
	if err == nil && old != "" {
		b.warn(b.work.RemoveTree(old))
	}
	return err
}

// Find returns a package that was found anywhere in the mirror, with its hashes. It
// reads the package only if there is no valid record.
func (b *Builder) Find(ctx context.Context, p fsmirror.Package) (sources.Stored, error) {
	at := spotOf(p)
	r, err := b.look(ctx, at)
	if err != nil {
		return sources.Stored{}, sources.InPackage(p.ID, err)
	}
	return b.stored(at, r), nil
}
