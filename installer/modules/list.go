package modules

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/larder-cli/larder/sources"
)

var listSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "terraform"}}}

// ReadList reads the configuration file at path as a list of providers: each entry of
// its required_providers is a separate requirement. The rest of the file is ignored,
// and two entries may require different versions of one provider.
func ReadList(path string, e sources.Engine) ([]sources.Requirement, sources.Diagnostics) {
	w := &walk{opts: Options{Engine: e}.withDefaults()}
	d := &declarations{diags: &w.diags, engine: w.opts.Engine}
	d.diags.parseFile(path, path, func(body hcl.Body) {
		for _, b := range d.content(body, listSchema).Blocks {
			d.terraform(b, false)
		}
		if d.requiredAt == nil {
			d.diags.fail(place{Filename: path}, "name the directory instead, if it is a root module", "no required_providers block")
		}
	})
	var all []sources.Requirement
	for _, q := range d.required.rows {
		n := need{q.provider, q.version.constraints, q.version.text, q.at}
		if w.installable(n) && !n.provider.BuiltIn() {
			all = append(all, sources.Requirement{
				Provider: n.provider, Constraints: n.constraints,
				From: []sources.Origin{{File: path, Line: n.at.Start.Line, Constraint: n.text}},
			})
		}
	}
	return all, d.diags.sorted()
}

// IsConfiguration reports whether a file of this name can be configuration.
func IsConfiguration(name string) bool { return extension(name, configExtensions) != "" }
