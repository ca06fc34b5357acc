package modules_test

import (
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
