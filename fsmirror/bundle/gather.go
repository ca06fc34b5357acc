package bundle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
)

// A Root is a root module whose modules go into a bundle.
type Root struct {
	Path    string // in the bundle, with forward slashes
	Dir     string // absolute
	DataDir string // of the engine, absolute
}

// maxModulesManifest limits the size of an engine's list of modules in bytes.
const maxModulesManifest = 4 << 20

// Gather reads the payloads of a bundle: the modules of root modules, and the executable
// of an engine, if that path is not empty. It omits root modules for which the engine has
// installed nothing. It calls warn for links that lead nowhere.
func Gather(ctx context.Context, roots []Root, engine string, warn func(error)) ([]Payload, error) {
	var all []Payload
	if engine != "" {
		p, err := gatherEngine(ctx, engine)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	n := 0
	for _, r := range roots {
		if _, err := os.Stat(filepath.Join(r.modules(), modulesManifest)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		files, err := filesIn(ctx, r.modules(), maxFiles-n, warn)
		if err == nil {
			err = r.portManifest(files)
		}
		if err != nil {
			return nil, err
		}
		n += len(files)
		all = append(all, Payload{Kind: RootModules, Root: r.Path, Files: files})
	}
	slices.SortFunc(all, func(a, b Payload) int { return cmp.Compare(a.dir(), b.dir()) })
	return all, Manifest{Payload: all}.check()
}

func gatherEngine(ctx context.Context, file string) (Payload, error) {
	f, err := readFile(ctx, filepath.Base(file), file)
	if err == nil && f.Size == 0 {
		err = fmt.Errorf("%s is empty", file)
	}
	f.Executable = true
	p := Payload{Kind: EngineBinary, Files: []File{f}}
	if err == nil {
		if err = p.check(); err != nil {
			err = sources.WithHint(err, "rename it to terraform or tofu, with or without a version: tofu-1.10.0")
		}
	}
	return p, err
}

// readFile reads a file for its size and checksum.
func readFile(ctx context.Context, name, file string) (File, error) {
	sum, size, err := disk.HashFile(ctx, file, archive.MaxSize)
	return File{Name: name, Size: size, SHA256: sum, source: source{path: file}}, err
}

// modules returns the directory that contains the modules.
func (r Root) modules() string { return filepath.Join(r.DataDir, modulesName) }

// filesIn returns the files in a directory, sorted by name, except git repositories. Links in it are replaced with
// their targets. It calls warn for links that lead nowhere.
func filesIn(ctx context.Context, dir string, most int, warn func(error)) ([]File, error) {
	base, err := disk.Resolve(dir)
	if err != nil {
		return nil, err
	}
	g := gathering{base: base, left: most, warn: warn}
	err = g.dir(ctx, "", base, nil)
	slices.SortFunc(g.files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return g.files, err
}

// A gathering collects the files in a directory.
type gathering struct {
	base  string // the directory, without links in the path
	left  int    // how many files fit
	files []File
	warn  func(error)
}

// dir collects the files in a directory. The name is relative to the modules; at is the path without links, and above
// those of the directories that lead there.
func (g *gathering) dir(ctx context.Context, name, at string, above []string) error {
	if slices.Contains(above, at) {
		return fmt.Errorf("%s is a link to a directory that contains it", filepath.Join(g.base, name))
	}
	entries, err := os.ReadDir(at)
	for _, e := range entries {
		if err != nil {
			break
		}
		if !isRepository(e.Name()) {
			err = g.entry(ctx, path.Join(name, e.Name()), filepath.Join(at, e.Name()), append(above, at))
		}
	}
	return err
}

// entry collects a file, or the files in a directory. It refuses a link to a file that is not part of the modules: a
// module that somebody else wrote could refer to any file on this machine.
func (g *gathering) entry(ctx context.Context, name, link string, above []string) error {
	at, err := disk.Resolve(link)
	if errors.Is(err, fs.ErrNotExist) {
		g.warn(fmt.Errorf("not in the bundle: %s is a broken link", link))
		return nil
	}
	if err != nil {
		return err
	}
	within, err := filepath.Rel(g.base, at)
	elements := strings.Split(filepath.ToSlash(within), "/")
	if err != nil || !filepath.IsLocal(within) || slices.ContainsFunc(elements, isRepository) {
		return sources.WithHint(fmt.Errorf("%s is a link to %s, which is outside %s", link, at, g.base),
			"replace the link with what it refers to, or run the engine's get -update command")
	}
	info, err := os.Lstat(at)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return g.dir(ctx, name, at, above)
	case g.left == len(g.files):
		return sources.WithHint(fmt.Errorf("%s: more than %d files in modules", g.base, maxFiles),
			"create several bundles, each for some of the root modules")
	}
	f, err := readFile(ctx, name, at)
	f.Executable = info.Mode()&0o111 != 0
	g.files = append(g.files, f)
	return err
}

// portManifest checks that the modules in the engine's list are there. It replaces the data directory of r in the list
// with the one in bundles.
func (r Root) portManifest(files []File) error {
	i := slices.IndexFunc(files, func(f File) bool { return f.Name == modulesManifest })
	if i < 0 { // it is no file
		return nil
	}
	data, err := disk.ReadFile(files[i].path, maxModulesManifest)
	if err != nil {
		return err
	}
	var list struct{ Modules []struct{ Dir string } }
	if err := json.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("%s: %w", files[i].path, err)
	}
	for _, m := range list.Modules {
		dir := filepath.FromSlash(m.Dir)
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(r.Dir, dir)
		}
		if _, err := os.Stat(dir); err != nil {
			err = fmt.Errorf("%s lists %s, which is missing", files[i].path, m.Dir)
			return sources.WithHint(err, "run terraform get or tofu get in %s first", r.Dir)
		}
	}
	below, err := filepath.Rel(r.Dir, r.modules())
	if err != nil {
		return err
	}
	for _, dir := range []string{r.modules(), below} { // engines write it as it is in TF_DATA_DIR
		was, is := `"`+filepath.ToSlash(dir)+"/", `"`+path.Join(DataPath, modulesName)+"/"
		data = bytes.ReplaceAll(data, []byte(was), []byte(is))
	}
	ported := newFile(modulesManifest, data)
	ported.path = files[i].path
	files[i] = ported
	return nil
}
