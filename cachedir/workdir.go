package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// A workdir is the directory of installed packages of one root module, see
// [sources.Workdir].
type workdir struct {
	root string // directory of the root module
	own  *Dir   // the installed packages, without a state; opened once it exists, with the records of copied packages
	d    *Dir   // where the packages come from
}

// Workdir returns the working directory of the root module in dir, whose packages are
// installed in the directory providers. It creates nothing until a package is linked.
func (d *Dir) Workdir(dir, providers string) sources.Workdir {
	if under := d.opts.Under; under != nil {
		return under.Workdir(dir, providers)
	}
	if abs, err := filepath.Abs(providers); err == nil {
		providers = abs
	}
	own := &Dir{root: providers, opts: d.opts, known: store.NewKnown(store.LedgerOptions{})}
	own.ledger = store.NewLedger[record](d.opts.Records.Ledger(providers))
	return &workdir{root: dir, own: own, d: d}
}

// Get describes an installed package. It hashes the package unless its files are
// those of the entry for id, or have been hashed before. The error matches
// [sources.ErrNotFound] if there is no package, and is a [disk.StrayError] if the
// package is reached through a link.
func (w *workdir) Get(ctx context.Context, id sources.PackageID) (sources.Stored, error) {
	target := w.own.entry(id)
	if target == w.d.entry(id) {
		return w.d.Get(ctx, id)
	}
	var r record
	err := w.own.openTree(disk.Open)
	if err == nil {
		err = w.own.checkHome(id)
	}
	switch {
	case err == nil:
		r, err = w.d.find(ctx, id, target, w.d.ledger, w.own.ledger)
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%w: %w", sources.ErrNotFound, err)
	}
	if err != nil {
		return sources.Stored{}, sources.InPackage(id, err)
	}
	return w.d.stored(id, target, r), nil
}

// PackagesOf returns the IDs of the installed packages of a provider.
func (w *workdir) PackagesOf(ctx context.Context, p sources.Provider) ([]sources.PackageID, error) {
	return w.own.PackagesOf(ctx, p)
}

// Link installs the entry s in the working directory and returns the link mode it
// used. It builds the package aside and renames it into place. If the entry is
// already installed, in a way that the configured mode allows, Link changes nothing.
// If the entry itself is the target, the mode is empty. If a link leads from the
// directory of installed packages to the target, the error is a [disk.StrayError]. If
// the entry differs from s, the error matches [sources.ErrSwapped], and the next Get
// hashes the entry.
func (w *workdir) Link(ctx context.Context, s sources.Stored) (sources.LinkMode, error) {
	mode, err := w.link(ctx, s)
	if errors.Is(err, sources.ErrSwapped) && w.d.readOnly == nil {
		w.d.warn(w.d.drop(ctx, s.ID)) // the next Get hashes it
	}
	return mode, sources.InPackage(s.ID, disk.Explain(err, "the working directory"))
}

func (w *workdir) link(ctx context.Context, s sources.Stored) (mode sources.LinkMode, err error) {
	d, own := w.d, w.own
	if sameDir(s.Dir, own.entry(s.ID)) {
		return "", nil
	}
	entry, err := w.marksOf(s)
	if err != nil {
		return "", err
	}
	if err := own.openTree(disk.Make); err != nil {
		return "", unwritable(own.root, err)
	}
	home, err := own.tree.MakeSub(path.Dir(s.ID.Path()))
	if err != nil {
		return "", denied(own.root, err)
	}
	defer home.Close()
	was, mode := w.installed(s, entry)
	if w.stays(mode, entry) {
		return mode, nil
	}
	if err := own.checkReplaced(home, s.ID); err != nil {
		return "", err
	}
	own.sweep.Do(own.removeLeftovers)
	scratch, err := own.packageScratch()
	if err != nil {
		return "", denied(own.root, err)
	}
	made := scratch.Name()
	defer func() { d.warn(scratch.RemoveTree(made)) }()
	if mode, err = d.makeLink(ctx, s, entry, scratch.Dir, made); err != nil {
		return "", err
	}
	if err := checkExecutable(scratch.Path(made), entry, s.ID); err != nil {
		return "", sources.WithHint(err,
			"choose a working directory, and a plugin cache, on file systems with execute permissions")
	}
	r, _ := recordIn(d.ledger, s.ID)
	if r.H1 != s.H1 {
		r = record{Facts: store.Facts{H1: s.H1}}
	}
	if err := own.replace(ctx, s.ID, home, made, r, was.unknown()); err != nil {
		return "", err
	}
	if mode == sources.LinkHard {
		d.noteLinks(ctx, s, entry)
	}
	if isCopy(mode) {
		w.note(ctx, s, home, mode) // other modes share the files of the entry, which has a record
	}
	return mode, nil
}

