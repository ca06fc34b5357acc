package oci

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/larder-cli/larder/sources"
)

// A Template maps providers to repositories, as repository_template in the CLI configuration of OpenTofu. It has
// the variables hostname, namespace and type.
type Template struct {
	text string
	expr hclsyntax.Expression
}

// ParseTemplate parses a template for the providers that the patterns select, or for all if there are no patterns. It returns an error
// if it would map different providers to the same repository, or maps a sample to something other than a repository.
func ParseTemplate(text string, include []sources.Pattern) (Template, error) {
	expr, ds := hclsyntax.ParseTemplate([]byte(text), "", hcl.InitialPos)
	if ds.HasErrors() {
		return Template{}, templateError(ds)
	}
	used := map[string]bool{}
	for _, v := range expr.Variables() {
		used[v.RootName()] = true
	}
	variables := map[string]cty.Value{}
	for _, v := range []struct {
		name string
		of   func(sources.Pattern) string
	}{
		{"hostname", func(p sources.Pattern) string { return p.Host }},
		{"namespace", func(p sources.Pattern) string { return p.Namespace }},
		{"type", func(p sources.Pattern) string { return p.Type }},
	} {
		if !used[v.name] && !fixed(include, v.of) {
			return Template{}, sources.WithHint(fmt.Errorf("it maps providers with a different %s to the same repository", v.name),
				"add ${%s} to it, or an include with patterns that have the same %s", v.name, v.name)
		}
		delete(used, v.name)
		variables[v.name] = cty.UnknownVal(cty.String)
	}
	for name := range used {
		return Template{}, sources.WithHint(fmt.Errorf("there is no variable %s", name), "the variables are hostname, namespace and type")
	}
	if _, ds := expr.Value(&hcl.EvalContext{Variables: variables}); ds.HasErrors() {
		return Template{}, templateError(ds)
	}
	t := Template{text, expr}
	sample, err := t.Repository(sources.Provider{Host: "example.com", Namespace: "example-namespace", Type: "example-type"})
	if err == nil && sample.Name == "" {
		err = errors.New("it has no path after the host")
	}
	return t, err
}

// fixed reports whether patterns require a single value of a part of addresses. As in OpenTofu, wildcards beside
// that value count for nothing.
func fixed(patterns []sources.Pattern, part func(sources.Pattern) string) bool {
	values := map[string]bool{}
	for _, p := range patterns {
		if v := part(p); v != "*" {
			values[v] = true
		}
	}
	return len(values) == 1
}

func (t Template) String() string { return t.text }

// Repository returns the repository for a provider.
func (t Template) Repository(p sources.Provider) (Repository, error) {
	v, ds := t.expr.Value(&hcl.EvalContext{Variables: map[string]cty.Value{
		"hostname":  cty.StringVal(p.Host.ASCII()),
		"namespace": cty.StringVal(p.Namespace),
		"type":      cty.StringVal(p.Type),
	}})
	if ds.HasErrors() {
		return Repository{}, templateError(ds)
	}
	text, err := convert.Convert(v, cty.String)
	if err != nil || text.IsNull() || !text.IsKnown() {
		return Repository{}, errors.New("its value is not a string")
	}
	return ParseRepository(text.AsString())
}

// templateError returns the first error in a template.
func templateError(ds hcl.Diagnostics) error {
	d := ds[slices.IndexFunc(ds, func(d *hcl.Diagnostic) bool { return d.Severity == hcl.DiagError })]
	return errors.New(strings.TrimSuffix(d.Summary+": "+d.Detail, "."))
}
