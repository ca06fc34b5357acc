package store

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/staging"
)

// A Form is what a transaction makes of a package.
type Form int

// The forms.
const (
	Unpacked Form = iota // a directory
	Packed               // an archive
	Hashed               // nothing: only its hashes are recorded
)

// A Layout is the part of a transaction that depends on the store. Its methods are called by [Tx.Commit].
type Layout interface {
	// Old returns the recorded facts about the package in place. It returns no hashes if there is no usable package.
	Old() Facts

	// Improve records better facts about the package in place.
	Improve(ctx context.Context, f Facts) (sources.Stored, error)

	// Put moves the package from the scratch directory to its place, and records its facts. The evidence for it is there
	// already. Put only records the facts if the transaction is [Hashed].
	Put(ctx context.Context, f Facts) (sources.Stored, error)
}

// A Tx is the transaction of any store, see [sources.Tx]. It makes the package in a scratch directory, keeps its
// evidence and its archive, and lets the layout put it in its place. The store locks the package before.
type Tx struct {
	Layout   Layout
	Evidence *Evidence
	Now      func() time.Time

	ID       sources.PackageID
	Form     Form
	ReadOnly bool   // unpack files without write permission
	Whole    bool   // hash the contents of archives that signed checksums cover, too
	Root     string // path of the store
	Place    string // what hints call its file system

	// Exclude keeps other processes from changing the store while the package is put in its place. It may be nil.
	Exclude func(context.Context) (release func(), err error)

	NoArchive string // the hint if a package can't be packed because its source has no archive

	Scratch *disk.Scratch // of the run; nil until Prepare
	Made    string        // name of the package in Scratch
	Archive *staging.Stage
	Kept    bool // the package stays in Scratch

	KeepArchive bool            // keep the downloaded archive among the recent ones
	Sharing     staging.Sharing // how to keep the archive of a packed package
	recent      *staging.Archives

	Payload  sources.Payload
	Contents sources.Contents
	Received bool // Unpack was called

	undo []func()
}

// Finally registers a function for Close to call. Close calls the last one first.
func (t *Tx) Finally(do func()) { t.undo = append(t.undo, do) }

// Close implements [sources.Tx].
func (t *Tx) Close() {
	if t.Archive != nil {
		t.Archive.End(!t.Received)
	}
	for i := len(t.undo) - 1; i >= 0; i-- {
		t.undo[i]()
	}
}

// Explain is [sources.InPackage] with a hint if the disk is full.
func (t *Tx) Explain(err error) error { return sources.InPackage(t.ID, disk.Explain(err, t.Place)) }

// Prepare prepares to make the package in a scratch directory, and returns the stage for
// its archive. The directory for interrupted downloads, the recent ones and the observer may be nil.
func (t *Tx) Prepare(
	in *disk.Scratch, interrupted *disk.Dir, recent *staging.Archives, seen sources.Observer, warn func(error),
) *staging.Stage {
	t.Scratch, t.Made = in, in.Name()
	t.Finally(func() {
		if !t.Kept {
			warn(in.RemoveTree(t.Made))
		}
	})
	t.recent, t.Archive = recent, staging.New(in.Dir, interrupted, staging.Key(t.ID), t.Place, recent, seen)
	t.Archive.Memory = t.Form != Packed
	return t.Archive
}

// Unpack implements [sources.Tx].
func (t *Tx) Unpack(ctx context.Context, from sources.Payload) (sources.Contents, error) {
	t.Payload, t.Received = from, true
	c, err := t.make(ctx, from)
	t.Contents = c
	return c, t.Explain(err)
}

// NoArchive returns the error, with a hint, for an unpacked package that can't be packed.
func NoArchive(what, hint string) error {
	return sources.WithHint(fmt.Errorf("%s is unpacked, and its archive is not available", what), "%s", hint)
}

// make makes the package in the scratch directory.
func (t *Tx) make(ctx context.Context, from sources.Payload) (c sources.Contents, err error) {
	var to archive.Dest
	if t.Form == Unpacked {
		dir, err := t.Scratch.Mkdir(t.Made)
		if err != nil {
			return c, err
		}
		defer dir.Close()
		to = archive.Dest{Dir: dir, ReadOnly: t.ReadOnly, Hidden: from.Hidden}
	}
	switch {
	case t.Form == Packed && from.Dir != "":
		return c, NoArchive(from.Dir, t.NoArchive)
	case from.Dir != "":
		return archive.Copy(ctx, from.Dir, to)
	}
	file, size, err := t.archive(from)
	switch {
	case err != nil:
		return c, err
	case t.Form == Unpacked:
		return t.unpack(ctx, file, size, to)
	}
	if t.Form == Packed && from.Covered && !t.Whole {
		c, err = archive.List(file, size)
	} else {
		c, err = archive.Sum(ctx, file, size)
	}
	switch {
	case t.Form == Hashed:
		return c, err
	case err != nil:
		return c, malformed(err)
	}
	mode := 0o644 &^ from.Hidden
	if from.Archive == nil {
		return c, t.Archive.Move(t.Scratch.Dir, t.Made, mode)
	}
	err = WriteFile(t.Scratch.Dir, t.Made, mode, disk.Reader(ctx, io.NewSectionReader(file, 0, size)))
	return c, disk.Needs(disk.Explain(err, t.Place), size)
}

