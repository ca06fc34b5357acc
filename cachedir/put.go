package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/staging"
)

// Put stores a package, unless there is an entry that the delivery accepts, perhaps
// only because another process was downloading it while Put waited. The entry
// becomes visible whole, once it has been judged, or not at all.
func (d *Dir) Put(ctx context.Context, id sources.PackageID, del sources.Delivery) (sources.Stored, error) {
	s, err := d.put(ctx, id, del)
	if err != nil {
		return sources.Stored{}, explained(id, err)
	}
	return s, nil
}

func (d *Dir) put(ctx context.Context, id sources.PackageID, del sources.Delivery) (sources.Stored, error) {
	var none sources.Stored
	if d.readOnly != nil {
		return none, d.unwritable()
	}
	release, err := d.Use(ctx)
	if err != nil {
		return none, err
	}
	defer release()
	d.sweep.Do(d.removeLeftovers)
	unlock, err := d.lock(ctx, id)
	if err != nil {
		return none, err
	}
	defer unlock()
	home, err := d.home(id, true)
	if err != nil {
		return none, err
	}
	defer home.Close()
	if d.through == "" { // for what is not replaced there is nothing to lock
		unlockTofu, err := d.lockTofu(ctx, home, id)
		if err != nil {
			return none, err
		}
		defer unlockTofu()
	}

	old, err := d.find(ctx, id, d.entry(id), recordPath(id))
	if err == nil {
		if s := d.stored(id, d.entry(id), old); del.Accept(s) {
			return s, nil
		}
	}
	if d.through != "" && home.Exists(id.Platform.String()) {
		return none, notReplaced(d.entry(id), d.through)
	}
	// Whatever is wrong with an entry, replacing it is the cure.
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	work, err := d.newWork()
	if err != nil {
		return none, err
	}
	defer work.close(d)
	r, parcel, err := d.build(ctx, id, del, work)
	if err != nil {
		return none, err
	}
	r, parcel.Signed = d.recognise(id, r, parcel.Signed)
	if r, err = d.show(ctx, id, home, old, r, parcel.Signed, work); err != nil {
		return none, err
	}
	d.keepKnown(id, r, parcel, work.notes)
	return stored(id, d.entry(id), r, parcel.Signed), nil
}

// notReplaced is the error of a package in a working directory that a link leads to.
// Who made the link, and what else relies on what it leads to, is unknown.
func notReplaced(entry, link string) error {
	err := fmt.Errorf("%s is another build of the package, and is not replaced because %s is a symbolic link", entry, link)
	return sources.WithHint(err, "remove the package, or the link, then run the command again")
}

const runPrefix, stagePrefix = "run-", ".larder-"

// A work has the scratch directories of one package: one on the tree's file system,
// and one for records on that of the state, which may be the same, or nil without a
// state.
type work struct {
	*disk.Scratch
	notes *disk.Scratch
}

func (d *Dir) newWork() (w work, err error) {
	if d.state != nil {
		if w.notes, err = d.scratch(); err != nil {
			return w, err
		}
	}
	if w.Scratch = w.notes; d.inside {
		return w, nil
	}
	if w.Scratch, err = d.tree.Scratch(stagePrefix); err != nil && w.notes != nil {
		d.warn(w.notes.Close())
	}
	return w, err
}

// scratch makes a scratch directory for what is written to the state.
func (d *Dir) scratch() (*disk.Scratch, error) { return d.state.ScratchIn("tmp", runPrefix) }

// close removes the directories. What resists, as a running provider does on some
// file systems, is removed by a later run.
func (w work) close(d *Dir) {
	d.warn(w.Scratch.Close())
	if w.notes != nil && w.notes != w.Scratch {
		d.warn(w.notes.Close())
	}
}

// build makes the package in a directory, judged.
func (d *Dir) build(ctx context.Context, id sources.PackageID, del sources.Delivery, w work) (record, sources.Parcel, error) {
	made, err := w.Mkdir("new")
	if err != nil {
		return record{}, sources.Parcel{}, err
	}
	defer made.Close()
	r, parcel, err := d.receive(ctx, id, del, w.Dir, into{d, archive.Dest{Dir: made, ReadOnly: d.seals()}})
	if err != nil {
		return record{}, parcel, err
	}
	if _, err := archive.Executable(made.Path("."), id.Provider.Type); err != nil {
		return record{}, parcel, err
	}
	if r.Boot, err = flushed(ctx, made); err != nil {
		return record{}, parcel, err
	}
	r.Files, err = scan(made.Path("."))
	return r, parcel, err
}

// seals reports whether packages are stored with files that nobody may write to.
// In an engine's own plugin cache they are not: Terraform unpacks in place there, and
// would fail with "permission denied".
func (d *Dir) seals() bool { return d.inside && !d.opts.Shared }

// receive fetches a package, has it hashed, and has it judged. The record has no
// files.
func (d *Dir) receive(ctx context.Context, id sources.PackageID, del sources.Delivery, w *disk.Dir, by hasher) (record, sources.Parcel, error) {
	parcel, contents, err := d.accept(ctx, id, del, w, by)
	if err != nil {
		return record{}, parcel, err
	}
	verdict, err := del.Judge(contents)
	return record{
		H1: contents.H1, ZipH1: contents.ZipH1, ZH: parcel.ZH, Sums: sumsOf(contents), Since: d.opts.Now().UTC(),
		Filename: parcel.Filename, Origin: parcel.Origin,
		Verdict: verdict, Evidence: digest(parcel.Signed),
	}, parcel, err
}

