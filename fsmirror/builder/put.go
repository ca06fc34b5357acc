package builder

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/staging"
)

// Get returns what the mirror has for id, in the layout of new packages. It reads
// the package only if it has no record. The error matches [sources.ErrNotFound] if
// the mirror has no such package.
func (b *Builder) Get(ctx context.Context, id sources.PackageID) (sources.Stored, error) {
	at := b.place(id, b.opts.Unpacked)
	r, err := b.look(ctx, at)
	if err != nil {
		return sources.Stored{}, named(id, err)
	}
	return b.stored(at, r), nil
}

// Recall returns what was recorded about a package.
func (b *Builder) Recall(id sources.PackageID) (sources.Stored, error) {
	at := b.place(id, b.opts.Unpacked)
	r, err := b.recall(at)
	if err == nil && r.Verdict == sources.Unverified {
		err = sources.ErrNotFound
	}
	if err != nil {
		return sources.Stored{}, named(id, err)
	}
	s := b.stored(at, r)
	s.Dir = ""
	return s, nil
}

// look returns the record of a package, which it hashes if it has changed.
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
		return old, nil
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
	return fresh, nil
}

// same reports whether a package has the hashes of its record. Only the record has
// the checksum of the archive that an unpacked package came from.
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
	f, info, err := disk.OpenFile(path)
	if err != nil {
		return record{}, sources.Contents{}, err
	}
	defer f.Close()
	contents, err := archive.Sum(ctx, f, info.Size(), archive.Limits{})
	if err != nil {
		return record{}, contents, fmt.Errorf("%s: %w", path, err)
	}
	sum, _, err := disk.Hash(ctx, f)
	return record{H1: contents.H1, ZipH1: contents.ZipH1, ZH: sources.ZipHash(sum)}, contents, err
}

func (b *Builder) stored(at spot, r record) sources.Stored {
	s := sources.Stored{
		ID: at.id, Dir: at.path, H1: r.H1, ZipH1: r.ZipH1, ZH: r.ZH, Filename: at.id.Filename(),
		Verdict: r.Verdict, Origin: r.Origin, Since: r.Since, Differs: r.differs,
	}
	if r.differs != "" {
		return s
	}
	kept, err := evidence.Read(b.evidence(at.id.Provider, at.id.Version))
	if err != nil {
		return s
	}
	signed, same := evidence.Resolve(kept, r.Evidence)
	if same {
		s.Signed = signed
		return s
	}
	return b.vouched(at, r, s, signed)
}

// vouched is a package with a new verdict, from evidence that its record is not
// about.
func (b *Builder) vouched(at spot, r record, s sources.Stored, signed *sources.Signed) sources.Stored {
	if b.opts.Vouch == nil || r.ZH == "" {
		return s
	}
	with := s
	with.Signed = signed
	verdict, err := b.opts.Vouch(with)
	if err != nil {
		return s
	}
	r.Verdict, r.Evidence = verdict, evidence.Reference(signed)
	b.note(at, r)
	with.Verdict = verdict
	return with
}

// Put puts a package into the mirror, unless the delivery accepts the one that is
// there. The index does not name it before [Builder.Finish].
func (b *Builder) Put(ctx context.Context, id sources.PackageID, del sources.Delivery) (sources.Stored, error) {
	leave, err := b.enter(ctx, id)
	if err != nil {
		return sources.Stored{}, named(id, err)
	}
	defer leave()
	at := b.place(id, b.opts.Unpacked)
	if err := b.checkPlace(at); err != nil {
		return sources.Stored{}, named(id, err)
	}
	s, err := b.Get(ctx, id)
	if err == nil && del.Accept(s) {
		return b.regarded(s, del)
	}
	r, err := b.put(ctx, at, del)
	if err != nil {
		return sources.Stored{}, named(id, disk.Explain(err, place))
	}
	b.note(at, r)
	return b.stored(at, r), nil
}

// checkPlace returns an error if something other than a directory is in the place of
// one that a package would be in.
func (b *Builder) checkPlace(at spot) error {
	dir, _ := split(b.relative(at.path))
	return checkDir(b.dir, dir)
}

// split splits a path below the mirror.
func split(file string) (dir, name string) { return path.Dir(file), path.Base(file) }

// regarded is a package that was there, with better evidence from the delivery's
// source, if it has some: that of another mirror.
func (b *Builder) regarded(s sources.Stored, del sources.Delivery) (sources.Stored, error) {
	at := b.place(s.ID, b.opts.Unpacked)
	r, err := b.recall(at)
	if del.Regard == nil || err != nil {
		return s, nil //nolint:nilerr // what is there stays as it is
	}
	signed, verdict := del.Regard(s)
	if signed == nil {
		return s, nil
	}
	r.Verdict = verdict
	if err := b.keepEvidence(s.ID, &r, signed); err != nil {
		return sources.Stored{}, named(s.ID, disk.Explain(err, place))
	}
	b.note(at, r)
	return b.stored(at, r), nil
}

// canHave returns an error if the file system has no directories with the name of the
// host, before anything is downloaded: some have no names with a colon.
func (b *Builder) canHave(h sources.Host, work *disk.Dir) error {
	if !strings.Contains(string(h), ":") {
		return nil
	}
	probe, err := b.mkdir(work, string(h))
	if err == nil {
		return probe.Close()
	}
	err = fmt.Errorf("making a directory for a host with a port: %w", err)
	if disk.IsFull(err) {
		return err
	}
	return sources.WithHint(err,
		"FAT, exFAT and Windows have no colons in names; make the mirror on another file system, or leave out what is from this host")
}

