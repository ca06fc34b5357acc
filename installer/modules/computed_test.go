package modules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

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

// constant is a variable that both engines know when they install modules.
const constant = `
variable "v" {
  type    = string
  const   = true
}
`

// computedSources are root modules in which a source depends on other values, and the provider that the called module
// requires in each engine. It is empty if the engine refuses the source, or if only the engine knows.
var computedSources = map[string]struct {
	files               string // in addition to modulesAB
	flags, environ      []string
	terraform, openTofu string
}{
	"default":            {files: "-- main.tf --\nvariable \"v\" {\n  const = true\n  default = \"a\"\n}\n" + calls(`"./mods/${var.v}"`), terraform: "a", openTofu: "a"},
	"not constant":       {files: "-- main.tf --\nvariable \"v\" {\n  default = \"a\"\n}\n" + calls(`"./mods/${var.v}"`), openTofu: "a"},
	"declared otherwise": {files: "-- main.tf --\nvariable \"v\" {\n  const = false\n  default = \"a\"\n}\n" + calls(`"./mods/${var.v}"`)},
	"sensitive":          {files: "-- main.tf --\nvariable \"v\" {\n  sensitive = true\n  default = \"a\"\n}\n" + calls(`"./mods/${var.v}"`)},
	"no value":           {files: "-- main.tf --" + constant + calls(`"./mods/${var.v}"`)},
	"no variable":        {files: "-- main.tf --\n" + calls(`"./mods/${var.v}"`)},
	"variable":           {files: "-- main.tf --" + constant + calls(`"./mods/${var.v}"`), environ: []string{"v=a"}, terraform: "a", openTofu: "a"},
	"flag":               {files: "-- main.tf --" + constant + calls(`"./mods/${var.v}"`), environ: []string{"v=a"}, flags: []string{"-var=v=b"}, terraform: "b", openTofu: "b"},
	"last flag":          {files: "-- one.tfvars --\nv = \"b\"\n-- main.tf --" + constant + calls(`"./mods/${var.v}"`), flags: []string{"-var=v=a", "-var-file=one.tfvars"}, terraform: "b", openTofu: "b"},
	"first file":         {files: "-- one.tfvars --\nv = \"b\"\n-- main.tf --" + constant + calls(`"./mods/${var.v}"`), flags: []string{"-var-file=one.tfvars", "-var=v=a"}, terraform: "a", openTofu: "a"},
	"tfvars":             {files: "-- terraform.tfvars --\nv = \"b\"\n-- main.tf --" + constant + calls(`"./mods/${var.v}"`), environ: []string{"v=a"}, terraform: "b", openTofu: "b"},
	"tfvars in JSON":     {files: "-- terraform.tfvars.json --\n{\"v\":\"b\"}\n-- terraform.tfvars --\nv = \"a\"\n-- main.tf --" + constant + calls(`"./mods/${var.v}"`), terraform: "b", openTofu: "b"},
	"auto.tfvars":        {files: "-- z.auto.tfvars.json --\n{\"v\":\"b\"}\n-- a.auto.tfvars --\nv = \"a\"\n-- terraform.tfvars --\nv = \"a\"\n-- main.tf --" + constant + calls(`"./mods/${var.v}"`), terraform: "b", openTofu: "b"},
	"override":           {files: "-- x_override.tf --\nvariable \"v\" {\n  default = \"b\"\n}\n-- main.tf --\nvariable \"v\" {\n  const = true\n  default = \"a\"\n}\n" + calls(`"./mods/${var.v}"`), terraform: "b", openTofu: "b"},
	"null":               {files: "-- terraform.tfvars --\nv = null\n-- main.tf --\nvariable \"v\" {\n  const = true\n  nullable = false\n  default = \"a\"\n}\n" + calls(`"./mods/${var.v}"`), terraform: "a", openTofu: "a"},
	"local":              {files: "-- main.tf --\nlocals {\n  m = \"./mods\"\n  n = \"${local.m}/a\"\n}\n" + calls(`local.n`), terraform: "a", openTofu: "a"},
	"backslashes":        {files: "-- main.tf --\nlocals {\n  n = \".\\\\mods\\\\a\"\n}\n" + calls(`local.n`), terraform: "a", openTofu: "a"},
	"circle":             {files: "-- main.tf --\nlocals {\n  m = local.n\n  n = local.m\n}\n" + calls(`local.n`)},
	"object":             {files: "-- main.tf --\nlocals {\n  m = { x = { dir = \"a\" } }\n}\n" + calls(`"./mods/${local.m["x"].dir}"`), terraform: "a", openTofu: "a"},
	"typed":              {files: "-- main.tf --\nvariable \"v\" {\n  const = true\n  type = object({ dir = optional(string, \"b\") })\n}\n" + calls(`"./mods/${var.v.dir}"`), environ: []string{"v={}"}, terraform: "b", openTofu: "b"},
	"conditional":        {files: "-- main.tf --" + constant + calls(`var.v == "prod" ? "./mods/a" : "./mods/b"`), environ: []string{"v=prod"}, terraform: "a", openTofu: "a"},
	"functions":          {files: "-- main.tf --" + constant + calls(`format("./mods/%s", lower(trimprefix(var.v, "x-")))`), environ: []string{"v=x-A"}, terraform: "a", openTofu: "a"},
	"path":               {files: "-- main.tf --\n" + calls(`"./${path.module}/mods/a"`), terraform: "a", openTofu: "a"},
	"workspace":          {files: "-- .terraform/environment --\na\n-- main.tf --\n" + calls(`"./mods/${terraform.workspace}"`), openTofu: "a"},
	"resource":           {files: "-- main.tf --\n" + calls(`"./mods/${data.x_y.z.id}"`)},
	"looked up":          {files: "-- main.tf --" + constant + calls(`lookup({ x = "./mods/a" }, var.v, "./mods/b")`), environ: []string{"v=x"}, terraform: "a", openTofu: "a"},
	"replaced":           {files: "-- main.tf --" + constant + calls(`replace("./mods/${var.v}", ".x", "")`), environ: []string{"v=a.x"}, terraform: "a", openTofu: "a"},
	"lists":              {files: "-- main.tf --" + constant + calls(`element(sort(compact(flatten([["./mods/${var.v}"], reverse(["./mods/b", ""])]))), 0)`), environ: []string{"v=a"}, terraform: "a", openTofu: "a"},
	"maps":               {files: "-- main.tf --" + constant + calls(`contains(values({ x = var.v }), "a") ? "./mods/a" : "./mods/b"`), environ: []string{"v=a"}, terraform: "a", openTofu: "a"},
	"numbers":            {files: "-- main.tf --" + constant + calls(`min(tonumber(var.v), 2) == 2 && max(1, var.v) == 3 ? "./mods/a" : "./mods/b"`), environ: []string{"v=3"}, terraform: "a", openTofu: "a"},
	"conversions":        {files: "-- main.tf --" + constant + calls(`tobool(var.v) ? tolist(["./mods/a"])[0] : tomap({ x = "./mods/b" }).x`), environ: []string{"v=true"}, terraform: "a", openTofu: "a"},
	"trimmed":            {files: "-- main.tf --" + constant + calls(`join("/", slice([chomp(trim(var.v, "-")), "mods", strrev(lower(title("a"))), "c"], 0, 3))`), environ: []string{"v=-.-"}, terraform: "a", openTofu: "a"},
	"passed on":          {files: "-- main.tf --" + constant + "module \"mid\" {\n  source = \"./mid\"\n  v = var.v\n}\n-- mid/main.tf --" + constant + calls(`"../mods/${var.v}"`), environ: []string{"v=b"}, terraform: "b", openTofu: "b"},
	"not passed on":      {files: "-- main.tf --" + constant + "module \"mid\" {\n  source = \"./mid\"\n}\n-- mid/main.tf --\nvariable \"v\" {\n  const = true\n  default = \"a\"\n}\n" + calls(`"../mods/${var.v}"`), environ: []string{"v=b"}, terraform: "a", openTofu: "a"},
	"JSON":               {files: "-- main.tf.json --\n{\"variable\":{\"v\":{\"const\":true,\"default\":\"a\"}},\"module\":{\"m\":{\"source\":\"./mods/${var.v}\"}}}\n", terraform: "a", openTofu: "a"},
	"doubled":            {files: "-- main.tf --\nlocals {\n  n0 = \"./mods/a\"\n" + doubled(40) + "}\n" + calls(`local.n40`)},
	"of another shape":   {files: "-- main.tf --\nlocals {\n  m = [\"a\"]\n}\n" + calls(`local.m`)},
}

