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
//	KEY/providers/   the mirror: HOST/NAMESPACE/TYPE/VERSION/OS_ARCH, links to the packages
//	KEY/cache/       the plugin cache of the engine; empty, unless the engine puts links into it
//	KEY/lock         locked while a process changes the view
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
	"strings"

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
		return nil, linkError(err)
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
)

// linkError adds a hint where users may not create symbolic links.
func linkError(err error) error {
	if errors.Is(err, fs.ErrPermission) && filepath.Separator == '\\' {
		return sources.WithHint(err, "turn on the Developer Mode of Windows, which allows symbolic links")
	}
	return err
}

// makeLinks changes the mirror so that it has exactly these links, by path.
func makeLinks(ctx context.Context, dir *disk.Dir, links map[string]string) error {
	root, err := dir.MakeSub(mirrorDir)
	if err != nil {
		return err
	}
	defer root.Close()
	present, err := removeOthers(ctx, root, links)
	if err != nil {
		return err
	}
	for name, target := range links {
		if present[name] {
			continue
		}
		in, err := root.MakeSub(path.Dir(name))
		if err != nil {
			return err
		}
		err = in.Symlink(target, path.Base(name))
		in.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// removeOthers removes what is not one of the links, and returns those that exist.
func removeOthers(ctx context.Context, root *disk.Dir, links map[string]string) (present map[string]bool, err error) {
	present = map[string]bool{}
	err = filepath.WalkDir(root.Path("."), func(at string, e fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || at == root.Path(".") {
			return err
		}
		relative, err := filepath.Rel(root.Path("."), at)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		if strings.Count(name, "/") < depth-1 && e.IsDir() {
			return nil
		}
		if target, wanted := links[name]; wanted {
			now, err := os.Readlink(at)
			if present[name] = err == nil && now == target; present[name] {
				return nil
			}
		}
		if err = remove(root, name); err == nil && e.IsDir() {
			err = fs.SkipDir
		}
		return err
	})
	return present, err
}

// depth is the number of names in the path of a package.
const depth = 5

// remove removes a name, and the directories above it that are then empty.
func remove(root *disk.Dir, name string) error {
	if !strings.Contains(name, "/") {
		return root.RemoveTree(name)
	}
	in, err := root.Sub(path.Dir(name))
	if err != nil {
		return err
	}
	err = in.RemoveTree(path.Base(name))
	in.Close()
	if err != nil {
		return err
	}
	return root.RemoveEmpty(path.Dir(name))
}

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
