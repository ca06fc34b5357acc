package modules_test

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestRoots(t *testing.T) {
	const resource = "resource \"acme_widget\" \"a\" {}\n"
	calls, test := callsOf, testOf
	calling := "-- live/main.tf --\n" + calls("../modules/a") + "-- modules/a/main.tf --\n"
	cases := []struct {
		name  string
		files string // in the txtar format
		opts  modules.RootsOptions
		want  string
	}{
		{"nothing", "-- README --\n", modules.RootsOptions{}, ""},
		{"here", "-- main.tf --\n" + resource, modules.RootsOptions{}, "."},
		{"here and below", "-- main.tf --\n-- a/b/main.tf --\n-- a/c.tf.json --\n{}\n", modules.RootsOptions{}, ". a a/b"},
		{"no configuration", "-- a/terraform.tfvars --\n-- d/.#main.tf --\n", modules.RootsOptions{}, ""},
		{"a file that cannot be read as configuration", "-- a/main.tf --\n}{\n", modules.RootsOptions{}, "a"},

		{"tests alone", "-- a/tests/a.tftest.hcl --\n" + test("./tests/setup") + "-- a/tests/setup/main.tf --\n-- b/x.tftest.hcl --\n", modules.RootsOptions{}, "a b"},
		{"tests alone, for tofu", "-- a/tests/a.tftest.hcl --\n" + test("./tests/setup") + "-- a/tests/setup/main.tf --\n", modules.RootsOptions{Engine: sources.OpenTofu}, "a/tests/setup"},
		{"tests alone, for an older release", "-- a/tests/a.tftest.hcl --\n" + test("./tests/setup") + "-- a/tests/setup/main.tf --\n", modules.RootsOptions{TestsAlone: func() bool { return false }}, "a/tests/setup"},
		{"tests that only tofu reads", "-- a/x.tofutest.hcl --\n", modules.RootsOptions{}, ""},
		{"tests of a module above", "-- a/main.tf --\n-- a/tests/unit/x.tftest.hcl --\n", modules.RootsOptions{}, "a"},
		{"a stack", "-- a/main.tfcomponent.hcl --\n-- a/.terraform.lock.hcl --\n-- b/x.tfdeploy.json --\n-- b/.terraform.lock.hcl --\n-- c/x.tfstack.hcl --\n", modules.RootsOptions{}, ""},
		{"a stack with configuration", "-- a/main.tfcomponent.hcl --\n-- a/main.tf --\n", modules.RootsOptions{}, "a"},

		{"lock files", "-- a/.terraform.lock.hcl --\n-- b/.terraform.lock.hcl --\n-- b/a.tftest.hcl --\n", modules.RootsOptions{}, "a b"},
		{"hidden lock files", "-- .terragrunt-cache/a/.terraform.lock.hcl --\n-- a/.terraform/modules/m/.terraform.lock.hcl --\n", modules.RootsOptions{}, ""},
		{"units of a stack", "-- live/.terragrunt-stack/a/.terraform.lock.hcl --\n", modules.RootsOptions{}, "live/.terragrunt-stack/a"},
		{"lock files in a data directory", "-- data/.terraform.lock.hcl --\n", modules.RootsOptions{DataDir: "data"}, ""},
		{"a lock file with configuration for tofu alone", "-- a/main.tofu --\n-- a/.terraform.lock.hcl --\n", modules.RootsOptions{Engine: sources.Terraform}, ""},
		{"excluded lock files", "-- a/.terraform.lock.hcl --\n-- b/.terraform.lock.hcl --\n", modules.RootsOptions{Exclude: []string{"a"}}, "b"},

		{"a called module", calling, modules.RootsOptions{}, "live"},
		{"a called module that calls", calling + calls("../b") + "-- modules/b/main.tf --\n", modules.RootsOptions{}, "live"},
		{"a called module with a lock file", calling + "-- modules/a/.terraform.lock.hcl --\n", modules.RootsOptions{}, "live modules/a"},
		{"a called module with a backend", calling + "terraform {\n  backend \"s3\" {}\n}\n", modules.RootsOptions{}, "live modules/a"},
		{"a called module in the cloud", calling + "terraform {\n  cloud {}\n}\n", modules.RootsOptions{}, "live modules/a"},
		{"a caller with an error", "-- live/a.tf --\n" + calls("../b") + "-- live/b.tf --\n}{\n-- b/main.tf --\n", modules.RootsOptions{}, "live"},
		{"a module that calls itself", "-- a/main.tf --\n" + calls("./"), modules.RootsOptions{}, "a"},
		{"modules that call each other", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tf --\n" + calls("../a"), modules.RootsOptions{}, "a"},
		{"a module that is downloaded", "-- a/main.tf --\n" + calls("example.test/ns/b/acme") + "-- b/main.tf --\n", modules.RootsOptions{}, "a b"},
		{"a module that an example calls", "-- main.tf --\n-- examples/a/main.tf --\n" + calls("../.."), modules.RootsOptions{}, "examples/a"},
		{"a module that a test calls", "-- main.tf --\n-- tests/a.tftest.hcl --\nrun \"a\" {\n  module {\n    source = \"./tests/setup\"\n  }\n}\n-- tests/setup/main.tf --\n", modules.RootsOptions{}, "."},
		{"calls that only tofu reads", "-- a/main.tofu --\n" + calls("../b") + "-- b/main.tf --\n", modules.RootsOptions{}, "a"},

		{"calls of twins", "-- a/main.tf --\n" + calls("../b") + "-- a/main.tofu --\n" + calls("../c") + "-- b/main.tf --\n-- c/main.tf --\n", modules.RootsOptions{}, "a"},
		{"calls of terraform's twin", "-- a/main.tf --\n" + calls("../b") + "-- a/main.tofu --\n" + calls("../c") + "-- b/main.tf --\n-- c/main.tf --\n", modules.RootsOptions{Engine: sources.Terraform}, "a c"},
		{"calls of twins among tests", "-- a/main.tf --\n-- a/tests/a.tftest.hcl --\nrun \"a\" {\n  module {\n    source = \"./b\"\n  }\n}\n-- a/tests/a.tofutest.hcl --\nrun \"a\" {\n  module {\n    source = \"./c\"\n  }\n}\n-- a/b/main.tf --\n-- a/c/main.tf --\n", modules.RootsOptions{}, "a"},
		{"a module with a computed source", "-- a/main.tf --\nlocals {\n  m = \"../mods\"\n}\n" + calls("${local.m}/net") + "-- mods/net/main.tf --\n", modules.RootsOptions{}, "a"},
		{"modules that a variable selects", "-- a/main.tf --\nvariable \"v\" {\n  const = true\n}\n" + calls("../mods/${var.v}") + "-- a/terraform.tfvars --\nv = \"x\"\n-- mods/x/main.tf --\n-- mods/y/main.tf --\n", modules.RootsOptions{}, "a mods/y"},
		{"any directory", "-- a/main.tf --\nvariable \"v\" {\n  const = true\n}\n" + calls("../${var.v}") + "-- b/main.tf --\n", modules.RootsOptions{}, "a b"},
		{"a directory that is passed on", "-- a/main.tf --\nmodule \"m\" {\n  source = \"../b\"\n  d = \"../mods\"\n}\n-- b/main.tf --\nvariable \"d\" {\n  const = true\n}\n" + calls("${var.d}/net") + "-- mods/net/main.tf --\n", modules.RootsOptions{}, "a"},
		{"a module that the environment selects", "-- a/main.tf --\nvariable \"v\" {\n  const = true\n}\n" + calls("../${var.v}") + "-- b/main.tf --\n", modules.RootsOptions{Inputs: modules.Inputs{Environ: []string{"v=b"}}}, "a"},

		{"a backend for one engine", calling + "-- modules/a/main.tofu --\nterraform {\n  backend \"s3\" {}\n}\n", modules.RootsOptions{}, "live modules/a"},
		{"files for tofu alone", "-- a/main.tofu --\n-- b/main.tf --\n", modules.RootsOptions{Engine: sources.Terraform}, "b"},
		{"files for either", "-- a/main.tofu --\n-- b/main.tf --\n", modules.RootsOptions{}, "a b"},
		{"hidden", "-- .terraform/modules/a/main.tf --\n-- .git/main.tf --\n-- a/.b/main.tf --\n", modules.RootsOptions{}, ""},
		{"a data directory", "-- data/modules/a/main.tf --\n-- a/main.tf --\n-- a/data/modules/b/main.tf --\n", modules.RootsOptions{DataDir: "data"}, "a"},
		{"a data directory in another", "-- a/x/data/main.tf --\n-- a/data/main.tf --\n", modules.RootsOptions{DataDir: "./x/data/"}, "a/data"},

		{"excluded by name", "-- a/main.tf --\n-- a/old/main.tf --\n-- old/b/main.tf --\n", modules.RootsOptions{Exclude: []string{"old"}}, "a"},
		{"excluded by name, written as a directory", "-- a/main.tf --\n-- old/b/main.tf --\n", modules.RootsOptions{Exclude: []string{"./old/"}}, "a"},
		{"excluded by path", "-- a/old/main.tf --\n-- b/old/main.tf --\n", modules.RootsOptions{Exclude: []string{"a/*"}}, "b/old"},
		{"excluded at any depth", "-- a/x/y/main.tf --\n-- a/y/main.tf --\n-- y/main.tf --\n-- a/z/main.tf --\n", modules.RootsOptions{Exclude: []string{"a/**/y"}}, "a/z y"},
		{"excluded here", "-- main.tf --\n", modules.RootsOptions{Exclude: []string{"*"}}, "."},
		{"excluded twice", "-- a/main.tf --\n-- b/main.tf --\n-- c/main.tf --\n", modules.RootsOptions{Exclude: []string{"[a]", "b?"}}, "b c"},
		{"calls of excluded modules are ignored", "-- main.tf --\n-- examples/a/main.tf --\n" + calls("../.."), modules.RootsOptions{Exclude: []string{"examples"}}, "."},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := unpack(t, txtar.Parse([]byte(c.files)))
			got, err := modules.Roots(t.Context(), dir, c.opts)
			check(t, err)
			sourcetest.Equal(t, filepath.ToSlash(strings.Join(got, " ")), c.want)
		})
	}
}

