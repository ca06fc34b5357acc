package modules_test

import (
	"flag"
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

var update = flag.Bool("update", false, "rewrite what testdata wants")

// testdata returns the files in testdata: configurations, and their results under
// "want" and, for OpenTofu, "want-tofu".
func testdata(t *testing.T, dir string) map[string]*txtar.Archive {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.txtar"))
	sourcetest.Require(t, err == nil && len(files) != 0, "no test data: %v", err)
	all := map[string]*txtar.Archive{}
	for _, file := range files {
		archive := sourcetest.Must(txtar.ParseFile(file))(t)
		all[strings.TrimSuffix(filepath.Base(file), ".txtar")] = archive
	}
	return all
}

func TestLoad(t *testing.T) {
	engines := map[string]sources.Engine{"want": sources.Terraform, "want-tofu": sources.OpenTofu}
	for name, archive := range testdata(t, ".") {
		t.Run(name, func(t *testing.T) {
			dir := unpack(t, archive)
			for i, f := range archive.Files {
				engine := engines[f.Name]
				if engine == "" {
					continue
				}
				got := describe(modules.Load(t.Context(), dir, modules.Options{Engine: engine}))
				if *update {
					archive.Files[i].Data = []byte(got)
				} else if got != string(f.Data) {
					t.Errorf("%s: got\n%s\nwant\n%s", f.Name, got, f.Data)
				}
			}
			if *update {
				check(t, os.WriteFile("testdata/"+name+".txtar", txtar.Format(archive), 0o644))
			}
		})
	}
}

func unpack(t testing.TB, archive *txtar.Archive) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range archive.Files {
		if strings.HasPrefix(f.Name, "want") {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, f.Data, 0o644))
	}
	return dir
}

// A testCase is a file in a directory of testdata, in the txtar format. Before the files, it has lines NAME: VALUE or
// NAME WHICH: VALUE.
type testCase struct {
	files *txtar.Archive
	all   map[string][]string          // values by name
	of    map[string]map[string]string // values by name and which
}

// the returns the only value of a name, or an empty string.
func (c testCase) the(name string) string { return strings.Join(c.all[name], " ") }

