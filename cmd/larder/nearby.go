package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// What is known on this machine of providers: from the lock file, the plugin cache and the
// mirrors. It serves for suggestions, so that what can't be read counts as not there.

// stores are the plugin cache, which has the layout of a mirror, and the mirrors on this
// machine.
func (m *rootModule) stores() []*fsmirror.Mirror {
	all := m.nearby()
	if root := m.cacheRoot(); root != "" && !m.flags.noCache {
		all = append(all, m.mirror(root))
	}
	return all
}

// knownProviders are the providers that are known here, sorted.
func (m *rootModule) knownProviders(ctx context.Context) []sources.Provider {
	var all []sources.Provider
	if m.lock != nil {
		for _, e := range m.lock.Entries() {
			all = append(all, e.Provider)
		}
	}
	for _, store := range m.stores() {
		providers, err := store.Providers(ctx)
		if err == nil {
			all = append(all, providers...)
		}
	}
	slices.SortFunc(all, sources.Provider.Compare)
	return slices.Compact(all)
}

// knownVersions are the versions of a provider that are known here, the newest first.
func (m *rootModule) knownVersions(ctx context.Context, p sources.Provider) []sources.Version {
	var all []sources.Version
	if m.lock != nil {
		if e, ok := m.lock.Entry(p); ok {
			all = append(all, e.Version)
		}
	}
	for _, store := range m.stores() {
		listing, err := store.Versions(ctx, p)
		if err == nil {
			all = append(all, listing.Versions...)
		}
	}
	slices.SortFunc(all, func(a, b sources.Version) int { return b.Compare(a) })
	return slices.CompactFunc(all, func(a, b sources.Version) bool { return a.Compare(b) == 0 })
}

// suggest gives an error about a provider or a version that does not exist the one that
// may be meant.
func (m *rootModule) suggest(err error) error {
	if len(sources.Hints(err)) > 0 {
		return err
	}
	ctx := context.Background() // of an interrupted run there are other errors
	var missing *sources.NotFoundError
	var none *installer.NoVersionError
	switch {
	case errors.As(err, &missing) && missing.Moved == (sources.Provider{}):
		if meant := nearestProvider(missing.Provider, m.knownProviders(ctx)); meant != nil {
			return sources.WithHint(err, "did you mean %q?", m.out.Name(*meant))
		}
	case errors.As(err, &none):
		exact := strings.TrimPrefix(none.Requirement.Constraints.String(), "= ")
		if near := sources.Nearest(exact, sources.Texts(none.Offered)); near != "" && near != exact {
			return sources.WithHint(err, "did you mean %q?", near)
		}
	}
	return err
}

// nearestProvider is the known provider that is most likely meant by another one, nil if
// there is none.
func nearestProvider(p sources.Provider, known []sources.Provider) *sources.Provider {
	known = slices.DeleteFunc(slices.Clone(known), func(k sources.Provider) bool { return k == p })
	near := sources.Nearest(p.String(), sources.Texts(known))
	i := slices.IndexFunc(known, func(k sources.Provider) bool { return k.String() == near })
	if i < 0 {
		return nil
	}
	return &known[i]
}
