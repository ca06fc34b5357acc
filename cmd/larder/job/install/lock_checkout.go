package install

import (
	"context"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

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
		if !slices.ContainsFunc(root.Requirements, func(r sources.Requirement) bool { return r.Provider == e.Provider }) {
			continue
		}
		if mirror := site.FromCheckout(ctx, methods, e.Provider, e.Version); mirror != nil {
			f := lockFinding(ruleCheckoutMirror, m.LockPath, root.Lock.Block(e.Provider), site.ServedFrom(m.Shown(mirror.Dir())))
			f.Related = []report.Place{{File: site.Absolute(m.Dir, mirror.Dir())}}
			all = append(all, f.About(e.Provider, e.Version))
		}
	}
	return all
}
