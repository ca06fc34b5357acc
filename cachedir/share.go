package cachedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
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
	return store.Within(d.tree, path.Dir(at), func(in *disk.Dir) error { return in.Replaceable(path.Base(at)) })
}

// openToUsers gives the directories of a shared cache that this user owns their mode. Engines create directories that
// only their owner may write to. It leaves the packages, and what it can't change, as they are.
func (d *Dir) openToUsers() {
	if !d.shared {
		return
	}
	root := d.root + string(filepath.Separator) // the cache may be a link
	_ = filepath.WalkDir(root, func(full string, e fs.DirEntry, unread error) error {
		at, _ := filepath.Rel(d.root, full) // which can't fail for what is below it
		at = filepath.ToSlash(at)
		_, isPackage := packageAt(strings.TrimPrefix(at, quarantinePath+"/"))
		leave := isPackage || path.Dir(at) == ".larder/tmp" || at == ".larder/"+ledgerDir || at == ".larder/"+knownDir
		if unread == nil && e.IsDir() && at != "." {
			if leave {
				return fs.SkipDir
			}
			if dir, err := d.tree.MakeSub(at); err == nil {
				dir.Close()
			}
		}
		return nil
	})
}
