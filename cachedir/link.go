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

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Link makes target, the place of the package in a working directory, equal to
// the entry s, and returns how. It is built aside and replaces what is there by
// rename. If the entry is there already, by a means that the mode allows, nothing
// changes. If it is itself the target, the mode is empty. A link that leads to
// target from the directory of installed packages is a [disk.StrayError]. If the entry is
// not what s describes, the error matches [sources.ErrSwapped], and Get hashes the entry.
func (d *Dir) Link(ctx context.Context, s sources.Stored, target string) (sources.LinkMode, error) {
	mode, err := d.link(ctx, s, target)
	if errors.Is(err, sources.ErrSwapped) && d.readOnly == nil {
		d.warn(d.removeState(recordPath(s.ID)))
	}
	return mode, named(s.ID, disk.Explain(err, "the working directory"))
}

func (d *Dir) link(ctx context.Context, s sources.Stored, target string) (sources.LinkMode, error) {
	target, err := filepath.Abs(target)
	if err != nil {
		return "", err
	}
	if same(s.Dir, target) {
		return "", nil
	}
	entry, err := scan(s.Dir)
	if err != nil {
		return "", err
	}
	if s.Print != "" && fingerprint(entry) != s.Print {
		return "", sources.ErrSwapped
	}
	providers, err := disk.Make(providersOf(s.ID, target))
	if err != nil {
		return "", err
	}
	defer providers.Close()
	home, err := providers.MakeSub(path.Dir(s.ID.Path()))
	if err != nil {
		return "", err
	}
	defer home.Close()
	if mode := d.linked(s, entry, target); mode != "" && (d.opts.Link == sources.LinkAuto || d.opts.Link == mode) {
		return mode, nil
	}
	leaf := path.Base(s.ID.Path())
	if link := linkAbove(providers.Path(".")); link != "" && home.Exists(leaf) {
		return "", notReplaced(target, link)
	}
	if linkAbove(providers.Path(".")) == "" {
		providers.Sweep(stagePrefix, d.opts.Now(), d.warn)
	}
	work, err := providers.Scratch(stagePrefix)
	if err != nil {
		return "", err
	}
	defer func() { d.warn(work.Close()) }()
	mode, err := d.makeLink(ctx, s, entry, work.Dir)
	if err != nil {
		return "", err
	}
	if err := judged(s, mode, work.Path(made)); err != nil {
		return "", err
	}
	if err := work.Replace(made, home, leaf); err != nil {
		return "", err
	}
	if mode == sources.LinkReflink || mode == sources.LinkCopy {
		d.remember(ctx, s, home, target, mode) // other links are known by the entry's own files
	}
	return mode, nil
}

// judged returns an error that matches [sources.ErrSwapped] unless what was linked is what was
// judged. Copies have been hashed, and other links have the files' own fingerprints.
func judged(s sources.Stored, mode sources.LinkMode, made string) error {
	if s.Print == "" || mode == sources.LinkCopy || mode == sources.LinkReflink {
		return nil
	}
	marks, err := scan(made)
	if err != nil {
		return err
	}
	if fingerprint(marks) != s.Print {
		return sources.ErrSwapped
	}
	return nil
}

// made is what a link is called while it is built.
const made = "new"

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

// linked says by which means target is the entry already, if it is.
func (d *Dir) linked(s sources.Stored, entry []mark, target string) sources.LinkMode {
	info, err := os.Lstat(target)
	if err != nil {
		return ""
	}
	marks, err := scan(target)
	switch {
	case err != nil:
		return ""
	case !slices.Equal(marks, entry):
		if r, ok := d.readRecord(rootPath(s.ID, target)); ok && !d.opts.Paranoid && r.survives() && r.H1 == s.H1 && slices.Equal(r.Files, marks) {
			return r.Link
		}
		return ""
	case info.Mode()&fs.ModeSymlink != 0:
		return sources.LinkSymlink
	}
	return sources.LinkHard
}

// remember records what is in target now, in the directory home, so that it need
// not be hashed.
func (d *Dir) remember(ctx context.Context, s sources.Stored, home *disk.Dir, target string, mode sources.LinkMode) {
	files, err := home.Sub(filepath.Base(target))
	if err != nil {
		return // it will be hashed when it is next needed
	}
	defer files.Close()
	boot, err := flushed(ctx, files)
	if err != nil {
		return
	}
	marks, err := scan(target)
	if err != nil {
		d.warn(err)
		return
	}
	d.keepRecord(rootPath(s.ID, target), record{
		Dir: target, Link: mode, Boot: boot, Files: marks,
		H1: s.H1, ZipH1: s.ZipH1, ZH: s.ZH, Filename: s.Filename,
		Verdict: s.Verdict, Origin: s.Origin, Evidence: digest(s.Signed),
	}, nil)
}

// makeLink makes the entry appear in the directory work.
func (d *Dir) makeLink(ctx context.Context, s sources.Stored, entry []mark, work *disk.Dir) (sources.LinkMode, error) {
	modes := []sources.LinkMode{d.opts.Link}
	if d.opts.Link == sources.LinkAuto {
		modes = d.autoModes(entry)
	}
	var err error
	for _, mode := range modes {
		if err = makeBy(ctx, mode, s, entry, work, d.seals()); err == nil {
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
		err = sources.WithHint(fmt.Errorf("link mode %s: %w", d.opts.Link, err), "use --link auto, which takes the first mode that works")
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

func makeBy(ctx context.Context, mode sources.LinkMode, s sources.Stored, entry []mark, work *disk.Dir, seal bool) error {
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
