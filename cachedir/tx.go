package cachedir

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/staging"
)

// A tx is the transaction of one package, see [sources.Tx]. It holds the package's
// locks.
type tx struct {
	d       *Dir
	id      sources.PackageID
	purpose sources.Purpose
	home    *disk.Dir     // directory of the entry; nil if the package is only hashed, or if denied is set
	denied  error         // why this user can't replace or add the entry of a cache of several users
	notes   *disk.Scratch // for records; nil without a state
	scratch *disk.Scratch // for the package
	made    string        // name of the package in scratch
	stage   *staging.Stage

	old      record // of the entry in place; without H1 if there is no usable one
	known    record // of the contents as verified here; without H1 if not recorded
	payload  sources.Payload
	from     *original // of the payload; nil if it was downloaded, or changed meanwhile
	contents sources.Contents
	unpacked bool
	kept     bool // the package stays in scratch
	undo     []func()
}

// Begin begins a transaction, see [sources.Tx]. It waits until no other process
// stores the package. If another process downloads it meanwhile, Begin returns the
// downloaded package.
func (d *Dir) Begin(ctx context.Context, id sources.PackageID, purpose sources.Purpose) (sources.Held, sources.Tx, error) {
	t := &tx{d: d, id: id, purpose: purpose}
	held, err := t.begin(ctx)
	if err != nil {
		t.Close()
		return held, nil, d.explained(id, err)
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
	t.finally(release)
	d.sweep.Do(d.removeLeftovers)
	unlock, err := d.lock(ctx, t.id)
	if err != nil {
		return held, err
	}
	t.finally(unlock)
	t.known, err = d.tryRecord(knownPath(t.id))
	if disk.IsUnread(err) {
		return held, err
	}
	if err == nil {
		held.Known = d.stored(t.id, "", t.known)
	} else if held.Known, err = d.recallEntry(t.id); err != nil && !errors.Is(err, sources.ErrNotFound) {
		return held, err
	}
	if t.purpose == sources.ToHash {
		return held, nil
	}
	held.Package, err = t.lookUp(ctx)
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
	t.old, _ = d.find(ctx, t.id, d.entry(t.id), recordPath(t.id)) // an error of any kind leads to the replacement of the entry
	if ctx.Err() != nil {
		return sources.Stored{}, ctx.Err()
	}
	if t.old.H1 == "" {
		return sources.Stored{}, nil
	}
	return d.stored(t.id, d.entry(t.id), t.old), nil
}

// openHome opens the directory of the entry and takes OpenTofu's lock in it. In a cache of
// several users, a lack of permission means that this user can't replace the entry.
func (t *tx) openHome(ctx context.Context) error {
	d := t.d
	home, err := d.home(t.id, true)
	if err != nil {
		return err
	}
	t.home = home
	t.finally(func() { home.Close() })
	if d.through != "" { // an entry behind a link is not replaced and requires no lock
		return nil
	}
	unlock, err := d.lockTofu(ctx, home, t.id)
	if err != nil {
		return err
	}
	t.finally(unlock)
	if d.shared {
		return home.Replaceable(t.id.Platform.String())
	}
	return nil
}

// finally registers a function for Close to call. Close calls the last one first.
func (t *tx) finally(do func()) { t.undo = append(t.undo, do) }

// Stage implements [sources.Tx].
func (t *tx) Stage() (sources.Stage, error) {
	if t.d.through != "" && t.purpose == sources.ToStore && t.home.Exists(t.id.Platform.String()) {
		return nil, t.d.explained(t.id, notReplaced(t.d.entry(t.id), t.d.through))
	}
	if err := t.prepare(); err != nil {
		return nil, t.d.explained(t.id, err)
	}
	return t.stage, nil
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

// Unpack implements [sources.Tx].
func (t *tx) Unpack(ctx context.Context, from sources.Payload) (sources.Contents, error) {
	t.payload, t.unpacked = from, true
	var err error
	if t.purpose == sources.ToHash {
		t.contents, err = t.read(ctx, from, nil)
		return t.contents, t.d.explained(t.id, err)
	}
	made, err := t.scratch.Mkdir(t.made)
	if err != nil {
		return t.contents, t.d.explained(t.id, err)
	}
	defer made.Close()
	t.from = originalOf(from)
	t.contents, err = t.read(ctx, from, &archive.Dest{Dir: made, ReadOnly: t.d.seals(), Hidden: from.Hidden})
	if now := originalOf(from); now == nil || t.from == nil || *now != *t.from {
		t.from = nil
	}
	return t.contents, t.d.explained(t.id, err)
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

// read hashes a package, and unpacks it unless to is nil.
func (t *tx) read(ctx context.Context, from sources.Payload, to *archive.Dest) (sources.Contents, error) {
	var none archive.Limits
	switch {
	case from.Files != nil && to == nil:
		return archive.Receive(ctx, from.Files, archive.Dest{}, none)
	case from.Files != nil:
		return archive.Receive(ctx, from.Files, *to, none)
	case from.Dir != "" && to == nil:
		return archive.Hash(ctx, from.Dir)
	case from.Dir != "":
		return archive.Copy(ctx, from.Dir, *to, none)
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
	switch {
	case err != nil:
		return sources.Contents{}, err
	case to == nil:
		return archive.Sum(ctx, file, info.Size(), none)
	}
	return t.d.unpack(ctx, file, info.Size(), *to)
}

// Commit implements [sources.Tx].
func (t *tx) Commit(ctx context.Context, by sources.Provenance) (sources.Stored, error) {
	s, err := t.commit(ctx, by)
	if err != nil {
		return sources.Stored{}, t.d.explained(t.id, err)
	}
	return s, nil
}

func (t *tx) commit(ctx context.Context, by sources.Provenance) (sources.Stored, error) {
	d := t.d
	if !t.unpacked {
		return t.improve(ctx, by)
	}
	r := record{
		H1: t.contents.H1, ZipH1: t.contents.ZipH1, ZH: by.ZH, Sums: sumsOf(t.contents), Since: d.opts.Now().UTC(),
		Filename: by.Filename, Origin: by.Origin, Proof: by.Proof, Evidence: evidence.Reference(by.Signed), From: t.from,
	}
	if t.purpose == sources.ToHash {
		if err := d.keepEvidence(ctx, t.id, &r, by.Signed, t.notes); err != nil {
			return sources.Stored{}, err
		}
		t.dropArchive(by)
		return d.stored(t.id, "", t.keepKnown(r, by.Imported)), nil
	}
	r, signed, err := t.finish(ctx, r, by.Signed)
	if err != nil {
		return sources.Stored{}, err
	}
	t.dropArchive(by) // if the process is killed from here on, the package is in place and needs no download
	if r, err = t.show(ctx, r, signed); err != nil {
		return sources.Stored{}, err
	}
	t.keepKnown(r, by.Imported)
	if t.kept {
		return t.setApart(r), nil
	}
	return d.stored(t.id, d.entry(t.id), r), nil
}

// setApart describes a package that this user can't put into the cache. It stays among
// the temporary files of this run, long enough to be copied to a working directory.
func (t *tx) setApart(r record) sources.Stored {
	s := t.d.stored(t.id, t.scratch.Path(t.made), r)
	s.Temporary = true
	t.d.warn(fmt.Errorf("%s: not added to the plugin cache: %w", t.id, t.d.explainOwner(t.denied)))
	return s
}

// dropArchive removes the archive from the stage, and any interrupted download of it. If
// it came from there, it may be kept among the recent downloads.
func (t *tx) dropArchive(by sources.Provenance) {
	if t.d.opts.KeepArchives && !t.payload.Local() {
		t.stage.Keep(by.ZH)
	}
	t.stage.Drop()
}

// finish completes the record of the unpacked package.
func (t *tx) finish(ctx context.Context, r record, signed *sources.Signed) (record, *sources.Signed, error) {
	if _, err := archive.ExecutableIn(t.contents, t.id.Provider.Type); err != nil {
		return r, signed, err
	}
	made, err := t.scratch.Sub(t.made)
	if err != nil {
		return r, signed, err
	}
	defer made.Close()
	if r.Boot, err = flushed(ctx, made); err != nil {
		return r, signed, err
	}
	if r.Files, err = scan(made.Path(".")); err != nil {
		return r, signed, err
	}
	if _, err := checkExecutable(made.Path("."), r.Files, t.id); err != nil { // although Larder has just made it executable
		return r, signed, sources.WithHint(err, "the file system keeps no execute permissions: choose another one for %s", t.d.place())
	}
	r, signed = t.recognise(r, signed)
	return r, signed, nil
}

// improve records better evidence for the entry.
func (t *tx) improve(ctx context.Context, by sources.Provenance) (sources.Stored, error) {
	if t.old.H1 == "" || t.old.ZH != by.ZH {
		return sources.Stored{}, nil
	}
	notes, err := t.d.run.forRecords(t.d)
	if err != nil {
		return sources.Stored{}, err
	}
	t.notes = notes
	r := t.old
	r.Proof, r.Evidence = by.Proof, evidence.Reference(by.Signed)
	r.Proof.Matched = r.Proof.Matched || t.old.Proof.Matched
	if err := t.d.keepEvidence(ctx, t.id, &r, by.Signed, notes); err != nil {
		return sources.Stored{}, err
	}
	t.d.keepRecord(recordPath(t.id), r, notes)
	t.keepKnown(r, r.Imported)
	return t.d.stored(t.id, t.d.entry(t.id), r), nil
}

// notReplaced returns the error for a package in a working directory that is reached
// through a link. The target of the link may be used elsewhere, so Larder does not
// replace it.
func notReplaced(entry, link string) error {
	err := fmt.Errorf("%s is another build of the package, and is not replaced because %s is a symbolic link", entry, link)
	return sources.WithHint(err, "remove the package, or the link, then run the command again")
}

const runPrefix, stagePrefix = "run-", ".larder-"

// A run holds the scratch directories of this process while it uses the cache. Each
// is created when first required.
type run struct {
	mu    sync.Mutex
	users int
	notes *disk.Scratch // on the state's file system, for records; in a cache also for packages
	tree  *disk.Scratch // on the tree's file system, for packages, if the state is elsewhere
}

// join adds a user of the scratch directories, who calls leave in the end.
func (r *run) join() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users++
}

// leave removes the scratch directories with the last user. A later run removes files
// that cannot be removed now, such as a running provider on some file systems.
func (r *run) leave(d *Dir) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users--; r.users > 0 {
		return
	}
	if r.tree != nil {
		d.warn(r.tree.Close())
	}
	if r.notes != nil {
		d.warn(r.notes.Close())
	}
	r.tree, r.notes = nil, nil
}

// forRecords returns the scratch directory for records, or nil without a state.
func (r *run) forRecords(d *Dir) (notes *disk.Scratch, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.notes == nil && d.state != nil {
		r.notes, err = d.scratch()
	}
	return r.notes, err
}

// forPackages returns the scratch directory for packages.
func (r *run) forPackages(d *Dir) (tree *disk.Scratch, err error) {
	if d.inside {
		return r.forRecords(d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tree == nil {
		r.tree, err = d.tree.Scratch(stagePrefix)
	}
	return r.tree, err
}

// prepare creates the directories that the transaction requires to store a package.
func (t *tx) prepare() (err error) {
	d := t.d
	if t.notes, err = d.run.forRecords(d); err != nil {
		return err
	}
	if t.scratch, err = d.run.forPackages(d); err != nil {
		return err
	}
	t.made = t.scratch.Name()
	t.finally(func() {
		if !t.kept {
			d.warn(t.scratch.RemoveTree(t.made))
		}
	})
	var kept *disk.Dir // for interrupted downloads; nil without a state
	if d.state != nil {
		if kept, err = d.state.MakeSub("partial"); err != nil {
			return err
		}
		t.finally(func() { kept.Close() })
	}
	t.stage = staging.New(t.scratch.Dir, kept, staging.Key(t.id), t.d.place(), t.d.Archives(), t.d.opts.Arrivals)
	return nil
}

// scratch creates a scratch directory for writing to the state.
func (d *Dir) scratch() (*disk.Scratch, error) { return d.state.ScratchIn("tmp", runPrefix) }

// seals reports whether the files of stored packages are read-only. In an engine's
// own plugin cache they are writable: Terraform unpacks in place there, and would
// fail with "permission denied".
func (d *Dir) seals() bool { return d.inside && !d.opts.Shared }

// unpack unpacks an archive, unless its contents exceed the free space of the disk.
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
	case errors.As(err, &onDisk), errors.Is(err, disk.ErrChanged):
	case lim.Size > 0 && errors.Is(err, archive.ErrLimit):
		err = disk.NoSpace(d.root, d.place(), unpackedSize(from, size))
	default:
		err = sources.WithHint(err, "the archive is malformed: fetch it from another source, or report it to its publisher")
	}
	return contents, err
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

// show makes the unpacked package visible in place of the old one and returns its
// record.
func (t *tx) show(ctx context.Context, r record, signed *sources.Signed) (record, error) {
	d := t.d
	if err := d.keepEvidence(ctx, t.id, &r, signed, t.notes); err != nil {
		return r, err
	}
	unchanged := t.old.H1 == r.H1 && t.home != nil && isDir(t.home, t.id.Platform.String())
	t.kept = !unchanged && t.denied != nil
	switch {
	case unchanged:
		// The entry already has the same contents, and may be linked and running.
		// Only the record was missing.
		r.Files, r.Boot = t.old.Files, t.old.Boot
	case t.kept:
		return r, nil
	default:
		if err := t.replace(ctx, r); err != nil {
			return r, err
		}
		if d.inside {
			d.distrust(d.entry(t.id), r.Files)
		}
	}
	d.keepRecord(recordPath(t.id), r, t.notes)
	return r, nil
}

func isDir(in *disk.Dir, name string) bool {
	info, err := in.Lstat(name)
	return err == nil && info.IsDir()
}

// replace replaces the entry with the unpacked package, which r describes.
func (t *tx) replace(ctx context.Context, r record) error {
	changed, err := t.replacing(ctx, r)
	if err != nil {
		return err
	}
	defer changed.close()
	old, err := t.scratch.Replace(t.made, t.home, t.id.Platform.String())
	switch {
	case err != nil || old == "":
	case t.d.repairing.Load():
		_, err = t.d.aside.move(t.d, t.scratch.Dir, old, t.id.Path())
	case changed != nil:
		t.d.warn(changed.keep(t.scratch, old))
	case old != t.made:
		t.d.warn(t.scratch.RemoveTree(old))
	}
	return err
}

// replacing prepares the replacement of the entry by the unpacked package, which r
// describes. In a cache, only contents other than verified ones are worth keeping: half
// a package of an engine that was killed is not.
func (t *tx) replacing(ctx context.Context, r record) (*replacement, error) {
	c, entry := contentOf(r.H1, r.Files, r.Sums), t.d.entry(t.id)
	switch {
	case !t.d.inside:
		return c.replacing(ctx, t.d.tree, false, t.id, entry, t.old)
	case t.old.was != nil, t.old.H1 == "" && t.verified():
		return c.replacing(ctx, t.d.state, true, t.id, entry, t.old)
	}
	return nil, nil
}

// verified reports whether verified contents of the package are recorded.
func (t *tx) verified() bool {
	return slices.ContainsFunc([]string{recordPath(t.id), knownPath(t.id)}, func(path string) bool {
		r, ok := t.d.readRecord(path)
		return ok && r.proven() && !r.Imported
	})
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
	if tmp, err := d.state.MakeSub("tmp"); err != nil {
		d.warn(err)
	} else {
		tmp.Sweep(runPrefix, d.opts.Now(), d.warn)
		tmp.Close()
	}
	d.sweepOthers()
	if kept, err := d.state.MakeSub("partial"); err != nil {
		d.warn(err)
	} else {
		d.warn(staging.Sweep(kept, d.opts.Now(), func(id sources.PackageID) bool { return d.inPlace(id) && d.idle(id) }))
		kept.Close()
	}
	d.Archives()
}

// inPlace reports whether there is an entry for id, so that no download of it needs to
// be continued.
func (d *Dir) inPlace(id sources.PackageID) bool {
	if d.tree == nil {
		return false
	}
	info, err := d.tree.Lstat(id.Path())
	return err == nil && info.IsDir()
}

// idle reports whether no process stores the package.
func (d *Dir) idle(id sources.PackageID) bool {
	lock := d.common.Lock("lock/" + flat(id.Path()) + ".lock")
	lock.Existing = true
	ok, err := lock.Try()
	lock.Unlock()
	return ok || errors.Is(err, fs.ErrNotExist)
}
