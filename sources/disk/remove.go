package disk

import (
	"errors"
	"io/fs"
	"path"
)

// Remove removes a file, a link or an empty directory. A missing file is no
// error.
func (d *Dir) Remove(name string) error {
	in, base, done, err := d.parent(name)
	if err == nil {
		defer done()
		err = in.named(in.root.Remove(base))
	}
	return d.unlessMissing(err)
}

// RemoveTree removes name, which has one element, and everything below it. It
// follows no links and does not touch other file systems: a mount point and the
// directories above it stay, and the error names it. A missing tree is no
// error.
func (d *Dir) RemoveTree(name string) error {
	info, err := d.root.Lstat(name)
	if err != nil {
		return d.unlessMissing(err)
	}
	if info.IsDir() {
		if err := d.empty(name); err != nil {
			return d.unlessMissing(err)
		}
	}
	return d.unlessMissing(d.root.Remove(name))
}

func (d *Dir) unlessMissing(err error) error {
	if isMissing(err) {
		return nil
	}
	return d.named(err)
}

// empty removes everything in a directory.
func (d *Dir) empty(name string) error {
	sub, err := d.enter(name)
	if err != nil {
		return err
	}
	defer sub.Close()
	entries, err := sub.ReadDir()
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.Name() == alive && errors.Join(errs...) != nil {
			break // Sweep needs the lock file to remove the rest
		}
		errs = append(errs, sub.RemoveTree(e.Name()))
	}
	return errors.Join(errs...)
}

// RemoveEmpty removes the directory called name and the directories above it up
// to d, as long as they are empty. In a shared directory, those of other users may
// stay.
func (d *Dir) RemoveEmpty(name string) error {
	for ; name != "." && name != ""; name = path.Dir(name) {
		in, base, done, err := d.parent(name)
		if isMissing(err) {
			continue
		}
		if err != nil {
			return err
		}
		info, err := in.root.Lstat(base)
		if err == nil && info.IsDir() {
			err = in.root.Remove(base)
		}
		done()
		switch {
		case isNotEmpty(err), d.share != nil && errors.Is(err, fs.ErrPermission): // another user's
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return in.named(err)
		}
	}
	return nil
}
