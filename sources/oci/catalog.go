package oci

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

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
func (m *Mirror) Providers(ctx context.Context, host sources.Host) (all []sources.Provider, err error) {
	registry := m.template.Registry()
	pattern, err := m.template.reversed()
	if err == nil {
		m.authorize(Repository{Registry: registry}, "_catalog")
		catalog := remote.Registry{RepositoryOptions: remote.RepositoryOptions{
			Client: wire{m.client}, Reference: orasregistry.Reference{Registry: registry}, MaxMetadataBytes: maxManifest,
		}}
		at := Repository{Registry: registry}.root("_catalog")
		all, err = list(ctx, m, at, "providers", catalog.Repositories, func(name string) (sources.Provider, bool) {
			return m.providerOf(pattern, Repository{registry, name}, host)
		})
	}
	if status, answered := errors.AsType[*fetch.StatusError](err); pattern == nil || answered && !status.Temporary() {
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
