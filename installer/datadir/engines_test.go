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
	"github.com/larder-cli/larder/sources/sourcetest"
)

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