// archive returns the archive of a payload, and its size in bytes.
func (t *Tx) archive(from sources.Payload) (io.ReaderAt, int64, error) {
	if from.Archive == nil {
		return t.Archive.Contents()
	}
	info, err := from.Archive.Stat()
	if err != nil {
		return nil, 0, err
	}
	return from.Archive, info.Size(), nil
}

// Commit implements [sources.Tx].
func (t *Tx) Commit(ctx context.Context, by sources.Provenance) (sources.Stored, error) {
	s, err := t.commit(ctx, by)
	if err != nil {
		return sources.Stored{}, t.Explain(err)
	}
	return s, nil
}

func (t *Tx) commit(ctx context.Context, by sources.Provenance) (sources.Stored, error) {
	if t.Received {
		t.keepArchive(by.ZH) // which may copy it
	}
	if t.Exclude != nil {
		release, err := t.Exclude(ctx)
		if err != nil {
			return sources.Stored{}, err
		}
		defer release()
	}
	if !t.Received {
		old := t.Layout.Old()
		if old.H1 == "" && old.ZH == "" || old.ZH != by.ZH {
			return sources.Stored{}, nil // its record is missing, or is about a different archive
		}
		f := old.Improved(by)
		if err := t.Evidence.Keep(ctx, t.ID, &f, by.Signed); err != nil {
			return sources.Stored{}, err
		}
		return t.Layout.Improve(ctx, f)
	}
	f := New(t.Contents, by, t.Now())
	if t.Form != Packed { // a mirror has thousands of archives
		f.Sums = SumsOf(t.Contents)
	}
	if t.Form != Hashed {
		if _, err := archive.ExecutableIn(t.Contents, t.ID.Provider.Type); err != nil {
			return sources.Stored{}, err
		}
	}
	if err := t.Evidence.Keep(ctx, t.ID, &f, by.Signed); err != nil {
		return sources.Stored{}, err
	}
	t.Archive.Drop() // if the process is killed from here on, the package needs to be downloaded again
	return t.Layout.Put(ctx, f)
}

// keepArchive keeps a downloaded archive among the recent ones.
func (t *Tx) keepArchive(zh sources.Hash) {
	switch {
	case !t.KeepArchive || t.Payload.Local():
	case t.Form == Packed:
		t.recent.Keep(t.Scratch.Dir, t.Made, zh, t.Sharing)
	default:
		t.Archive.Keep(zh)
	}
}

// SyncMade syncs the package in the scratch directory.
func (t *Tx) SyncMade(ctx context.Context) error {
	made, err := t.Scratch.Sub(t.Made)
	if err != nil {
		return err
	}
	defer made.Close()
	return made.SyncTree(ctx)
}

// WriteFile creates a file and syncs its contents, but not its directory.
func WriteFile(in *disk.Dir, name string, mode fs.FileMode, from io.Reader) error {
	out, err := in.Create(name, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Sync(), out.Close())
}

// unpack unpacks an archive, unless its contents exceed the free space of the disk.
func (t *Tx) unpack(ctx context.Context, from io.ReaderAt, size int64, to archive.Dest) (sources.Contents, error) {
	room, ok := disk.FreeSpace(t.Root)
	if ok && room < archive.MaxSize {
		to.Size = max(room, 1)
	}
	c, err := archive.Unpack(ctx, from, size, to)
	if to.Size > 0 && errors.Is(err, archive.ErrLimit) {
		return c, disk.NoSpace(t.Root, t.Place, unpackedSize(from, size))
	}
	if ctx.Err() != nil {
		return c, err
	}
	return c, malformed(err)
}

// malformed adds context to an error of reading an archive, and a hint unless it is an
// error of the file system.
func malformed(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("unpacking: %w", err)
	if onDisk := (*fs.PathError)(nil); errors.As(err, &onDisk) || errors.Is(err, disk.ErrChanged) {
		return err
	}
	return sources.WithHint(err, "the archive is malformed: fetch it from another source, or report it to its publisher")
}

// unpackedSize is how many bytes an archive says that it unpacks to; 0 if it can't be read.
func unpackedSize(from io.ReaderAt, size int64) int64 {
	listed, err := zip.NewReader(from, size)
	if err != nil {
		return 0
	}
	sum := int64(0)
	for _, f := range listed.File {
		sum += int64(min(f.UncompressedSize64, math.MaxInt32))
	}
	return sum
}
