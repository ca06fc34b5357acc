package modules

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/larder-cli/larder/sources"
)

// Declarations are the contents of the files of one module, with unresolved names.
type declarations struct {
	diagnostics
	engine sources.Engine
	amends bool            // what is read now is an override file
	names  map[string]bool // local names of providers; nil for a list, which may have any number
	full   bool            // there are more than maxProviders, and the rest is not read

	requiredAt  *place // the required_providers block in the primary files
	required    table[use]
	providers   table[use]
	resources   table[use]
	targets     []target // of import blocks
	moduleCalls table[moduleCall]
	backend     *backend
	defaultHost bool             // an address has no host
	engines     []sources.Origin // required_version arguments
}

// A use requires a provider: an entry of required_providers, a provider block, a resource, or
// something else whose type implies a provider.
type use struct {
	name     string           // local name; empty if the type implies it
	typ      string           // of a resource
	provider sources.Provider // of an entry of required_providers
	version  version
	at       place
}

// A version is a version argument.
type version struct {
	text        string // empty if there is none
	constraints sources.Constraints
}

// A target is the target of an import block.
type target struct {
	use
	resource string // its key among the resources
	always   bool   // it counts even if the resource is declared
}

// A moduleCall is a module block, or the module of a run block.
type moduleCall struct {
	name    string
	key     string // key of the name in the manifest; differs from the name only for run blocks
	longKey string // that some versions of the engine use for a run block instead
	source  string
	dynamic bool   // the source depends on variables
	version string // constraint on a registry module; empty if there is none
	at      place
}

// A table keeps rows in the order of the files, and finds them by key for override
// files. If several rows have the same key, it finds the first: the engines refuse
// the others, which this package does not check.
type table[T any] struct {
	rows  []T
	index map[string]int
}

// row returns the row that an override file amends, or else a new one.
func (t *table[T]) row(key string, amends bool) (row *T, isNew bool) {
	first, ok := t.index[key]
	if ok && amends {
		return &t.rows[first], false
	}
	if t.index == nil {
		t.index = map[string]int{}
	}
	if !ok {
		t.index[key] = len(t.rows)
	}
	t.rows = append(t.rows, *new(T))
	return &t.rows[len(t.rows)-1], true
}

// read adds the contents of a file of the module in the directory at path.
func (d *declarations) read(path, name string) {
	d.parseFile(filepath.Join(path, name), name, func(body hcl.Body) {
		for _, b := range d.blocks(body, "terraform", "provider name", "resource type name", "data type name",
			"ephemeral type name", "action type name", "import", "check name", "module name") {
			d.block(b)
		}
	})
}

// content returns the part of body that schema describes.
func (d *declarations) content(body hcl.Body, schema *hcl.BodySchema) *hcl.BodyContent {
	content, _, diags := body.PartialContent(schema)
	d.hcl(diags)
	if content == nil {
		return &hcl.BodyContent{}
	}
	return content
}

// blocks returns the blocks of body with the given headers: a type, and a word for each label.
func (d *declarations) blocks(body hcl.Body, headers ...string) hcl.Blocks {
	var schema hcl.BodySchema
	for _, header := range headers {
		words := strings.Fields(header)
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: words[0], LabelNames: words[1:]})
	}
	return d.content(body, &schema).Blocks
}

// arguments returns the arguments of body with the given names.
func (d *declarations) arguments(body hcl.Body, names ...string) hcl.Attributes {
	var schema hcl.BodySchema
	for _, name := range names {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
	}
	return d.content(body, &schema).Attributes
}

func (d *declarations) block(b *hcl.Block) {
	if d.full {
		return
	}
	switch b.Type {
	case "terraform":
		d.terraform(b)
	case "provider":
		d.provider(b)
	case "resource", "data", "ephemeral":
		d.resource(b, d.amends)
	case "action": // releases of Terraform that do not support it refuse the file
		if d.engine == sources.Terraform {
			d.resource(b, d.amends)
		}
	case "import":
		d.importBlock(b)
	case "check":
		for _, data := range d.blocks(b.Body, "data type name") {
			d.resource(data, false)
		}
	case "module":
		d.module(b)
	}
}

func (d *declarations) terraform(b *hcl.Block) {
	d.misspelled(b.Body)
	d.requiredVersion(b.Body)
	for _, inner := range d.blocks(b.Body, "required_providers", "backend type", "cloud") {
		switch inner.Type {
		case "required_providers":
			d.requiredProviders(inner)
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

// requiredVersion notes which versions of the engine a terraform block allows. Only the engine reports errors in it.
func (d *declarations) requiredVersion(body hcl.Body) {
	const name = "required_version"
	content, _, _ := body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: name}}})
	if content == nil {
		return
	}
	if attr := content.Attributes[name]; textOf(attr) != "" {
		d.engines = append(d.engines, sources.Origin{File: attr.Range.Filename, Line: attr.Range.Start.Line, Constraint: textOf(attr)})
	}
}