// doubled returns so many locals, each twice as large as the one before.
func doubled(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  n%d = \"${local.n%d}${local.n%d}\"\n", i+1, i, i)
	}
	return b.String()
}

// calls returns a call of a module whose source is an expression, and callsOf one at a source.
func calls(source string) string { return "module \"m\" {\n  source = " + source + "\n}\n" }

func callsOf(source string) string { return calls(`"` + source + `"`) }

// testOf returns a test of a module at a source.
func testOf(source string) string {
	return "run \"a\" {\n  module {\n    source = \"" + source + "\"\n  }\n}\n"
}

// sourceOf returns the block with the source of a unit, an expression.
func sourceOf(source string) string { return "terraform {\n  source = " + source + "\n}\n" }

// Larder computes the sources of modules as the engines do.
func TestComputedSources(t *testing.T) {
	for name, c := range computedSources {
		for engine, want := range map[sources.Engine]string{sources.Terraform: c.terraform, sources.OpenTofu: c.openTofu} {
			t.Run(name+"/"+string(engine), func(t *testing.T) {
				dir := unpack(t, txtar.Parse([]byte(c.files+modulesAB)))
				got := lookup(t, dir, modules.Options{Engine: engine, Inputs: modules.Inputs{Environ: c.environ, Flags: c.flags}})
				sourcetest.Equal(t, got, want)
			})
		}
	}
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
