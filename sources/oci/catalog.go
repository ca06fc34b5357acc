package oci

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// ErrUnlisted matches the error for providers that can't be listed: the registry has no catalog, or doesn't show it to this
// user, or the template can't be reversed.
var ErrUnlisted = errors.New("the providers can't be listed")

// Providers returns the providers in the repositories of a registry that the template can lead to, sorted. If the template doesn't contain the
// host of providers, it is the given one.
func (m *Mirror) Providers(ctx context.Context, host sources.Host) ([]sources.Provider, error) {
	pattern, registry, err := m.template.reversed()
	if err != nil {
		return nil, sources.WithHint(fmt.Errorf("%w: %w", ErrUnlisted, err), "name the providers, such as hashicorp/aws")
	}
	m.prepare(registry)
	var all []sources.Provider
	at := Repository{Registry: registry}.root("_catalog")
	for page, err := range pages[struct{ Repositories []string }](ctx, m.client, at, "") {
		if status, ok := errors.AsType[*fetch.StatusError](err); ok && status.Code < 500 && status.Code != http.StatusTooManyRequests {
			return nil, sources.WithHint(fmt.Errorf("%w: %w", ErrUnlisted, err), "name the providers, such as hashicorp/aws")
		}
		if err != nil {
			return nil, err
		}
		for _, name := range page.Repositories {
			if p, ok := m.providerOf(pattern, Repository{registry, name}, host); ok {
				all = append(all, p)
			}
			if len(all) > maxListed {
				return nil, fmt.Errorf("%s: %w", registry, tooLong("providers", maxListed))
			}
		}
	}
	slices.SortFunc(all, sources.Provider.Compare)
	return slices.Compact(all), nil
}

// providerOf returns the provider that the template maps to a repository.
func (m *Mirror) providerOf(pattern *regexp.Regexp, r Repository, host sources.Host) (p sources.Provider, ok bool) {
	match := pattern.FindStringSubmatch(r.String())
	if match == nil {
		return p, false
	}
	part := func(name, otherwise string) string {
		if i := pattern.SubexpIndex(name); i >= 0 {
			return match[i]
		}
		return otherwise
	}
	h, err := sources.ParsePunycodeHost(part("hostname", host.ASCII()))
	if err != nil {
		return p, false
	}
	p, err = sources.ParseProvider(strings.Join([]string{string(h), part("namespace", ""), part("type", "")}, "/"), sources.Terraform)
	if err != nil {
		return p, false
	}
	back, err := m.template.Repository(p)
	return p, err == nil && back == r
}

// reversed returns an expression that matches the repositories of the template, with a group for each variable, and the registry. It fails for a
// template with anything besides text and variables, and for one without a namespace or a type.
func (t Template) reversed() (*regexp.Regexp, string, error) {
	template, ok := t.expr.(*hclsyntax.TemplateExpr)
	if !ok {
		return nil, "", errors.New("the template is a single text")
	}
	var expression strings.Builder
	var used []string
	for _, part := range template.Parts {
		switch part := part.(type) {
		case *hclsyntax.LiteralValueExpr:
			expression.WriteString(regexp.QuoteMeta(part.Val.AsString()))
		case *hclsyntax.ScopeTraversalExpr:
			name := part.Traversal.RootName()
			if len(part.Traversal) > 1 || slices.Contains(used, name) {
				return nil, "", fmt.Errorf("the template has ${%s} more than once", name)
			}
			used = append(used, name)
			fmt.Fprintf(&expression, "(?P<%s>[^/]+?)", name)
		default:
			return nil, "", errors.New("the template has expressions besides ${hostname}, ${namespace} and ${type}")
		}
	}
	if !slices.Contains(used, "namespace") || !slices.Contains(used, "type") {
		return nil, "", errors.New("the template doesn't contain ${namespace} and ${type}")
	}
	registry := t.Registry()
	if registry == "" {
		return nil, "", errors.New("the template doesn't begin with the host of a registry")
	}
	pattern, err := regexp.Compile("^" + expression.String() + "$")
	return pattern, registry, err
}
