package modules_test

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Every configuration is read with a root module: nothing that is called only by directories which are
// not read themselves is left out.
func TestRoots(t *testing.T) {
	eachCase(t, "roots", func(t *testing.T, c testCase) {
		dir := unpack(t, c.files)
		opts := modules.RootsOptions{
			Engine: sources.Engine(c.of["engine"][""]), DataDir: c.the("data-dir"), Exclude: c.all["exclude"],
			Inputs: modules.Inputs{Environ: c.all["variable"]},
		}
		if c.the("tests-alone") == "false" {
			opts.TestsAlone = func() bool { return false }
		}
		if c.all["engine"] != nil && opts.Engine == "" {
			opts.EngineOf = func(root string) (sources.Engine, bool) {
				name := sourcetest.Must(filepath.Rel(dir, root))(t)
				return sources.Engine(c.of["engine"][filepath.ToSlash(name)]), false
			}
		}
		got := sourcetest.Must(modules.Roots(t.Context(), dir, opts))(t)
		sourcetest.Equal(t, filepath.ToSlash(strings.Join(got, " ")), c.the("want"))
	})
}

// Root modules may share a data directory.
func TestRootsPastSharedDataDirectory(t *testing.T) {
	dir := unpack(t, txtar.Parse([]byte("-- data/modules/a/main.tf --\n-- live/data/main.tf --\n")))
	got, err := modules.Roots(t.Context(), dir, modules.RootsOptions{DataDir: filepath.Join(dir, "data")})
	want := []string{filepath.Join("live", "data")}
	sourcetest.Expect(t, err == nil && slices.Equal(got, want), "got %q, %v, want %q", got, err, want)
}

// Links to directories can form cycles, and give modules other names.
func TestRootsPastSymlinks(t *testing.T) {
	sourcetest.SkipOnWindows(t, "making symlinks takes privileges")
	dir := unpack(t, txtar.Parse([]byte(
		"-- a/main.tf --\nmodule \"m\" {\n  source = \"./m\"\n}\n-- shared/m/main.tf --\n-- common/backend.tf --\n")))
	for link, to := range map[string]string{
		"a/up": "..", "self": ".", "a/m": "../shared/m", "nowhere": "gone", "b/backend.tf": "../common/backend.tf",
	} {
		name := filepath.Join(dir, link)
		check(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), sourcetest.Symlink(t, to, name)))
	}
	entrance := filepath.Join(t.TempDir(), "entrance")
	check(t, sourcetest.Symlink(t, dir, entrance))
	for _, dir := range []string{dir, entrance} {
		got, err := modules.Roots(t.Context(), dir, modules.RootsOptions{})
		want := []string{"a", "b", "common"}
		sourcetest.Expect(t, err == nil && slices.Equal(got, want), "got %q, %v, want %q", got, err, want)
	}
}

func TestRootsDespiteUnreadableDirectories(t *testing.T) {
	dir := unpack(t, txtar.Parse([]byte("-- a/main.tf --\n-- b/main.tf --\n")))
	locked := filepath.Join(dir, "a")
	check(t, os.Chmod(locked, 0))
	t.Cleanup(func() { os.Chmod(locked, 0o755) })
	if _, err := os.ReadDir(locked); err == nil {
		t.Skip("this user can read directories of mode 0")
	}
	got, err := modules.Roots(t.Context(), dir, modules.RootsOptions{})
	sourcetest.Expect(t, slices.Equal(got, []string{"b"}) && errors.Is(err, os.ErrPermission), "got %q, %v", got, err)
}

func TestRootsErrors(t *testing.T) {
	dir := t.TempDir()
	for _, glob := range []string{"[", "a/[b", "[a/b]"} {
		_, err := modules.Roots(t.Context(), dir, modules.RootsOptions{Exclude: []string{glob}})
		sourcetest.ErrorIs(t, err, path.ErrBadPattern, glob)
	}
	_, err := modules.Roots(t.Context(), filepath.Join(dir, "gone"), modules.RootsOptions{})
	sourcetest.ErrorIs(t, err, os.ErrNotExist)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = modules.Roots(ctx, dir, modules.RootsOptions{})
	sourcetest.ErrorIs(t, err, context.Canceled)
}

