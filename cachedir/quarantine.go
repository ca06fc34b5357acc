package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// quarantineDir contains the packages and files that were moved because they differ from what Larder verified, each at
// the path that it had. A later file for the same path replaces the earlier one. The directory is in the .larder of a
// cache, and of a working directory, which is not a host name, so that engines ignore it.
const (
	quarantineDir  = "quarantine"
	quarantinePath = ".larder/" + quarantineDir
	quarantinedFor = 30 * 24 * time.Hour // until a prune removes it, unless that has an age of its own
)

// changed describes how the package in dir differs from r, the contents that replace it. It reports false if the
// replacement loses nothing: dir has no files, is a link or has the same contents.
func (r record) changed(ctx context.Context, dir string) (how string, ok bool) {
	info, err := os.Lstat(dir)
	switch {
	case err != nil && errors.Is(err, fs.ErrNotExist), err == nil && disk.IsLink(info.Mode()):
		return "", false
	case err == nil && !info.IsDir():
		return "it was not a directory", true
	}
	now, err := hash(ctx, dir)
	switch {
	case ctx.Err() != nil:
		return "", true
	case err != nil:
		return strings.ReplaceAll(sources.Text(err), dir+string(filepath.Separator), ""), true
	case now.H1 == r.H1, len(now.Files) == 0:
		return "", false
	}
	return now.Sums.Differ(r.Sums, ""), true
}

// replace puts the package called made in the scratch directory at the place of the package id. Its directory, home, is
// open, and r describes it. With keep, an old package with other contents is moved to the quarantine.
func (d *Dir) replace(
	ctx context.Context, id sources.PackageID, home *disk.Dir, made string, r record, keep bool,
) error {
	scratch, err := d.packageScratch()
	if err != nil {
		return err
	}
	if keep && home.Exists(id.Platform.String()) {
		err := store.Within(d.tree, quarantinePath, func(*disk.Dir) error { return nil })
		if err != nil { // a link leads to it
			return err
		}
	}
	old, err := scratch.Replace(made, home, id.Platform.String())
	if err != nil || old == "" {
		return err
	}
	how, differs := "", false
	if keep {
		how, differs = r.changed(ctx, scratch.Path(old))
	}
	if !differs {
		d.warn(scratch.RemoveTree(old))
		return nil
	}
	why := string(store.Changed)
	if how != "" {
		why += ": " + how
	}
	d.warn(d.isolated(scratch, old, id.Path(), id.String(), why))
	return ctx.Err()
}

// isolated moves a file or a package, called old in a scratch directory, to the path at in the quarantine, and warns
// that it is there.
func (d *Dir) isolated(scratch *disk.Scratch, old, at, subject, why string) error {
	home, err := d.tree.MakeSub(path.Join(quarantinePath, path.Dir(at)))
	if err != nil {
		return scratch.Rescue(old, err)
	}
	defer home.Close()
	if _, err := scratch.Replace(old, home, path.Base(at)); err != nil {
		return scratch.Rescue(old, err)
	}
	d.warn(fmt.Errorf("%s: %s; moved to %s", subject, why, home.Path(path.Base(at))))
	return nil
}

// quarantine moves the file or the package at a path in the cache to the quarantine of the cache. It ignores a missing
// one.
func (d *Dir) quarantine(in *disk.Dir, name, subject string, why store.Kind) error {
	if _, err := in.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	bin, err := d.scratch()
	if err != nil {
		return err
	}
	defer func() { d.warn(bin.Close()) }()
	old := bin.Name()
	err = store.Within(in, path.Dir(name), func(in *disk.Dir) error { return bin.Take(in, path.Base(name), old) })
	if err != nil {
		return err
	}
	return d.isolated(bin, old, name, subject, string(why))
}
