package modules_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Input that would crash a parser, exhaust the memory or take forever is refused with
// an error that names its file.
func TestHostileFiles(t *testing.T) {
	many := func(n int, s string) string { return strings.Repeat(s, n) }
	for _, c := range []struct{ name, file, contents, want string }{
		{"huge", "a.tf", many(17<<20, " "), "error: a.tf: larger than 16 MiB\n"},
		{"lists", "a.tf", "a = " + many(2e4, "["), "error: a.tf:1:1: nested too deeply\n"},
		{"lists in lines", "a.tf", "a = " + many(2e4, "[\n"), "error: a.tf:1:1: nested too deeply\n"},
		{"objects", "a.tf", "a = " + many(2e4, "{a=\n"), "error: a.tf:1:1: nested too deeply\n"},
		{"blocks", "a.tf", many(2e4, "a {\n"), "error: a.tf:1:1: nested too deeply\n"},
		{"templates", "a.tf", "a = " + many(2e4, `"${`), "error: a.tf:1:1: nested too deeply\n"},
		{"negations", "a.tf", "a = " + many(2e4, "!") + "true", "error: a.tf:1:1: nested too deeply\n"},
		{"conditionals", "a.tf", "a = " + many(2e4, "1?1:") + "1\n", "error: a.tf:1:1: nested too deeply\n"},
		{"conditionals in lists", "a.tf", "a = " + many(3000, "[1,1?1:1?1:") + "1\n", "error: a.tf:1:1: nested too deeply\n"},
		{"splats", "a.tf", "a = b" + many(2e4, "[*]") + "\n", "error: a.tf:1:1: nested too deeply\n"},
		{"directives", "a.tf", "a = \"" + many(2e4, "%{if a}") + "\"\n", "error: a.tf:1:1: nested too deeply\n"},
		{"directives in lines", "a.tf", "a = <<E\n" + many(2e4, "%{if a}\n") + "E\n", "error: a.tf:1:1: nested too deeply\n"},
		{"namespaces", "a.tf", "a = b" + many(2e4, "::c") + "\n", "error: a.tf:1:1: nested too deeply\n"},
		{"legacy indexes", "a.tf", "a = b" + many(2e4, ".0.1") + "\n", "error: a.tf:1:1: a number has too many digits\n"},
		{"a high number", "a.tf", "locals {\n  a = 1e99999\n}\n", "error: a.tf:1:1: a number has too many digits\n"},
		{"a long number", "a.tf", "locals {\n  a = " + many(1e6, "9") + "\n}\n", "error: a.tf:1:1: a number has too many digits\n"},
		{"a high JSON number", "a.tf.json", `{"locals":{"a":1E+99999}}`, "error: a.tf.json:1:1: a number has too many digits\n"},
		{"digits that take long to search", "a.tf", "# " + many(5e3, many(999, "9")+" ") + "\n", ""},
		{"numbers in strings", "a.tf", "locals {\n  a = \"1e99999\" # 1e99999\n}\n", ""},
		{"JSON numbers in strings", "a.tf.json", `{"locals":{"a":"\"1e99999","b":"1e99999\\"}}`, ""},
		{"JSON lists", "a.tf.json", `{"a":` + many(2e4, "["), "error: a.tf.json:1:1: nested too deeply\n"},
		{"JSON brackets closed before", "a.tf.json", `{"a":` + many(2e4, "]") + many(2e4, "["), "error: a.tf.json:1:1: nested too deeply\n"},
		{"JSON objects", "a.tf.json", many(2e4, `{"\"{[":`), "error: a.tf.json:1:1: nested too deeply\n"},
		{"manifest", ".terraform/modules/modules.json", many(2e4, `[`), "error: .terraform/modules/modules.json: module manifest: exceeded max depth\n  hint: run \"terraform get\" to install the modules of this configuration\n"},
		{"state", "terraform.tfstate", `{"x":` + many(2e4, `[`), "error: terraform.tfstate: unusable state: exceeded max depth\n"},

		// Text that only looks nested is accepted.
		{"long list", "a.tf", "locals {\n  a = [" + many(1e4, "{ b = [-1] },\n") + "]\n}\n", ""},
		{"many blocks", "a.tf", many(1e4, "locals {\n  a = !false ? -1 : [1]\n}\n"), ""},
		{"brackets in strings", "a.tf", "locals {\n  a = \"" + many(1e5, "[{(?") + "\"\n}\n", ""},
		{"JSON brackets in strings", "a.tf.json", `{"locals":{"a":"` + many(1e5, `[{\"`) + `"}}`, ""},
		{"long sum", "a.tf", "resource \"a_b\" \"c\" {\n  provider = " + many(1e5, "1+") + "1\n}\n",
			"error: a.tf:2:14: the provider argument refers to no provider configuration\n  hint: write NAME or NAME.ALIAS, without quotes\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := unpack(t, &txtar.Archive{Files: []txtar.File{
				{Name: "z.tf"}, {Name: c.file, Data: []byte(c.contents)},
			}})
			got := describe(modules.Load(t.Context(), dir, modules.Options{}))
			if strings.HasPrefix(c.name, "state") || strings.HasPrefix(c.name, "manifest") {
				got = strings.Replace(got, "invalid character '[' ", "", 1)
			}
			sourcetest.Expect(t, got == c.want, "got\n%.500s\nwant\n%s", got, c.want)
		})
	}
}

