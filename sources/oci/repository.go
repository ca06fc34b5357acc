package oci

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"oras.land/oras-go/v2/registry"

	"github.com/larder-cli/larder/sources"
)

// A Repository is a repository in an OCI registry. Without a name, it stands for all repositories there.
type Repository struct {
	Registry string // host, and the port unless that is 443
	Name     string // segments with slashes between them, in lower case
}

// ParseRepository parses HOST or HOST/NAME. It returns an error if a tag or a digest follows.
func ParseRepository(text string) (Repository, error) {
	host, name, named := strings.Cut(text, "/")
	ref := registry.Reference{Registry: host, Repository: name}
	switch {
	case strings.Contains(text, "://"):
		return Repository{}, sources.WithHint(fmt.Errorf("%q is a URL", text), "leave out the scheme")
	case ref.ValidateRegistry() != nil || strings.HasSuffix(host, ":"):
		return Repository{}, fmt.Errorf("%q is not the address of a registry", host)
	case named && strings.ContainsAny(name, ":@"):
		err := fmt.Errorf("%q has a tag, a digest or a port, which the name of a repository can't contain", name)
		return Repository{}, err
	case named && ref.ValidateRepository() != nil:
		return Repository{}, sources.WithHint(fmt.Errorf("%q is not the name of a repository", name),
			"write lowercase letters a-z and digits, with . _ - or / between them")
	}
	return Repository{host, name}, nil
}

func (r Repository) String() string {
	if r.Name == "" {
		return r.Registry
	}
	return r.Registry + "/" + r.Name
}

// Covers returns how many segments of the name of another repository match, if r, a registry or the beginning of
// a path there, includes that repository.
func (r Repository) Covers(other Repository) (segments int, ok bool) {
	if r.Registry != other.Registry {
		return 0, false
	}
	if r.Name == "" {
		return 0, true
	}
	return strings.Count(r.Name, "/") + 1, strings.HasPrefix(other.Name+"/", r.Name+"/")
}

// at returns the URL of a path in the API of the repository.
func (r Repository) at(path string) string { return r.root(r.Name + "/" + path) }

// root returns the URL of a path in the API of the registry.
func (r Repository) root(path string) string {
	return "https://" + registry.Reference{Registry: r.Registry}.Host() + "/v2/" + path
}

// tag returns the tag of a version. Tags can't contain a plus sign.
func tag(v sources.Version) string { return strings.ReplaceAll(v.String(), "+", "_") }

// versionOf returns the version that a tag stands for.
func versionOf(tag string) (sources.Version, error) {
	v, err := sources.ParseVersion(strings.ReplaceAll(tag, "_", "+"))
	if err == nil && strings.ContainsAny(tag, "+") {
		err = errors.New("a tag can't contain a plus sign")
	}
	return v, err
}

// A Template maps providers to repositories, as repository_template in the CLI configuration of OpenTofu. It has
// the variables hostname, namespace and type.
type Template struct {
	text string
	expr hclsyntax.Expression
}

// ParseTemplate parses a template. It returns an error if the template maps a sample to something other than a
// repository.
func ParseTemplate(text string) (Template, error) {
	expr, ds := hclsyntax.ParseTemplate([]byte(text), "", hcl.InitialPos)
	if ds.HasErrors() {
		return Template{}, templateError(ds)
	}
	t := Template{text, expr}
	for name := range t.used() {
		if !slices.ContainsFunc(parts, func(p part) bool { return p.variable == name }) {
			err := fmt.Errorf("there is no variable %s", name)
			return Template{}, sources.WithHint(err, "the variables are hostname, namespace and type")
		}
	}
	sample, err := t.Repository(sources.Provider{
		Host: "example.com", Namespace: "example-namespace", Type: "example-type",
	})
	if err == nil && sample.Name == "" {
		err = errors.New("it has no path after the host")
	}
	return t, err
}

// A part is a variable of a template, and the part of addresses that it stands for.
type part struct {
	variable string
	of       func(sources.Pattern) string
}

var parts = []part{
	{"hostname", func(p sources.Pattern) string { return p.Host }},
	{"namespace", func(p sources.Pattern) string { return p.Namespace }},
	{"type", func(p sources.Pattern) string { return p.Type }},
}

// used returns the names of the variables in the template.
func (t Template) used() map[string]bool {
	used := map[string]bool{}
	for _, v := range t.expr.Variables() {
		used[v.RootName()] = true
	}
	return used
}

// HasHost reports whether the template contains the host of providers.
func (t Template) HasHost() bool { return t.used()["hostname"] }

// Distinct returns an error if the template would map different providers that the patterns select to the same
// repository. Without patterns, it is for all providers.
func (t Template) Distinct(include []sources.Pattern) error {
	used := t.used()
	for _, part := range parts {
		values := map[string]bool{} // as in OpenTofu, wildcards beside a value count for nothing
		for _, p := range include {
			values[part.of(p)] = true
		}
		delete(values, "*")
		if !used[part.variable] && len(values) != 1 {
			return sources.WithHint(fmt.Errorf("it maps providers with a different %s to the same repository", part.variable),
				"add ${%s} to it, or an include with patterns that have the same %s", part.variable, part.variable)
		}
	}
	return nil
}

// Registry returns the registry, with a port if it has one, or "" if it depends on the provider.
func (t Template) Registry() string {
	registry, _, _ := strings.Cut(t.text, "/")
	if strings.ContainsAny(registry, "$%") {
		return ""
	}
	return registry
}

func (t Template) String() string { return t.text }

// Repository returns the repository for a provider.
func (t Template) Repository(p sources.Provider) (Repository, error) {
	text, err := t.expand(p.Host.ASCII(), p.Namespace, p.Type)
	if err != nil {
		return Repository{}, err
	}
	return ParseRepository(text)
}

// expand returns the value of the template for the parts of an address.
func (t Template) expand(host, namespace, kind string) (string, error) {
	v, ds := t.expr.Value(&hcl.EvalContext{Variables: map[string]cty.Value{
		"hostname": cty.StringVal(host), "namespace": cty.StringVal(namespace), "type": cty.StringVal(kind),
	}})
	if ds.HasErrors() {
		return "", templateError(ds)
	}
	text, err := convert.Convert(v, cty.String)
	if err != nil || text.IsNull() || !text.IsKnown() {
		return "", errors.New("its value is not a string")
	}
	return text.AsString(), nil
}

// reversed returns an expression with a group for each variable, which matches the repositories of the template, and
// may match more. It fails for a template without the host of a registry, a namespace or a type.
func (t Template) reversed() (*regexp.Regexp, error) {
	text, err := t.expand("(?P<hostname>[^/]+?)", "(?P<namespace>[^/]+?)", "(?P<type>[^/]+?)")
	if err != nil {
		return nil, err
	}
	pattern, err := regexp.Compile("^" + text + "$")
	used := t.used()
	if err != nil || t.Registry() == "" || !used["namespace"] || !used["type"] || pattern.NumSubexp() != len(used) {
		return nil, errors.New("the template doesn't contain a registry, ${namespace} and ${type} once each")
	}
	return pattern, nil
}

// templateError returns the first error in a template.
func templateError(ds hcl.Diagnostics) error {
	d := ds[slices.IndexFunc(ds, func(d *hcl.Diagnostic) bool { return d.Severity == hcl.DiagError })]
	return errors.New(strings.TrimSuffix(d.Summary+": "+d.Detail, "."))
}
