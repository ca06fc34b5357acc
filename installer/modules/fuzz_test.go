package modules_test

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

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
	seeds, err := txtar.ParseFile("testdata/manifest.txtar")
	check(f, err)
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