// noteLinks updates the record of the entry s, which has these fingerprints, where new
// hardlinks have changed them.
func (d *Dir) noteLinks(ctx context.Context, s sources.Stored, entry []mark) {
	if !slices.ContainsFunc(entry, func(m mark) bool { return m.Changed != 0 }) {
		return
	}
	r, ok := recordIn(d.ledger, s.ID)
	if !ok || !same(r.Files, entry) {
		return
	}
	if now, err := scan(s.Dir); err == nil && same(now, entry) {
		r.Files = now
		d.keep(ctx, s.ID, r)
	}
}

// isCopy reports whether changes in the cache don't change packages installed with this
// mode.
func isCopy(mode sources.LinkMode) bool {
	return mode == sources.LinkReflink || mode == sources.LinkCopy
}

// foreign reports whether another user can change a file.
func foreign(files []mark) bool {
	return slices.ContainsFunc(files, func(m mark) bool { return m.foreign })
}

// Unwritable implements [sources.Workdir].
func (w *workdir) Unwritable(s sources.Stored) error {
	if s.Dir != "" && w.own.openTree(disk.Open) == nil {
		entry, err := w.marksOf(s)
		_, mode := w.installed(s, entry)
		if sameDir(s.Dir, w.own.entry(s.ID)) || err == nil && w.stays(mode, entry) {
			return nil
		}
	}
	return Unwritable(w.own.root, true)
}

// denied is unwritable for the error of writing to the directory, or to one in it, if this user may not do that.
func denied(dir string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok && filepath.IsAbs(at.Path) {
		dir = filepath.Dir(at.Path)
	}
	return unwritable(dir, err)
}

// unwritable adds to an error of opening or creating the directory of installed packages what
// can be done about it.
func unwritable(dir string, err error) error {
	var stray *disk.StrayError
	if err == nil || errors.As(err, &stray) || disk.IsFull(err) {
		return err
	}
	if at := disk.Existing(dir); errors.Is(err, syscall.ENOTDIR) {
		return sources.WithHint(fmt.Errorf("%s is not a directory", at), "remove or rename it: providers are installed there")
	}
	hints, verb := sources.Hints(err), "create"
	if disk.Existing(dir) == dir {
		verb = "write in"
	}
	err = fmt.Errorf("cannot %s %s: %w", verb, dir, disk.Cause(err))
	if len(hints) > 0 {
		return err
	}
	return sources.WithHint(err, "make the working directory writable, or set TF_DATA_DIR to a directory that is")
}

// Close implements [sources.Workdir].
func (w *workdir) Close() error { return w.own.Close() }

// sameDir reports whether two paths lead to one directory and b itself is not a link.
func sameDir(a, b string) bool {
	at, err := os.Stat(a)
	if err != nil {
		return false
	}
	bt, err := os.Lstat(b)
	return err == nil && os.SameFile(at, bt)
}

// marksOf returns the fingerprints of the files of a stored package, at the time when it was hashed or recognized.
func (w *workdir) marksOf(s sources.Stored) ([]mark, error) {
	if known, ok := s.Seen.(*seen); ok {
		return known.marks, nil
	}
	return w.d.scanEntry(s.Dir)
}

// stays reports whether an installed package with these files, in a link mode, is as the configured mode allows.
func (w *workdir) stays(mode sources.LinkMode, entry []mark) bool {
	link := w.d.opts.Link
	return mode != "" && (link == mode || link == sources.LinkAuto && (isCopy(mode) || !foreign(entry)))
}

// installed returns the record of the package that s would replace, and the link mode if that is the entry with these
// fingerprints, otherwise "". Without a record, the files have to be compared.
func (w *workdir) installed(s sources.Stored, entry []mark) (was record, mode sources.LinkMode) {
	target := w.own.entry(s.ID)
	info, err := os.Lstat(target)
	if err != nil {
		return was, ""
	}
	marks, err := scan(target)
	if err != nil {
		return was, ""
	}
	var copied bool
	if !w.d.opts.Paranoid {
		if was, copied = recordOf(w.own.ledger, s.ID, marks); !copied {
			was, _ = recordOf(w.d.ledger, s.ID, marks)
		}
	}
	switch {
	case checkExecutable(target, marks, s.ID) != nil:
	case !same(marks, entry):
		if copied && was.H1 == s.H1 {
			return was, was.Link
		}
	case disk.IsLink(info.Mode()):
		return was, sources.LinkSymlink
	default:
		return was, sources.LinkHard
	}
	return was, ""
}

// note records the installed package in the directory home, so that it is not hashed
// again.
func (w *workdir) note(ctx context.Context, s sources.Stored, home *disk.Dir, mode sources.LinkMode) {
	files, err := home.Sub(path.Base(s.ID.Path()))
	if err != nil {
		return // it will be hashed when it is next required
	}
	defer files.Close()
	if r, err := written(ctx, files, store.Of(s)); err == nil {
		r.Link = mode
		w.d.set(w.own.ledger, s.ID, r)
	}
}

