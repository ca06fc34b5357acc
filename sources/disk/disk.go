// Package disk is the only package that writes, renames, syncs and removes
// files, each in one way. It also locks files, and has what else differs between
// operating systems about files. It reads a file where a size limit or
// a check of the file's kind is required. It is independent of packages,
// records and mirrors.
//
// # Directories
//
// A [Dir] is an open directory, on top of [os.Root]. Everything below it is
// accessed through it. The opened path may contain symbolic links, because the
// user named it. Below it, links are never followed, because git, tar and other
// users can put links there. A symbolic link, a junction, a mounted file system
// or a file instead of a directory is a [StrayError] with its path.
//
// # Files on disk
//
// Complete files appear by rename. Incomplete files are in a [Scratch], a
// directory of one run, which is locked while the run lasts. The next run
// removes the scratch directories of runs that have ended. Lock files stay: if
// one were removed while another process waits for it, two processes could hold
// the lock.
//
// Removing a tree follows no links and does not cross into another file system.
package disk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/larder-cli/larder/sources"
)

// A Dir is an open directory. Names are relative to it, use forward slashes,
// and cannot leave it. Its methods are safe for concurrent use.
type Dir struct {
	root   *os.Root
	path   string
	device uint64   // of its file system; 0 if unknown
	share  *sharing // nil unless several users may write to it, see [Dir.Share]

	once    sync.Once
	self    *os.File // the directory itself, for operations that os.Root has no method for
	selfErr error
}

// Open opens the directory at path, which may contain symbolic links. It fails for
// anything else at path, and never waits for a pipe.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path + onlyDirs)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: Cause(err)}
	}
	d := &Dir{root: root, path: path}
	info, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, d.named(err)
	}
	d.device = deviceOf(info)
	return d, nil
}

// Make is like Open, but creates the directory and its parents if they are
// missing.
func Make(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, cmp.Or(Dangling(path), err)
	}
	return Open(path)
}

// Dangling returns the error of a path that can't be created because of a link in it that leads nowhere, or nil.
func Dangling(path string) error {
	for ; ; path = filepath.Dir(path) {
		if _, err := os.Lstat(path); err != nil && path != filepath.Dir(path) {
			continue
		}
		to, _ := os.Readlink(path) // empty if it is no link
		if _, err := os.Stat(path); to == "" || err == nil {
			return nil
		}
		err := fmt.Errorf("%s is a link to %s, which doesn't exist", path, to)
		return sources.WithHint(err, "create the directory to which it leads, or let the link lead to another one")
	}
}

// Close closes the directory. Files and directories opened through it stay
// open.
func (d *Dir) Close() error {
	d.once.Do(func() { d.selfErr = fs.ErrClosed })
	if d.self != nil {
		d.self.Close()
	}
	return d.root.Close()
}

// handle returns the directory as an open file.
func (d *Dir) handle() (*os.File, error) {
	d.once.Do(func() {
		d.self, d.selfErr = d.root.OpenFile(".", openNow, 0) // Go would set the flag, and take it back
		d.selfErr = d.named(d.selfErr)
	})
	return d.self, d.selfErr
}

// Path returns the absolute path of name, for messages and for reading.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, filepath.FromSlash(name)) }

// Moved reports whether something else, or nothing, is at the path of d now.
func (d *Dir) Moved() bool {
	now, err := os.Stat(d.path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	opened, err := d.root.Stat(".")
	return err == nil && !os.SameFile(now, opened)
}

// Through returns the path of the symbolic link through which an opened directory
// was reached. It is the opened path or one of the given number of directories
// above it; the path is empty if none of them is a link. The opened directories
// decide that, so exchanging names cannot hide a link.
func (d *Dir) Through(above int) string {
	lstat, name := os.Lstat, d.path
	if above > 0 {
		parent, err := Open(filepath.Dir(d.path))
		if err != nil {
			return filepath.Dir(d.path)
		}
		defer parent.Close()
		if link := parent.Through(above - 1); link != "" {
			return link
		}
		lstat, name = parent.root.Lstat, filepath.Base(d.path)
	}
	named, err := lstat(name)
	opened, openedErr := d.root.Stat(".")
	if err != nil || openedErr != nil || !os.SameFile(named, opened) {
		return d.path
	}
	return ""
}

// Sub opens a directory below d.
func (d *Dir) Sub(name string) (*Dir, error) {
	r, err := d.resolve(name)
	if err != nil {
		return nil, err
	}
	if r != nil {
		defer r.Close()
		if r.info.IsDir() { // opening a pipe would wait
			sub, info, err := d.openSub(name)
			if err == nil && os.SameFile(r.info, info) {
				return sub, nil
			}
			if err == nil {
				sub.Close()
			}
		}
	}
	return d.descend(name, (*Dir).enter)
}

// A resolved name is an open file of any kind, which is only examined and opened again.
type resolved struct {
	*os.File
	info fs.FileInfo
}

// openSub opens the directory called name, or d once more. It follows links that stay below d, so its callers compare
// the info with that of the directory that they mean.
func (d *Dir) openSub(name string) (sub *Dir, info fs.FileInfo, err error) {
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, nil, d.named(err)
	}
	sub = &Dir{root: root, path: d.Path(name), device: d.device, share: d.share}
	if info, err = root.Stat("."); err != nil {
		root.Close()
		return nil, nil, sub.named(err)
	}
	return sub, info, nil
}

