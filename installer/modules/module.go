package modules

import (
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A module holds the provider requirements of one directory, independent of its
// callers.
type module struct {
	names   map[string]sources.Provider // by local name, from required_providers
	needs   []need
	imports []need // these count only if this is the root module
	calls   []moduleCall
	backend *backend // nil if the files configure none

	defaultHost bool // an address has no host

	files []string // configuration files
	tests []string // test files
}

// A need is a requirement for one provider at one place.
type need struct {
	provider    sources.Provider
	constraints sources.Constraints
	text        string // of the constraints; empty if there are none
	at          place
}

// module returns the module in dir, relative to the root module.
func (w *walk) module(dir string) *module {
	if m, ok := w.read[dir]; ok {
		return m
	}
	r := w.opts.Cache.reading(w.path(dir), w.opts.Engine)
	w.diags.add(dir, r.diags)
	m := r.in(dir)
	w.read[dir] = m
	w.defaultHost = w.defaultHost || m.defaultHost
	return m
}

// readModule reads the module in the directory at path.
func readModule(path string, e sources.Engine) *reading {
	r := &reading{}
	names, err := configNames(path)
	if err != nil {
		r.diags.fail(place{Filename: "."}, "", "module directory: %v", disk.Cause(err))
		return r
	}
	r.files = engineNames(names, configExtensions, e)
	r.tests = engineNames(names, testExtensions, e)
	d := &declarations{diags: &r.diags, engine: e}
	for _, amends := range []bool{false, true} {
		for _, name := range r.files {
			if override(name) == amends {
				d.read(filepath.Join(path, name), name, amends)
			}
		}
	}
	resolver := &resolver{declarations: d, module: &r.module, localNames: map[sources.Provider]required{}, warned: map[string]bool{}}
	resolver.resolve()
	return r
}

// A resolver converts declarations to a module.
type resolver struct {
	*declarations
	module     *module
	localNames map[sources.Provider]required // the first for each provider
	warned     map[string]bool               // local names with a warning
}

func (r *resolver) resolve() {
	m := r.module
	m.names = map[string]sources.Provider{}
	m.calls, m.backend = r.moduleCalls.rows, r.backend
	for _, q := range r.required.rows {
		m.needs = append(m.needs, r.require(q))
	}
	for _, p := range r.providers.rows {
		m.needs = append(m.needs, r.use(p.name, p.version, p.at))
	}
	for _, u := range r.resources.rows {
		m.needs = append(m.needs, r.useFor(u)...)
	}
	for _, u := range r.targets {
		if _, declared := r.resources.index[u.key()]; !declared || u.always {
			m.imports = append(m.imports, r.useFor(u.resource)...)
		}
	}
	m.defaultHost = r.defaultHost
}

// require adds an entry of required_providers.
func (r *resolver) require(q required) need {
	r.module.names[q.name] = q.provider
	if first, ok := r.localNames[q.provider]; ok {
		r.duplicate(q.name, first, q.at)
	} else {
		r.localNames[q.provider] = q
	}
	return need{q.provider, q.version.constraints, q.version.text, q.at}
}

// duplicate warns that a provider has two local names in this module.
func (r *resolver) duplicate(name string, first required, at place) {
	if !r.warned[name] {
		r.warned[name] = true
		r.diags.warn(at, "use one local name for each provider",
			"provider %s has the local name %q here and %q at %s", first.provider, name, first.name, spot(first.at))
	}
}

// useFor returns the need of a resource, if it has a valid one.
func (r *resolver) useFor(u resource) []need {
	if u.provider != "" {
		return []need{r.use(u.provider, version{}, u.at)}
	}
	prefix, _, _ := strings.Cut(u.typ, "_")
	name, err := sources.ParseLocalName(strings.ToLower(prefix))
	if err != nil {
		r.diags.fail(u.at, "name the provider with a provider argument", "type %q implies a provider: %v", u.typ, err)
		return nil
	}
	return []need{r.use(name, version{}, u.at)}
}

// use returns the need of a reference to a provider by its local name.
func (r *resolver) use(name string, v version, at place) need {
	p, ok := r.module.names[name]
	if !ok {
		p = r.implied(name)
		if first, ok := r.localNames[p]; ok {
			r.duplicate(name, first, at)
		}
	}
	return need{p, v.constraints, v.text, at}
}

// implied returns the provider of a valid local name, and notes that its host is the engine's.
func (d *declarations) implied(name string) sources.Provider {
	p := implied(name, d.engine)
	d.defaultHost = d.defaultHost || !p.BuiltIn()
	return p
}

// implied returns the provider of a valid local name without a source in
// required_providers.
func implied(name string, e sources.Engine) sources.Provider {
	if name == "terraform" {
		return sources.Provider{Host: "terraform.io", Namespace: "builtin", Type: name}
	}
	return sources.Provider{Host: e.DefaultHost(), Namespace: "hashicorp", Type: name}
}

// entry reads one entry of required_providers: an object, or a version constraint as
// in Terraform 0.12.
func (d *declarations) entry(attr *hcl.Attribute) (required, bool) {
	q := required{name: attr.Name, at: attr.Range}
	before := len(d.diags.Diagnostics)
	pairs, diags := hcl.ExprMap(attr.Expr)
	if diags.HasErrors() {
		d.bareEntry(&q, attr)
	} else {
		d.objectEntry(&q, attr, pairs)
	}
	return q, len(d.diags.Diagnostics) == before
}

func (d *declarations) bareEntry(q *required, attr *hcl.Attribute) {
	name, err := sources.ParseLocalName(attr.Name)
	if err != nil {
		d.diags.fail(attr.NameRange, "", "%v", err)
		return
	}
	s, ok := primitive(constant(attr.Expr))
	if !ok {
		d.diags.fail(attr.Expr.Range(), `write { source = "NAMESPACE/TYPE", version = "CONSTRAINT" }`, "required_providers: %q is neither an object nor a version constraint", attr.Name)
		return
	}
	q.name, q.provider = name, d.implied(name)
	q.version = d.parseVersion(s, attr.Expr.Range())
}

func (d *declarations) objectEntry(q *required, attr *hcl.Attribute, pairs []hcl.KeyValuePair) {
	named := false
	for _, pair := range pairs {
		key, _ := text(pair.Key)
		switch key {
		case "source":
			named = true
			d.source(q, pair.Value)
		case "version":
			q.version = d.version(pair.Value)
		case "configuration_aliases": // they add no requirement
		default:
			d.diags.fail(pair.Key.Range(), "only source, version and configuration_aliases are allowed here; settings belong in a provider block",
				"required_providers: %q has an unknown argument", attr.Name)
		}
	}
	if name, ok := d.strictName(attr.Name, attr.NameRange); ok && !named {
		q.provider = d.implied(name)
	}
}

// source reads a source argument.
func (d *declarations) source(q *required, expr hcl.Expression) {
	s, ok := text(expr)
	if !ok {
		d.diags.fail(expr.Range(), "", "the source is not a constant string")
		return
	}
	p, err := sources.ParseProvider(s, d.engine)
	if err != nil {
		d.diags.failWith(expr.Range(), err)
	}
	q.provider = p
	d.defaultHost = d.defaultHost || strings.Count(s, "/") < 2
}
