package mirror

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

// Prune removes the packages that the policy selects, except those that stay for the root modules, lock files
// and lists of providers at paths.
func Prune(ctx context.Context, s *site.Site, dir string, paths []string, policy builder.Policy) error {
	if _, err := job.Existing(s, dir); err != nil {
		return err
	}
	kept, err := keep(ctx, s, paths)
	if err != nil {
		return err
	}
	asks, err := job.Asks(s)
	if err != nil {
		return err
	}
	_, b, err := openDir(ctx, s, dir, builder.Options{ReadOnly: s.Flags.DryRun})
	if err != nil {
		return err
	}
	var plan *builder.Plan
	stay, err := staying(ctx, b, kept)
	if err == nil {
		policy.Locked = func(id sources.PackageID) bool { return stay[id.Release()] }
		plan, err = b.PlanPrune(ctx, policy)
	}
	if err == nil {
		sum := &report.PruneSum{Locked: plan.Locked, Recent: plan.Recent, DryRun: s.Flags.DryRun}
		err = removeFromMirror(ctx, s, b, plan, sum, asks)
	}
	return errors.Join(hintRepair(err, dir), b.Close())
}

// removeFromMirror carries out a plan, once it is confirmed. If there is nothing to remove, it completes a removal that
// was killed.
func removeFromMirror(
	ctx context.Context, s *site.Site, b *builder.Builder, plan *builder.Plan, sum *report.PruneSum, asks bool,
) error {
	s.Output.Summary(sum)
	if !s.Flags.Yes {
		s.Output.MirrorRemovals(plan.Remove, !asks)
	}
	planned := report.RemovedPackages(len(plan.Remove), plan.Freed)
	switch {
	case len(plan.Remove) == 0:
		s.Output.Say("Nothing to remove%s", sum.KeptText())
		if !sum.DryRun { // an earlier one may have been killed
			_, err := b.Prune(ctx, plan)
			return err
		}
		return nil
	case sum.DryRun:
		sum.Packages, sum.Freed = len(plan.Remove), plan.Freed
		s.Output.Say("Would remove %s%s", planned, sum.KeptText())
		return nil
	}
	if yes, err := job.Confirmed(ctx, s.Output, asks, planned); err != nil || !yes {
		return err
	}
	gone, err := b.Prune(ctx, plan)
	if !asks {
		s.Output.MirrorRemovals(gone, false)
	}
	sum.Packages, sum.Failed = len(gone), len(sources.Errors(err))
	for _, e := range gone {
		sum.Freed += e.Size
	}
	s.Output.Conclude("Removed %s%s", report.RemovedPackages(sum.Packages, sum.Freed), sum.KeptText())
	return err
}

// keep reads what stays for paths, as typed: what [Sync] would select for the same paths and engines, and everything
// that their lock files have. It fails if a file is missing or unreadable, because its packages might be removed.
func keep(ctx context.Context, s *site.Site, paths []string) ([]*job.Supply, error) {
	if s.Roots = paths; len(paths) == 0 {
		return nil, nil
	}
	return (&job.Wanted{Site: s, Paths: paths, Keeps: true}).Read(ctx)
}

// staying returns the versions that stay in a mirror. If none is locked, it is the newest that the mirror has.
func staying(ctx context.Context, b *builder.Builder, kept []*job.Supply) (map[sources.Release]bool, error) {
	stay := map[sources.Release]bool{}
	for _, s := range kept {
		for _, w := range s.Wants {
			v := w.Locked.Version
			if v == (sources.Version{}) {
				ids, err := b.PackagesOf(ctx, w.Provider)
				if err != nil {
					return nil, err
				}
				v = newestOf(s.Root, w.Requirement, ids)
			}
			stay[sources.Release{Provider: w.Provider, Version: v}] = true
		}
	}
	return stay, nil
}

// newestOf returns the newest version of packages that a requirement and the policy allow. If the policy allows none of
// these, it returns the newest that the requirement allows.
func newestOf(m *site.Root, r sources.Requirement, ids []sources.PackageID) sources.Version {
	var all, allowed []sources.Version
	for _, id := range ids {
		all = append(all, id.Version)
		if m.Policy.Check(id.Provider, id.Version) == nil {
			allowed = append(allowed, id.Version)
		}
	}
	newest, ok := r.Constraints.Newest(allowed)
	if !ok {
		newest, _ = r.Constraints.Newest(all)
	}
	return newest
}
