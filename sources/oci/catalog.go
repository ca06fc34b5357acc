package oci

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	orasregistry "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// ErrUnlisted matches the error for providers that can't be listed: the registry has no catalog, or doesn't show it to
// this user, or the template can't be reversed.
var ErrUnlisted = errors.New("the providers can't be listed")

// Providers returns the providers in the repositories of a registry that the template can lead to, sorted. If the
// template doesn't contain the host of providers, it is the given one.
func (m *Mirror) Providers(ctx context.Context, host sources.Host) ([]sources.Provider, error) {
	pattern, registry, err := m.template.reversed()
	if err != nil {
		return nil, sources.WithHint(fmt.Errorf("%w: %w", ErrUnlisted, err), "name the providers, such as hashicorp/aws")
	}
	m.authorize(Repository{Registry: registry}, "_catalog")
	catalog := remote.Registry{RepositoryOptions: remote.RepositoryOptions{
		Client: wire{m.client}, Reference: orasregistry.Reference{Registry: registry}, MaxMetadataBytes: maxManifest,
	}}
	at := Repository{Registry: registry}.root("_catalog")
	all, err := list(ctx, m, at, "providers", func(ctx context.Context, add func([]sources.Provider) error) error {
		return catalog.Repositories(ctx, "", func(names []string) error {
			var page []sources.Provider
			for _, name := range names {
				if p, ok := m.providerOf(pattern, Repository{registry, name}, host); ok {
					page = append(page, p)
				}
			}
			return add(page)
		})
	})
	status, ok := errors.AsType[*fetch.StatusError](err)
	if ok && status.Code < 500 && status.Code != http.StatusTooManyRequests {
		err = sources.WithHint(fmt.Errorf("%w: %w", ErrUnlisted, err), "name the providers, such as hashicorp/aws")
	}
	slices.SortFunc(all, sources.Provider.Compare)
	return slices.Compact(all), err
}

// providerOf returns the provider that the template maps to a repository.
func (m *Mirror) providerOf(pattern *regexp.Regexp, r Repository, host sources.Host) (p sources.Provider, ok bool) {
	match := pattern.FindStringSubmatch(r.String())
	if match == nil {
		return p, false
	}
	var err error
	if i := pattern.SubexpIndex("hostname"); i >= 0 {
		host, err = sources.ParsePunycodeHost(match[i])
	}
	if err == nil {
		namespace, kind := match[pattern.SubexpIndex("namespace")], match[pattern.SubexpIndex("type")]
		p, err = sources.ParseProvider(string(host)+"/"+namespace+"/"+kind, sources.Terraform)
	}
	if err != nil {
		return p, false
	}
	back, err := m.template.Repository(p)
	return p, err == nil && back == r
}

// reversed returns an expression that matches the repositories of the template, with a group for each variable, and the
// registry. It fails for a template without a namespace or a type.
func (t Template) reversed() (*regexp.Regexp, string, error) {
	registry := t.Registry()
	if registry == "" {
		return nil, "", errors.New("the template doesn't begin with the host of a registry")
	}
	const host, namespace, kind = "\x01", "\x02", "\x03"
	text, err := t.expand(host, namespace, kind)
	if err != nil {
		return nil, "", err
	}
	expression := regexp.QuoteMeta(text)
	for mark, name := range map[string]string{host: "hostname", namespace: "namespace", kind: "type"} {
		if n := strings.Count(text, mark); n > 1 || n == 0 && mark != host {
			return nil, "", fmt.Errorf("the template contains ${%s} %d times", name, n)
		}
		expression = strings.Replace(expression, mark, "(?P<"+name+">[^/]+?)", 1)
	}
	pattern, err := regexp.Compile("^" + expression + "$")
	return pattern, registry, err
}
