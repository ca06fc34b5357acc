// Package disk is the only package that writes, renames, syncs and removes files, and it
// does each in one way. It also locks them, except for the lock that OpenTofu shares with
// package cachedir. It reads files for which a limit or a check of the file type matters.
// It is independent of packages, records and mirrors.
//
// # Directories
//
// A [Dir] is opened once, and everything below it is reached through it, on top of an
// [os.Root]. The opened path comes from the user and may contain symbolic links. Below it,
// a symbolic link, a junction, a mounted file system or a file in the place of a directory
// is a [StrayError] that names it. It is never followed, because git, tar and other users
// can put links there.
//
// # What it leaves on disk
//
// Files appear by rename, whole. Unfinished files are in a [Scratch], a directory of one
// run that is locked during the run. The next run removes those of runs that have ended.
// Lock files stay: removing one that another process waits for would let two processes
// hold it.
//
// Removing follows no link and does not cross into another file system.
package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// A Dir is an open directory. Names are relative to it, with forward slashes,
// and lead nowhere else. Its methods are safe for concurrent use.
type Dir struct {
	root   *os.Root
	path   string
	device uint64 // of its file system; 0 if unknown

	once    sync.Once
	self    *os.File // the directory itself, for what os.Root has no method for
	selfErr error
}

// Open opens the directory at path, which may lead through links.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return newDir(root, path)
}

// Make is Open for a directory that is created if it is missing, with its parents.
func Make(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	return Open(path)
}

func newDir(root *os.Root, path string) (*Dir, error) {
	d := &Dir{root: root, path: path}
	info, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, d.named(err)
	}
	d.device = deviceOf(info)
	return d, nil
}

// Close closes the directory. What was opened through it stays open.
func (d *Dir) Close() error {
	d.once.Do(func() { d.selfErr = fs.ErrClosed })
	if d.self != nil {
		d.self.Close()
	}
	return d.root.Close()
}

// handle is the directory as a file.
func (d *Dir) handle() (*os.File, error) {
	d.once.Do(func() { d.self, d.selfErr = d.root.Open(".") })
	return d.self, d.selfErr
}

// Path is the absolute path of what is called name, for messages and for reading.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, filepath.FromSlash(name)) }

// Sub opens a directory below d.
func (d *Dir) Sub(name string) (*Dir, error) { return d.descend(name, (*Dir).enter) }

// MakeSub is Sub for a directory that is created if it is missing, with its parents.
func (d *Dir) MakeSub(name string) (*Dir, error) {
	return d.descend(name, func(d *Dir, name string) (*Dir, error) {
		sub, err := d.enter(name)
		if !errors.Is(err, fs.ErrNotExist) {
			return sub, err
		}
		if err := d.root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, d.named(err)
		}
		return d.enter(name)
	})
}

// descend opens one directory after the other.
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

// enter opens the directory called name, which has one element. Asking first and
// opening then leaves time to put a link in its place, but os.Root follows none
// that leads out.
func (d *Dir) enter(name string) (*Dir, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, d.named(err)
	}
	if err := d.check(name, info); err != nil {
		return nil, err
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, d.named(err)
	}
	return &Dir{root: root, path: filepath.Join(d.path, name), device: d.device}, nil
}

// check refuses what is not a directory of this file system, and mount points.
func (d *Dir) check(name string, info fs.FileInfo) error {
	switch {
	case !info.IsDir():
		return stray(filepath.Join(d.path, name), d.describe(name, info.Mode()))
	case deviceOf(info) != d.device, isMountPoint(filepath.Join(d.path, name)): // a bind mount may have the same device
		return stray(filepath.Join(d.path, name), "a mounted file system")
	}
	return nil
}

// describe says what is called name and has the mode.
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

// parent opens the directory that name is in. The caller calls done.
func (d *Dir) parent(name string) (in *Dir, base string, done func(), err error) {
	if !fs.ValidPath(name) || name == "." {
		return nil, "", nil, fmt.Errorf("%s: invalid name %q below it", d.path, name)
	}
	dir, base := path.Split(name)
	if dir == "" {
		return d, base, func() {}, nil
	}
	in, err = d.Sub(path.Clean(dir))
	if err != nil {
		return nil, "", nil, err
	}
	return in, base, func() { in.Close() }, nil
}

// named makes an error of os.Root name the whole path.
func (d *Dir) named(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) && !filepath.IsAbs(pathErr.Path) {
		return &fs.PathError{Op: pathErr.Op, Path: d.Path(filepath.ToSlash(pathErr.Path)), Err: pathErr.Err}
	}
	var linkErr *os.LinkError
	if errors.As(err, &linkErr) {
		return &os.LinkError{Op: linkErr.Op, Old: linkErr.Old, New: d.Path(filepath.ToSlash(linkErr.New)), Err: linkErr.Err}
	}
	return err
}

// Lstat describes what is called name, which may be a link.
func (d *Dir) Lstat(name string) (fs.FileInfo, error) {
	in, base, done, err := d.parent(name)
	if err != nil {
		return nil, err
	}
	defer done()
	info, err := in.root.Lstat(base)
	return info, in.named(err)
}

// CheckDirs returns a [StrayError] if one of the names, which have one element, is
// something else than a directory of this file system. What is missing is no error.
func (d *Dir) CheckDirs(names ...string) error {
	for _, name := range names {
		info, err := d.root.Lstat(name)
		if isMissing(err) {
			continue
		}
		if err == nil {
			err = d.check(name, info)
		}
		if err != nil {
			return d.named(err)
		}
	}
	return nil
}

// Exists reports whether anything is called name, or may be: it is false only if
// that is certain.
func (d *Dir) Exists(name string) bool {
	_, err := d.Lstat(name)
	return !isMissing(err)
}

// Mkdir creates a directory, which must not exist.
func (d *Dir) Mkdir(name string) (*Dir, error) {
	if err := d.root.Mkdir(name, 0o755); err != nil {
		return nil, d.named(err)
	}
	return d.Sub(name)
}

// ReadDir lists what is in d, in order of names.
func (d *Dir) ReadDir() ([]fs.DirEntry, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, d.named(err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, d.named(err)
}

// CheckMounts returns a [StrayError] if a file system is mounted on the
// directory called name, or below it. It follows no links.
func (d *Dir) CheckMounts(name string) error {
	sub, err := d.Sub(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	entries, err := sub.ReadDir()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := sub.CheckMounts(e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// MadeBySystem reports whether systems make directories of this name at the top of
// volumes of their own accord.
func MadeBySystem(name string) bool {
	return slices.Contains([]string{"lost+found", "System Volume Information", "$RECYCLE.BIN"}, name)
}

// IsUnread reports whether err says that the file system failed to look at or read
// something, so that what is there is unknown. It is false if nothing, or no regular
// file, is there.
func IsUnread(err error) bool {
	var failed *fs.PathError
	return errors.As(err, &failed) && !isMissing(err) && !errors.Is(err, ErrNotRegular)
}

// isMissing reports whether err says that something, or a directory on the way to
// it, does not exist.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
