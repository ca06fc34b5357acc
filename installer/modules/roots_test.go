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
			got := sourcetest.Must(modules.Roots(t.Context(), dir, c.opts))(t)
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
				name := sourcetest.Must(filepath.Rel(dir, root))(t)
				return c.engineOf[filepath.ToSlash(name)], false
			}}
			got := sourcetest.Must(modules.Roots(t.Context(), dir, opts))(t)
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

// The module mods/m is no root module if a unit with a lock file uses it.
func TestRootsOfTerragrunt(t *testing.T) {
	source := sourceOf
	const unit, include = "-- live/a/terragrunt.hcl --\n", "include \"root\" {\n  path = find_in_parent_folders(\"root.hcl\")\n}\n"
	const used, unused = "", "mods/m"
	cases := []struct {
		name, files, want string
	}{
		{"relative", unit + source(`"../../mods/m"`), used},
		{"in a package", unit + source(`"../../mods//m"`), used},
		{"with a revision", unit + source(`"../../mods//m?ref=v1"`), used},
		{"as a URL", "-- .git/HEAD --\n" + unit + source(`"file://${get_repo_root()}/mods/m"`), used},
		{"in the repository", "-- .git/HEAD --\n" + unit + source(`"${get_repo_root()}//mods/m"`), used},
		{"in no repository", unit + source(`"${get_repo_root()}//mods/m"`), unused},
		{"in another repository", "-- live/.git --\n" + unit + source(`"${get_repo_root()}/mods/m"`), unused},
		{"from the root of the repository", "-- .git/HEAD --\n" + unit + source(`"${get_path_to_repo_root()}/mods/m"`), used},
		{"by the place in the repository", unit + source(`"/${get_path_from_repo_root()}/mods/m"`), unused},
		{"from the unit", unit + source(`"${get_terragrunt_dir()}/../../mods/m"`), used},
		{"from the first unit", unit + source(`"${get_original_terragrunt_dir()}/../../mods/m"`), used},
		{"without a parent", unit + source(`"${get_parent_terragrunt_dir()}/../../mods/m"`), used},
		{"a file above", "-- root.hcl --\n" + unit + source(`"${dirname(find_in_parent_folders("root.hcl"))}/mods/m"`), used},
		{"a unit above", "-- terragrunt.hcl --\n" + unit + source(`"${dirname(find_in_parent_folders())}/mods/m"`), used},
		{"a directory above", unit + source(`"${find_in_parent_folders("mods")}/m"`), used},
		{"nothing above", unit + source(`find_in_parent_folders("root.hcl", "../../mods/m")`), used},
		{"nothing above, without another choice", unit + source(`"${find_in_parent_folders("root.hcl")}/../mods/m"`), unused},
		{"a name", "-- live/m/terragrunt.hcl --\n" + source(`"../../mods/${basename(get_terragrunt_dir())}"`), used},
		{"local values", unit + "locals {\n  dir = \"${local.up}/mods\"\n  up = (\"../..\")\n}\n" + source(`"${local.dir}//m"`), used},
		{"another file name", "-- live/a/prod.terragrunt.hcl --\n" + source(`"../../mods/m"`), used},

		{"parent", "-- root.hcl --\n" + unit + include + source(`"${get_parent_terragrunt_dir()}/mods/m"`), used},
		{"parent by name", "-- root.hcl --\n" + unit + include + source(`"${get_parent_terragrunt_dir("root")}/mods/m"`), used},
		{"parent by a wrong name", "-- root.hcl --\n" + unit + include + source(`"${get_parent_terragrunt_dir("x")}/mods/m"`), unused},
		{"path from the parent", "-- root.hcl --\n" + unit + include + source(`"${path_relative_from_include()}/mods/m"`), used},
		{"path to the parent", "-- live/root.hcl --\n-- live/m/terragrunt.hcl --\n" + include + source(`"../../mods/${path_relative_to_include()}"`), used},
		{"the parent's local values", "-- root.hcl --\nlocals {\n  up = \"../..\"\n}\n" + unit + include + source(`"${include.root.locals.up}/mods/m"`), used},
		{"the parent's source", "-- root.hcl --\n" + source(`"${get_parent_terragrunt_dir()}/mods/m"`) + unit + include, used},
		{"the parent's relative source", "-- root.hcl --\n" + source(`"../../mods/m"`) + unit + include, used},
		{"the parent's source for this unit", "-- root.hcl --\n" + source(`"./${path_relative_from_include()}/mods/${basename(get_terragrunt_dir())}"`) + "-- live/m/terragrunt.hcl --\n" + include, used},
		{"an unused source of the parent", "-- root.hcl --\n" + source(`"../../mods/m"`) + unit + include + source(`"../b"`), unused},
		{"two parents", "-- root.hcl --\n-- common.hcl --\n" + source(`"${path_relative_from_include()}/mods/m"`) + unit + include + "include \"c\" {\n  path = \"../../common.hcl\"\n}\n", used},
		{"an unnamed parent", "-- root.hcl --\n" + unit + "include {\n  path = \"../../root.hcl\"\n}\n" + source(`"${get_parent_terragrunt_dir()}/mods/m"`), used},

		{"remote", unit + source(`"git::https://example.test/x.git//mods/m"`), unused},
		{"from a registry", unit + source(`"tfr:///x/y/z?version=1.0.0"`), unused},
		{"unknown function", unit + source(`"${run_cmd("pwd")}/../../mods/m"`), unused},
		{"unknown value", unit + source(`"${local.nowhere}../../mods/m"`), unused},
		{"not a string", unit + source(`["../../mods/m"]`), unused},
		{"no source", unit + "terraform {\n}\n", unused},
		{"not HCL", unit + "}{\n", unused},
		{"endless", unit + "locals {\n  a = local.b\n  b = local.a\n}\n" + source(`"${local.a}/../mods/m"`), unused},
		{"growing", unit + "locals {\n  a = \"" + strings.Repeat("x", 1000) + "\"\n  b = \"" + strings.Repeat("${local.a}", 100) + "\"\n}\n" + source(`"${local.b}/../mods/m"`), unused},
		{"a directory of the name", "-- live/a/terragrunt.hcl/x --\n", unused},
		{"itself", "-- mods/m/terragrunt.hcl --\n" + source(`"."`), unused},
		{"excluded", "-- old/a/terragrunt.hcl --\n" + source(`"../../mods/m"`), unused},

		{"a lock file", unit + source(`"../../mods/m"`) + "-- mods/m/.terraform.lock.hcl --\n", "mods/m"},
		{"a backend, which units set", unit + source(`"../../mods/m"`) + "-- mods/m/backend.tf --\nterraform {\n  backend \"s3\" {}\n}\n", used},

		{"a unit of a stack", "-- live/.terragrunt-stack/a/terragrunt.hcl --\n" + source(`"../../../mods/m"`), used},
		{"a stack without generated units", "-- live/terragrunt.stack.hcl --\nunit \"a\" {\n  source = \"../units/a\"\n  path = \"a\"\n}\n", unused},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			archive := txtar.Parse([]byte(c.files + "-- mods/m/main.tf --\n"))
			for _, f := range archive.Files {
				if dir, name := path.Split(f.Name); strings.HasSuffix(name, "terragrunt.hcl") && dir != "mods/m/" {
					archive.Files = append(archive.Files, txtar.File{Name: dir + sources.LockFile})
				}
			}
			sourcetest.Equal(t, strings.Join(slices.DeleteFunc(rootsOf(t, archive), func(dir string) bool { return dir != "mods/m" }), " "), c.want)
		})
	}
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
	got, err := modules.Roots(t.Context(), unpack(t, archive), modules.RootsOptions{Exclude: []string{"old"}})
	check(t, err)
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
