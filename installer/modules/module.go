package modules

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A module holds the provider requirements of one directory, or of the tests of a root module,
// independent of its callers. File names are relative to the directory.
type module struct {
	names   map[string]sources.Provider // by local name, from required_providers
	needs   []need
	imports []need // these count only if this is the root module
	calls   []moduleCall
	backend *backend // nil if the files configure none

	defaultHost bool // an address has no host
	differs     bool // some files are for one engine alone

	files []string // configuration files
	tests []string // test files beside them
	diags diagnostics
}

// A need is a requirement for one provider at one place.
type need struct {
	provider sources.Provider
	version  version
	at       place
}

// readModule reads the files of a module.
func (c *Cache) readModule(p part) *module {
	d := &declarations{engine: p.engine, names: map[string]bool{}}
	names, err := c.configNames(p.path)
	if err != nil {
		d.fail(place{Filename: "."}, "", "module directory: %v", disk.Cause(err))
		return &module{diags: d.diagnostics}
	}
	files := engineNames(names, configExtensions, p.engine)
	for _, d.amends = range []bool{false, true} {
		for _, name := range files {
			if override(name) == d.amends && !d.full {
				d.read(p.path, name)
			}
		}
	}
	m := d.resolve()
	m.files, m.tests = files, engineNames(names, testExtensions, p.engine)
	m.differs = slices.ContainsFunc(names, onlyTofu)
	return m
}

// resolve finds the providers of local names.
func (d *declarations) resolve() *module {
	m := &module{names: map[string]sources.Provider{}, calls: d.moduleCalls.rows, backend: d.backend}
	r := resolver{declarations: d, names: m.names, first: map[sources.Provider]use{}, warned: map[string]bool{}}
	for _, u := range d.required.rows {
		m.names[u.name] = u.provider
		r.duplicate(u)
		if _, ok := r.first[u.provider]; !ok {
			r.first[u.provider] = u
		}
		m.needs = append(m.needs, need{u.provider, u.version, u.at})
	}
	m.needs = append(m.needs, r.needs(d.providers.rows...)...)
	m.needs = append(m.needs, r.needs(d.resources.rows...)...)
	for _, t := range d.targets {
		if _, declared := d.resources.index[t.resource]; !declared || t.always {
			m.imports = append(m.imports, r.needs(t.use)...)
		}
	}
	m.defaultHost, m.diags = d.defaultHost, d.diagnostics
	return m
}

// A resolver finds the providers that the local names in a module mean.
type resolver struct {
	*declarations
	names  map[string]sources.Provider
	first  map[sources.Provider]use // the first entry of required_providers for each provider
	warned map[string]bool          // local names with a warning
}

// needs returns the needs of those uses whose provider can be determined.
func (r *resolver) needs(uses ...use) (all []need) {
	for _, u := range uses {
		if u.name == "" {
			prefix, _, _ := strings.Cut(u.typ, "_")
			var err error
			if u.name, err = sources.ParseLocalName(strings.ToLower(prefix)); err != nil {
				r.fail(u.at, "name the provider with a provider argument", "type %q implies a provider: %v", u.typ, err)
				continue
			}
		}
		p, ok := r.names[u.name]
		if !ok {
			u.provider = r.implied(u.name)
			r.duplicate(u)
			p = u.provider
		}
		all = append(all, need{p, u.version, u.at})
	}
	return all
}

// duplicate warns if the provider of u has another local name in this module.
func (r *resolver) duplicate(u use) {
	if first, ok := r.first[u.provider]; ok && !r.warned[u.name] {
		r.warned[u.name] = true
		r.warn(u.at, "use one local name for each provider",
			"provider %s has the local name %q here and %q at %s", u.provider, u.name, first.name, spot(first.at))
	}
}

// provider returns the provider of a local name.
func (m *module) provider(name string, e sources.Engine) sources.Provider {
	if p, ok := m.names[name]; ok {
		return p
	}
	return implied(name, e)
}

// readTests reads the tests of a root module, which are beside its files and in another directory.
func (c *Cache) readTests(p part, root *module) *module {
	d := &declarations{engine: p.engine}
	m := &module{tests: root.tests}
	if dir := filepath.Clean(p.tests); dir != "." && !(dir == defaultTests && c.Lacks(p.path, dir)) {
		names, err := c.configNames(pathIn(p.path, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.fail(place{Filename: dir}, "", "test directory: %v", disk.Cause(err))
		}
		m.differs = slices.ContainsFunc(names, onlyTofu)
		for _, name := range engineNames(names, testExtensions, p.engine) {
			m.tests = append(m.tests, filepath.Join(dir, name))
		}
	}
	for _, name := range m.tests {
		d.parseFile(pathIn(p.path, name), name, func(body hcl.Body) {
			for _, b := range d.all(body, testSchema).Blocks {
				switch b.Type {
				case "run":
					m.calls = append(m.calls, d.run(b, name)...)
				case "provider":
					m.needs = append(m.needs, d.testProvider(b, root)...)
				}
			}
		})
	}
	m.diags = d.diagnostics
	return m
}

// run reads a run block in the test file called name. Engines omit the extension of some files
// in the key of its module.
func (d *declarations) run(b *hcl.Block, name string) (calls []moduleCall) {
	run := b.Labels[0]
	file := "test." + strings.ReplaceAll(filepath.ToSlash(name), "/", ".")
	short := strings.TrimSuffix(file, extension(name, testExtensions))
	for _, inner := range d.all(b.Body, runSchema).Blocks {
		if inner.Type == "module" {
			c := moduleCall{name: run, key: short + "." + run, longKey: file + "." + run, at: inner.DefRange}
			d.readSource(&c, inner, d.all(inner.Body, schema("=source", "=version")).Attributes)
			calls = append(calls, c)
		}
	}
	return calls
}

// testProvider reads a provider block in a test file. In OpenTofu it requires the
// provider, with its version if there is one. In Terraform it configures a provider
// that is required elsewhere.
func (d *declarations) testProvider(b *hcl.Block, root *module) []need {
	name, args, ok := d.providerBlock(b)
	attr := args["version"]
	if attr != nil && d.engine == sources.Terraform {
		d.fail(attr.NameRange, "move the version constraint to required_providers",
			"a provider block in a test file takes no version")
	}
	if !ok || d.engine != sources.OpenTofu {
		return nil
	}
	p := root.provider(name, d.engine)
	if attr == nil {
		return []need{{provider: p, at: b.DefRange}}
	}
	return []need{{p, d.bareVersion(attr), attr.Range}}
}
