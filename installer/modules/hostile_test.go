package modules_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
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
		check(t, sourcetest.Symlink(t, target, filepath.Join(dir, name)))
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

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m, InMemory: true}.Run()) }

// fuzzed are the files whose contents are generated.
var fuzzed = []string{
	"a.tf", "a.tf.json", "a_override.tf", "x.tftest.hcl", "x.tftest.json",
	"terraform.tfstate", ".terraform/terraform.tfstate", ".terraform/environment",
	".terraform/modules/modules.json", "terragrunt.hcl",
}

// FuzzLoad checks that for any file contents the result is well-formed and has
// positions.
func FuzzLoad(f *testing.F) {
	seeds := sourcetest.Must(txtar.ParseFile("testdata/manifest.txtar"))(f)
	for _, seed := range append(seeds.Files, []txtar.File{
		{Name: "a.tf", Data: []byte("terraform {\n  required_providers {\n    a = { source = \"b/c\", version = \">= 1\" }\n  }\n  backend \"local\" {\n    path = \"x\"\n  }\n}\n")},
		{Name: "a.tf", Data: []byte("import {\n  to = a_b.c[each.key]\n  provider = \"d.e\"\n}\nprovider \"p\" {\n  version = 1\n}\ncheck \"x\" {\n  data \"a_b\" \"c\" {}\n}\n")},
		{Name: "a.tf.json", Data: []byte(`{"terraform":{"required_providers":{"a":{"source":"b/c"},"d":1.0}},"import":{"to":"a_b.c[0]"},"resource":{"a_b":{"c":[{"provider":"x.y"}]}}}`)},
		{Name: "x.tftest.hcl", Data: []byte("run \"x\" {\n  module {\n    source = \"./m\"\n  }\n}\n")},
		{Name: "terraform.tfstate", Data: []byte(`{"version":4,"resources":[{"provider":"module.a.provider[\"a.b/c/d\"].e"}]}`)},
		{Name: "terraform.tfstate", Data: []byte(`{"version":3,"modules":[{"resources":{"a":{}}}]}`)},
		{Name: "terragrunt.hcl", Data: []byte("include \"root\" {\n  path = find_in_parent_folders(\"main.tf\", \"main.tf\")\n}\nlocals {\n  a = basename(get_terragrunt_dir())\n}\nterraform {\n  source = \"${dirname(path_relative_from_include(\"root\"))}//${local.a}?ref=x\"\n}\n")},
		{Name: ".terraform/terraform.tfstate", Data: []byte(`{"backend":{"type":"local","config":{"path":"a"}}}`)},
	}...) {
		for i, name := range fuzzed {
			if name == seed.Name || name == "a.tf" && seed.Name == "main.tf" {
				f.Add(i, string(seed.Data))
				for mutant := range sourcetest.Mutants(seed.Data) {
					f.Add(i, string(mutant))
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind int, contents string) {
		if kind < 0 || kind >= len(fuzzed) {
			t.Skip()
		}
		dir := unpack(t, &txtar.Archive{Files: []txtar.File{
			{Name: "main.tf", Data: []byte("module \"m\" {\n  source = \"x/y/z\"\n}\nresource \"r_x\" \"y\" {}\n")},
			{Name: "m/main.tf", Data: []byte("resource \"m_x\" \"y\" {}\n")},
			{Name: fuzzed[kind], Data: []byte(contents)},
		}})
		for _, engine := range []sources.Engine{sources.Terraform, sources.OpenTofu} {
			tree, ds := modules.Load(t.Context(), dir, modules.Options{Engine: engine})
			for _, r := range tree.Requirements {
				checkProvider(t, r.Provider, engine)
				checkOrigins(t, r)
			}
			for _, d := range ds {
				sourcetest.Expect(t, d.Text != "" && d.File != "", "diagnostic without text or file: %+v", d)
			}
		}
	})
}

// checkProvider checks that p is in normal form. Local names may begin with
// characters that types may not.
func checkProvider(t *testing.T, p sources.Provider, engine sources.Engine) {
	again, err := sources.ParseProvider(p.String(), engine)
	odd := strings.HasPrefix(p.Type, "terraform-") || strings.HasPrefix(p.Type, "opentofu-")
	sourcetest.Expect(t, again == p || odd && err != nil, "%s reads as %s: %v", p, again, err)
}

// checkOrigins checks that the constraints of r are those of its origins.
func checkOrigins(t *testing.T, r sources.Requirement) {
	var all sources.Constraints
	for _, o := range r.From {
		if o.Constraint == "" {
			continue
		}
		c, err := sources.ParseConstraints(o.Constraint)
		sourcetest.Equal(t, err, nil, r.Provider)
		all = all.And(c)
	}
	sourcetest.Expect(t, len(r.From) > 0 && all.String() == r.Constraints.String(),
		"%s: %q from %v", r.Provider, r.Constraints, r.From)
}

// A pull request can't hide a provider: with the root modules that Roots returns, Load returns every provider that an
// engine would install for a directory, or one of them returns an error.
func TestPullRequestsHideNoProvider(t *testing.T) {
	const terraform, tofu = sources.Terraform, sources.OpenTofu
	const evil = "-- main.tf --\nterraform {\n  required_providers {\n    evil = { source = \"example.test/acme/evil\" }\n  }\n}\n"
	eachCase(t, "pull_requests", func(t *testing.T, c testCase) {
		if c.of["link"] != nil && runtime.GOOS == "windows" {
			t.Skip("making symlinks takes privileges")
		}
		outside := unpack(t, txtar.Parse([]byte(evil)))
		dir := unpack(t, c.files)
		for name, to := range c.of["link"] {
			name = filepath.Join(dir, name)
			check(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), sourcetest.Symlink(t, strings.Replace(to, "../OUTSIDE", outside, 1), name)))
		}
		engineOf := func(root string) (sources.Engine, bool) {
			for ; strings.HasPrefix(root, dir); root = filepath.Dir(root) {
				name := sourcetest.Must(filepath.Rel(dir, root))(t)
				if e := sources.Engine(c.of["engine"][filepath.ToSlash(name)]); e != "" {
					return e, false
				}
			}
			return terraform, true
		}
		failed := ""
		roots, err := modules.Roots(t.Context(), dir, modules.RootsOptions{Exclude: []string{"old"}, EngineOf: engineOf})
		if err != nil {
			failed = err.Error()
		}
		var required []string
		for _, root := range roots {
			e, _ := engineOf(filepath.Join(dir, root))
			for _, e := range slices.Compact([]sources.Engine{e, terraform, tofu}) {
				tree, ds := modules.Load(t.Context(), filepath.Join(dir, root), modules.Options{Engine: e})
				for _, d := range slices.Concat(ds, tree.Missing, tree.Unsure) {
					if !d.Warning {
						failed += "\n" + filepath.ToSlash(filepath.Join(root, d.File)) + ": " + d.Text
					}
				}
				for _, r := range slices.Concat(tree.Requirements, tree.Sources) {
					required = append(required, r.Provider.String())
				}
				if !tree.Differs { // otherwise a check reads the files for the other engine too
					break
				}
			}
		}
		denied := cmp.Or(c.the("denied"), "example.test/acme/evil")
		p := sourcetest.Must(sources.ParseProvider(denied, terraform))(t)
		found := slices.Contains(required, p.String())
		if failed != "" { // not on each file system
			found = c.the("fails") != "" && strings.Contains(filepath.ToSlash(failed), c.the("fails"))
		}
		sourcetest.Expect(t, found,
			"%s is hidden from %q, which require %q. Errors: %s", denied, roots, required, failed)
	})
}
