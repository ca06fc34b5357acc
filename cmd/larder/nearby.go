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

// Providers known on this machine: from the lock file, the plugin cache and the mirrors. They
// are used only for suggestions, so unreadable files are ignored.

// stores returns the plugin cache, which has the layout of a mirror, and the mirrors on this
// machine.
func (m *rootModule) stores() []*fsmirror.Mirror {
	all := m.nearby()
	if root := m.cacheRoot(); root != "" && !m.flags.noCache {
		all = append(all, m.mirror(root))
	}
	return all
}

// knownProviders returns the known providers, sorted.
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

// knownVersions returns the known versions of a provider, the newest first.
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

// suggest adds a similar known provider or version to an error about one that does not exist.
func (m *rootModule) suggest(err error) error {
	if len(sources.Hints(err)) > 0 {
		return err
	}
	ctx := context.Background() // errors of an interrupted run are not about providers
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

// nearestProvider returns the known provider most similar to another one, or nil if there is
// none.
func nearestProvider(p sources.Provider, known []sources.Provider) *sources.Provider {
	known = slices.DeleteFunc(slices.Clone(known), func(k sources.Provider) bool { return k == p })
	near := sources.Nearest(p.String(), sources.Texts(known))
	i := slices.IndexFunc(known, func(k sources.Provider) bool { return k.String() == near })
	if i < 0 {
		return nil
	}
	return &known[i]
}
