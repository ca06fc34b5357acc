package modules

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/larder-cli/larder/sources"
)

// Declarations are the contents of the files of one module, with unresolved names.
type declarations struct {
	diags  *diagnostics
	engine sources.Engine

	requiredAt  *place // the required_providers block in the primary files
	required    table[required]
	providers   table[providerBlock]
	resources   table[resource]
	targets     []target // of import blocks
	moduleCalls table[moduleCall]
	backend     *backend
	defaultHost bool // an address has no host
}

// A target is the target of an import block.
type target struct {
	resource
	always bool // it counts even if the resource is declared
}

// A table keeps rows in the order of the files, and finds them by key for override
// files. If several rows have the same key, it finds the first: the engines refuse
// the others, which this package does not check.
type table[T any] struct {
	rows  []T
	index map[string]int
}

func (t *table[T]) add(key string, row T) {
	if t.index == nil {
		t.index = map[string]int{}
	}
	if _, ok := t.index[key]; !ok {
		t.index[key] = len(t.rows)
	}
	t.rows = append(t.rows, row)
}

// put adds row. If row is from an override file, it amends the existing row instead.
func (t *table[T]) put(key string, row T, amends bool, amend func(old *T)) {
	if i, ok := t.index[key]; ok && amends {
		amend(&t.rows[i])
		return
	}
	t.add(key, row)
}

// A version is a version argument.
type version struct {
	text        string
	constraints sources.Constraints
}

// A required is an entry of required_providers.
type required struct {
	name     string
	provider sources.Provider
	version  version
	at       place
}

// A providerBlock is a provider's configuration.
type providerBlock struct {
	name    string
	version version
	at      place
}

// A resource is an object whose type implies a provider.
type resource struct {
	kind, typ, name string
	provider        string // local name; empty if the type implies it
	at              place
}

func (r resource) key() string { return r.kind + "." + r.typ + "." + r.name }

// A moduleCall is a module block, or the module of a run block.
type moduleCall struct {
	name    string
	key     string // key of the name in the manifest; differs from the name only for run blocks
	source  string
	dynamic bool   // the source depends on variables
	version string // constraint on a registry module; empty if there is none
	at      place
}

var (
	dataHeader = hcl.BlockHeaderSchema{Type: "data", LabelNames: []string{"type", "name"}}

	fileSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "terraform"},
		{Type: "provider", LabelNames: []string{"name"}},
		{Type: "resource", LabelNames: []string{"type", "name"}},
		dataHeader,
		{Type: "ephemeral", LabelNames: []string{"type", "name"}},
		{Type: "action", LabelNames: []string{"type", "name"}},
		{Type: "import"},
		{Type: "check", LabelNames: []string{"name"}},
		{Type: "module", LabelNames: []string{"name"}},
	}}
	checkSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{dataHeader}}
)

// read adds the contents of the file at path. Messages contain name.
func (d *declarations) read(path, name string, amends bool) {
	d.diags.parseFile(path, name, func(body hcl.Body) {
		for _, b := range d.content(body, fileSchema).Blocks {
			d.block(b, amends)
		}
	})
}

// content returns the part of body that schema describes.
func (d *declarations) content(body hcl.Body, schema *hcl.BodySchema) *hcl.BodyContent {
	content, _, diags := body.PartialContent(schema)
	d.diags.hcl(diags)
	if content == nil {
		return &hcl.BodyContent{}
	}
	return content
}

// arguments returns the arguments of body with the given names.
func (d *declarations) arguments(body hcl.Body, names ...string) hcl.Attributes {
	var schema hcl.BodySchema
	for _, name := range names {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
	}
	return d.content(body, &schema).Attributes
}

func (d *declarations) block(b *hcl.Block, amends bool) {
	switch b.Type {
	case "terraform":
		d.terraform(b, amends)
	case "provider":
		d.provider(b, amends)
	case "resource", "data", "ephemeral":
		d.resource(b, amends)
	case "action": // releases of Terraform that do not support it refuse the file
		if d.engine == sources.Terraform {
			d.resource(b, amends)
		}
	case "import":
		d.importBlock(b)
	case "check":
		for _, data := range d.content(b.Body, checkSchema).Blocks {
			d.resource(data, false)
		}
	case "module":
		d.module(b, amends)
	}
}

var terraformSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
	{Type: "required_providers"},
	{Type: "backend", LabelNames: []string{"type"}},
	{Type: "cloud"},
}}

func (d *declarations) terraform(b *hcl.Block, amends bool) {
	d.misspelt(b.Body)
	for _, inner := range d.content(b.Body, terraformSchema).Blocks {
		switch inner.Type {
		case "required_providers":
			d.requiredProviders(inner, amends)
		case "backend":
			d.backend = &backend{kind: inner.Labels[0]}
			if d.backend.kind == "local" {
				args := d.arguments(inner.Body, "path", "workspace_dir")
				d.backend.path = newStatePath(args["path"])
				d.backend.workspaceDir = newStatePath(args["workspace_dir"])
			}
		case "cloud":
			d.backend = &backend{kind: "cloud"}
		}
	}
}

// misspelt refuses blocks in a terraform block that are almost called required_providers,
// as engines do: what they require would go unnoticed, and leave the lock file.
func (d *declarations) misspelt(body hcl.Body) {
	native, ok := body.(*hclsyntax.Body)
	if !ok {
		return
	}
	const name = "required_providers"
	for _, b := range native.Blocks {
		if b.Type != name && sources.Nearest(b.Type, []string{name}) != "" {
			d.diags.fail(b.DefRange(), fmt.Sprintf("did you mean %q?", name), "terraform has no block called %q", b.Type)
		}
	}
}

// newStatePath returns the value of an argument, or the default one if attr is nil.
func newStatePath(attr *hcl.Attribute) statePath {
	if attr == nil {
		return statePath{}
	}
	v := constant(attr.Expr)
	if v == cty.NilVal {
		return statePath{dynamic: true, at: attr.Expr.Range()}
	}
	s, ok := primitive(v)
	return statePath{text: s, invalid: !v.IsNull() && (!ok || s == ""), at: attr.Expr.Range()}
}

func (d *declarations) requiredProviders(b *hcl.Block, amends bool) {
	if !amends && d.requiredAt != nil {
		d.diags.fail(b.DefRange, "move all entries into one of them",
			"a second required_providers block in this module: the first is at %s", spot(*d.requiredAt))
		return
	}
	if !amends {
		d.requiredAt = &b.DefRange
	}
	attributes, diags := b.Body.JustAttributes()
	d.diags.hcl(diags)
	for _, attr := range inOrder(attributes) {
		if q, ok := d.entry(attr); ok {
			d.required.put(q.name, q, amends, func(old *required) { *old = q })
		}
	}
}

// inOrder returns attributes in the order of the file.
func inOrder(attributes hcl.Attributes) []*hcl.Attribute {
	var all []*hcl.Attribute
	for _, attr := range attributes {
		all = append(all, attr)
	}
	slices.SortFunc(all, func(a, b *hcl.Attribute) int { return cmp.Compare(a.Range.Start.Byte, b.Range.Start.Byte) })
	return all
}

// provider reads a provider block.
func (d *declarations) provider(b *hcl.Block, amends bool) {
	name, ok := d.strictName(b.Labels[0], b.LabelRanges[0])
	if !ok {
		return
	}
	p := providerBlock{name: name, at: b.DefRange}
	args := d.arguments(b.Body, "alias", "version")
	alias := textOf(args["alias"])
	attr := args["version"]
	if attr != nil {
		d.diags.warn(attr.NameRange, "move the version constraint to required_providers", "a version argument in a provider block is deprecated")
		p.version, p.at = d.bareVersion(attr.Expr), attr.Range
	}
	d.providers.put(name+"."+alias, p, amends, func(old *providerBlock) {
		if attr != nil {
			*old = p
		}
	})
}

// resource reads a block whose labels are a type and a name.
func (d *declarations) resource(b *hcl.Block, amends bool) {
	r := resource{kind: b.Type, typ: b.Labels[0], name: b.Labels[1], at: b.DefRange}
	if attr := d.arguments(b.Body, "provider")["provider"]; attr != nil {
		var ok bool
		if r.provider, ok = d.providerArgument(attr); !ok {
			return
		}
	}
	d.resources.put(r.key(), r, amends, func(old *resource) {
		if r.provider != "" {
			*old = r
		}
	})
}

