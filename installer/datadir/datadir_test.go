package datadir_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/larder-cli/larder/installer/datadir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m, InMemory: true}.Run()) }

// The places in a data directory that are checked, each with the kind that engines create.
var (
	files = []string{
		".terraform.tfstate.lock.info", "environment", "modules/modules.json", "plugin_path", "terraform.tfstate",
		"providers/example.test/acme/widget/1.0.0/linux_amd64.lock",
	}
	dirs = []string{
		"modules", "providers", "providers/example.test", "providers/example.test/acme", "providers/example.test/acme/widget",
		"providers/example.test/acme/widget/1.0.0",
	}
)

// A kind is what can be in a place. Make creates it at path; outside is an existing directory.
type kind struct {
	name   string
	make   func(t *testing.T, path, outside string) error
	forDir bool // it is also refused instead of a directory
}

var kinds = []kind{
	{"a symbolic link to a missing file", func(t *testing.T, path, outside string) error {
		return sourcetest.Symlink(t, filepath.Join(outside, "missing"), path)
	}, true},
	{"a symbolic link to a file", func(t *testing.T, path, outside string) error {
		return sourcetest.Symlink(t, filepath.Join(outside, "file"), path)
	}, true},
	{"a symbolic link to a directory", func(t *testing.T, path, outside string) error { return sourcetest.Symlink(t, outside, path) }, true},
	{"a symbolic link into the root module", func(t *testing.T, path, _ string) error { return sourcetest.Symlink(t, "../main.tf", path) }, true},
	{"a hardlink", func(t *testing.T, path, outside string) error { return os.Link(filepath.Join(outside, "file"), path) }, false},
	{"a directory", func(t *testing.T, path, _ string) error { return os.Mkdir(path, 0o755) }, false},
}

// Engines are started only where they write to nothing else.
func TestCheck(t *testing.T) {
	for _, k := range kinds {
		for _, place := range slices.Concat(dirs, files) {
			if !k.forDir && slices.Contains(dirs, place) {
				continue
			}
			t.Run(k.name+" at "+place, func(t *testing.T) {
				root := newRoot(t)
				path := filepath.Join(root, ".terraform", place)
				check(t, os.RemoveAll(path))
				check(t, os.MkdirAll(filepath.Dir(path), 0o755))
				check(t, k.make(t, path, filepath.Join(root, "outside")))
				refused(t, datadir.Check(filepath.Join(root, ".terraform")), path)
				refused(t, datadir.CheckBelow(t.Context(), filepath.Dir(root), ".terraform"), path)
				sourcetest.Equal(t, datadir.CheckBelow(t.Context(), filepath.Dir(root), "other"), nil)

				link := filepath.Join(root, "link")
				check(t, sourcetest.Symlink(t, ".terraform", link))
				refused(t, datadir.Check(link), filepath.Join(link, place))
				refused(t, datadir.CheckBelow(t.Context(), root, link), filepath.Join(link, place))
			})
		}
	}
}

// refused fails the test unless err names the path and has a hint.
func refused(t *testing.T, err error, path string) {
	t.Helper()
	stray, ok := errors.AsType[*disk.StrayError](err)
	sourcetest.Expect(t, ok && stray.Path == path && len(sources.Hints(err)) == 1, "%s: %v, hints %q", path, err, sources.Hints(err))
}

// What engines leave behind is accepted, and so are links that they replace or don't follow.
func TestCheckAccepts(t *testing.T) {
	root := newRoot(t)
	data := filepath.Join(root, ".terraform")
	for _, name := range []string{"modules/m", "providers/README", "providers/.larder", "providers/example.test/acme/widget/1.0.0/linux_amd64", "other"} {
		check(t, os.RemoveAll(filepath.Join(data, name)))
		check(t, sourcetest.Symlink(t, filepath.Join(root, "outside"), filepath.Join(data, name)))
		if name == "providers/README" {
			check(t, os.Remove(filepath.Join(data, name)))
			check(t, os.WriteFile(filepath.Join(data, name), nil, 0o644))
		}
	}
	check(t, sourcetest.Symlink(t, root, filepath.Join(root, "linked root")))
	check(t, sourcetest.Symlink(t, ".terraform", filepath.Join(root, "linked data")))
	for _, dir := range []string{data, filepath.Join(root, "missing"), filepath.Join(root, "linked data"), filepath.Join(root, "linked root", ".terraform")} {
		sourcetest.Equal(t, datadir.Check(dir), nil, dir)
	}
	sourcetest.Equal(t, datadir.CheckBelow(t.Context(), root, ".terraform"), nil)

	path := filepath.Join(data, "plugin_path")
	check(t, os.Remove(path))
	check(t, sourcetest.Symlink(t, "elsewhere", path))
	refused(t, datadir.CheckBelow(t.Context(), filepath.Join(root, "linked root"), ".terraform"), filepath.Join(root, "linked root", ".terraform", "plugin_path"))
}

// A file instead of the data directory is named.
func TestCheckNoDirectory(t *testing.T) {
	path := filepath.Join(newRoot(t), "main.tf")
	refused(t, datadir.Check(path), path)
}

// newRoot creates a root module in which an engine has run. The directory above it is empty otherwise.
func newRoot(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	for _, name := range append([]string{"../main.tf", "../outside/file", "modules/m/main.tf", "providers/example.test/acme/widget/1.0.0/linux_amd64/terraform-provider-widget"}, files...) {
		path := filepath.Join(root, ".terraform", name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte("x"), 0o644))
	}
	return root
}

func check(t *testing.T, err error) {
	t.Helper()
	sourcetest.Check(t, err)
}

// What Larder starts by itself is not led elsewhere by the data directory itself, unless
// the user has named that.
func TestCheckOwn(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	data := filepath.Join(root, ".terraform")
	sourcetest.Equal(t, datadir.CheckOwn(root, data), nil, "missing")
	check(t, os.Mkdir(data, 0o755))
	sourcetest.Equal(t, datadir.CheckOwn(root, data), nil, "a directory")
	check(t, os.Mkdir(filepath.Join(outside, "sub"), 0o755))
	check(t, sourcetest.Symlink(t, outside, filepath.Join(root, "link")))
	refused(t, datadir.CheckOwn(root, filepath.Join(root, "link")), filepath.Join(root, "link"))
	refused(t, datadir.CheckOwn(root, filepath.Join(root, "link", "sub")), filepath.Join(root, "link"))
	sourcetest.Equal(t, datadir.CheckOwn(root, filepath.Join(outside, "sub")), nil, "named by the user")
	check(t, sourcetest.Symlink(t, filepath.Join(outside, "nothing"), filepath.Join(data, "modules")))
	refused(t, datadir.CheckOwn(root, data), filepath.Join(data, "modules"))
}
