package cachedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// Several users may write to a cache whose directory lets its group or all users write.
// What Larder creates for all of them then has the group and the permissions of that
// directory: .larder, the locks, and the directories above packages. Each user has a
// state: records, evidence, downloads and temporary files. That of the owner of .larder
// is .larder itself, those of the others are below usersDir, under the user's number.

// usersDir is the directory in .larder with the states of users who don't own .larder.
const usersDir = "users"

// ownPlace returns the path of this user's state in .larder, unless the user owns that.
func ownPlace() string { return usersDir + "/" + strconv.Itoa(os.Geteuid()) + "/" }

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

// places returns the paths of the states of all users in common, each with a slash at
// the end.
func (d *Dir) places() []string {
	all := []string{""}
	if !d.shared || d.common == nil {
		return all
	}
	names, _ := store.Names(d.common, usersDir)
	for _, name := range names {
		all = append(all, usersDir+"/"+name+"/")
	}
	return all
}

// believed returns the states of the other users whose records this user accepts,
// because they have a record key in common.
func (d *Dir) believed() (places []string) {
	if !d.shared || d.common == nil || !d.opts.Key.Shared() {
		return nil
	}
	for _, at := range d.places() {
		if at != d.own || d.state == nil {
			places = append(places, at)
		}
	}
	return places
}

// stateNames lists a directory of the state and of those of the other users whose
// records this user accepts.
func (d *Dir) stateNames(name string) (names []string, err error) {
	if d.state != nil {
		names, err = store.Names(d.state, name)
	}
	for _, at := range d.believed() {
		more, _ := store.Names(d.common, at+name)
		names = append(names, more...)
	}
	return names, err
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

// sweepOthers removes the temporary files of killed processes of other users, where this
// user may do so.
func (d *Dir) sweepOthers() {
	for _, at := range d.places() {
		if at == d.own {
			continue
		}
		_ = store.Within(d.common, at+"tmp", func(tmp *disk.Dir) error {
			if tmp.Writable() == nil {
				tmp.Sweep(runPrefix, d.opts.Now(), d.warn)
			}
			return nil
		})
	}
}

// openToUsers gives the directories of a shared cache that this user owns their mode.
// Engines create directories that only their owner may write to.
func (d *Dir) openToUsers() error {
	if !d.shared {
		return nil
	}
	remake(d.common, "lock")
	packages, err := disk.Open(d.root)
	if err != nil {
		return err
	}
	defer packages.Close()
	if _, err := packages.Share(); err != nil {
		return err
	}
	packages.Reserve()
	var errs []error
	for depth := range platformDepth + 1 {
		in := d.tree
		if depth == platformDepth {
			in = packages
		}
		names, err := below(d.root, depth+1)
		errs = append(errs, err)
		for _, name := range names {
			remake(in, name)
		}
	}
	return errors.Join(errs...)
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