// providerArgument returns the local name in a provider argument.
func (d *declarations) providerArgument(attr *hcl.Attribute) (string, bool) {
	traversal := reference(attr.Expr)
	if len(traversal) == 0 || traversal.IsRelative() {
		d.diags.fail(attr.Expr.Range(), "write NAME or NAME.ALIAS, without quotes", "the provider argument refers to no provider configuration")
		return "", false
	}
	return d.strictName(traversal.RootName(), attr.Expr.Range())
}

// importBlock reads an import block. Its target counts if there is no resource block
// for it, because the engine may then generate one. In other modules than the root
// there must be one. In OpenTofu the provider that the target's type implies always
// counts, by the local names of the root module, and the target may be a data source.
func (d *declarations) importBlock(b *hcl.Block) {
	args := d.arguments(b.Body, "to", "provider")
	if args["to"] == nil {
		return
	}
	to, inModule := address(unquoted(args["to"].Expr)), false
	for len(to) > 2 && to[0] == "module" {
		to, inModule = to[2:], true
	}
	always := d.engine == sources.OpenTofu && args["provider"] == nil
	r := resource{kind: "resource", at: b.DefRange}
	if d.engine == sources.OpenTofu && len(to) > 2 && to[0] == "data" {
		r.kind, to = to[0], to[1:]
	}
	if len(to) < 2 || to[0] == "module" || to[0] == "data" || inModule && !always {
		return
	}
	r.typ, r.name = to[0], to[1]
	if attr := args["provider"]; attr != nil {
		var ok bool
		if r.provider, ok = d.providerArgument(attr); !ok {
			return
		}
	}
	d.targets = append(d.targets, target{r, always})
}

// module reads a module block.
func (d *declarations) module(b *hcl.Block, amends bool) {
	c := moduleCall{name: b.Labels[0], key: b.Labels[0], at: b.DefRange}
	args := d.arguments(b.Body, "source", "version")
	c.readSource(args)
	d.moduleCalls.put(c.name, c, amends, func(old *moduleCall) {
		if args["source"] != nil {
			old.source, old.dynamic, old.at = c.source, c.dynamic, c.at
		}
		if args["version"] != nil {
			old.version = c.version
		}
	})
}

func (c *moduleCall) readSource(args hcl.Attributes) {
	if attr := args["source"]; attr != nil {
		var ok bool
		c.source, ok = text(attr.Expr)
		c.dynamic = !ok
	}
	c.version = textOf(args["version"])
}

// strictName checks a local name that must already be normalised.
func (d *declarations) strictName(s string, at place) (string, bool) {
	name, err := sources.ParseLocalName(s)
	switch {
	case err != nil:
		d.diags.fail(at, "local names follow the rules for the last part of a provider source", "%v", err)
		return "", false
	case name != s:
		d.diags.fail(at, fmt.Sprintf("write it as %q", name), "provider name %q: not in normal form", s)
		return "", false
	}
	return name, true
}

// version reads a version argument. It returns the zero version for an invalid one.
func (d *declarations) version(expr hcl.Expression) version {
	s, ok := text(expr)
	if !ok {
		d.diags.fail(expr.Range(), "", "the version is not a constant string")
		return version{}
	}
	return d.parseVersion(s, expr.Range())
}

// bareVersion reads a version like Terraform 0.12, which also accepted numbers.
func (d *declarations) bareVersion(expr hcl.Expression) version {
	v := constant(expr)
	if v != cty.NilVal && v.IsNull() {
		return version{}
	}
	s, ok := primitive(v)
	if !ok {
		d.diags.fail(expr.Range(), "", "the version is not a constant string")
		return version{}
	}
	return d.parseVersion(s, expr.Range())
}

func (d *declarations) parseVersion(s string, at place) version {
	c, err := sources.ParseConstraints(s)
	if err != nil {
		d.diags.failWith(at, err)
		return version{}
	}
	return version{s, c}
}
