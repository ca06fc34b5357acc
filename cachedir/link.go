package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
)

// Link makes target, the place of the package in a working directory, equal to
// the entry s, and says how. It is built aside and takes the place of whatever
// is there by rename. If the entry is there already, by a means that the mode
// allows, nothing changes. If it is itself the target, the mode is empty.
func (d *Dir) Link(ctx context.Context, s sources.Stored, target string) (sources.LinkMode, error) {
	mode, err := d.link(ctx, s, target)
	return mode, named(s.ID, noSpace(err))
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
	if mode := d.linked(s, entry, target); mode != "" && (d.opts.Link == sources.LinkAuto || d.opts.Link == mode) {
		return mode, nil
	}
	work, done, err := makeAside(target, d.opts.Now())
	if err != nil {
		return "", err
	}
	defer done()
	made := filepath.Join(work, "new")
	mode, err := d.makeLink(ctx, s, entry, made)
	if err != nil {
		return "", err
	}
	if err := replace(made, target, work); err != nil {
		return "", err
	}
	if mode == sources.LinkReflink || mode == sources.LinkCopy {
		d.remember(ctx, s, target, mode) // other links are known by the entry's own files
	}
	return mode, nil
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
		if r, ok := d.readRecord(d.rootPath(s.ID, target)); ok && !d.opts.Paranoid && r.survives() && r.H1 == s.H1 && slices.Equal(r.Files, marks) {
			return r.Link
		}
		return ""
	case info.Mode()&fs.ModeSymlink != 0:
		return sources.LinkSymlink
	}
	return sources.LinkHard
}

// remember writes down what is in target now, so that it need not be hashed.
func (d *Dir) remember(ctx context.Context, s sources.Stored, target string, mode sources.LinkMode) {
	boot, err := flushed(ctx, target)
	if err != nil {
		return // it will be hashed when it is next needed
	}
	marks, err := scan(target)
	if err != nil {
		d.warn(err)
		return
	}
	d.keepRecord(d.rootPath(s.ID, target), record{
		Dir: target, Link: mode, Boot: boot, Files: marks,
		H1: s.H1, ZipH1: s.ZipH1, ZH: s.ZH, Filename: s.Filename,
		Verdict: s.Verdict, Origin: s.Origin, Evidence: digest(s.Signed),
	})
}

// makeLink makes the entry appear at made, which does not exist.
func (d *Dir) makeLink(ctx context.Context, s sources.Stored, entry []mark, made string) (sources.LinkMode, error) {
	modes := []sources.LinkMode{d.opts.Link}
	if d.opts.Link == sources.LinkAuto {
		modes = []sources.LinkMode{sources.LinkReflink, sources.LinkHard, sources.LinkSymlink, sources.LinkCopy}
		if d.unshared.Load() {
			modes = modes[1:]
		}
	}
	var err error
	for _, mode := range modes {
		if err = makeBy(ctx, mode, s, entry, made); err == nil {
			return mode, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if mode == sources.LinkReflink && errors.Is(err, errors.ErrUnsupported) {
			d.unshared.Store(true) // which holds for every package in here
		}
		if err := os.RemoveAll(made); err != nil {
			return "", err
		}
	}
	if d.opts.Link != sources.LinkAuto {
		err = sources.WithHint(fmt.Errorf("link mode %s: %w", d.opts.Link, err), "link mode auto takes whatever works here")
	}
	return "", err
}

func makeBy(ctx context.Context, mode sources.LinkMode, s sources.Stored, entry []mark, made string) error {
	switch mode {
	case sources.LinkReflink:
		return eachFile(ctx, s.Dir, entry, made, cloneFile)
	case sources.LinkHard:
		return eachFile(ctx, s.Dir, entry, made, os.Link)
	case sources.LinkSymlink:
		return os.Symlink(s.Dir, made)
	case sources.LinkCopy:
		return copyTo(ctx, s, made)
	}
	return fmt.Errorf("unknown link mode %q", mode)
}

// eachFile makes a directory of what link makes of every file of the entry.
func eachFile(ctx context.Context, dir string, entry []mark, made string, link func(from, to string) error) error {
	if err := os.Mkdir(made, 0o755); err != nil {
		return err
	}
	for _, m := range entry {
		if err := ctx.Err(); err != nil {
			return err
		}
		// A link to a link would point nowhere from its new place.
		from, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.FromSlash(m.Path)))
		if err != nil {
			return err
		}
		to := filepath.Join(made, filepath.FromSlash(m.Path))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := link(from, to); err != nil {
			return err
		}
	}
	return nil
}

func copyTo(ctx context.Context, s sources.Stored, made string) error {
	if err := os.Mkdir(made, 0o755); err != nil {
		return err
	}
	contents, err := archive.Copy(ctx, s.Dir, made, archive.Limits{})
	if err != nil {
		return err
	}
	if contents.H1 != s.H1 {
		return errors.New("the package has changed in the cache while it was copied")
	}
	return nil
}

// makeAside makes a directory beside target to build in and to put aside what
// is replaced, and returns the function that removes it. Its name begins with a
// dot, so that engines pass it over. Those of processes that were killed are
// removed.
func makeAside(target string, now time.Time) (work string, done func(), err error) {
	parent := filepath.Dir(target)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", nil, err
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		return "", nil, err
	}
	for _, e := range entries {
		path := filepath.Join(parent, e.Name())
		left, _ := filepath.Match(".larder-*", e.Name())
		if info, err := e.Info(); left && err == nil && (abandoned(info, now) || forsaken(path)) {
			os.RemoveAll(path)
		}
	}
	if work, err = os.MkdirTemp(parent, ".larder-*"); err != nil {
		return "", nil, err
	}
	release := occupy(work)
	return work, func() { release(); os.RemoveAll(work) }, nil
}

const occupied = "lock"

// occupy locks a directory for as long as this process lives, and appears as
// occupied only once it is. Where there are no locks, age alone will tell.
func occupy(dir string) (release func()) {
	path := filepath.Join(dir, occupied)
	lock := flock.New(path + ".new")
	if ok, err := lock.TryLock(); ok && err == nil {
		_ = os.Rename(path+".new", path)
	}
	return func() { lock.Unlock() }
}

// forsaken reports whether the process that occupied dir is no more.
func forsaken(dir string) bool {
	path := filepath.Join(dir, occupied)
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
	ok, err := lock.TryLock()
	if ok {
		lock.Unlock()
	}
	return ok && err == nil
}
