package modules

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

var (
	testSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "run", LabelNames: []string{"name"}},
		{Type: "provider", LabelNames: []string{"name"}},
	}}
	runSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "module"}}}
)

// A testSuite holds the requirements of all tests of a root module.
type testSuite struct {
	files []string
	calls []moduleCall
	needs []need
}

// tests reads the tests of the root module.
func (w *walk) tests(root *module) testSuite {
	suite := testSuite{files: root.tests}
	if dir := filepath.Clean(w.opts.TestDir); dir != "." {
		names, err := configNames(w.path(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.diags.fail(place{Filename: dir}, "", "test directory: %v", disk.Cause(err))
		}
		for _, name := range engineNames(names, testExtensions, w.opts.Engine) {
			suite.files = append(suite.files, filepath.Join(dir, name))
		}
	}
	d := &declarations{diags: &w.diags, engine: w.opts.Engine}
	for _, name := range suite.files {
		w.diags.parseFile(w.path(name), name, func(body hcl.Body) {
			for _, b := range d.content(body, testSchema).Blocks {
				switch b.Type {
				case "run":
					suite.calls = append(suite.calls, d.run(b, w.testKey(name, b.Labels[0]))...)
				case "provider":
					suite.needs = append(suite.needs, d.testProvider(b, root)...)
				}
			}
		})
	}
	return suite
}

// testKey returns the manifest key of the module of a run in the test file called
// name. Engines omit the extension of some files only.
func (w *walk) testKey(name, run string) string {
	file := "test." + strings.ReplaceAll(filepath.ToSlash(name), "/", ".")
	long := file + "." + run
	if _, ok := w.manifest[long]; ok {
		return long
	}
	return strings.TrimSuffix(file, extension(name, testExtensions)) + "." + run
}

// run reads a run block whose module has the given key.
func (d *declarations) run(b *hcl.Block, key string) []moduleCall {
	var calls []moduleCall
	for _, inner := range d.content(b.Body, runSchema).Blocks {
		c := moduleCall{name: b.Labels[0], key: key, at: inner.DefRange}
		c.readSource(d.arguments(inner.Body, "source", "version"))
		calls = append(calls, c)
	}
	return calls
}

// testProvider reads a provider block in a test file. In OpenTofu it requires the
// provider, with its version if there is one. In Terraform it configures a provider
// that is required elsewhere.
func (d *declarations) testProvider(b *hcl.Block, root *module) []need {
	name, ok := d.strictName(b.Labels[0], b.LabelRanges[0])
	attr := d.arguments(b.Body, "version")["version"]
	if attr != nil && d.engine == sources.Terraform {
		d.diags.fail(attr.NameRange, "move the version constraint to required_providers", "a provider block in a test file takes no version")
	}
	if !ok || d.engine != sources.OpenTofu {
		return nil
	}
	p, declared := root.names[name]
	if !declared {
		p = d.implied(name)
	}
	if attr == nil {
		return []need{{provider: p, at: b.DefRange}}
	}
	v := d.bareVersion(attr.Expr)
	return []need{{p, v.constraints, v.text, attr.Range}}
}