func TestEncoding(t *testing.T) {
	for _, c := range []struct{ contents, want string }{
		{"\xef\xbb\xbfresource \"a_b\" \"c\" {}\n", "registry.terraform.io/hashicorp/a \"\"\n  a.tf:1 \n"},
		{"# \xff\n", ""},
		{"resource \"a_b\" \"c\" {}\r\n", "registry.terraform.io/hashicorp/a \"\"\n  a.tf:1 \n"},
		{"locals {\n  a = \"\xff\"\n}\n", "error: a.tf:2:8: invalid character encoding\n  hint: all input files must be UTF-8 encoded. Ensure that UTF-8 encoding is selected in your editor\n"},
	} {
		dir := unpack(t, &txtar.Archive{Files: []txtar.File{{Name: "a.tf", Data: []byte(c.contents)}}})
		got, _, _ := strings.Cut(describe(modules.Load(t.Context(), dir, modules.Options{})), "error: a.tf:2:8: unterminated")
		sourcetest.Equal(t, got, c.want, c.contents)
	}
}

func TestSymlinks(t *testing.T) {
	dir := unpack(t, txtar.Parse([]byte(`
-- real/main.tf --
module "m" {
  source = "../modules/m"
}
-- modules/m/main.tf --
resource "a_b" "c" {}
-- elsewhere.txt --
resource "linked_b" "c" {}
`)))
	link := func(target, name string) {
		t.Helper()
		if err := sourcetest.Symlink(t, target, filepath.Join(dir, name)); err != nil {
			t.Skipf("no symlinks here: %v", err)
		}
	}
	link("real", "root")
	link("nowhere", "real/dangling.tf")
	link("../modules", "real/directory.tf")
	link("../elsewhere.txt", "real/file.tf")
	_, absent := os.Stat(filepath.Join(dir, "absent"))
	// Relative paths start from the real path of the root module.
	want := `registry.terraform.io/hashicorp/a ""
  ../modules/m/main.tf:1 module.m
registry.terraform.io/hashicorp/linked ""
  file.tf:1 
error: dangling.tf: ` + errors.Unwrap(absent).Error() + `
error: directory.tf: not a regular file
`
	sourcetest.Equal(t, describe(modules.Load(t.Context(), filepath.Join(dir, "root"), modules.Options{})), want)
}

func TestUnreadDirectories(t *testing.T) {
	tree, ds := modules.Load(t.Context(), filepath.Join(t.TempDir(), "absent"), modules.Options{})
	sourcetest.Expect(t, !tree.Empty && ds.Err() != nil,
		"a directory that is not there counts as one without configuration: %v", ds)
	dir := unpack(t, &txtar.Archive{Files: []txtar.File{{Name: "a.tf"}}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, ds = modules.Load(ctx, dir, modules.Options{})
	sourcetest.Expect(t, ds.Err() != nil, "a canceled walk counts as complete")
}

// A few small files can contain more calls than a program can follow.
func TestManyCalls(t *testing.T) {
	archive := &txtar.Archive{}
	for _, name := range []string{"", "a/", "a/a/", "a/a/a/", "a/a/a/a/", "a/a/a/a/a/"} {
		var calls strings.Builder
		for _, call := range strings.Split("abcdefghij", "") {
			calls.WriteString("module \"" + call + "\" {\n  source = \"./a\"\n}\n")
		}
		archive.Files = append(archive.Files, txtar.File{Name: name + "main.tf", Data: []byte(calls.String())})
	}
	archive.Files = append(archive.Files, txtar.File{Name: "a/a/a/a/a/a/main.tf"})
	_, ds := modules.Load(t.Context(), unpack(t, archive), modules.Options{})
	err := ds.Err()
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "more than 50000 module calls"), "got %v", err)
}

