package modules

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/larder-cli/larder/sources"
)

// entry reads one entry of required_providers: an object, or a bare version
// constraint as in Terraform 0.12.
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
	q.name, q.provider = name, implied(name, d.engine)
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
			d.diags.fail(pair.Key.Range(), "only source, version and configuration_aliases can stand here; settings belong in a provider block",
				"required_providers: %q has an unknown argument", attr.Name)
		}
	}
	if name, ok := d.strictName(attr.Name, attr.NameRange); ok && !named {
		q.provider = implied(name, d.engine)
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
}