// eachCase runs a test with each case of a directory.
func eachCase(t *testing.T, dir string, test func(t *testing.T, c testCase)) {
	t.Helper()
	for name, archive := range testdata(t, dir) {
		c := testCase{archive, map[string][]string{}, map[string]map[string]string{}}
		for line := range strings.Lines(string(archive.Comment)) {
			key, value, _ := strings.Cut(line, ":")
			key, which, _ := strings.Cut(key, " ")
			value = strings.TrimSpace(value)
			c.all[key] = append(c.all[key], value)
			if c.of[key] == nil {
				c.of[key] = map[string]string{}
			}
			c.of[key][which] = value
		}
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}

// describe formats the result of Load with one item on each line.
func describe(tree *modules.Tree, ds sources.Diagnostics) string {
	var b strings.Builder
	if tree.Empty {
		b.WriteString("empty\n")
	}
	if tree.StateUnread {
		b.WriteString("state unread\n")
	}
	for _, r := range tree.Requirements {
		fmt.Fprintf(&b, "%s %q\n", r.Provider, r.Constraints)
		for _, o := range r.From {
			fmt.Fprintf(&b, "  %s:%d %s\n", filepath.ToSlash(o.File), o.Line, strings.TrimSpace(o.Constraint+" "+o.Module))
		}
	}
	for _, d := range ds {
		kind := "error"
		if d.Warning {
			kind = "warning"
		}
		d.File = filepath.ToSlash(d.File)
		fmt.Fprintf(&b, "%s: %s\n", kind, d)
		if d.Hint != "" {
			fmt.Fprintf(&b, "  hint: %s\n", d.Hint)
		}
	}
	for _, d := range tree.Missing {
		fmt.Fprintf(&b, "missing: %s\n", filepath.ToSlash(d.String()))
	}
	return b.String()
}

var check = sourcetest.Check

// A cached module gives the same result as one that has just been read.
func TestCacheChangesNothing(t *testing.T) {
	for name, archive := range testdata(t, ".") {
		dir := unpack(t, archive)
		var cache modules.Cache
		for _, engine := range []sources.Engine{sources.Terraform, sources.OpenTofu, sources.Terraform} {
			want := describe(modules.Load(t.Context(), dir, modules.Options{Engine: engine}))
			got := describe(modules.Load(t.Context(), dir, modules.Options{Engine: engine, Cache: &cache}))
			sourcetest.Equal(t, got, want, name, engine)
		}
	}
}

// The file names of a shared module are relative to each of its callers.
func TestCacheOfSharedModule(t *testing.T) {
	dir := unpack(t, txtar.Parse([]byte(`
-- a/main.tf --
module "m" {
  source = "../m"
}
-- b/c/main.tf --
module "m" {
  source = "../../m"
}
-- m/main.tf --
resource "acme_widget" "a" {}
provider "Acme" {}
`)))
	var cache modules.Cache
	roots := sourcetest.Must(modules.Roots(t.Context(), dir, modules.RootsOptions{Cache: &cache}))(t)
	wants := map[string]string{
		"a":   "registry.terraform.io/hashicorp/acme \"\"\n  ../m/main.tf:1 module.m\nerror: ../m/main.tf:2:10: provider name \"Acme\": not in normal form\n  hint: write it as \"acme\"\n",
		"b/c": "registry.terraform.io/hashicorp/acme \"\"\n  ../../m/main.tf:1 module.m\nerror: ../../m/main.tf:2:10: provider name \"Acme\": not in normal form\n  hint: write it as \"acme\"\n",
	}
	for _, root := range roots {
		got := describe(modules.Load(t.Context(), filepath.Join(dir, root), modules.Options{Cache: &cache}))
		sourcetest.Equal(t, got, wants[filepath.ToSlash(root)], root)
	}
	sourcetest.Equal(t, len(roots), len(wants), roots)
}

func TestReadList(t *testing.T) {
	list := func(entries string) string {
		return "terraform {\n  required_providers {\n" + entries + "\n  }\n}\n"
	}
	for _, c := range []struct{ name, file, text, want string }{
		{"entries", "a.tf", list("a = { source = \"acme/a\" }\nb = { source = \"x.test/acme/b\", version = \"~> 1.0\" }"),
			"3 registry.terraform.io/acme/a, 4 x.test/acme/b ~> 1.0"},
		{"the same provider twice", "a.tf", list("old = { source = \"acme/a\", version = \"1.0.0\" }\na = { source = \"acme/a\" }"),
			"3 registry.terraform.io/acme/a 1.0.0, 4 registry.terraform.io/acme/a"},
		{"without a source", "a.tf", list("a = \">= 1\"\nb = { version = \"2.0.0\" }"),
			"3 registry.terraform.io/hashicorp/a >= 1.0.0, 4 registry.terraform.io/hashicorp/b 2.0.0"},
		{"built-in provider", "a.tf", list("terraform = { source = \"terraform.io/builtin/terraform\" }"), ""},
		{"empty entry", "a.tf", list(""), ""},
		{"other blocks", "a.tf", list("a = { source = \"acme/a\" }") + "resource \"b_c\" \"d\" {}\nmodule \"e\" {\n  source = \"./e\"\n}\nprovider \"f\" {\n  version = \"no\"\n}\n",
			"3 registry.terraform.io/acme/a"},
		{"JSON", "a.tf.json", `{"terraform": [{"required_providers": {"a": {"source": "acme/a", "version": "1.0.0"}}}]}`,
			"1 registry.terraform.io/acme/a 1.0.0"},

		{"no required_providers", "a.tf", "resource \"b_c\" \"d\" {}\n", "error: a.tf: no required_providers block"},
		{"two required_providers", "a.tf", list("") + list(""), "error: a.tf:7:3: a second required_providers block"},
		{"syntax error", "a.tf", "}{", "error: a.tf:1:1: "},
		{"a wrong entry", "a.tf", list("a = { source = \"a/b/c/d\" }\nb = { source = \"acme/b\" }"), "error: a.tf:3:16: provider source"},
		{"a wrong version", "a.tf", list("a = { source = \"acme/b\", version = \"new\" }"), "error: a.tf:3:36: version constraint"},
		{"no namespace", "a.tf", list("a = { source = \"-/a\" }"), "error: a.tf:3:1: provider registry.terraform.io/-/a has no namespace, as in Terraform 0.12"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.file)
			check(t, os.WriteFile(path, []byte(c.text), 0o644))
			all, ds := modules.ReadList(path, sources.Terraform)
			got := strings.Join(listed(t, path, all), ", ")
			if err := ds.Err(); err != nil {
				got = "error: " + strings.ReplaceAll(err.Error(), path, c.file)
			}
			refused := strings.HasPrefix(c.want, "error: ") && strings.HasPrefix(got, c.want)
			sourcetest.Expect(t, refused || got == c.want, "got %s, want %s", got, c.want)
		})
	}
}

