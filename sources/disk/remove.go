package disk

import (
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/larder-cli/larder/sources"
)

// Remove removes a file, a link or an empty directory. It ignores a missing file.
func (d *Dir) Remove(name string) error {
	return d.unlessMissing(d.at(name, func(in *Dir, base string) error { return in.unlink(base) }))
}

// RemoveTree removes name, which has one element, and everything below it. It
// follows no links and does not touch other file systems: a mount point and the
// directories above it stay, and the error names it. It ignores a missing tree.
func (d *Dir) RemoveTree(name string) error {
	info, err := d.root.Lstat(name)
	if err != nil {
		return d.unlessMissing(err)
	}
	if info.IsDir() {
		sub, err := d.enter(name)
		if err == nil {
			err = sub.empty(func() {})
			sub.Close()
		}
		if err != nil {
			return d.unlessMissing(err)
		}
	}
	return d.unlessMissing(d.unlinkEmptied(name))
}

// unlinkEmptied removes a directory from which everything was removed. Windows, NFS, SMB and FUSE keep a removed file
// in its directory until the program that has it open closes it.
func (d *Dir) unlinkEmptied(name string) error {
	return patiently(isNotEmpty, func() error { return rmdir(d, name) })
}

// variables, so that tests can replace them
var (
	rmdir    = (*Dir).unlink
	patience = 2 * time.Second // how long a file is waited for that another program has open
)

// patiently calls do until its error isn't busy. On Windows, virus scanners and indexers open each new file for a
// moment.
func patiently(busy func(error) bool, do func() error) error {
	for begun := time.Now(); ; time.Sleep(poll) {
		err := do()
		if !busy(err) {
			return err
		}
		if time.Since(begun) >= patience {
			return sources.WithHint(err, "stop the programs that use files there, such as a running provider or a virus scanner")
		}
	}
}

func (d *Dir) unlessMissing(err error) error {
	if isMissing(err) {
		return nil
	}
	return d.named(err)
}

// empty removes everything in the directory. Before it removes the lock file of a scratch
// directory, it calls unlock.
func (d *Dir) empty(unlock func()) error {
	entries, err := d.ReadDir()
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.Name() == alive {
			if errors.Join(errs...) != nil {
				break // Sweep needs the lock file to remove the rest
			}
			unlock()
		}
		errs = append(errs, d.RemoveTree(e.Name()))
	}
	return errors.Join(errs...)
}

// RemoveEmpty removes the directory called name and the directories above it up
// to d, as long as they are empty. In a shared directory, those of other users may
// stay.
func (d *Dir) RemoveEmpty(name string) error {
	for ; name != "." && name != ""; name = path.Dir(name) {
		err := d.at(name, func(in *Dir, base string) error {
			info, err := in.root.Lstat(base)
			if err == nil && info.IsDir() {
				err = in.unlink(base)
			}
			return err
		})
		switch {
		case isNotEmpty(err), d.share != nil && errors.Is(err, fs.ErrPermission): // another user's
			return nil
		case d.unlessMissing(err) != nil:
			return err
		}
	}
	return nil
}