// made is the name of a package in a scratch directory.
const made = "new"

func (b *Builder) put(ctx context.Context, at spot, del sources.Delivery) (record, error) {
	work, done, err := b.scratch()
	if err != nil {
		return record{}, err
	}
	defer done()
	if err := b.canHave(at.id.Provider.Host, work.Dir); err != nil {
		return record{}, err
	}
	parcel, contents, err := b.receive(ctx, at.id, del, work.Dir)
	if err != nil {
		return record{}, err
	}
	verdict, err := del.Judge(contents)
	if err != nil {
		return record{}, err
	}
	r := record{
		H1: contents.H1, ZipH1: contents.ZipH1, ZH: parcel.ZH,
		Verdict: verdict, Origin: parcel.Origin, Since: b.opts.Now().UTC(),
	}
	if err := b.keepEvidence(at.id, &r, parcel.Signed); err != nil {
		return record{}, err
	}
	if at.unpacked {
		err = syncTree(ctx, work.Dir)
	}
	if err == nil {
		err = b.publish(at, work.Dir, made, work)
	}
	if err != nil {
		return record{}, err
	}
	r.Mark, err = mark(at)
	return r, err
}

// syncTree syncs the unpacked package in a scratch directory.
func syncTree(ctx context.Context, work *disk.Dir) error {
	dir, err := work.Sub(made)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.SyncTree(ctx)
}

// receive fetches a package and makes it what the mirror is to have, in the scratch
// directory work.
func (b *Builder) receive(ctx context.Context, id sources.PackageID, del sources.Delivery, work *disk.Dir) (sources.Parcel, sources.Contents, error) {
	stage := staging.New(work, b.partial, partialName(id))
	cut := true
	defer func() { stage.End(cut) }()
	parcel, err := del.Fetch(ctx, stage)
	if err != nil {
		return parcel, sources.Contents{}, err
	}
	cut = false
	contents, err := b.make(ctx, parcel, stage, work)
	if err == nil {
		_, err = archive.ExecutableIn(contents, id.Provider.Type)
	}
	return parcel, contents, err
}

// partialName is the name of a package's file in .larder/partial.
func partialName(id sources.PackageID) string {
	const long = 200 // bytes; file systems take 255, and there are suffixes
	name := strings.ReplaceAll(id.Path(), "/", "~")
	if len(name) <= long {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

func (b *Builder) make(ctx context.Context, parcel sources.Parcel, stage *staging.Stage, work *disk.Dir) (sources.Contents, error) {
	switch {
	case parcel.Dir != "" && b.opts.Unpacked:
		return fill(work, func(to archive.Dest) (sources.Contents, error) {
			return archive.Copy(ctx, parcel.Dir, to, archive.Limits{})
		})
	case parcel.Dir != "":
		err := fmt.Errorf("%s is unpacked, and its archive is not available", parcel.Dir)
		return sources.Contents{}, sources.WithHint(err, "take it from where it is packed, or make the mirror with --unpacked")
	}
	from, err := parcel.Archive, error(nil)
	if from == nil {
		from, err = stage.File()
	}
	if err != nil {
		return sources.Contents{}, err
	}
	info, err := from.Stat()
	if err != nil {
		return sources.Contents{}, err
	}
	if b.opts.Unpacked {
		contents, err := fill(work, func(to archive.Dest) (sources.Contents, error) {
			return archive.Unpack(ctx, from, info.Size(), to, archive.Limits{})
		})
		return contents, unpacking(err)
	}
	contents, err := archive.Sum(ctx, from, info.Size(), archive.Limits{})
	if err != nil {
		return contents, unpacking(err)
	}
	if parcel.Archive == nil {
		return contents, stage.Move(work, made)
	}
	// A user who may not read the archive may not read the copy either.
	mode := 0o600 | info.Mode().Perm()&0o044
	return contents, writeFile(work, made, mode, disk.Reader(ctx, io.NewSectionReader(from, 0, info.Size())))
}

// fill creates the directory of an unpacked package in a scratch directory.
func fill(work *disk.Dir, with func(archive.Dest) (sources.Contents, error)) (sources.Contents, error) {
	dir, err := work.Mkdir(made)
	if err != nil {
		return sources.Contents{}, err
	}
	defer dir.Close()
	return with(archive.Dest{Dir: dir})
}

// unpacking adds to an error what it happened at, and a hint unless it is an error of
// the file system.
func unpacking(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("unpacking: %w", err)
	if pathErr := (*fs.PathError)(nil); errors.As(err, &pathErr) {
		return err
	}
	return sources.WithHint(err, "the archive is malformed: fetch it from another source, or report it to its publisher")
}

// publish gives what is called name in the directory from its place, after the index
// no longer names what is there.
func (b *Builder) publish(at spot, from *disk.Dir, name string, work *disk.Scratch) error {
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
	if !at.unpacked && (err != nil || !there.IsDir()) { // renaming replaces a file
		return disk.Rename(from, name, dir, base)
	}
	if from != work.Dir {
		if err := disk.Rename(from, name, work.Dir, made); err != nil {
			return err
		}
	}
	return work.Replace(made, dir, base)
}

// named adds the package to an error that does not name it.
func named(id sources.PackageID, err error) error {
	var already *sources.PackageError
	if err == nil || errors.As(err, &already) {
		return err
	}
	return &sources.PackageError{ID: id, Err: err}
}
