package cachedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Several users may write to a cache whose directory lets its group or all users write.
// What Larder creates there then has the group and the permissions of that
// directory: .larder, and the directories above packages. Each user has records and
// downloads of their own in their state directory.

// explainOwner adds to the reason why this user can't write somewhere in a cache who can
// change that.
func (d *Dir) explainOwner(err error) error {
	file, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(err, fs.ErrPermission) || d.tree.Writable() != nil {
		return err // all of the cache may be read-only on purpose
	}
	at := file.Path // or the directory that it could not be created in
	for _, missing := os.Lstat(at); errors.Is(missing, fs.ErrNotExist); _, missing = os.Lstat(at) {
		at = filepath.Dir(at)
	}
	owner := disk.Owner(at)
	if owner == "" {
		return err
	}
	err = fmt.Errorf("%s belongs to %s: %w", at, owner, file.Err)
	switch {
	case errors.Is(err, disk.ErrSticky):
		return sources.WithHint(err, "let %s remove or repair it, or use another plugin cache", owner)
	case d.shared:
		return sources.WithHint(err, "let %s run larder cache repair, so that all users of %s may write there", owner, d.root)
	}
	return sources.WithHint(err, "run sudo chown -R \"$(id -un)\" %s", d.root)
}

// denies reports whether err means that something in a cache of several users can't be read or written. Any of them
// can cause that, so it never makes an installation fail.
func (d *Dir) denies(err error) bool { return d.shared && disk.IsObstructed(err) }

// replaceable returns nil if this user may move the file or package at a path in the
// cache to another directory, otherwise the reason why not.
func (d *Dir) replaceable(at string) error {
	in, err := d.tree, error(nil)
	if dir := path.Dir(at); dir != "." {
		if in, err = d.tree.Sub(dir); err != nil {
			return err
		}
		defer in.Close()
	}
	return in.Replaceable(path.Base(at))
}

// openToUsers gives the directories of a shared cache that this user owns their mode.
// Engines create directories that only their owner may write to.
func (d *Dir) openToUsers() error {
	if !d.shared {
		return nil
	}
	packages, err := disk.Open(d.root)
	if err != nil {
		return err
	}
	defer packages.Close()
	if _, err := packages.Share(); err != nil {
		return err
	}
	packages.Reserve()
	for _, name := range []string{"lock", "tmp", quarantineDir, rootsDir, "evidence"} {
		remake(d.state, name)
	}
	var errs []error
	for levels := 1; levels <= platformDepth; levels++ {
		errs = append(errs, remakeBelow(d.tree, ".", levels), remakeBelow(d.state, "evidence", levels))
	}
	return errors.Join(append(errs, remakeBelow(packages, ".", platformDepth+1))...)
}

// remakeBelow is remake for the directories that are the given number of levels below a directory.
func remakeBelow(in *disk.Dir, name string, levels int) error {
	names, err := below(in.Path(name), levels)
	for _, at := range names {
		remake(in, path.Join(name, at))
	}
	return err
}

// remake is MakeSub for a directory that exists. It ignores everything else.
func remake(in *disk.Dir, name string) {
	if !isDir(in, name) {
		return
	}
	if dir, err := in.MakeSub(name); err == nil {
		dir.Close()
	}
}
