package install

import (
	"context"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// A served provider is locked, and a mirror of the checkout has the locked version.
type served struct {
	sources.Release
	line   int    // of the provider's block in the lock file; 0 if there is none
	mirror string // full path
	text   string // what is wrong
}

// servedHere finds the providers that the checkout serves, for a strict check. They are
// problems, because anyone who can change the checkout chooses both the packages and their hashes.
func servedHere(ctx context.Context, m *site.Root, methods []sources.Method, root *installer.Root, result *installer.Result) []served {
	entries := root.Lock.Entries()
	if result != nil && result.Lock.Entries != nil {
		entries = result.Lock.Entries
	}
	var all []served
	for _, e := range entries {
		if !slices.ContainsFunc(root.Requirements, func(r sources.Requirement) bool { return r.Provider == e.Provider }) {
			continue
		}
		if mirror := site.FromCheckout(ctx, methods, e.Provider, e.Version); mirror != nil {
			all = append(all, served{
				sources.Release{Provider: e.Provider, Version: e.Version}, root.Lock.Block(e.Provider),
				site.Absolute(m.Dir, mirror.Dir()), site.ServedFrom(m.Shown(mirror.Dir())),
			})
		}
	}
	return all
}
