package modules

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

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
	defaultHost bool // an address has no host
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
	version string // constraint on a registry module; empty if there is none
	passes  []passed
	at      place

	computed bool // the source or version is not constant
}

// A passed provider configuration is one of the caller that the called module uses.
type passed struct {
	ours, theirs string // local names in the caller and in the called module
	aliased      bool   // theirs has an alias
	at           place
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
		for _, b := range d.all(body, fileSchema).Blocks {
			d.block(b)
		}
	})
}

// What a file and its blocks may contain in any release of an engine. Engines refuse everything else, and so does this
// package: what is misspelled or in the wrong place may be about providers, and would have no effect. It skips the rest
// of other blocks, which engines read when they know the schema of a provider, or only check.
var (
	fileSchema = schema("terraform", "provider name", "resource type name", "data type name", "ephemeral type name",
		"action type name", "import", "check name", "module name", "variable name", "locals", "output name", "moved",
		"removed", "language", "required_providers", "provider_installation")
	terraformSchema = schema("required_providers", "backend type", "cloud", "provider_meta name", "state_store type",
		"encryption", "=required_version", "=experiments", "=language")
	importSchema = schema("=to", "=id", "=identity", "=for_each", "=provider")
	checkSchema  = schema("data type name", "assert")
	testSchema   = schema("run name", "provider name", "mock_provider name", "variable name", "variables", "test",
		"override_resource", "override_data", "override_module", "override_ephemeral")
	runSchema = schema("=command", "=providers", "=expect_failures", "=state_key", "=parallel", "=skip_cleanup", "module",
		"plan_options", "assert", "variables", "backend type", "override_resource", "override_data", "override_module",
		"override_ephemeral")
)

// schema returns a function that makes, on first use, a schema of blocks, each with its type and a word for each label,
// and of arguments such as =version.
func schema(headers ...string) func() *hcl.BodySchema {
	return sync.OnceValue(func() *hcl.BodySchema { return schemaOf(headers) })
}

func schemaOf(headers []string) *hcl.BodySchema {
	var s hcl.BodySchema
	for _, header := range headers {
		if name, ok := strings.CutPrefix(header, "="); ok {
			s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: name})
			continue
		}
		words := strings.Fields(header)
		s.Blocks = append(s.Blocks, hcl.BlockHeaderSchema{Type: words[0], LabelNames: words[1:]})
	}
	return &s
}

// all returns the contents of body. What the schema doesn't describe is an error.
func (d *declarations) all(body hcl.Body, schema func() *hcl.BodySchema) *hcl.BodyContent {
	content, diags := body.Content(schema())
	for _, diag := range diags {
		if strings.HasPrefix(diag.Summary, "Unsupported ") || strings.HasPrefix(diag.Summary, "Extraneous ") {
			what, hint, _ := strings.Cut(strings.TrimSuffix(diag.Detail, "."), ". ")
			diag.Summary, diag.Detail = what, cmp.Or(hint, "correct its name, or move it to its place")
		}
	}
	return d.valid(content, diags)
}

// some returns the blocks and arguments of body that headers describe, as for [schema], and skips others.
func (d *declarations) some(body hcl.Body, headers ...string) *hcl.BodyContent {
	content, _, diags := body.PartialContent(schemaOf(headers))
	return d.valid(content, diags)
}

func (d *declarations) valid(content *hcl.BodyContent, diags hcl.Diagnostics) *hcl.BodyContent {
	if d.hcl(diags); content == nil {
		return &hcl.BodyContent{}
	}
	return content
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
	case "resource", "data":
		d.resource(b, d.amends)
	case "ephemeral": // Terraform ignores those in override files
		if !d.amends || d.engine == sources.OpenTofu {
			d.resource(b, d.amends)
		}
	case "action": // releases of Terraform that do not support it refuse the file
		if d.engine == sources.Terraform {
			d.resource(b, d.amends)
		}
	case "import":
		d.importBlock(b)
	case "check":
		for _, inner := range d.all(b.Body, checkSchema).Blocks {
			if inner.Type == "data" {
				d.resource(inner, false)
			}
		}
	case "module":
		d.misplaced(b)
		d.module(b)
	case "variable", "locals", "output", "moved", "removed":
		d.misplaced(b)
	case "required_providers":
		d.fail(b.DefRange, "move it into a terraform block", "required_providers is not in a terraform block")
	case "provider_installation":
		d.fail(b.DefRange, "move it there, such as to ~/."+string(d.engine)+"rc",
			"provider_installation belongs in the CLI configuration")
	}
}