// A file can require more providers than anything that follows can look up.
func TestManyProviders(t *testing.T) {
	const most, over = 1000, 2000
	list := func(format string, from, to int) string {
		var all strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&all, format, i)
		}
		return all.String()
	}
	const resource, entry = "resource \"p%d_x\" \"a\" {}\n", "    p%[1]d = { source = \"acme/p%[1]d\" }\n"
	const call, lastFile = "module \"m\" {\n  source = \"./m\"\n}\n", "-- z.tf --\n}{ is not read\n"
	entries := func(n int) string {
		return "terraform {\n  required_providers {\n" + list(entry, 0, n) + "  }\n}\n"
	}
	for _, c := range []struct{ name, files, want string }{
		{"the most", "-- a.tf --\n" + list(resource, 0, most), ""},
		{"the most entries", "-- a.tf --\n" + entries(most), ""},
		{"the most, many times", "-- a.tf --\n" + strings.Repeat(list(resource, 0, most), 3) + list("resource \"p1_x%d\" \"a\" {}\n", 0, 3*most), ""},
		{"the most in modules", "-- a.tf --\n" + call + list(resource, 0, most/2) + "-- m/a.tf --\n" + list(resource, most/3, most), ""},
		{"resources", "-- a.tf --\n" + list(resource, 0, over) + lastFile, "a.tf:1001:1"},
		{"resources in files", "-- a.tf --\n" + list(resource, 0, most) + "-- b.tf --\n" + list(resource, most, over) + lastFile, "b.tf:1:1"},
		{"data sources", "-- a.tf --\n" + list("data \"p%d_x\" \"a\" {}\n", 0, over) + lastFile, "a.tf:1001:1"},
		{"provider blocks", "-- a.tf --\n" + list("provider \"p%d\" {}\n", 0, over) + lastFile, "a.tf:1001:1"},
		{"entries", "-- a.tf --\n" + entries(over) + lastFile, "a.tf:1003:5"},
		{"modules", "-- a.tf --\n" + call + list(resource, 0, most) + "-- m/a.tf --\n" + list(resource, most, over) + "module \"n\" {\n  source = \"./none\"\n}\n", "m/a.tf:1:1"},
		{"a state", "-- a.tf --\n-- terraform.tfstate --\n{\"version\":4,\"resources\":[" + list("{\"provider\":\"provider[\\\"registry.terraform.io/acme/p%d\\\"]\"},", 0, over) + "{\"provider\":\"provider[\\\"registry.terraform.io/acme/p0\\\"]\"}]}\n", "terraform.tfstate"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			tree, ds := modules.Load(t.Context(), unpack(t, txtar.Parse([]byte(c.files))), modules.Options{})
			for _, d := range ds {
				sourcetest.Equal(t, d.Text, "the root module requires more than 1000 providers")
			}
			if err := ds.Err(); err != nil {
				got, _, _ = strings.Cut(err.Error(), ": ")
			}
			sourcetest.Equal(t, got, c.want)
			sourcetest.Equal(t, len(tree.Requirements), most)
		})
	}
}

func TestOptions(t *testing.T) {
	dir := unpack(t, txtar.Parse([]byte(`
-- main.tf --
-- tests/x.tftest.hcl --
this is ignored
-- other/x.tftest.hcl --
run "x" {
  module {
    source = "acme/m/x"
  }
}
-- data/modules/modules.json --
{"Modules":[{"Key":"test.other.x.x","Source":"acme/m/x","Dir":"data/m"}]}
-- data/m/main.tf --
resource "m_x" "y" {}
-- data/environment --
unused
-- terraform.tfstate.d/prod/terraform.tfstate --
{"version":4,"resources":[{"provider":"provider[\"registry.terraform.io/acme/prod\"]"}]}
`)))
	opts := modules.Options{Engine: sources.OpenTofu, DataDir: "data", TestDir: "./other", Workspace: "prod", KeepStateAddresses: true}
	want := `registry.opentofu.org/hashicorp/m ""
  data/m/main.tf:1 
registry.terraform.io/acme/prod ""
  terraform.tfstate.d/prod/terraform.tfstate:0 
`
	sourcetest.Equal(t, describe(modules.Load(t.Context(), dir, opts)), want)
	opts.DataDir = filepath.Join(dir, "data")
	sourcetest.Equal(t, describe(modules.Load(t.Context(), dir, opts)), want, "with an absolute data directory")
}

