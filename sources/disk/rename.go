package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Rename moves name in from to newName in to. Both names have one element, and
// both directories are on the same file system.
func Rename(from *Dir, name string, to *Dir, newName string) error {
	if err := move(from, name, to, newName); err != nil {
		return &os.LinkError{Op: "rename", Old: from.Path(name), New: to.Path(newName), Err: err}
	}
	return nil
}

// Move is like Rename for the file that info describes. If another file has taken its
// name, the error matches [ErrChanged], and the other file is removed.
func Move(from *Dir, name string, to *Dir, newName string, info fs.FileInfo) error {
	if err := Rename(from, name, to, newName); err != nil {
		return err
	}
	now, err := to.Lstat(newName)
	if err == nil && !os.SameFile(now, info) {
		err = fmt.Errorf("%s %w", from.Path(name), ErrChanged)
	}
	if err != nil {
		return errors.Join(err, to.RemoveTree(newName))
	}
	return nil
}

// Link creates newName in to as a hardlink to the regular file name in from.
func Link(from *Dir, name string, to *Dir, newName string) error {
	return from.at(name, func(in *Dir, base string) error {
		info, err := in.root.Lstat(base)
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return stray(in.Path(base), in.describe(base, info.Mode()))
		}
		if err := linkAt(in, base, to, newName); err != nil {
			return &os.LinkError{Op: "link", Old: from.Path(name), New: to.Path(newName), Err: err}
		}
		return nil
	})
}

// Take moves name, which has one element, from a directory to s, where it gets a new name. It moves nothing if a
// file system is mounted in it.
func (s *Scratch) Take(from *Dir, name, newName string) error {
	if err := from.checkMounts(name); err != nil {
		return err
	}
	return Rename(from, name, s.Dir, newName)
}

// checkMounts returns a [StrayError] if a file system is mounted on the directory called name or below it. It
// ignores everything else.
func (d *Dir) checkMounts(name string) error {
	info, err := d.root.Lstat(name)
	if err != nil || !info.IsDir() {
		return d.unlessMissing(err)
	}
	sub, err := d.enter(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	entries, err := sub.ReadDir()
	for _, e := range entries {
		if err == nil && e.IsDir() {
			err = sub.checkMounts(e.Name())
		}
	}
	return err
}

// Replace moves made in s to name in to, and returns the name in s of the file
// or directory that was replaced. That one is removed together with s, or
// earlier. The result is empty if nothing was replaced. If Replace fails, the
// old one is back in its place, or the error contains its path. Nothing changes
// if a file system is mounted in the old one.
func (s *Scratch) Replace(made string, to *Dir, name string) (old string, err error) {
	if err := to.checkMounts(name); err != nil {
		return "", err
	}
	if !to.Exists(name) {
		if err = Rename(s.Dir, made, to, name); err == nil {
			return "", nil
		}
	}
	// Exchange both in one step if the system can, so that name always exists.
	if swap(s.Dir, made, to, name) == nil {
		return made, nil
	}
	for try := range 3 { // another program may create name between the two steps
		old = made + ".old" + strconv.Itoa(try)
		moved := Rename(to, name, s.Dir, old)
		if moved != nil && !isMissing(moved) {
			return "", moved
		}
		if moved != nil {
			old = ""
		}
		if err = Rename(s.Dir, made, to, name); err == nil {
			return old, nil
		}
		if moved != nil {
			continue
		}
		if back := Rename(s.Dir, old, to, name); back != nil {
			if _, lost := to.Lstat(name); lost != nil {
				return "", s.Rescue(old, err)
			}
		}
	}
	return "", err
}

// rescued begins the names of files that no sweep removes.
const rescued = "rescued-"

// IsRescued reports whether [Scratch.Rescue] could have generated the name.
func IsRescued(name string) bool { return strings.HasPrefix(name, rescued) }

// Rescue moves the only copy of a replaced file or directory out of the scratch
// directory. It returns err with the new path added.
func (s *Scratch) Rescue(old string, err error) error {
	at := s.in.Path(rescued + old)
	if Rename(s.Dir, old, s.in, rescued+old) != nil {
		s.keep.Store(true)
		at = s.Path(old)
	}
	return fmt.Errorf("%w; the old one is now at %s", err, at)
}

// variables, so that tests can replace them
var (
	swap = exchange
	move = renameAt
)

// IsLink reports whether mode is the mode of a symbolic link or, on Windows, of a junction.
func IsLink(mode fs.FileMode) bool { return mode&(fs.ModeSymlink|fs.ModeIrregular) != 0 }

// Symlink creates name, which has one element, as a symbolic link to target.
// The last element of an installed package's path is the only link that Larder creates.
func (d *Dir) Symlink(target, name string) error { return d.named(d.root.Symlink(target, name)) }
