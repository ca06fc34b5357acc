// Package view creates views. A view is a directory with the packages that one root module
// has locked, as links into the plugin cache. An engine that runs init with a view as its
// only mirror sends no requests for providers.
//
// A view contains links to packages that the caller has verified and installed. The
// package verifies nothing, and larder doesn't use views as caches.
//
// It leaves on disk, in the directory that the caller names for all views, a directory
// for each data directory of a root module:
//
//	KEY/for          the root module
//	KEY/providers/   the mirror: HOST/NAMESPACE/TYPE/VERSION/OS_ARCH, links to the packages, or directories
//	                 with hardlinks or copies of their files where there can be no links
//	KEY/cache/       the plugin cache of the engine; empty, unless the engine puts links into it
//	KEY/lock         locked while a process changes the view
//	KEY/.larder-…    where a new mirror is made
//
// The engine must have a plugin cache of its own. With the directory that the links lead
// to as plugin cache, it would remove the packages in order to replace them with links to
// themselves.
package view

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A View is the view of one root module.
type View struct {
	WorkDir   string // absolute
	Providers string // the mirror, absolute
	Cache     string // plugin cache for the engine, absolute

	dir string
}

func newView(dir, workDir string) *View {
	return &View{WorkDir: workDir, Providers: filepath.Join(dir, mirrorDir), Cache: filepath.Join(dir, cacheDir), dir: dir}
}

// Make creates the view of a root module with a data directory in the directory home, or changes
// it so that its mirror has exactly these packages. The packages must stay where they are.
func Make(ctx context.Context, home, workDir, dataDir string, packages []sources.Stored) (*View, error) {
	key := sha256.Sum256([]byte(workDir + "\x00" + dataDir))
	dir, err := disk.Make(filepath.Join(home, hex.EncodeToString(key[:16])))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	lock := dir.Lock("lock")
	if err := disk.Wait(ctx, lock.Try, nil); err != nil {
		return nil, err
	}
	defer lock.Unlock()
	v := newView(dir.Path("."), workDir)
	if now, _, err := dir.ReadFile(workDirFile, maxPath); err != nil || string(now) != workDir {
		if err := dir.WriteFile(workDirFile, []byte(workDir), disk.Lazily); err != nil {
			return nil, err
		}
	}
	links := map[string]string{}
	for _, p := range packages {
		links[p.ID.Path()] = p.Dir
	}
	if err := makeLinks(ctx, dir, links); err != nil {
		return nil, err
	}
	cache, err := dir.MakeSub(cacheDir)
	if err != nil {
		return nil, err
	}
	return v, cache.Close()
}

const (
	workDirFile = "for"
	mirrorDir   = "providers"
	cacheDir    = "cache"
	maxPath     = 64 << 10 // bytes, more than systems allow for a path

	scratchPrefix = ".larder-"
)

var placeBy = cachedir.Place // a variable, so that tests can replace it

// makeLinks replaces the mirror, unless it has exactly these links, by path.
func makeLinks(ctx context.Context, dir *disk.Dir, links map[string]string) (err error) {
	if isCurrent(dir.Path(mirrorDir), links) {
		return nil
	}
	dir.Sweep(scratchPrefix, time.Now(), func(error) {})
	scratch, err := dir.Scratch(scratchPrefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, scratch.Close()) }()
	made := scratch.Name()
	root, err := scratch.Mkdir(made)
	if err != nil {
		return err
	}
	for name, target := range links {
		err = errors.Join(err, makeLink(ctx, root, name, target))
	}
	if err = errors.Join(err, root.Close()); err != nil {
		return err
	}
	_, err = scratch.Replace(made, dir, mirrorDir)
	return err
}

func makeLink(ctx context.Context, root *disk.Dir, name, target string) error {
	in, err := root.MakeSub(path.Dir(name))
	if err != nil {
		return err
	}
	defer in.Close()
	leaf := path.Base(name)
	if placeBy(ctx, sources.LinkSymlink, target, nil, in, leaf) == nil {
		return nil
	}
	files, err := filesIn(target)
	if err == nil && placeBy(ctx, sources.LinkHard, target, files, in, leaf) == nil {
		return nil
	}
	if err == nil { // the package is on another file system
		err = in.RemoveTree(leaf)
	}
	if err == nil {
		err = placeBy(ctx, sources.LinkCopy, target, files, in, leaf)
	}
	return err
}

// isCurrent reports whether a mirror has exactly these links.
func isCurrent(root string, links map[string]string) bool {
	names := 0
	err := filepath.WalkDir(root, func(at string, e fs.DirEntry, err error) error {
		relative, relErr := filepath.Rel(root, at)
		if err = errors.Join(err, relErr); err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		if e.IsDir() && strings.Count(name, "/") < depth-1 {
			return nil
		}
		target, wanted := links[name]
		now, err := os.Readlink(at)
		if !wanted || !(err == nil && now == target || e.IsDir() && isFilled(at, target)) {
			return fs.ErrInvalid
		}
		if names++; e.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return err == nil && names == len(links)
}

// isFilled reports whether at has hardlinks to all files of a package, and no others. Copies are made again.
func isFilled(at, target string) bool {
	files, err := filesIn(target)
	now, nowErr := filesIn(at)
	return err == nil && nowErr == nil && slices.EqualFunc(files, now, func(file, link string) bool {
		info, err := os.Stat(filepath.Join(target, file))
		linked, linkErr := os.Lstat(filepath.Join(at, link))
		return file == link && err == nil && linkErr == nil && os.SameFile(info, linked)
	})
}

// filesIn returns the paths of the files in dir, with slashes.
func filesIn(dir string) (files []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(file string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			files = append(files, file)
		}
		return err
	})
	return files, err
}

// depth is the number of names in the path of a package.
const depth = 5

// All returns the views in home. A missing home has none. It skips other directories.
func All(home string) ([]*View, error) {
	dir, err := disk.Open(home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading which packages larder exec uses: %w", err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir()
	var all []*View
	for _, e := range entries {
		text, _, err := dir.ReadFile(e.Name()+"/"+workDirFile, maxPath)
		if err == nil && filepath.IsAbs(string(text)) {
			all = append(all, newView(dir.Path(e.Name()), string(text)))
		}
	}
	return all, err
}

// IsMirror reports whether dir is the mirror of a view.
func IsMirror(dir string) bool {
	info, err := os.Lstat(filepath.Join(filepath.Dir(dir), workDirFile))
	return err == nil && info.Mode().IsRegular() && filepath.Base(dir) == mirrorDir
}

// Gone reports whether the working directory of the view no longer exists.
func (v *View) Gone() bool {
	_, err := os.Stat(v.WorkDir)
	return errors.Is(err, fs.ErrNotExist)
}

// Remove removes the view. It keeps the packages.
func (v *View) Remove() error {
	home, err := disk.Open(filepath.Dir(v.dir))
	if err != nil {
		return err
	}
	defer home.Close()
	return home.RemoveTree(filepath.Base(v.dir))
}
