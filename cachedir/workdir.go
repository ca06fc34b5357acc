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
	"sync"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
)

// A workdir is the directory of installed packages of one root module, see
// [sources.Workdir].
type workdir struct {
	d         *Dir
	root      string // directory of the root module
	providers string // absolute; the packages are below
	through   string // the link that leads to it; empty if none does

	mu      sync.Mutex
	dir     *disk.Dir     // providers, once something is linked
	scratch *disk.Scratch // in dir
}

// Workdir is the root module in the directory dir, whose packages are installed in the
// directory providers. It creates nothing before something is linked.
func (d *Dir) Workdir(dir, providers string) sources.Workdir { return d.workdir(dir, providers) }

func (d *Dir) workdir(dir, providers string) *workdir {
	if abs, err := filepath.Abs(providers); err == nil {
		providers = abs
	}
	return &workdir{d: d, root: dir, providers: providers, through: linkAbove(providers)}
}

// target is where a package is installed.
func (w *workdir) target(id sources.PackageID) string {
	return filepath.Join(w.providers, filepath.FromSlash(id.Path()))
}

// Get describes an installed package. It hashes it unless it consists of the same files
// as the entry for id, or of files that it has hashed before. The error matches
// [sources.ErrNotFound] if there is no package, and is a [disk.StrayError] if a link
// leads there.
func (w *workdir) Get(ctx context.Context, id sources.PackageID) (sources.Stored, error) {
	target := w.target(id)
	if target == w.d.entry(id) {
		return w.d.Get(ctx, id)
	}
	var r record
	err := w.checkParents(id)
	if err == nil {
		r, err = w.d.find(ctx, id, target, recordPath(id), w.recordPath(id))
	}
	if err != nil {
		return sources.Stored{}, sources.InPackage(id, err)
	}
	return w.d.stored(id, target, r), nil
}

// checkParents returns an error if a link leads to the package, from the directory of all
// installed packages.
func (w *workdir) checkParents(id sources.PackageID) error {
	providers, err := disk.Open(w.providers)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", sources.ErrNotFound, err)
	}
	if err != nil {
		return err
	}
	defer providers.Close()
	return (&Dir{tree: providers}).checkHome(id)
}

// Link makes the entry s appear in the working directory, and returns how. It is built
// aside and replaces what is there by rename. If the entry is there already, by a means
// that the mode allows, nothing changes. If it is itself the target, the mode is empty. A
// link that leads to the target from the directory of installed packages is a
// [disk.StrayError]. If the entry is not what s describes, the error matches
// [sources.ErrSwapped], and Get hashes the entry.
func (w *workdir) Link(ctx context.Context, s sources.Stored) (sources.LinkMode, error) {
	mode, err := w.link(ctx, s)
	if errors.Is(err, sources.ErrSwapped) && w.d.readOnly == nil {
		w.d.warn(w.d.removeState(recordPath(s.ID)))
	}
	return mode, sources.InPackage(s.ID, disk.Explain(err, "the working directory"))
}

func (w *workdir) link(ctx context.Context, s sources.Stored) (sources.LinkMode, error) {
	d, target := w.d, w.target(s.ID)
	if same(s.Dir, target) {
		return "", nil
	}
	entry, err := marksOf(s)
	if err != nil {
		return "", err
	}
	dir, err := w.open()
	if err != nil {
		return "", err
	}
	home, err := dir.MakeSub(path.Dir(s.ID.Path()))
	if err != nil {
		return "", err
	}
	defer home.Close()
	if mode := w.linked(s, entry); mode != "" && (d.opts.Link == sources.LinkAuto || d.opts.Link == mode) {
		return mode, nil
	}
	leaf := path.Base(s.ID.Path())
	if w.through != "" && home.Exists(leaf) {
		return "", notReplaced(target, w.through)
	}
	scratch, err := w.scratchIn(dir)
	if err != nil {
		return "", err
	}
	made, old := scratch.Name(), ""
	defer func() {
		d.warn(scratch.RemoveTree(made))
		if old != "" && old != made {
			d.warn(scratch.RemoveTree(old))
		}
	}()
	mode, err := d.makeLink(ctx, s, entry, scratch.Dir, made)
	if err != nil {
		return "", err
	}
	if err := checkLinked(entry, mode, scratch.Path(made)); err != nil {
		return "", err
	}
	changed, err := w.replacing(ctx, s, entry, dir, home.Exists(leaf))
	if err != nil {
		return "", err
	}
	defer changed.close()
	if old, err = scratch.Replace(made, home, leaf); err != nil {
		return "", err
	}
	if changed != nil && old != "" {
		d.warn(changed.keep(scratch, old))
	}
	if mode == sources.LinkReflink || mode == sources.LinkCopy {
		w.note(ctx, s, home, mode) // other links are known by the entry's own files
	}
	return mode, nil
}

