package installer

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/larder-cli/larder/sources"
)

// A Plan is what [Installer.Install] would do for one provider.
type Plan struct {
	Version sources.Version // the chosen one
	How     How             // [WasInstalled], [FromStore] or [Planned]: the most work that a platform takes
	Offline bool            // the version was chosen among those on this machine only

	// Fails is why a package of the version can't be installed, as far as that is known before its download, or with
	// [acquire.Options.Unread] before its archive in a mirror is read.
	Fails error
}

// Plan takes the steps of a dry run of [Installer.Install] for one requirement. The error is why no version can be
// chosen.
func (in *Installer) Plan(ctx context.Context, root Root, req sources.Requirement) (plan Plan, err error) {
	root.DryRun = true
	workdir := in.cache.Workdir(root.Dir, filepath.Join(root.DataDir, "providers"))
	defer workdir.Close()
	j := in.newJob(root, req, workdir)
	if err := j.choose(ctx); err != nil {
		return plan, j.missing(err)
	}
	plan = Plan{Version: j.version, How: WasInstalled, Offline: j.offline}
	for _, platform := range in.opts.Platforms {
		outcome, err := j.install(ctx, j.id(platform))
		plan.Fails = errors.Join(plan.Fails, err)
		if outcome.How == Planned || plan.How == WasInstalled {
			plan.How = outcome.How
		}
	}
	if plan.Fails = j.missing(plan.Fails); plan.Fails != nil {
		plan.How = Planned
	}
	return plan, ctx.Err()
}
