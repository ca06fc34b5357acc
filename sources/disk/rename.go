package disk

import (
	"fmt"
	"os"
	"strconv"
)

// Rename moves what is called name in from to the name newName in to. Both names
// have one element, both directories are on one file system.
func Rename(from *Dir, name string, to *Dir, newName string) error {
	if err := move(from, name, to, newName); err != nil {
		return &os.LinkError{Op: "rename", Old: from.Path(name), New: to.Path(newName), Err: err}
	}
	return nil
}

// Link gives the regular file called name in from a second name in to.
func Link(from *Dir, name string, to *Dir, newName string) error {
	in, base, done, err := from.parent(name)
	if err != nil {
		return err
	}
	defer done()
	info, err := in.root.Lstat(base)
	if err != nil {
		return in.named(err)
	}
	if !info.Mode().IsRegular() {
		return stray(in.Path(base), in.describe(base, info.Mode()))
	}
	if err := linkAt(in, base, to, newName); err != nil {
		return &os.LinkError{Op: "link", Old: from.Path(name), New: to.Path(newName), Err: err}
	}
	return nil
}

// Symlink makes name, which has one element, a symbolic link to target. It is for
// the one place that has links of Larder's: the leaf of an installed package.
func (d *Dir) Symlink(target, name string) error { return d.named(d.root.Symlink(target, name)) }

// Replace gives what is called made in s the place of what is called name in to, if
// anything is. It returns what the old one is called in s, where it is removed with s or
// before; empty if nothing was replaced. If the exchange fails the old one is back in its
// place, or the error says where it is. Nothing changes where a file system is mounted in
// the old one.
func (s *Scratch) Replace(made string, to *Dir, name string) (old string, err error) {
	info, err := to.root.Lstat(name)
	if err == nil && info.IsDir() {
		if err := to.CheckMounts(name); err != nil {
			return "", err
		}
	}
	if isMissing(err) {
		if err = Rename(s.Dir, made, to, name); err == nil {
			return "", nil
		}
	}
	// At once if the system can, so that nobody finds the place empty.
	if swap(s.Dir, made, to, name) == nil {
		return made, nil
	}
	for try := range 3 { // another program may put something there between the two steps
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

// rescued begins the names of what no sweep removes.
const rescued = "rescued-"

// Rescue moves the only one of what was replaced out of the scratch directory. It returns
// err with where that is.
func (s *Scratch) Rescue(old string, err error) error {
	at := s.in.Path(rescued + old)
	if Rename(s.Dir, old, s.in, rescued+old) != nil {
		s.keep.Store(true)
		at = s.Path(old)
	}
	return fmt.Errorf("%w; what was there before is now at %s", err, at)
}

// Tests replace these.
var (
	swap = exchange
	move = renameAt
)