// misplaced refuses blocks and arguments about providers in a block about something else. Engines refuse them too, but
// older ones in module blocks only after init.
func (d *declarations) misplaced(b *hcl.Block) {
	inside := map[string]hcl.Range{}
	if native, ok := b.Body.(*hclsyntax.Body); ok {
		for _, inner := range native.Blocks {
			inside[inner.Type] = inner.DefRange()
		}
	}
	if b.Type != "module" && b.Type != "locals" { // which have arguments of any name
		arguments, _ := b.Body.JustAttributes() // those that are blocks are above
		for name, a := range arguments {
			inside[name] = a.NameRange
		}
	}
	for _, name := range []string{"terraform", "required_providers", "providers", "provider"} {
		if at, ok := inside[name]; ok {
			d.fail(at, "requirements belong in a terraform block, and providers for a module in its argument providers",
				"%q is not expected in a block of type %q", name, b.Type)
		}
	}
}

func (d *declarations) terraform(b *hcl.Block) {
	for _, inner := range d.all(b.Body, terraformSchema).Blocks {
		switch inner.Type {
		case "required_providers":
			d.requiredProviders(inner)
		case "backend":
			d.backend = &backend{kind: inner.Labels[0]}
			if d.backend.kind == "local" {
				args := d.some(inner.Body, "=path", "=workspace_dir").Attributes
				d.backend.path = newStatePath(args["path"])
				d.backend.workspaceDir = newStatePath(args["workspace_dir"])
			}
		case "cloud":
			d.backend = &backend{kind: "cloud"}
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
	what, hint := "an unknown argument", "only source, version and configuration_aliases are allowed here; "+
		"settings belong in a provider block"
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
	name, args, ok := d.providerBlock(b)
	if !ok {
		return
	}
	u := use{name: name, at: b.DefRange}
	attr := args["version"]
	if attr != nil {
		d.warn(attr.NameRange, "move the version constraint to required_providers",
			"a version argument in a provider block is deprecated")
		u.version, u.at = d.bareVersion(attr), attr.Range
	}
	alias := ""
	if args["alias"] != nil {
		alias, _ = text(args["alias"].Expr)
	}
	if row, isNew := d.providers.row(name+"."+alias, d.amends); isNew || u.version.text != "" {
		*row = u
	}
	d.named(name, u.at)
}

// providerBlock returns the local name in a provider block, and the arguments there that affect requirements.
func (d *declarations) providerBlock(b *hcl.Block) (name string, args hcl.Attributes, ok bool) {
	args = d.some(b.Body, "=alias", "=version", "=source").Attributes
	if attr := args["source"]; attr != nil {
		d.fail(attr.NameRange, "move it to the entry of the provider in required_providers",
			"a provider block takes no source")
	}
	name, ok = d.strictName(b.Labels[0], b.LabelRanges[0])
	return name, args, ok
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
	if !d.providerArgument(&u, d.some(b.Body, "=provider").Attributes["provider"]) {
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
	u.name, _, ok = d.configuration(attr.Expr, "the provider argument")
	return ok
}

// configuration returns the local name in an expression for a provider configuration, and whether there is an alias.
func (d *declarations) configuration(expr hcl.Expression, what string) (name string, aliased, ok bool) {
	names := address(unquoted(expr))
	if len(names) == 0 {
		d.fail(expr.Range(), "write NAME or NAME.ALIAS, without quotes", "%s refers to no provider configuration", what)
		return "", false, false
	}
	name, ok = d.strictName(names[0], expr.Range())
	return name, len(names) > 1, ok
}

// importBlock reads an import block. Its target counts if there is no resource block
// for it, because the engine may then generate one. In other modules than the root
// there must be one. In OpenTofu the provider that the target's type implies always
// counts, by the local names of the root module, and the target may be a data source.
func (d *declarations) importBlock(b *hcl.Block) {
	args := d.all(b.Body, importSchema).Attributes
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
	args := d.some(b.Body, "=source", "=version", "=providers").Attributes
	d.readSource(c, b, args)
	if attr := args["providers"]; attr != nil {
		if passes := d.passes(attr); len(passes) > 0 { // an empty override changes nothing
			c.passes = passes
		}
	}
}

// passes reads a providers argument.
func (d *declarations) passes(attr *hcl.Attribute) (all []passed) {
	pairs, diags := hcl.ExprMap(attr.Expr)
	d.hcl(diags)
	for _, pair := range pairs {
		p := passed{at: pair.Key.Range()}
		var known, ok bool
		p.theirs, p.aliased, known = d.configuration(pair.Key, "a name in the providers argument")
		if p.ours, _, ok = d.configuration(pair.Value, "the providers argument"); known && ok {
			all = append(all, p)
		}
	}
	return all
}

// readSource reads the arguments in the block of a call.
func (d *declarations) readSource(c *moduleCall, b *hcl.Block, args hcl.Attributes) {
	if attr := args["source"]; attr != nil {
		c.source, c.at = slashed(c.argument(attr)), b.DefRange
	}
	if attr := args["version"]; attr != nil {
		c.version = c.argument(attr)
	}
}

// argument returns the value of an argument of a call, or "" if it is computed: in JSON, a string may be a template.
func (c *moduleCall) argument(attr *hcl.Attribute) string {
	s, ok := text(attr.Expr)
	if !ok || strings.Contains(s, "${") || strings.Contains(s, "%{") {
		c.computed = true
		return ""
	}
	return s
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
