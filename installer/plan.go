package installer

import (
	"context"
	"path/filepath"

	"github.com/larder-cli/larder/sources"
)

// A Plan is what [Installer.Install] would do for one provider.
type Plan struct {
	Version sources.Version
	How     How      // [WasInstalled], [FromStore] or [Planned]: the most work that a platform takes
	Offline bool     // the version was chosen among those on this machine only
	Skipped []string // with Offline: newer versions on this machine that can't be used, with the reasons
}

// Plan takes the steps of [Installer.Install] for one requirement, up to the choice of a version, and finds out
// whether its packages are on this machine. It changes nothing.
func (in *Installer) Plan(ctx context.Context, root Root, req sources.Requirement) (plan Plan, err error) {
	root.DryRun = true
	workdir := in.cache.Workdir(root.Dir, filepath.Join(root.DataDir, "providers"))
	defer workdir.Close()
	j := in.newJob(root, req, workdir)
	if root.Elsewhere {
		j.workdir = nil
	}
	if err := j.choose(ctx); err != nil {
		return plan, j.missing(err)
	}
	plan = Plan{Version: j.version, How: WasInstalled, Offline: j.offline, Skipped: sources.Texts(j.unfit)}
	for _, platform := range in.opts.Platforms {
		l, err := j.look(ctx, platform)
		if err != nil {
			return plan, err
		}
		switch held := j.stored(ctx, j.id(platform)); {
		case l.installed:
		case plan.How != Planned && (l.stored || held.H1 != "" && held.Differs == "" && len(j.lockedHashes()) == 0):
			plan.How = FromStore
		default:
			plan.How = Planned
		}
	}
	return plan, nil
}
