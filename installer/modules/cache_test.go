package modules_test

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

// A cached module gives the same result as one that has just been read.
func TestCacheChangesNothing(t *testing.T) {
	for name, archive := range testdata(t) {
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
	roots, err := modules.Roots(t.Context(), dir, modules.RootsOptions{Cache: &cache})
	check(t, err)
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