// makeLink links the entry into the directory work under the name made.
func (d *Dir) makeLink(
	ctx context.Context, s sources.Stored, entry []mark, work *disk.Dir, made string,
) (sources.LinkMode, error) {
	modes := []sources.LinkMode{d.opts.Link}
	if d.opts.Link == sources.LinkAuto {
		modes = d.autoModes(entry)
	}
	if s.Temporary {
		modes = []sources.LinkMode{sources.LinkReflink, sources.LinkCopy}
	}
	var files []string
	for _, m := range entry {
		files = append(files, m.Path)
	}
	var err error
	for _, mode := range modes {
		if err = nil; mode == sources.LinkHard && d.seals() {
			err = seal(s.Dir, files)
		}
		if err == nil {
			err = Place(ctx, mode, s.Dir, files, work, made)
		}
		if err == nil {
			err = checkMade(ctx, mode, s, entry, work.Path(made))
		}
		if err == nil {
			return mode, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if mode == sources.LinkReflink && errors.Is(err, errors.ErrUnsupported) {
			d.unshared.Store(true) // this holds for every package in the cache
		}
		if err := work.RemoveTree(made); err != nil {
			return "", err
		}
		if errors.Is(err, sources.ErrSwapped) {
			return "", err
		}
	}
	if d.opts.Link != sources.LinkAuto {
		if disk.IsFull(err) {
			return "", disk.Needs(disk.Explain(err, "the working directory"), sizeOf(entry))
		}
		err = fmt.Errorf("link mode %s: %w", d.opts.Link, err)
		err = sources.WithHint(err, "use --link auto, which chooses the first mode that works")
	}
	return "", err
}

// checkMade returns an error that matches [sources.ErrSwapped] unless the linked or copied files are those of the
// entry. The files that other users can change may have been changed since they were hashed, and still have the same
// fingerprints.
func checkMade(ctx context.Context, mode sources.LinkMode, s sources.Stored, entry []mark, made string) error {
	from := made
	if isCopy(mode) {
		from = s.Dir
	}
	marks, err := scan(from)
	if err == nil && !same(marks, entry) {
		err = sources.ErrSwapped
	}
	if err != nil || !isCopy(mode) || !foreign(entry) {
		return err
	}
	contents, err := archive.Hash(ctx, made)
	if err == nil && contents.H1 != s.H1 {
		err = sources.ErrSwapped
	}
	return err
}

// maxRootCopy is the size in bytes up to which packages are copied if the user is
// root. Copying that much takes about 30 ms. Larger packages, copied to every working
// directory, would fill the disk.
const maxRootCopy = 64 << 20

// autoModes returns the modes to try, in order. Terraform unpacks another build of a
// version in place. It writes through hardlinks and symbolic links into the cache,
// and so changes the package in every other working directory. Read-only files
// prevent this, but not for root, so small packages are copied if the user is root.
// Read-only files do not stop other users from changing files that they own either,
// so such files are always copied.
func (d *Dir) autoModes(entry []mark) []sources.LinkMode {
	modes := []sources.LinkMode{sources.LinkReflink, sources.LinkHard, sources.LinkSymlink, sources.LinkCopy}
	if foreign(entry) || d.opts.Unbound && sizeOf(entry) <= maxRootCopy {
		modes = []sources.LinkMode{sources.LinkReflink, sources.LinkCopy}
	}
	if d.unshared.Load() {
		modes = modes[1:]
	}
	return modes
}

// seal makes the files of an entry read-only.
func seal(dir string, files []string) error {
	from, err := disk.Open(dir)
	if err != nil {
		return err
	}
	defer from.Close()
	for _, file := range files {
		from.Seal(file)
	}
	return nil
}

// Place makes name, which has one element, the package in dir, which has these files, by a link mode other than
// [sources.LinkAuto]. After an error, it may be incomplete.
func Place(ctx context.Context, mode sources.LinkMode, dir string, files []string, in *disk.Dir, name string) error {
	if mode == sources.LinkSymlink {
		return in.Symlink(dir, name)
	}
	from, err := disk.Open(dir)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := in.Mkdir(name)
	if err != nil {
		return err
	}
	defer to.Close()
	for _, file := range files {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := placeFile(mode, from, file, to); err != nil {
			return err
		}
	}
	return nil
}

// placeFile is [Place] for one file. Owners may write to their copy, because this does not change the cache.
func placeFile(mode sources.LinkMode, from *disk.Dir, file string, to *disk.Dir) error {
	base := path.Base(file)
	if dir := path.Dir(file); dir != "." {
		in, err := to.MakeSub(dir)
		if err != nil {
			return err
		}
		defer in.Close()
		to = in
	}
	if mode == sources.LinkHard {
		return disk.Link(from, file, to, base)
	}
	f, info, err := disk.OpenFile(from.Path(file))
	if err != nil {
		return err
	}
	defer f.Close()
	perm := info.Mode().Perm() | 0o200
	switch mode {
	case sources.LinkReflink:
		return to.CloneFile(base, f, perm)
	case sources.LinkCopy:
		out, err := to.Create(base, perm)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, f)
		return errors.Join(err, out.Close())
	}
	return fmt.Errorf("unknown link mode %q", mode)
}
