package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/staging"
)

// Put stores a package, unless there is an entry that the delivery accepts,
// perhaps only since Put waits for whoever is fetching it. It becomes visible
// whole, once it has been judged, or not at all.
func (d *Dir) Put(ctx context.Context, id sources.PackageID, del sources.Delivery) (sources.Stored, error) {
	s, err := d.put(ctx, id, del)
	if err != nil {
		return sources.Stored{}, named(id, noSpace(err))
	}
	return s, nil
}

func (d *Dir) put(ctx context.Context, id sources.PackageID, del sources.Delivery) (sources.Stored, error) {
	var none sources.Stored
	if d.readOnly != nil {
		return none, fmt.Errorf("the plugin cache cannot be written: %w", d.readOnly)
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
	unlockTofu, err := d.lockTofu(ctx, id)
	if err != nil {
		return none, err
	}
	defer unlockTofu()

	old, err := d.find(ctx, id, d.entry(id), d.recordPath(id))
	if err == nil {
		if s := d.stored(id, d.entry(id), old); del.Accept(s) {
			return s, nil
		}
	}
	// Whatever is wrong with an entry, replacing it is the cure.
	if ctx.Err() != nil {
		return none, ctx.Err()
	}
	work, err := d.makeWorkspace(id)
	if err != nil {
		return none, err
	}
	defer os.RemoveAll(work) // what stays is swept another time
	r, parcel, err := d.build(ctx, id, del, work)
	if err != nil {
		return none, err
	}
	r, parcel.Signed = d.recognise(id, r, parcel.Signed)
	if err := d.show(ctx, id, old, r, parcel.Signed, work); err != nil {
		return none, err
	}
	d.keepKnown(id, r, parcel)
	return stored(id, d.entry(id), r, parcel.Signed), nil
}

// build makes the package in the workspace, judged.
func (d *Dir) build(ctx context.Context, id sources.PackageID, del sources.Delivery, work string) (record, sources.Parcel, error) {
	made := filepath.Join(work, "new")
	if err := os.Mkdir(made, 0o755); err != nil {
		return record{}, sources.Parcel{}, err
	}
	r, parcel, err := d.receive(ctx, id, del, work, into{d, made})
	if err != nil {
		return record{}, parcel, err
	}
	if _, err := archive.Executable(made, id.Provider.Type); err != nil {
		return record{}, parcel, err
	}
	if r.Boot, err = flushed(ctx, made); err != nil {
		return record{}, parcel, err
	}
	r.Files, err = scan(made)
	return r, parcel, err
}

// receive fetches a package, has it hashed, and has it judged. The record does
// not tell of files.
func (d *Dir) receive(ctx context.Context, id sources.PackageID, del sources.Delivery, work string, by hasher) (record, sources.Parcel, error) {
	parcel, contents, err := d.accept(ctx, id, del, work, by)
	if err != nil {
		return record{}, parcel, err
	}
	verdict, err := del.Judge(contents)
	return record{
		H1: contents.H1, ZipH1: contents.ZipH1, ZH: parcel.ZH,
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
	made string
}

func (to into) dir(ctx context.Context, from string) (sources.Contents, error) {
	return archive.Copy(ctx, from, to.made, archive.Limits{})
}

func (to into) archive(ctx context.Context, from io.ReaderAt, size int64) (sources.Contents, error) {
	return to.unpack(ctx, from, size, to.made)
}

func (to into) files(ctx context.Context, from sources.Files) (sources.Contents, error) {
	return archive.Receive(ctx, from, to.made, archive.Limits{})
}

// accept fetches a package and has it hashed.
func (d *Dir) accept(ctx context.Context, id sources.PackageID, del sources.Delivery, work string, by hasher) (sources.Parcel, sources.Contents, error) {
	staged := staging.New(work, d.keptPath(id))
	cut := true
	defer func() { staged.End(cut) }()
	parcel, err := del.Fetch(ctx, staged)
	if err != nil {
		return parcel, sources.Contents{}, err
	}
	cut = false
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

// keptPath is where the archive of a package lies that was cut short.
func (d *Dir) keptPath(id sources.PackageID) string {
	return filepath.Join(d.opts.State, "partial", filepath.FromSlash(id.Path()))
}

// unpack unpacks an archive, unless it says that it holds more than there is
// room for.
func (d *Dir) unpack(ctx context.Context, from io.ReaderAt, size int64, made string) (sources.Contents, error) {
	var lim archive.Limits
	room, ok := freeSpace(d.tmp())
	if ok && room < 8<<30 { // which no package unpacks to anyway
		lim.Size = max(room, 1)
	}
	contents, err := archive.Unpack(ctx, from, size, made, lim)
	if err == nil || ctx.Err() != nil {
		return contents, err
	}
	err = fmt.Errorf("unpacking: %w", err)
	var disk *fs.PathError
	switch {
	case errors.As(err, &disk):
	case lim.Size > 0 && errors.Is(err, archive.ErrLimit):
		err = sources.WithHint(err, "the disk of %s has %d bytes free", d.root, room)
	default:
		err = sources.WithHint(err, "the archive is not as it should be; take it from elsewhere, or tell whoever publishes it")
	}
	return contents, err
}

// show makes the package of r visible, in place of old.
func (d *Dir) show(ctx context.Context, id sources.PackageID, old, r record, signed *sources.Signed, work string) error {
	if err := d.keepEvidence(ctx, id, signed); err != nil {
		return err
	}
	entry := d.entry(id)
	if info, err := os.Lstat(entry); err == nil && info.IsDir() && old.H1 == r.H1 {
		// The same bytes are there already, perhaps linked and running. All
		// that was missing is what we know of them now.
		r.Files, r.Boot = old.Files, old.Boot
	} else if err := replace(filepath.Join(work, "new"), entry, work); err != nil {
		return err
	}
	d.keepRecord(d.recordPath(id), r)
	return nil
}

// makeWorkspace makes a directory to build the package in, below one that only
// who holds the package's lock may use. So whatever is there is rubbish. It may
// resist removal, as a provider that still runs does on some file systems.
func (d *Dir) makeWorkspace(id sources.PackageID) (string, error) {
	parent := filepath.Join(d.tmp(), filepath.FromSlash(id.Path()))
	os.RemoveAll(parent)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(parent, "")
}

// removeUnlocked removes the directories of packages that nobody has locked, if
// old says so of them.
func (d *Dir) removeUnlocked(from *os.Root, old func(fs.FileInfo) bool) {
	paths, _ := fs.Glob(from.FS(), "*/*/*/*/*")
	for _, path := range paths {
		l := d.newLock(path)
		if ok, err := l.try(); err != nil || !ok {
			continue
		}
		if info, err := from.Lstat(path); err == nil && old(info) {
			d.warn(from.RemoveAll(path))
		}
		l.free()
	}
}

// removeLeftovers removes what processes that were killed have left: packages
// half made or half removed, and records that never got to their place. The
// caller uses the cache, or cleans it.
func (d *Dir) removeLeftovers() {
	tmp, err := os.OpenRoot(d.tmp()) // so as not to be led out of it by links
	if err != nil {
		d.warn(err)
		return
	}
	defer tmp.Close()
	removed, _ := fs.Glob(tmp.FS(), removedPrefix+"*")
	for _, path := range removed {
		d.warn(tmp.RemoveAll(path))
	}
	d.removeUnlocked(tmp, func(fs.FileInfo) bool { return true })
	d.removeTemps(tmp)
	if partial, err := os.OpenRoot(filepath.Join(d.opts.State, "partial")); err == nil {
		defer partial.Close()
		d.removeUnlocked(partial, func(info fs.FileInfo) bool { return abandoned(info, d.opts.Now()) })
	}
}