// The module mods/m is no root module if a unit with a lock file uses it.
func TestRootsOfTerragrunt(t *testing.T) {
	eachCase(t, "units", func(t *testing.T, c testCase) {
		c.files.Files = append(c.files.Files, txtar.File{Name: "mods/m/main.tf"})
		for _, f := range c.files.Files {
			if dir, name := path.Split(f.Name); strings.HasSuffix(name, "terragrunt.hcl") && dir != "mods/m/" {
				c.files.Files = append(c.files.Files, txtar.File{Name: dir + sources.LockFile})
			}
		}
		sourcetest.Equal(t, slices.Contains(rootsOf(t, c.files), "mods/m"), c.the("want") == "unused")
	})
}

// Larder skips a unit without a lock file and configuration, so that it hides no module.
func TestRootsOfUnlockedUnits(t *testing.T) {
	const unit, module = "-- live/terragrunt.hcl --\nterraform {\n  source = \"../m\"\n}\n", "-- m/main.tf --\nterraform {\n  backend \"s3\" {}\n}\n"
	for files, want := range map[string]string{
		unit + module: "m",
		unit + module + "-- live/.terraform.lock.hcl --\n":                             "live",
		unit + module + "-- other/main.tf --\n":                                        "m other",
		unit + "-- live/extra.tf --\n-- m/main.tf --\n":                                "live",
		unit + "-- m/main.tofu --\n-- live/.terraform.lock.hcl --\n":                   "live",
		unit + "-- m/main.tf --\n-- m/.terraform.lock.hcl --\n":                        "m",
		unit + "-- a/main.tf --\nmodule \"m\" {\n  source = \"../live\"\n}\n" + module: "a m",
	} {
		sourcetest.Equal(t, strings.Join(rootsOf(t, txtar.Parse([]byte(files))), " "), want, files)
	}
}

// rootsOf returns the slashed paths of root modules, except those in the directory old.
func rootsOf(t *testing.T, archive *txtar.Archive) []string {
	t.Helper()
	got := sourcetest.Must(modules.Roots(t.Context(), unpack(t, archive), modules.RootsOptions{Exclude: []string{"old"}}))(t)
	for i := range got {
		got[i] = filepath.ToSlash(got[i])
	}
	return got
}

// If the configuration is elsewhere, the lock file may contain more than the tree.
func TestPartialTrees(t *testing.T) {
	const elsewhere = "-- terragrunt.hcl --\nterraform {\n  source = \"../m\"\n}\n"
	const none, partial, away = "", "partial", "partial elsewhere"
	cases := []struct {
		name, files string
		empty       bool
		want        string
	}{
		{"configuration", "-- main.tf --\n", false, none},
		{"nothing", "-- README --\n", true, partial},
		{"configuration for tofu alone", "-- main.tofu --\n", true, none},
		{"a unit elsewhere", elsewhere, true, away},
		{"a unit elsewhere with configuration", elsewhere + "-- main.tf --\n", false, away},
		{"a unit from anywhere", "-- main.tf --\n-- terragrunt.hcl --\nterraform {\n  source = run_cmd(\"x\")\n}\n", false, away},
		{"a unit here", "-- main.tf --\n-- terragrunt.hcl --\ninputs = {}\n", false, none},
		{"a unit that names itself", "-- main.tf --\n-- terragrunt.hcl --\nterraform {\n  source = \".\"\n}\n", false, none},
		{"a unit with the source of its parent", "-- main.tf --\n-- terragrunt.hcl --\ninclude {\n  path = \"p.hcl\"\n}\n-- p.hcl --\nterraform {\n  source = \"../m\"\n}\n", false, away},
	}
	for _, c := range cases {
		dir := unpack(t, txtar.Parse([]byte(c.files)))
		for _, here := range []bool{false, true} { // in Terragrunt's copy of a unit
			tree, ds := modules.Load(t.Context(), dir, modules.Options{Engine: sources.Terraform, Here: here})
			want := c.want
			if here {
				want = strings.TrimSuffix(want, " elsewhere")
				if !c.empty {
					want = none
				}
			}
			got := none
			if tree.Partial {
				got = partial
			}
			if tree.Elsewhere {
				got += " elsewhere"
			}
			sourcetest.Expect(t, ds.Err() == nil && tree.Empty == c.empty && got == want, "%s, here %t: got %+v, %v", c.name, here, tree, ds)
		}
	}
}