// MakeSub is like Sub, but creates the directory and its parents if they are
// missing. In a shared directory, it also lets the other users write to those that
// this user owns, see [Dir.Share].
func (d *Dir) MakeSub(name string) (*Dir, error) {
	return d.descend(name, func(d *Dir, name string) (*Dir, error) {
		sub, err := d.enter(name)
		if errors.Is(err, fs.ErrNotExist) {
			if err := d.mkdir(name); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, d.named(err)
			}
			sub, err = d.enter(name)
		}
		if err == nil {
			sub.admit()
		}
		return sub, err
	})
}

// mkdir creates a directory. Its mode is complete after [Dir.admit].
func (d *Dir) mkdir(name string) error {
	mode := fs.FileMode(0o755)
	if d.share != nil {
		mode &= d.share.mode
	}
	return d.root.Mkdir(name, mode)
}

// descend enters one element of name after the other, and returns the last
// directory.
func (d *Dir) descend(name string, enter func(*Dir, string) (*Dir, error)) (*Dir, error) {
	if !fs.ValidPath(name) || name == "." {
		return nil, fmt.Errorf("%s: invalid name %q below it", d.path, name)
	}
	at := d
	for element := range strings.SplitSeq(name, "/") {
		sub, err := enter(at, element)
		if at != d {
			at.Close()
		}
		if err != nil {
			return nil, err
		}
		at = sub
	}
	return at, nil
}

// enter opens the directory called name, which has one element.
func (d *Dir) enter(name string) (*Dir, error) {
	sub, _, err := examined(d, name, d.check, func() (*Dir, fs.FileInfo, error) { return d.openSub(name) })
	return sub, d.named(err)
}

// attempts is how often a file is opened that others keep exchanging.
const attempts = 10

// examined checks name, which has one element, and opens it. Another process can put a link in its place
// meanwhile. So examined compares what it has opened with what it has checked, and tries again.
func examined[T io.Closer](
	d *Dir, name string, check func(string, fs.FileInfo) error, open func() (T, fs.FileInfo, error),
) (opened T, info fs.FileInfo, err error) {
	failed := error(&fs.PathError{Op: "open", Path: d.Path(name), Err: errors.New("another process keeps replacing it")})
	for begun, left := time.Now(), attempts; left > 0; left-- {
		before, err := d.root.Lstat(name)
		if err == nil {
			err = check(name, before)
		}
		if err != nil {
			return opened, nil, err
		}
		f, info, err := open()
		switch {
		case err == nil && os.SameFile(before, info):
			return f, info, nil
		case err == nil:
			f.Close()
		case d.isGrowing(before, err, begun):
			left++
			time.Sleep(regrown)
		case errors.Is(err, fs.ErrPermission):
			return opened, nil, err
		default:
			failed = err
		}
	}
	return opened, nil, failed
}

// check returns an error for a mount point, and for anything other than a
// directory of this file system.
func (d *Dir) check(name string, info fs.FileInfo) error {
	switch {
	case !info.IsDir():
		return stray(filepath.Join(d.path, name), d.describe(name, info.Mode()))
	case deviceOf(info) != d.device, isMountPoint(filepath.Join(d.path, name)): // a bind mount may have the same device
		return stray(filepath.Join(d.path, name), "a mounted file system")
	}
	return nil
}

// describe returns what kind of file name is, for messages.
func (d *Dir) describe(name string, mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		if target, err := d.root.Readlink(name); err == nil {
			return "a symbolic link to " + target
		}
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	case mode&fs.ModeIrregular != 0:
		return "a junction or another special file"
	case mode.IsDir():
		return "a directory"
	}
	return "a file"
}

