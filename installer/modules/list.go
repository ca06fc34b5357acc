package modules

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/larder-cli/larder/sources"
)

// ReadList reads the configuration file at path as a list of providers: each entry of
// its required_providers is a separate requirement. The rest of the file is ignored,
// and two entries may require different versions of one provider.
func ReadList(path string, e sources.Engine) ([]sources.Requirement, sources.Diagnostics) {
	d := &declarations{engine: Options{Engine: e}.withDefaults().Engine}
	d.parseFile(path, path, func(body hcl.Body) {
		for _, b := range d.some(body, "terraform").Blocks {
			d.terraform(b)
		}
		if d.requiredAt == nil {
			d.fail(place{Filename: path}, "name the directory instead, if it is a root module", "no required_providers block")
		}
	})
	var all []sources.Requirement
	for _, u := range d.required.rows {
		n := need{u.provider, u.version, u.at}
		if d.installable(n, d.engine) && !n.provider.BuiltIn() {
			r := sources.Requirement{Provider: n.provider}
			n.addTo(&r, n.origin())
			all = append(all, r)
		}
	}
	return all, d.sorted()
}

// addTo adds the constraints of a need and their origin to a requirement for its provider.
func (n need) addTo(r *sources.Requirement, from sources.Origin) {
	r.From = append(r.From, from)
	r.Constraints = r.Constraints.And(n.version.constraints)
}

func (n need) origin() sources.Origin {
	return sources.Origin{File: n.at.Filename, Line: n.at.Start.Line, Constraint: n.version.text}
}
