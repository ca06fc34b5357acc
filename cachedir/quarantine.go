package cachedir

import (
	"cmp"
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
// the path that it had. A later file for the same path replaces the earlier one. The directory is in the state of a cache,
// and in a working directory below .larder, which is not a host name, so that engines ignore it.
const (
	quarantineDir     = "quarantine"
	quarantineWorkdir = ".larder/" + quarantineDir
	quarantinedFor    = 30 * 24 * time.Hour // until a prune removes it, unless that has an age of its own
)

// changed describes how the package installed in target differs from r, the contents that replace it. It reports false
// if the replacement loses nothing: target has no files, is a link or has the same contents.
func (r record) changed(ctx context.Context, target string) (how string, ok bool) {
	info, err := os.Lstat(target)
	switch {
	case err != nil && errors.Is(err, fs.ErrNotExist), err == nil && disk.IsLink(info.Mode()):
		return "", false
	case err == nil && !info.IsDir():
		return "it was not a directory", true
	}
	now, err := hash(ctx, target)
	switch {
	case err != nil:
		return unscanned(target, err), true
	case now.H1 == r.H1, len(now.Files) == 0:
		return "", false
	}
	return now.Sums.Differ(r.Sums, ""), true
}

// unscanned returns the reason why a package in target can't be read, and the name of
// the file.
func unscanned(target string, err error) string {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		if name, relErr := filepath.Rel(target, file.Path); relErr == nil {
			return name + ": " + file.Err.Error()
		}
	}
	return strings.TrimPrefix(err.Error(), sources.ErrNotFound.Error()+": ")
}

// A cell is a directory of the quarantine that a file or a package is moved to.
type cell struct {
	subject, why string // for the warning
	home         *disk.Dir
	leaf         string
}

// cellFor opens the directory for the path at in the quarantine called name in a directory, and creates it if it is
// missing. If a file was moved to the path of that directory, the directory takes its place.
func cellFor(in *disk.Dir, name, at, subject, why string) (*cell, error) {
	for {
		home, err := in.MakeSub(path.Join(name, path.Dir(at)))
		stray, ok := errors.AsType[*disk.StrayError](err)
		if err == nil {
			return &cell{subject, why, home, path.Base(at)}, nil
		}
		if !ok {
			return nil, err
		}
		file, below := strings.CutPrefix(stray.Path, in.Path(name)+string(filepath.Separator))
		if !below || in.Remove(path.Join(name, filepath.ToSlash(file))) != nil {
			return nil, err
		}
	}
}

// close releases the directory. It accepts nil.
func (c *cell) close() {
	if c != nil {
		c.home.Close()
	}
}

// keep moves a file or a package, called old in a scratch directory, to the quarantine, and warns that it is there.
func (c *cell) keep(scratch *disk.Scratch, old string, warn func(error)) error {
	if _, err := scratch.Replace(old, c.home, c.leaf); err != nil {
		return scratch.Rescue(old, err)
	}
	warn(fmt.Errorf("%s: %s; moved to %s", c.subject, c.why, c.home.Path(c.leaf)))
	return nil
}

// replacing opens the cell for the package id in target, which is to be replaced by one with the contents in r. The
// quarantine is called name in a directory. It returns nil if the replacement loses nothing. That is also the case if
// was, the record of the package, describes an unchanged package.
func (r record) replacing(
	ctx context.Context, in *disk.Dir, name string, id sources.PackageID, target string, was record,
) (*cell, error) {
	if was.H1 != "" && was.Origin != "" && was.was == nil {
		return nil, nil
	}
	how, ok := r.changed(ctx, target)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !ok {
		return nil, nil
	}
	why := string(store.Changed)
	if how != "" {
		why += ": " + how
	}
	return cellFor(in, name, id.Path(), id.String(), why)
}

// quarantine moves the file called name from a directory to the path at in the quarantine. It ignores a missing file.
func (d *Dir) quarantine(in *disk.Dir, name, at, subject string, why store.Kind) error {
	if _, err := in.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if dir := path.Dir(name); dir != "." {
		sub, err := in.Sub(dir)
		if err != nil {
			return err
		}
		defer sub.Close()
		in = sub
	}
	c, err := cellFor(d.state, quarantineDir, at, subject, string(why))
	if err != nil {
		return err
	}
	defer c.close()
	bin, err := d.scratch()
	if err != nil {
		return err
	}
	defer func() { d.warn(bin.Close()) }()
	old := bin.Name()
	if err := bin.Take(in, path.Base(name), old); err != nil {
		return err
	}
	return c.keep(bin, old, d.warn)
}

// eachOld calls f with the path in the state of each file and package that has been in the quarantine for longer than
// an age, which is 30 days if it is 0. The time is that of the last move to the same directory.
func (d *Dir) eachOld(age time.Duration, f func(at string) error) error {
	before := d.opts.Now().Add(-cmp.Or(age, quarantinedFor))
	var visit func(at string, depth int) error
	visit = func(at string, depth int) error {
		return store.Within(d.state, at, func(dir *disk.Dir) error {
			moved, err := d.state.Lstat(at)
			if err != nil {
				return err
			}
			entries, err := dir.ReadDir()
			errs := []error{err}
			for _, e := range entries {
				switch at := at + "/" + e.Name(); {
				case depth < platformDepth && e.IsDir():
					errs = append(errs, visit(at, depth+1))
				case moved.ModTime().Before(before):
					errs = append(errs, f(at))
				}
			}
			return errors.Join(errs...)
		})
	}
	return visit(quarantineDir, hostDepth)
}

// removeOld removes what eachOld finds, and the directories that are empty then. The caller holds the exclusive lock on
// the cache.
func (d *Dir) removeOld(age time.Duration) error {
	return d.eachOld(age, func(at string) error {
		err := store.Within(d.state, path.Dir(at), func(in *disk.Dir) error { return in.RemoveTree(path.Base(at)) })
		return errors.Join(err, d.state.RemoveEmpty(path.Dir(at)))
	})
}