// Every configuration is read with a root module: nothing that is called only by directories which are
// not read themselves is left out.
func TestRootsHideNothing(t *testing.T) {
	calls, test := callsOf, testOf
	const none, terraform, tofu = "", sources.Terraform, sources.OpenTofu
	cases := []struct {
		name, files string
		engineOf    map[string]sources.Engine // by directory; both if there is none
		want        string
	}{
		{"tests that call each other", "-- a/main.tf --\n-- a/x.tftest.hcl --\n" + test("../b") + "-- b/main.tf --\n-- b/x.tftest.hcl --\n" + test("../a"), nil, "a"},
		{"tests in directories that call each other", "-- a/main.tf --\n-- a/tests/x.tftest.hcl --\n" + test("../b") + "-- b/main.tf --\n-- b/tests/x.tftest.hcl --\n" + test("../a"), nil, "a"},
		{"a test that calls the caller", "-- a/main.tf --\n-- a/x.tftest.hcl --\n" + test("../b") + "-- b/main.tf --\n" + calls("../a"), nil, "a"},
		{"a test of a called module", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tf --\n-- b/x.tftest.hcl --\n" + test("../c") + "-- c/main.tf --\n", nil, "a c"},
		{"a test of a module that a test calls", "-- a/main.tf --\n-- a/x.tftest.hcl --\n" + test("../b") + "-- b/main.tf --\n-- b/x.tftest.hcl --\n" + test("../c") + "-- c/main.tf --\n", nil, "a c"},
		{"three tests in a circle", "-- a/main.tf --\n-- a/x.tftest.hcl --\n" + test("../b") + "-- b/main.tf --\n-- b/x.tftest.hcl --\n" + test("../c") + "-- c/main.tf --\n-- c/x.tftest.hcl --\n" + test("../a"), nil, "a c"},

		{"two callers of each other", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tf --\n" + calls("../a"), nil, "a"},
		{"three in a circle", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tf --\n" + calls("../c") + "-- c/main.tf --\n" + calls("../a"), nil, "a"},
		{"what a circle calls", "-- a/main.tf --\n-- b/main.tf --\n" + calls("../c") + "-- c/main.tf --\n" + calls("../b") + "-- c/more.tf --\nmodule \"a\" {\n  source = \"../a\"\n}\n", nil, "b"},
		{"a circle that another calls", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tf --\n" + calls("../a") + "-- c/main.tf --\n" + calls("../a"), nil, "c"},
		{"two circles", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tf --\n" + calls("../a") + "-- c/main.tf --\n" + calls("../d") + "-- d/main.tf --\n" + calls("../c"), nil, "a c"},
		{"a circle with a lock file", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tf --\n" + calls("../a") + "-- b/.terraform.lock.hcl --\n", nil, "b"},
		{"a circle with a backend", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tf --\nterraform {\n  backend \"s3\" {}\n}\n" + calls("../a"), nil, "b"},
		{"a called directory and a subdirectory", "-- main.tf --\n" + calls("./x") + "-- x/main.tf --\n" + calls("../"), nil, "."},

		{"a circle that tofu closes", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tf --\n-- b/x.tofu --\n" + calls("../a"), nil, "a"},
		{"a circle that tofu closes, for terraform", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tf --\n-- b/x.tofu --\n" + calls("../a"),
			map[string]sources.Engine{"a": terraform, "b": terraform}, "a"},
		{"a circle that tofu closes, first", "-- b/main.tf --\n" + calls("../a") + "-- a/main.tf --\n-- a/x.tofu --\n" + calls("../b"),
			map[string]sources.Engine{"a": terraform, "b": terraform}, "a b"},
		{"a caller for tofu, read for terraform", "-- a/main.tf --\n-- a/x.tofu --\n" + calls("../b") + "-- b/main.tf --\n", map[string]sources.Engine{"a": terraform, "b": terraform}, "a b"},
		{"a caller for tofu, read for tofu", "-- a/main.tf --\n-- a/x.tofu --\n" + calls("../b") + "-- b/main.tf --\n", map[string]sources.Engine{"a": tofu, "b": terraform}, "a b"},
		{"a caller for tofu alone, read for terraform", "-- a/main.tofu --\n" + calls("../b") + "-- b/main.tf --\n", map[string]sources.Engine{"a": terraform, "b": terraform}, "a b"},
		{"a twin that calls nothing, read for tofu", "-- a/main.tf --\n" + calls("../b") + "-- a/main.tofu --\n-- b/main.tf --\n", map[string]sources.Engine{"a": tofu, "b": tofu}, "a b"},
		{"a twin that terraform reaches", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tf --\n-- b/main.tofu --\n", map[string]sources.Engine{"a": terraform, "b": tofu}, "a b"},
		{"a twin that both engines reach", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tf --\n-- b/main.tofu --\n-- c/main.tf --\n" + calls("../b"), map[string]sources.Engine{"a": terraform, "b": tofu, "c": tofu}, "a c"},
		{"a module for tofu that terraform calls", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tofu --\n", map[string]sources.Engine{"a": terraform, "b": tofu}, "a b"},
		{"a module for tofu that tofu calls", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tofu --\n", map[string]sources.Engine{"a": tofu, "b": terraform}, "a"},
		{"a twin on the way", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tf --\n-- b/main.tofu --\n" + calls("../c") + "-- c/main.tf --\n", map[string]sources.Engine{"a": terraform, "b": terraform, "c": terraform}, "a c"},
		{"a twin on the way of tofu", "-- a/main.tf --\n" + calls("../b") + "-- b/main.tf --\n-- b/main.tofu --\n" + calls("../c") + "-- c/main.tf --\n", map[string]sources.Engine{"a": tofu, "b": tofu, "c": tofu}, "a"},
		{"a test for tofu, read for terraform", "-- a/main.tf --\n-- a/x.tofutest.hcl --\n" + test("../b") + "-- b/main.tf --\n", map[string]sources.Engine{"a": terraform, "b": terraform}, "a b"},
		{"an engine that the caller's error hides", "-- a/main.tf --\n-- a/x.tofu --\n" + calls("../b") + "-- b/main.tf --\n", map[string]sources.Engine{"a": none}, "a"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := unpack(t, txtar.Parse([]byte(c.files)))
			opts := modules.RootsOptions{EngineOf: func(root string) (sources.Engine, bool) {
				name, err := filepath.Rel(dir, root)
				check(t, err)
				return c.engineOf[filepath.ToSlash(name)], false
			}}
			got, err := modules.Roots(t.Context(), dir, opts)
			check(t, err)
			sourcetest.Equal(t, filepath.ToSlash(strings.Join(got, " ")), c.want)
		})
	}
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
	if runtime.GOOS == "windows" {
		t.Skip("making symlinks takes privileges")
	}
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