// at calls do with the directory that contains name, and the last element of name.
func (d *Dir) at(name string, do func(in *Dir, base string) error) error {
	if !fs.ValidPath(name) || name == "." {
		return fmt.Errorf("%s: invalid name %q below it", d.path, name)
	}
	dir, base := path.Split(name)
	if dir == "" {
		return d.named(do(d, base))
	}
	in, err := d.Sub(path.Clean(dir))
	if err != nil {
		return err
	}
	defer in.Close()
	return in.named(do(in, base))
}

// named gives an error of os.Root the absolute path.
func (d *Dir) named(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok && !filepath.IsAbs(e.Path) {
		return &fs.PathError{Op: e.Op, Path: d.Path(filepath.ToSlash(e.Path)), Err: e.Err}
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok && !filepath.IsAbs(e.New) {
		return &os.LinkError{Op: e.Op, Old: e.Old, New: d.Path(filepath.ToSlash(e.New)), Err: e.Err}
	}
	return err
}

// Lstat describes name without following a link.
func (d *Dir) Lstat(name string) (info fs.FileInfo, err error) {
	if r, err := d.resolve(name); err != nil {
		return nil, err
	} else if r != nil {
		r.Close()
		return r.info, nil
	}
	err = d.at(name, func(in *Dir, base string) error {
		info, err = in.root.Lstat(base)
		return err
	})
	return info, err
}

// CheckDirs returns a [StrayError] if one of the names, which have one element,
// is not a directory of this file system. It ignores missing names.
func (d *Dir) CheckDirs(names ...string) error { return d.checkAll(names, d.check) }

// CheckFiles returns a [StrayError] if one of the names, which have one element,
// is not a regular file of this file system, or if the file has another name. It
// ignores missing names.
func (d *Dir) CheckFiles(names ...string) error { return d.checkAll(names, d.checkFile) }

func (d *Dir) checkAll(names []string, check func(string, fs.FileInfo) error) error {
	for _, name := range names {
		info, err := d.root.Lstat(name)
		if err == nil {
			err = check(name, info)
		}
		if err := d.unlessMissing(err); err != nil {
			return err
		}
	}
	return nil
}

// checkRegular returns a [StrayError] for anything other than a regular file.
func (d *Dir) checkRegular(name string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return stray(d.Path(name), d.describe(name, info.Mode()))
	}
	return nil
}

func (d *Dir) checkFile(name string, info fs.FileInfo) error {
	if err := d.checkRegular(name, info); err != nil {
		return err
	}
	switch n := UsageOf(d.Path(name), info).Links; {
	case deviceOf(info) != d.device, isMountPoint(d.Path(name)):
		return stray(d.Path(name), "a mounted file")
	case n > 1:
		return stray(d.Path(name), fmt.Sprintf("a file with %d names (hardlinks)", n))
	}
	return nil
}

// Exists reports whether name exists. It returns true if that cannot be
// determined.
func (d *Dir) Exists(name string) bool {
	_, err := d.Lstat(name)
	return !isMissing(err)
}

// Mkdir creates a directory that must not exist yet.
func (d *Dir) Mkdir(name string) (*Dir, error) {
	if err := d.mkdir(name); err != nil {
		return nil, d.named(err)
	}
	sub, err := d.Sub(name)
	if err == nil {
		sub.admit()
	}
	return sub, err
}

// ReadDir lists the entries of d, sorted by name. A directory that was removed since it
// was opened has none.
func (d *Dir) ReadDir() ([]fs.DirEntry, error) {
	f, err := d.root.OpenFile(".", openNow, 0)
	if isMissing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, d.named(err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if isMissing(err) {
		err = nil
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, d.named(err)
}

// MadeBySystem reports whether operating systems create directories of this
// name at the top of volumes.
func MadeBySystem(name string) bool {
	return slices.Contains([]string{"lost+found", "System Volume Information", "$RECYCLE.BIN"}, name)
}

// IsUnread reports whether err means that the file system failed to read
// something, so that its state is unknown. It is false if the file is missing or
// not a regular file.
func IsUnread(err error) bool {
	_, failed := errors.AsType[*fs.PathError](err)
	return failed && !isMissing(err) && !errors.Is(err, ErrNotRegular)
}

// isMissing reports whether err means that a file or a directory above it does
// not exist.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
