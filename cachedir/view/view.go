// Package view makes views. A view is a directory with the packages that one working
// directory has locked, as links into the plugin cache. An engine that runs init with a
// view as its only mirror sends no request for providers.
//
// A view does not contain packages, and does not verify any: the caller names packages
// that it has verified and installed. It is not a cache that larder reads.
//
// It leaves on disk, in the directory that the caller names for all views, a directory
// for each working directory:
//
//	KEY/for          the working directory
//	KEY/providers/   the mirror: HOST/NAMESPACE/TYPE/VERSION/OS_ARCH, links to the packages
//	KEY/cache/       the same links and earlier ones, as the plugin cache of the engine
//	KEY/lock         locked while a process changes the view
//
// The engine must have a plugin cache of its own. With the directory that the links lead
// to as plugin cache, it would remove the packages in order to replace them by links to
// themselves. It has all links from the beginning, because engines that run concurrently
// would otherwise create them concurrently, which fails in Terraform. Earlier links stay
// as long as their packages exist: the command may have run init in other directories,
// whose .terraform then has links to these links.
package view

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A View is the view of one working directory.
type View struct {
	WorkDir   string // absolute
	Providers string // the mirror, absolute
	Cache     string // plugin cache for the engine, absolute

	dir string
}

func newView(dir, workDir string) *View {
	return &View{WorkDir: workDir, Providers: filepath.Join(dir, mirrorDir), Cache: filepath.Join(dir, "cache"), dir: dir}
}

// Make makes the view of a working directory in the directory home, or changes it so that
// its mirror has exactly these packages. Different kinds of views of the same working directory
// are independent. The packages must stay where they are.
func Make(ctx context.Context, home, workDir, kind string, packages []sources.Stored) (*View, error) {
	key := sha256.Sum256([]byte(workDir + "\x00" + kind))
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
	for _, tree := range []string{"cache", mirrorDir} { // links that an engine made in the cache lead through the mirror
		if err := makeLinks(ctx, dir, tree, links); err != nil {
			return nil, linkError(err)
		}
	}
	return v, nil
}

const (
	workDirFile = "for"
	mirrorDir   = "providers"
	maxPath     = 64 << 10 // bytes, more than systems allow for a path
)

// linkError adds a hint where users may not create symbolic links.
func linkError(err error) error {
	if errors.Is(err, fs.ErrPermission) && filepath.Separator == '\\' {
		return sources.WithHint(err, "turn on the Developer Mode of Windows, which allows symbolic links")
	}
	return err
}

// makeLinks changes the tree so that it has these links, by path. The mirror has no others.
func makeLinks(ctx context.Context, dir *disk.Dir, tree string, links map[string]string) error {
	root, err := dir.MakeSub(tree)
	if err != nil {
		return err
	}
	defer root.Close()
	if tree != mirrorDir {
		links = withEarlier(root, links)
	}
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

// withEarlier returns the links and those in root that lead to other packages.
func withEarlier(root *disk.Dir, links map[string]string) map[string]string {
	all := maps.Clone(links)
	earlier, _ := fs.Glob(os.DirFS(root.Path(".")), strings.Repeat("*/", depth-1)+"*") // the only error is a bad pattern
	for _, name := range earlier {
		if _, known := links[name]; known || !isLink(root.Path(name)) {
			continue
		}
		if target, err := filepath.EvalSymlinks(root.Path(name)); err == nil && isDir(target) {
			all[name] = target
		}
	}
	return all
}

// removeOthers removes what is not one of the links, and returns those that exist.
func removeOthers(ctx context.Context, root *disk.Dir, links map[string]string) (present map[string]bool, err error) {
	present = map[string]bool{}
	var others []string
	err = filepath.WalkDir(root.Path("."), func(at string, e fs.DirEntry, err error) error {
		if err != nil || at == root.Path(".") {
			return err
		}
		relative, err := filepath.Rel(root.Path("."), at)
		name := filepath.ToSlash(relative)
		pkg, _ := strings.CutSuffix(name, ".lock") // OpenTofu locks packages in its plugin cache
		switch _, wanted := links[pkg]; {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case strings.Count(name, "/") < depth-1 && e.IsDir():
			return nil
		case wanted && name != pkg:
		case wanted && leadsTo(at, links[name]):
			present[name] = true
		default:
			others = append(others, name)
			if e.IsDir() {
				return fs.SkipDir
			}
		}
		return nil
	})
	for _, name := range others {
		if err := remove(root, name); err != nil {
			return nil, err
		}
	}
	return present, err
}

// depth is the number of names in the path of a package.
const depth = 5

func isLink(path string) bool {
	_, err := os.Readlink(path)
	return err == nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func leadsTo(link, target string) bool {
	now, err := os.Readlink(link)
	return err == nil && now == target
}

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

// All returns the views in home. A missing home has none. It skips what is not a view.
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
