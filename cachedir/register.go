package cachedir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// A Root is a root module that may use packages of the cache.
type Root struct {
	Dir       string   `json:"dir"`                // of the module, absolute
	Providers string   `json:"providers"`          // directory of the installed packages, absolute
	Packages  []string `json:"packages,omitempty"` // the last installed packages, as paths
	Format    int      `json:"format"`

	View bool `json:"-"` // Providers has links to the cache of the last larder exec, which may be another one

	other bool // another user registered it
}

// Register records that the packages ids are installed for the root module. They
// count as in use as long as the module refers to them. It warns about a failure.
func (w *workdir) Register(ids []sources.PackageID) {
	d := w.d
	if d.readOnly != nil {
		return
	}
	if dir, err := w.open(disk.Open); err == nil {
		w.sweep(dir)
	}
	if d.state == nil || w.providers == d.root || len(ids) == 0 {
		return
	}
	r := Root{Format: store.Format, Dir: w.root, Providers: w.providers}
	for _, id := range ids {
		r.Packages = append(r.Packages, id.Path())
	}
	slices.Sort(r.Packages)
	path := "roots/" + nameFor(w.root+"\n"+w.providers) + ".json"
	if old, written, err := readRoot(d.state, path); err == nil && r.equal(old) && d.opts.Now().Sub(written.ModTime()) < time.Hour {
		return
	}
	text, err := json.Marshal(r)
	if err == nil {
		err = d.writeState(path, text)
	}
	if err != nil && !d.denies(err) { // another user has registered it
		d.warn(fmt.Errorf("registering the root module: %w", err))
	}
}

func (r Root) equal(s Root) bool {
	return r.Dir == s.Dir && r.Providers == s.Providers && slices.Equal(r.Packages, s.Packages)
}

// maxRoot exceeds the size of a registration in bytes.
const maxRoot = 1 << 20

func readRoot(state *disk.Dir, path string) (r Root, file fs.FileInfo, err error) {
	data, file, err := state.ReadFile(path, maxRoot)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err == nil && (r.Format != store.Format || !filepath.IsAbs(r.Dir) || !filepath.IsAbs(r.Providers)) {
		err = errors.New("not a registration of a root module")
	}
	return r, file, err
}

// registered returns the registered root modules. It skips invalid registrations.
// gone contains the files of the root modules that no longer exist, as far as this user
// has registered them.
func (d *Dir) registered() (roots []Root, gone []string, err error) {
	if d.state == nil {
		return nil, nil, nil
	}
	names, err := store.Names(d.state, "roots")
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		r, file, err := readRoot(d.state, "roots/"+name)
		r.other = d.shared && file != nil && !disk.Own(file)
		if err != nil {
			if disk.IsUnread(err) && !d.shared {
				return nil, nil, err // without this error, packages in use would be removed
			}
			continue
		}
		if _, err := os.Stat(r.Dir); !errors.Is(err, fs.ErrNotExist) {
			roots = append(roots, r)
		} else if !r.other {
			gone = append(gone, "roots/"+name)
		}
	}
	return roots, gone, nil
}

// FindRoots returns dir and the directories below it that an engine has run in: those
// with a dependency lock file or a directory .terraform. It includes hidden
// directories and does not follow symlinks to directories. It returns an error for an
// unreadable directory, because a root module in it may use any package.
func FindRoots(ctx context.Context, dir string) ([]Root, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		dir, err = disk.Resolve(dir)
	}
	if err == nil {
		_, err = os.ReadDir(dir) // fails if dir is not a directory
	}
	if err != nil {
		return nil, fmt.Errorf("looking for root modules: %w", err)
	}
	found := map[string]bool{}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			err = fmt.Errorf("looking for root modules: %w", err)
			return sources.WithHint(err, "name only directories that you can read: larder can't tell which packages the others use")
		case ctx.Err() != nil:
			return ctx.Err()
		case e.Name() == sources.LockFile:
			found[filepath.Dir(path)] = true
		case e.IsDir() && e.Name() == sources.DataDir && path != dir:
			found[filepath.Dir(path)] = true
			return fs.SkipDir
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		}
		return nil
	})
	var roots []Root
	for dir := range found {
		roots = append(roots, Root{Dir: dir, Providers: filepath.Join(dir, sources.DataDir, "providers")})
	}
	slices.SortFunc(roots, func(a, b Root) int { return strings.Compare(a.Dir, b.Dir) })
	return roots, err
}