// A hasher finds out what a package consists of, and keeps it or does not.
type hasher interface {
	dir(ctx context.Context, from string) (sources.Contents, error)
	archive(ctx context.Context, from io.ReaderAt, size int64) (sources.Contents, error)
	files(ctx context.Context, from sources.Files) (sources.Contents, error)
}

// into is a hasher that keeps packages in a directory.
type into struct {
	*Dir
	to archive.Dest
}

func (in into) dir(ctx context.Context, from string) (sources.Contents, error) {
	return archive.Copy(ctx, from, in.to, archive.Limits{})
}

func (in into) archive(ctx context.Context, from io.ReaderAt, size int64) (sources.Contents, error) {
	return in.unpack(ctx, from, size, in.to)
}

func (in into) files(ctx context.Context, from sources.Files) (sources.Contents, error) {
	return archive.Receive(ctx, from, in.to, archive.Limits{})
}

// accept fetches a package and has it hashed.
func (d *Dir) accept(ctx context.Context, id sources.PackageID, del sources.Delivery, w *disk.Dir, by hasher) (sources.Parcel, sources.Contents, error) {
	kept, err := d.partial()
	if err != nil {
		return sources.Parcel{}, sources.Contents{}, err
	}
	if kept != nil {
		defer kept.Close()
	}
	staged := staging.New(w, kept, flat(id.Path()))
	interrupted := true
	defer func() { staged.End(interrupted) }()
	parcel, err := del.Fetch(ctx, staged)
	if err != nil {
		return parcel, sources.Contents{}, err
	}
	interrupted = false
	switch {
	case parcel.Files != nil:
		contents, err := by.files(ctx, parcel.Files)
		return parcel, contents, err
	case parcel.Dir != "":
		contents, err := by.dir(ctx, parcel.Dir)
		return parcel, contents, err
	}
	from := parcel.Archive
	if from == nil {
		if from, err = staged.File(); err != nil {
			return parcel, sources.Contents{}, err
		}
	}
	info, err := from.Stat()
	if err != nil {
		return parcel, sources.Contents{}, err
	}
	contents, err := by.archive(ctx, from, info.Size())
	return parcel, contents, err
}

// partial opens the directory for interrupted downloads. It is nil without a state.
func (d *Dir) partial() (*disk.Dir, error) {
	if d.state == nil {
		return nil, nil
	}
	return d.state.MakeSub("partial")
}

// unpack unpacks an archive, unless it holds more than the disk has room for.
func (d *Dir) unpack(ctx context.Context, from io.ReaderAt, size int64, to archive.Dest) (sources.Contents, error) {
	var lim archive.Limits
	room, ok := disk.FreeSpace(d.root)
	if ok && room < archive.MaxSize {
		lim.Size = max(room, 1)
	}
	contents, err := archive.Unpack(ctx, from, size, to, lim)
	if err == nil || ctx.Err() != nil {
		return contents, err
	}
	err = fmt.Errorf("unpacking: %w", err)
	var onDisk *fs.PathError
	switch {
	case errors.As(err, &onDisk):
	case lim.Size > 0 && errors.Is(err, archive.ErrLimit):
		err = sources.WithHint(err, "the disk of %s has %d bytes free: free some space, or choose another directory for the plugin cache", d.root, room)
	default:
		err = sources.WithHint(err, "the archive is malformed: fetch it from another source, or report it to its publisher")
	}
	return contents, err
}

// show makes the package of r visible in home, in place of old, and returns its record.
func (d *Dir) show(ctx context.Context, id sources.PackageID, home *disk.Dir, old, r record, signed *sources.Signed, w work) (record, error) {
	if err := d.keepEvidence(ctx, id, signed, w.notes); err != nil {
		return r, err
	}
	name := id.Platform.String()
	if info, err := home.Lstat(name); err == nil && info.IsDir() && old.H1 == r.H1 {
		// The same bytes are there already, perhaps linked and running. Only what
		// is known of them was missing.
		r.Files, r.Boot = old.Files, old.Boot
	} else if err := d.replace(w, home, id); err != nil {
		return r, err
	}
	d.keepRecord(recordPath(id), r, w.notes)
	return r, nil
}

// replace gives what was made the place of the entry for id.
func (d *Dir) replace(w work, home *disk.Dir, id sources.PackageID) error {
	old, err := w.ReplaceAnd("new", home, id.Platform.String())
	if err == nil && old != "" && d.opts.KeepOld {
		_, err = d.aside.move(d, w.Dir, old, id.Path())
	}
	return err
}

// removeLeftovers removes what killed processes have left. The caller uses the
// cache, or cleans it.
func (d *Dir) removeLeftovers() {
	if !d.inside && d.through == "" {
		d.tree.Sweep(stagePrefix, d.opts.Now(), d.warn)
	}
	if d.state == nil {
		return
	}
	if tmp, err := d.state.MakeSub("tmp"); err != nil {
		d.warn(err)
	} else {
		tmp.Sweep(runPrefix, d.opts.Now(), d.warn)
		tmp.Close()
	}
	if kept, err := d.partial(); err != nil {
		d.warn(err)
	} else {
		d.warn(staging.Sweep(kept, d.opts.Now()))
		kept.Close()
	}
}
