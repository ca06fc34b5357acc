package datadir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

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

var check = sourcetest.Check

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

// Get runs only in the user's own repository.
func TestCheckRepository(t *testing.T) {
	for _, test := range []struct {
		name, has string // the files above and in a/b, the root module
		refused   string
	}{
		{"no repository", "a/HEAD a/refs/x", ""},
		{"git", ".git/HEAD", ""},
		{"git in the root module", "HEAD objects/x a/b/.git/HEAD", ""},
		{"a worktree in a bare repository", "HEAD objects/x refs/x a/.git", ""},
		{"Mercurial", ".hg/hgrc", ""},
		{"git in Mercurial", ".hg/hgrc a/.git/HEAD", ""},
		{"a bare repository", ".git/HEAD a/b/HEAD a/b/objects/x", "a/b is a bare Git repository"},
		{"a bare repository above", ".git/HEAD a/HEAD a/objects/x", "a is a bare Git repository"},
		{"its objects elsewhere", ".git/HEAD a/HEAD a/commondir", "a is a bare Git repository"},
	} {
		t.Run(test.name, func(t *testing.T) {
			top := t.TempDir()
			for _, name := range append(strings.Fields(test.has), "a/b/main.tf") {
				check(t, os.MkdirAll(filepath.Dir(filepath.Join(top, name)), 0o755))
				check(t, os.WriteFile(filepath.Join(top, name), nil, 0o644))
			}
			link := filepath.Join(t.TempDir(), "link")
			check(t, sourcetest.Symlink(t, filepath.Join(top, "a/b"), link))
			for _, dir := range []string{filepath.Join(top, "a/b"), link} {
				err := datadir.CheckRepository(dir)
				ok := test.refused == "" && err == nil ||
					test.refused != "" && err != nil && strings.Contains(err.Error(), test.refused) && len(sources.Hints(err)) == 1
				sourcetest.Expect(t, ok, "%s: %v", dir, err)
			}
		})
	}
}

const installed = "providers/example.test/acme/widget/1.0.0/" + runtime.GOOS + "_" + runtime.GOARCH

// candidates are the names that engines create in a data directory, and beside it.
var candidates = []string{
	".terraform.tfstate.lock.info", "environment", "modules/m", "modules/modules.json", "plugin_path",
	installed, installed + ".lock", "terraform.tfstate", "terraform.tfstate.backup", "../.terraform.lock.hcl",
}

// An enginesRoot is a root module in which engines run.
type enginesRoot struct {
	t      *testing.T
	engine string // path
	base   string
	data   string
}

func newEnginesRoot(t *testing.T, e sources.Engine) *enginesRoot {
	t.Helper()
	base := t.TempDir()
	r := &enginesRoot{t, sourcetest.OnPath(t, string(e)), base, filepath.Join(base, "root", ".terraform")}
	r.write("mirror/"+strings.TrimPrefix(installed, "providers/")+"/terraform-provider-widget", "")
	r.write("m/main.tf", "")
	r.write("outside/file", "mine")
	r.write("config", `provider_installation { filesystem_mirror { path = "`+filepath.Join(base, "mirror")+`" } }`)
	r.write("root/main.tf", `
terraform {
  required_providers {
    widget = { source = "example.test/acme/widget" }
  }
}
module "m" {
  source = "`+filepath.Join(base, "m")+`"
}
`)
	return r
}

func (r *enginesRoot) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.base, name)
	check(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	sourcetest.WriteExecutable(r.t, path, []byte(text))
}