// misspelled refuses blocks in a terraform block that are almost called required_providers,
// as engines do: what they require would go unnoticed, and leave the lock file.
func (d *declarations) misspelled(body hcl.Body) {
	native, ok := body.(*hclsyntax.Body)
	if !ok {
		return
	}
	const name = "required_providers"
	for _, b := range native.Blocks {
		if b.Type != name && sources.Nearest(b.Type, []string{name}) != "" {
			d.fail(b.DefRange(), fmt.Sprintf("did you mean %q?", name), "terraform has no block called %q", b.Type)
		}
	}
}

func (d *declarations) requiredProviders(b *hcl.Block) {
	if !d.amends && d.requiredAt != nil {
		d.fail(b.DefRange, "move all entries into one of them",
			"a second required_providers block in this module: the first is at %s", spot(*d.requiredAt))
		return
	}
	if !d.amends {
		d.requiredAt = &b.DefRange
	}
	attributes, diags := b.Body.JustAttributes()
	d.hcl(diags)
	inOrder := func(a, b *hcl.Attribute) int { return cmp.Compare(a.Range.Start.Byte, b.Range.Start.Byte) }
	for _, attr := range slices.SortedFunc(maps.Values(attributes), inOrder) {
		if d.full {
			return
		}
		if u, ok := d.entry(attr); ok {
			row, _ := d.required.row(u.name, d.amends)
			*row = u
			d.named(u.name, u.at)
		}
	}
}

// entry reads one entry of required_providers: an object, or a version constraint as
// in Terraform 0.12.
func (d *declarations) entry(attr *hcl.Attribute) (use, bool) {
	u := use{name: attr.Name, at: attr.Range}
	before := len(d.Diagnostics)
	pairs, diags := hcl.ExprMap(attr.Expr)
	if diags.HasErrors() {
		d.bareEntry(&u, attr)
	} else {
		d.objectEntry(&u, attr, pairs)
	}
	return u, len(d.Diagnostics) == before
}

func (d *declarations) bareEntry(u *use, attr *hcl.Attribute) {
	name, err := sources.ParseLocalName(attr.Name)
	if err != nil {
		d.fail(attr.NameRange, "", "%v", err)
		return
	}
	s, ok := primitive(constant(attr.Expr))
	if !ok {
		d.fail(attr.Expr.Range(), `write { source = "NAMESPACE/TYPE", version = "CONSTRAINT" }`,
			"required_providers: %q is neither an object nor a version constraint", attr.Name)
		return
	}
	u.name, u.provider = name, d.implied(name)
	u.version = d.version(s, true, attr.Expr)
}

func (d *declarations) objectEntry(u *use, attr *hcl.Attribute, pairs []hcl.KeyValuePair) {
	named := false
	for _, pair := range pairs {
		key, _ := text(pair.Key)
		switch key {
		case "source":
			named = true
			d.source(u, pair.Value)
		case "version":
			s, ok := text(pair.Value)
			u.version = d.version(s, ok, pair.Value)
		case "configuration_aliases": // they add no requirement
		default:
			d.unknownArgument(attr.Name, key, pair.Key.Range())
		}
	}
	if name, ok := d.strictName(attr.Name, attr.NameRange); ok && !named {
		u.provider = d.implied(name)
	}
}

func (d *declarations) unknownArgument(entry, key string, at hcl.Range) {
	what, hint := "an unknown argument", "only source, version and configuration_aliases are allowed here; settings belong in a provider block"
	if near := sources.Nearest(key, []string{"source", "version", "configuration_aliases"}); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	if key != "" {
		what = fmt.Sprintf("the unknown argument %.40q", key)
	}
	d.fail(at, hint, "required_providers: %q has %s", entry, what)
}