// replacing prepares for the replacement of what is installed, if anything is, by the entry
// s with these marks.
func (w *workdir) replacing(ctx context.Context, s sources.Stored, entry []mark, providers *disk.Dir, installed bool) (*replacement, error) {
	if !installed {
		return nil, nil
	}
	target := w.target(s.ID)
	was, _ := w.d.recall(target, recordPath(s.ID), w.recordPath(s.ID)) // without a record, the files are compared
	c := contentOf(s.H1, entry, nil)
	if r, ok := w.d.readRecord(recordPath(s.ID)); ok && r.H1 == s.H1 {
		c.sums = r.Sums
	}
	return c.replacing(ctx, providers, s.ID, target, was)
}

// marksOf are the marks of an entry's files, as they were when it was hashed or recognised.
func marksOf(s sources.Stored) ([]mark, error) {
	if seen, ok := s.Seen.(*seen); ok {
		return seen.marks, nil
	}
	return scan(s.Dir)
}

// open opens the directory of installed packages, once.
func (w *workdir) open() (_ *disk.Dir, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dir == nil {
		w.dir, err = disk.Make(w.providers)
	}
	return w.dir, unwritable(w.providers, err)
}

// unwritable adds to an error of creating the directory of installed packages what can be
// done about it.
func unwritable(dir string, err error) error {
	var stray *disk.StrayError
	if err == nil || errors.As(err, &stray) || disk.IsFull(err) {
		return err
	}
	return sources.WithHint(fmt.Errorf("cannot create %s: %w", dir, disk.Cause(err)),
		"make the working directory writable, or set TF_DATA_DIR to a directory that is")
}

// scratchIn creates the scratch directory for what is being linked, once, and removes
// what killed runs have left beside it.
func (w *workdir) scratchIn(dir *disk.Dir) (_ *disk.Scratch, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.scratch == nil {
		w.sweep(dir)
		w.scratch, err = dir.Scratch(stagePrefix)
	}
	return w.scratch, err
}

// sweep removes what killed runs have left, unless the directory is reached through a
// link: then it may not be Larder's alone.
func (w *workdir) sweep(dir *disk.Dir) {
	if w.through == "" {
		dir.Sweep(stagePrefix, w.d.opts.Now(), w.d.warn)
	}
}

// Close implements [sources.Workdir].
func (w *workdir) Close() error {
	var errs []error
	if w.scratch != nil {
		w.d.warn(w.scratch.Close())
	}
	if w.dir != nil {
		errs = append(errs, w.dir.Close())
	}
	return errors.Join(errs...)
}

// checkLinked returns an error that matches [sources.ErrSwapped] unless what was linked
// is what was hashed. Copies have been compared, other links have the files' own marks.
func checkLinked(entry []mark, mode sources.LinkMode, made string) error {
	if mode == sources.LinkCopy || mode == sources.LinkReflink {
		return nil
	}
	marks, err := scan(made)
	if err == nil && !slices.Equal(marks, entry) {
		err = sources.ErrSwapped
	}
	return err
}

// same reports whether two paths lead to one directory without a link at the
// end of b.
func same(a, b string) bool {
	at, err := os.Stat(a)
	if err != nil {
		return false
	}
	bt, err := os.Lstat(b)
	return err == nil && os.SameFile(at, bt)
}

// linked is the means by which the entry is installed already, empty if it isn't.
func (w *workdir) linked(s sources.Stored, entry []mark) sources.LinkMode {
	target := w.target(s.ID)
	info, err := os.Lstat(target)
	if err != nil {
		return ""
	}
	marks, err := scan(target)
	switch {
	case err != nil:
		return ""
	case !slices.Equal(marks, entry):
		r, ok := w.d.readRecord(w.recordPath(s.ID))
		if ok && !w.d.opts.Paranoid && r.survives() && r.H1 == s.H1 && slices.Equal(r.Files, marks) {
			return r.Link
		}
		return ""
	case info.Mode()&fs.ModeSymlink != 0:
		return sources.LinkSymlink
	}
	return sources.LinkHard
}

// note records what is installed now, in the directory home, so that it need not be
// hashed.
func (w *workdir) note(ctx context.Context, s sources.Stored, home *disk.Dir, mode sources.LinkMode) {
	files, err := home.Sub(path.Base(s.ID.Path()))
	if err != nil {
		return // it will be hashed when it is next needed
	}
	defer files.Close()
	boot, err := flushed(ctx, files)
	if err != nil {
		return
	}
	target := w.target(s.ID)
	marks, err := scan(target)
	if err != nil {
		w.d.warn(err)
		return
	}
	w.d.keepRecord(w.recordPath(s.ID), record{
		Dir: target, Link: mode, Boot: boot, Files: marks,
		H1: s.H1, ZipH1: s.ZipH1, ZH: s.ZH, Filename: s.Filename,
		Verdict: s.Verdict, Origin: s.Origin, Evidence: evidence.Reference(s.Signed),
	}, nil)
}

// recordPath is where the record of an installed package lies. The names of the records
// of one working directory begin with the same key.
func (w *workdir) recordPath(id sources.PackageID) string {
	return "roots/" + nameFor(w.providers) + "~" + nameFor(id.Path()) + ".json"
}