// With -backend=false, init reads the state of the backend that it used last, or of the default one.
func TestNoBackend(t *testing.T) {
	const main = "-- main.tf --\nterraform {\n  backend \"local\" {\n    path = \"declared.tfstate\"\n  }\n}\n"
	state := func(name, provider string) string {
		return "-- " + name + " --\n{\"version\":4,\"resources\":[{\"provider\":\"provider[\\\"registry.terraform.io/acme/" + provider + "\\\"]\"}]}\n"
	}
	initialized := func(kind string) string {
		return "-- .terraform/terraform.tfstate --\n{\"version\":3,\"backend\":{\"type\":\"" + kind + "\",\"config\":{\"path\":\"used.tfstate\"}}}\n"
	}
	states := state("declared.tfstate", "declared") + state("used.tfstate", "used") + state("terraform.tfstate", "implied")
	for _, c := range []struct{ name, files, with, without string }{
		{"declared", main, "declared", "implied"},
		{"used before", main + initialized("local"), "used", "used"},
		{"remote before", main + initialized("http"), "declared", ""},
		{"remote", strings.Replace(main, "local", "http", 1), "", "implied"},
		{"dynamic", strings.Replace(main, "\"declared", "\"${x}", 1), "error", "implied"},
	} {
		for noBackend, want := range map[bool]string{false: c.with, true: c.without} {
			got := ""
			tree, ds := modules.Load(t.Context(), unpack(t, txtar.Parse([]byte(c.files+states))), modules.Options{NoBackend: noBackend})
			for _, r := range tree.Requirements {
				got += r.Provider.Type
			}
			if ds.Err() != nil {
				got = "error"
			}
			sourcetest.Equal(t, got, want, c.name, noBackend, ds)
		}
	}
}

// Engines check the workspace name in TF_WORKSPACE, but not the selected one.
func TestWorkspaceNames(t *testing.T) {
	for name, valid := range map[string]bool{
		"dev": true, "a:b": filepath.IsLocal("a:b"), "a~b": true, "b=c@d": true,
		"de v": false, "\u00fc": false, "a%b": false, "a*b": false, "a,b": false, "../x": false, "..": false,
	} {
		dir := unpack(t, &txtar.Archive{Files: []txtar.File{{Name: "main.tf"}}})
		_, ds := modules.Load(t.Context(), dir, modules.Options{Workspace: name})
		sourcetest.Equal(t, ds.Err() == nil, valid, name, "as an option", ds)
	}
	for name, valid := range map[string]bool{"de v": true, "\u00fc": true, "a/b": false} {
		dir := unpack(t, &txtar.Archive{Files: []txtar.File{{Name: "main.tf"}, {Name: ".terraform/environment", Data: []byte(name)}}})
		_, ds := modules.Load(t.Context(), dir, modules.Options{})
		sourcetest.Equal(t, ds.Err() == nil, valid, name, "selected", ds)
	}
}

func TestTofuFiles(t *testing.T) {
	for names, want := range map[string]string{
		"a.tofu": "others", "a.tofu.json": "others", "a.tf": "", "a.tf.json": "",
		"a.tf a.tofu": "twins", "a.tf.json a.tofu.json": "twins", "a.tf b.tf b.tofu": "twins",
		"a.tf b.tofu": "others", "a.tf a.tofu b.tofu": "twins others", "a.tf a.tofu.json": "others", "a.tf.json a.tofu": "others",
		".a.tofu": "", "a.tofu~": "", "a.tofu/x.tf": "", "sub/a.tofu": "", "a.tofutest.hcl": "",
	} {
		var files []txtar.File
		for name := range strings.FieldsSeq(names) {
			files = append(files, txtar.File{Name: name})
		}
		twins, others := modules.TofuFiles(unpack(t, &txtar.Archive{Files: files}))
		sourcetest.Equal(t, twins, strings.Contains(want, "twins"), names)
		sourcetest.Equal(t, others, strings.Contains(want, "others"), names)
	}
	twins, others := modules.TofuFiles(filepath.Join(t.TempDir(), "absent"))
	sourcetest.Expect(t, !twins && !others, "a directory that is not there has such files")
}