// each runs the commands that write to data directories, each after prepare. A backend is
// configured for some of them. A command may fail because of what prepare has done.
func (r *enginesRoot) each(prepare func()) {
	r.t.Helper()
	mirror := "-plugin-dir=" + filepath.Join(r.base, "mirror")
	for _, c := range []struct {
		args    string
		backend string // its path
	}{
		{"get", ""}, {"get -update", ""}, {"init", ""}, {"init -upgrade " + mirror, ""},
		{"init -reconfigure " + mirror, "a"}, {"init -migrate-state -force-copy", "b"}, {"init -migrate-state -force-copy", ""},
		{"workspace new other", ""}, {"workspace select default", ""},
	} {
		check(r.t, os.RemoveAll(filepath.Join(r.base, "root/backend.tf")))
		if c.backend != "" {
			r.write("root/backend.tf", `terraform { 
  backend "local" { path = "`+c.backend+`" } 
}`)
		}
		prepare()
		cmd := exec.CommandContext(r.t.Context(), r.engine, strings.Fields(c.args)...)
		cmd.Dir = filepath.Join(r.base, "root")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.base, "CHECKPOINT_DISABLE=1", "TF_INPUT=0", "TF_CLI_CONFIG_FILE=" + filepath.Join(r.base, "config")}
		out, err := cmd.CombinedOutput()
		if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
			r.t.Errorf("%s: %v\n%s", c.args, err, out)
		}
	}
}

// plant puts something instead of a name in the data directory.
func (r *enginesRoot) plant(name string, make func(path string) error) {
	r.t.Helper()
	path := filepath.Join(r.data, name)
	check(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(r.t, make(path))
}

// Engines create files through links, and change files with other names, where Check refuses
// them, and nowhere else.
func TestEnginesWriteToFiles(t *testing.T) {
	sourcetest.EachEngine(t, func(t *testing.T, e sources.Engine) {
		for kind, plant := range map[string]func(target, path string) error{
			"link": func(target, path string) error {
				return errors.Join(os.RemoveAll(path), sourcetest.Symlink(t, target, path))
			},
			"hardlink": func(target, path string) error { // of the file that an engine has created, if any
				if err := os.Rename(path, target); err != nil && filepath.Base(path) != ".terraform.tfstate.lock.info" {
					return nil
				} else if err != nil {
					check(t, os.WriteFile(target, nil, 0o644))
				}
				return errors.Join(os.Chtimes(target, time.Time{}, time.Unix(1, 0)), os.Link(target, path))
			},
		} {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				r := newEnginesRoot(t, e)
				target := func(name string) string { return filepath.Join(r.base, "outside", strings.ReplaceAll(name, "/", "_")) }
				written := map[string]bool{}
				see := func() {
					for _, name := range candidates {
						info, err := os.Stat(target(name))
						written[name] = written[name] || err == nil && info.ModTime() != time.Unix(1, 0)
					}
				}
				r.each(func() {
					see()
					for _, name := range candidates {
						check(t, os.RemoveAll(target(name)))
						r.plant(name, func(path string) error { return plant(target(name), path) })
					}
				})
				see()
				for _, name := range candidates {
					if name == installed+".lock" && (e == sources.Terraform || kind == "hardlink") {
						continue // OpenTofu creates this file, and never writes to it
					}
					sourcetest.Equal(t, written[name], refuses(t, name), name)
				}
			})
		}
	})
}

// refuses reports whether Check refuses a link at a name in a data directory.
func refuses(t *testing.T, name string) bool {
	t.Helper()
	data := filepath.Join(t.TempDir(), ".terraform")
	path := filepath.Join(data, name)
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.MkdirAll(data, 0o755))
	check(t, sourcetest.Symlink(t, "elsewhere", path))
	return datadir.Check(data) != nil
}

// Engines create files through links to directories where Check refuses them, and nowhere else.
func TestEnginesWriteToDirectories(t *testing.T) {
	sourcetest.EachEngine(t, func(t *testing.T, e sources.Engine) {
		for _, name := range slices.Concat(dirs, []string{"modules/m", installed}) {
			t.Run(name, func(t *testing.T) {
				sourcetest.OneIn(t, 4)
				t.Parallel()
				r := newEnginesRoot(t, e)
				outside, before, written := filepath.Join(r.base, "outside"), "", false
				see := func() { written = written || before != "" && listing(t, outside) != before }
				r.each(func() {
					see()
					check(t, os.RemoveAll(r.data)) // so that everything is written
					r.plant(name, func(path string) error { return sourcetest.Symlink(t, outside, path) })
					before = listing(t, outside)
				})
				see()
				sourcetest.Equal(t, written, refuses(t, name))
			})
		}
	})
}

// listing lists everything below a directory, with the times of the last changes.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	check(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			fmt.Fprintln(&all, path, info.Mode(), info.ModTime())
		}
		return err
	}))
	return all.String()
}
