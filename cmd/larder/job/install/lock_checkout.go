package install

import (
	"context"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// requires reports whether a root module requires a provider.
func requires(root *installer.Root, p sources.Provider) bool {
	return slices.ContainsFunc(root.Requirements, func(r sources.Requirement) bool { return r.Provider == p })
}

// servedHere finds the providers of a lock file that a mirror of the checkout serves, for a strict check. They are
// problems, because anyone who can change the checkout chooses both the packages and their hashes.
func servedHere(
	ctx context.Context, m *site.Root, methods []sources.Method, root *installer.Root, result *installer.Result,
) (all []report.Finding) {
	entries := root.Lock.Entries()
	if result.Lock.Entries != nil {
		entries = result.Lock.Entries
	}
	for _, e := range entries {
		if !requires(root, e.Provider) {
			continue
		}
		release := sources.Release{Provider: e.Provider, Version: e.Version}
		if mirror := site.FromCheckout(ctx, methods, release); mirror != nil {
			f := lockFinding(ruleCheckoutMirror, m.LockPath, root.Lock.Block(e.Provider), site.ServedFrom(m.Shown(mirror.Dir())))
			f.Related = []report.Place{{File: site.Absolute(m.Dir, mirror.Dir())}}
			all = append(all, f.About(e.Provider, e.Version))
		}
	}
	return all
}
