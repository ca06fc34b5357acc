package cachedir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A mark is a file fingerprint. It identifies an unchanged file without reading it.
type mark struct {
	Path          string `json:"path"` // relative, with forward slashes
	Size          int64  `json:"size"`
	MTime         int64  `json:"mtime"` // in nanoseconds since 1970
	disk.Identity        // Changed is only set if Born is unknown, because hardlinks change it

	// These are not part of a record, so records of such files are never used.
	foreign bool // another user can change or exchange the file and reset its times, see [disk.Own]
	unbound bool // the file system has no time that no user can set
}

// is reports whether two fingerprints taken by this process are those of the same
// file. Another hardlink doesn't change it.
func (m mark) is(n mark) bool {
	m.Changed, n.Changed = 0, 0
	m.foreign, n.foreign = false, false
	return m == n
}

// same reports whether two lists of fingerprints taken by this process are those of the
// same files.
func same(a, b []mark) bool { return slices.EqualFunc(a, b, mark.is) }

// maxFiles exceeds the number of files in any package that can be unpacked or hashed.
const maxFiles = 10_000

// scan returns the fingerprints of all files in dir, always in the same order. A
// symlink to a file counts as that file, and dir itself may be a symlink. The error
// matches sources.ErrNotFound if dir does not exist or cannot be a package.
func scan(dir string) (marks []mark, err error) {
	whileReplaced(dir, func() error {
		marks, err = scanEach(dir, func(string, fs.FileInfo) {})
		return err
	})
	return marks, err
}

// scanEntry is scan for a package in the cache, or elsewhere.
func (d *Dir) scanEntry(dir string) ([]mark, error) {
	marks, err := scan(dir)
	d.distrust(dir, marks)
	return marks, err
}

// distrust makes the files in dir foreign if dir is in the cache, and another user can exchange it
// or a directory above it.
func (d *Dir) distrust(dir string, marks []mark) {
	root := filepath.Clean(d.root)
	if !isBelow(root, dir) {
		return
	}
	for at, below := filepath.Clean(dir), ""; below != root; at, below = filepath.Dir(at), at {
		if info, err := os.Stat(at); err != nil || !disk.OwnDir(info) {
			for i := range marks {
				marks[i].foreign = true
			}
			return
		}
	}
}

// whileReplaced calls read again if a file is missing although dir exists, because
// another process may be replacing the package. It gives up after a few attempts: the
// target of a broken link stays missing.
func whileReplaced(dir string, read func() error) {
	for range 5 {
		if err := read(); !errors.Is(err, fs.ErrNotExist) || gone(dir) {
			return
		}
	}
}

func gone(dir string) bool {
	_, err := os.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// scanEach is scan with a call of visit for each file, even after an error. Unlike scan's
// result, visit gets the path and the description of a symlink itself, not of its target.
func scanEach(dir string, visit func(path string, info fs.FileInfo)) (marks []mark, err error) {
	var walk func(dir, prefix string)
	walk = func(dir, prefix string) {
		entries, readErr := os.ReadDir(dir)
		err = cmp.Or(err, readErr)
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if e.IsDir() {
				walk(path, prefix+e.Name()+"/")
			} else if info, infoErr := e.Info(); infoErr != nil {
				err = cmp.Or(err, infoErr)
			} else {
				visit(path, info)
				m, markErr := markOf(path, prefix+e.Name(), info)
				marks, err = append(marks, m), cmp.Or(err, markErr)
			}
			if len(marks) > maxFiles {
				err = cmp.Or(err, fmt.Errorf("%w: more than %d files", sources.ErrNotFound, maxFiles))
				return
			}
		}
	}
	walk(dir, "")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		err = fmt.Errorf("%w: %w", sources.ErrNotFound, err)
	}
	if err != nil {
		return nil, err
	}
	return marks, nil
}

// markOf returns the fingerprint of the file at path, which info describes, under a name.
func markOf(path, name string, info fs.FileInfo) (mark, error) {
	if disk.IsLink(info.Mode()) {
		target, err := os.Stat(path)
		if err != nil {
			return mark{}, err
		}
		info = target
	}
	if !info.Mode().IsRegular() {
		return mark{}, fmt.Errorf("%w: %s is not a file", sources.ErrNotFound, path)
	}
	m := mark{Path: name, Size: info.Size(), MTime: info.ModTime().UnixNano(), Identity: disk.Identify(path, info)}
	m.foreign, m.unbound = !disk.Own(info), !m.Bound()
	if m.Born != 0 {
		m.Changed = 0
	}
	return m, nil
}

// settled reports whether the last change of every file was so long ago that another
// change must result in a different modification time.
func settled(marks []mark, now time.Time) bool {
	for _, m := range marks {
		if now.Sub(time.Unix(0, m.MTime)).Abs() < 2*time.Second {
			return false
		}
	}
	return true
}

// sizeOf is how many bytes the files of a package take.
func sizeOf(marks []mark) (size int64) {
	for _, m := range marks {
		size += m.Size
	}
	return size
}