// A mirror may have any number of providers.
func TestReadLongList(t *testing.T) {
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, "p%[1]d = { source = \"acme/p%[1]d\" }\n", i)
	}
	path := filepath.Join(t.TempDir(), "a.tf")
	check(t, os.WriteFile(path, []byte("terraform {\nrequired_providers {\n"+text.String()+"}\n}\n"), 0o644))
	all, ds := modules.ReadList(path, sources.Terraform)
	check(t, ds.Err())
	sourcetest.Equal(t, len(all), 3000)
}

// listed returns "LINE ADDRESS CONSTRAINTS" of each entry.
func listed(t *testing.T, path string, all []sources.Requirement) []string {
	t.Helper()
	var lines []string
	for _, r := range all {
		if len(r.From) != 1 || r.From[0].File != path {
			t.Errorf("%s is from %v", r.Provider, r.From)
			continue
		}
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%d %s %s", r.From[0].Line, r.Provider, r.Constraints)))
	}
	return lines
}

// modulesAB are modules that require different providers.
const modulesAB = `
-- mods/a/main.tf --
terraform {
  required_providers {
    x = { source = "example.test/acme/a" }
  }
}
-- mods/b/main.tf --
terraform {
  required_providers {
    x = { source = "example.test/acme/b" }
  }
}
`

// Larder computes the sources of modules as the engines do. A case has the module that is called for each engine:
// none if the engine refuses the source, or if only the engine knows.
func TestComputedSources(t *testing.T) {
	eachCase(t, "computed", func(t *testing.T, c testCase) {
		c.files.Files = append(c.files.Files, txtar.Parse([]byte(modulesAB)).Files...)
		for _, engine := range []sources.Engine{sources.Terraform, sources.OpenTofu} {
			inputs := modules.Inputs{Environ: c.all["variable"], Flags: c.all["flag"]}
			got := lookup(t, unpack(t, c.files), modules.Options{Engine: engine, Inputs: inputs})
			sourcetest.Equal(t, got, c.the(string(engine)), engine)
		}
	})
}

// lookup returns the type of the one provider that is required, or "" if that is not known.
func lookup(t *testing.T, dir string, opts modules.Options) string {
	t.Helper()
	tree, ds := modules.Load(t.Context(), dir, opts)
	sourcetest.Check(t, ds.Err())
	if len(tree.Unsure) > 0 {
		sourcetest.Expect(t, len(tree.Requirements) == 0, "%v is required", tree.Requirements)
		return ""
	}
	sourcetest.Require(t, len(tree.Requirements) == 1, "%v is required", tree.Requirements)
	return tree.Requirements[0].Provider.Type
}