// source reads a source argument.
func (d *declarations) source(u *use, expr hcl.Expression) {
	s, ok := text(expr)
	if !ok {
		d.fail(expr.Range(), "", "the source is not a constant string")
		return
	}
	var err error
	if u.provider, err = sources.ParseProvider(s, d.engine); err != nil {
		d.failWith(expr.Range(), err)
	}
	d.defaultHost = d.defaultHost || strings.Count(s, "/") < 2
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

// provider reads a provider block.
func (d *declarations) provider(b *hcl.Block) {
	name, ok := d.strictName(b.Labels[0], b.LabelRanges[0])
	if !ok {
		return
	}
	u := use{name: name, at: b.DefRange}
	args := d.arguments(b.Body, "alias", "version")
	attr := args["version"]
	if attr != nil {
		d.warn(attr.NameRange, "move the version constraint to required_providers", "a version argument in a provider block is deprecated")
		u.version, u.at = d.bareVersion(attr), attr.Range
	}
	if row, isNew := d.providers.row(name+"."+textOf(args["alias"]), d.amends); isNew || attr != nil {
		*row = u
	}
	d.named(name, u.at)
}

// named notes a local name. A module with too many requires too many providers: each has a name.
func (d *declarations) named(name string, at place) {
	if d.names == nil {
		return
	}
	if d.names[name] = true; len(d.names) > maxProviders && !d.full {
		d.full = true
		d.tooMany(at)
	}
}

// resource reads a block whose labels are a type and a name.
func (d *declarations) resource(b *hcl.Block, amends bool) {
	u := use{typ: b.Labels[0], at: b.DefRange}
	if !d.providerArgument(&u, d.arguments(b.Body, "provider")["provider"]) {
		return
	}
	if row, isNew := d.resources.row(resourceKey(b.Type, u.typ, b.Labels[1]), amends); isNew || u.name != "" {
		*row = u
	}
	prefix, _, _ := strings.Cut(u.typ, "_")
	d.named(cmp.Or(u.name, strings.ToLower(prefix)), u.at)
}

// resourceKey returns the key of a resource among the others of a module.
func resourceKey(kind, typ, name string) string { return kind + "." + typ + "." + name }

// providerArgument reads the local name in a provider argument, if there is one.
func (d *declarations) providerArgument(u *use, attr *hcl.Attribute) (ok bool) {
	if attr == nil {
		return true
	}
	names := address(unquoted(attr.Expr))
	if len(names) == 0 {
		d.fail(attr.Expr.Range(), "write NAME or NAME.ALIAS, without quotes", "the provider argument refers to no provider configuration")
		return false
	}
	u.name, ok = d.strictName(names[0], attr.Expr.Range())
	return ok
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
	kind := "resource"
	if d.engine == sources.OpenTofu && len(to) > 2 && to[0] == "data" {
		kind, to = to[0], to[1:]
	}
	if len(to) < 2 || to[0] == "module" || to[0] == "data" || inModule && !always {
		return
	}
	t := target{use{typ: to[0], at: b.DefRange}, resourceKey(kind, to[0], to[1]), always}
	if d.providerArgument(&t.use, args["provider"]) {
		d.targets = append(d.targets, t)
	}
}

// module reads a module block.
func (d *declarations) module(b *hcl.Block) {
	c, isNew := d.moduleCalls.row(b.Labels[0], d.amends)
	if isNew {
		*c = moduleCall{name: b.Labels[0], key: b.Labels[0], at: b.DefRange}
	}
	d.readSource(c, b)
}

// readSource reads the arguments in the block of a call.
func (d *declarations) readSource(c *moduleCall, b *hcl.Block) {
	args := d.arguments(b.Body, "source", "version")
	if attr := args["source"]; attr != nil {
		s, ok := text(attr.Expr)
		c.source, c.dynamic, c.at = s, !ok, b.DefRange
	}
	if attr := args["version"]; attr != nil {
		c.version = textOf(attr)
	}
}

// strictName checks a local name that must already be normalized.
func (d *declarations) strictName(s string, at place) (string, bool) {
	name, err := sources.ParseLocalName(s)
	switch {
	case err != nil:
		d.fail(at, "local names follow the rules for the last part of a provider source", "%v", err)
		return "", false
	case name != s:
		d.fail(at, fmt.Sprintf("write it as %q", name), "provider name %q: not in normal form", s)
		return "", false
	}
	return name, true
}

// bareVersion reads a version like Terraform 0.12, which also accepted numbers.
func (d *declarations) bareVersion(attr *hcl.Attribute) version {
	v := constant(attr.Expr)
	if v != cty.NilVal && v.IsNull() {
		return version{}
	}
	s, ok := primitive(v)
	return d.version(s, ok, attr.Expr)
}

// version reads s, the value of expr if that is a constant. It returns the zero version for an
// invalid one.
func (d *declarations) version(s string, ok bool, expr hcl.Expression) version {
	if !ok {
		d.fail(expr.Range(), "", "the version is not a constant string")
		return version{}
	}
	c, err := sources.ParseConstraints(s)
	if err != nil {
		d.failWith(expr.Range(), err)
		return version{}
	}
	return version{s, c}
}
