package modules

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/larder-cli/larder/sources"
)

var (
	testSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "run", LabelNames: []string{"name"}},
		{Type: "provider", LabelNames: []string{"name"}},
	}}
	runSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "module"}}}
)

// testFiles reads the tests of the root module and returns the modules that
// their runs call.
func (w *walk) testFiles(root *module) []moduleCall {
	files := root.tests
	if dir := filepath.Clean(w.opts.TestDir); dir != "." {
		names, err := configNames(w.path(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.diags.fail(place{Filename: dir}, "", "test directory: %v", cause(err))
		}
		for _, name := range engineNames(names, testExtensions, w.opts.Engine) {
			files = append(files, filepath.Join(dir, name))
		}
	}
	root.tests = files
	var calls []moduleCall
	for _, name := range files {
		calls = append(calls, w.testFile(root, name)...)
	}
	return calls
}

func (w *walk) testFile(root *module, name string) []moduleCall {
	src, err := readFile(w.path(name))
	if err != nil {
		w.diags.fail(place{Filename: name}, "", "%v", err)
		return nil
	}
	body := w.diags.parse(name, src)
	if body == nil {
		return nil
	}
	d := &declarations{diags: &w.diags, engine: w.opts.Engine}
	var calls []moduleCall
	for _, b := range d.content(body, testSchema).Blocks {
		switch b.Type {
		case "run":
			calls = append(calls, d.run(b, name)...)
		case "provider":
			w.testProvider(root, d, b)
		}
	}
	return calls
}

// run reads a run block of the test file called name.
func (d *declarations) run(b *hcl.Block, name string) []moduleCall {
	base := strings.TrimSuffix(filepath.ToSlash(name), extension(name, testExtensions))
	var calls []moduleCall
	for _, inner := range d.content(b.Body, runSchema).Blocks {
		c := moduleCall{name: b.Labels[0], at: inner.DefRange}
		c.key = "test." + strings.ReplaceAll(base, "/", ".") + "." + c.name
		c.readSource(d.arguments(inner.Body, "source", "version"))
		calls = append(calls, c)
	}
	return calls
}

// testProvider reads a provider block in a test file. To OpenTofu it asks for
// the provider, to Terraform it configures one that is asked for elsewhere.
func (w *walk) testProvider(root *module, d *declarations, b *hcl.Block) {
	name, ok := d.strictName(b.Labels[0], b.LabelRanges[0])
	if attr := d.arguments(b.Body, "version")["version"]; attr != nil && w.opts.Engine == sources.Terraform {
		w.diags.fail(attr.NameRange, "move the version constraint to required_providers", "a provider block in a test file takes no version")
	}
	if !ok || w.opts.Engine != sources.OpenTofu {
		return
	}
	p, declared := root.names[name]
	if !declared {
		p = implied(name, w.opts.Engine)
	}
	w.require([]need{{provider: p, at: b.DefRange}})
}