// makeLink makes the entry appear as made in the directory work.
func (d *Dir) makeLink(ctx context.Context, s sources.Stored, entry []mark, work *disk.Dir, made string) (sources.LinkMode, error) {
	modes := []sources.LinkMode{d.opts.Link}
	if d.opts.Link == sources.LinkAuto {
		modes = d.autoModes(entry)
	}
	var err error
	for _, mode := range modes {
		if err = makeBy(ctx, mode, s, entry, work, made, d.seals()); err == nil {
			return mode, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if mode == sources.LinkReflink && errors.Is(err, errors.ErrUnsupported) {
			d.unshared.Store(true) // which holds for every package in here
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
		err = sources.WithHint(err, "use --link auto, which takes the first mode that works")
	}
	return "", err
}

// maxRootCopy is how many bytes a package may have that is copied for root: it takes
// some 30 ms to copy as many. Larger ones, in every working directory, would fill
// disks.
const maxRootCopy = 64 << 20

// autoModes are the modes to try, in order. Terraform unpacks another build of a
// version in place, through hardlinks and symbolic links into the cache and so into
// every other working directory. Read-only files keep it from that, but nothing keeps
// root, for whom small packages are copied. Nor does anything keep another user from
// changing their own files, so those are always copied.
func (d *Dir) autoModes(entry []mark) []sources.LinkMode {
	modes := []sources.LinkMode{sources.LinkReflink, sources.LinkHard, sources.LinkSymlink, sources.LinkCopy}
	var size int64
	foreign := false
	for _, m := range entry {
		size += m.Size
		foreign = foreign || m.foreign
	}
	if foreign || d.opts.Unbound && size <= maxRootCopy {
		modes = []sources.LinkMode{sources.LinkReflink, sources.LinkCopy}
	}
	if d.unshared.Load() {
		modes = modes[1:]
	}
	return modes
}

func makeBy(ctx context.Context, mode sources.LinkMode, s sources.Stored, entry []mark, work *disk.Dir, made string, seal bool) error {
	if mode == sources.LinkSymlink {
		return work.Symlink(s.Dir, made)
	}
	to, err := work.Mkdir(made)
	if err != nil {
		return err
	}
	defer to.Close()
	switch mode {
	case sources.LinkReflink:
		return eachFile(ctx, entry, to, func(m mark, in *disk.Dir, base string) error { return reflink(s.Dir, m, in, base) })
	case sources.LinkHard:
		from, err := disk.Open(s.Dir)
		if err != nil {
			return err
		}
		defer from.Close()
		return eachFile(ctx, entry, to, func(m mark, in *disk.Dir, base string) error {
			if seal {
				from.Seal(m.Path)
			}
			return disk.Link(from, m.Path, in, base)
		})
	case sources.LinkCopy:
		return eachFile(ctx, entry, to, func(m mark, in *disk.Dir, base string) error { return copyFile(s.Dir, m, in, base) })
	}
	return fmt.Errorf("unknown link mode %q", mode)
}

// eachFile fills a directory with what link makes of every file of the entry.
func eachFile(ctx context.Context, entry []mark, to *disk.Dir, link func(m mark, in *disk.Dir, base string) error) error {
	for _, m := range entry {
		if err := ctx.Err(); err != nil {
			return err
		}
		dir, base := path.Split(m.Path)
		if dir == "" {
			if err := link(m, to, base); err != nil {
				return err
			}
			continue
		}
		in, err := to.MakeSub(path.Clean(dir))
		if err != nil {
			return err
		}
		err = link(m, in, base)
		in.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// An entryFile is an open file of an entry that still has the mark it was judged by.
type entryFile struct {
	*os.File
	mark mark
	mode fs.FileMode // for copies: their owner may write to them, as that changes nothing in the cache
}

// openMarked opens a file of the entry in dir. It must be the one that was judged.
func openMarked(dir string, m mark) (entryFile, error) {
	from, info, err := disk.OpenFile(filepath.Join(dir, filepath.FromSlash(m.Path)))
	if err != nil {
		return entryFile{}, err
	}
	f := entryFile{from, m, info.Mode().Perm() | 0o200}
	if err := f.check(); err != nil {
		from.Close()
		return entryFile{}, err
	}
	return f, nil
}

// check returns an error unless the file is as it was when it was judged.
func (f entryFile) check() error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	now := mark{Path: f.mark.Path, Size: info.Size(), MTime: info.ModTime().UnixNano(), foreign: foreign(info)}
	if now.Inode, now.Device = identity(f.Name(), info); now != f.mark {
		return sources.ErrSwapped
	}
	return nil
}

// reflink makes a file that shares its bytes with one of the entry.
func reflink(dir string, m mark, in *disk.Dir, base string) error {
	from, err := openMarked(dir, m)
	if err != nil {
		return err
	}
	defer from.Close()
	return in.CloneFile(base, from.File, from.mode)
}

// copyFile makes a file with the bytes of one of the entry.
func copyFile(dir string, m mark, in *disk.Dir, base string) error {
	from, err := openMarked(dir, m)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := in.Create(base, from.mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from.File)
	return errors.Join(err, to.Close(), from.check())
}
