package work

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

// PruneMirror removes the packages that the policy selects, except those that stay for the root modules, lock files
// and lists of providers at paths.
func PruneMirror(ctx context.Context, s *Session, dir string, paths []string, policy builder.Policy, request PruneRequest) error {
	if _, err := s.existing(dir); err != nil {
		return err
	}
	kept, err := s.keep(ctx, paths)
	if err == nil {
		err = request.check(s)
	}
	if err != nil {
		return err
	}
	_, b, err := mirrorHere(ctx, s, dir, builder.Options{ReadOnly: s.flags.DryRun})
	if err != nil {
		return err
	}
	stay, err := kept.in(ctx, b)
	if err == nil {
		policy.Locked = func(id sources.PackageID) bool { return stay[id.Release()] }
		err = hintRepair(s.pruneMirror(ctx, b, policy, request), dir)
	}
	return errors.Join(err, b.Close())
}

// pruneMirror plans, asks for confirmation and removes. If there is nothing to remove, it
// completes a prune that was killed.
func (s *Session) pruneMirror(ctx context.Context, b *builder.Builder, policy builder.Policy, request PruneRequest) error {
	plan, err := b.PlanPrune(ctx, policy)
	if err != nil {
		return err
	}
	sum := &report.MirrorPruned{Locked: plan.Locked, Recent: plan.Recent, DryRun: s.flags.DryRun}
	return s.removeFromMirror(ctx, b, plan, sum, request)
}

// removeFromMirror carries out a plan.
func (s *Session) removeFromMirror(
	ctx context.Context, b *builder.Builder, plan *builder.Plan, sum *report.MirrorPruned, request PruneRequest,
) error {
	s.output.Summary(sum)
	if !request.Yes {
		s.output.MirrorRemovals(plan.Remove, !request.asks)
	}
	planned := report.RemovedPackages(len(plan.Remove), plan.Freed)
	switch {
	case len(plan.Remove) == 0:
		s.output.Say("Nothing to remove%s", sum.Kept())
		if sum.DryRun {
			return nil
		}
		return b.Complete(ctx)
	case sum.DryRun:
		sum.Packages, sum.Freed = len(plan.Remove), plan.Freed
		s.output.Say("Would remove %s%s", planned, sum.Kept())
		return nil
	}
	if yes, err := request.confirmed(ctx, s.output, planned); err != nil || !yes {
		return err
	}
	gone, err := b.Prune(ctx, plan)
	if !request.asks {
		s.output.MirrorRemovals(gone, false)
	}
	sum.Packages, sum.Failed = len(gone), len(sources.Errors(err))
	for _, e := range gone {
		sum.Freed += e.Size
	}
	s.output.Conclude("Removed %s%s", report.RemovedPackages(sum.Packages, sum.Freed), sum.Kept())
	return err
}

// A keeping contains the packages of a mirror that stay: what [SyncMirror] would select for the same paths and engines,
// and everything that their lock files have.
type keeping struct {
	*wanted
	supplies []*supply
}

// keep reads what paths, as typed, require. It fails if a file is missing or unreadable, because its packages might
// be removed.
func (s *Session) keep(ctx context.Context, paths []string) (k keeping, err error) {
	s.roots, k.wanted = paths, &wanted{Session: s, paths: paths, keeps: true}
	if len(paths) > 0 {
		k.supplies, err = k.read(ctx)
	}
	return k, err
}

// in returns the versions that stay in a mirror. If none is locked, it is the newest that the mirror has.
func (k keeping) in(ctx context.Context, b *builder.Builder) (map[sources.Release]bool, error) {
	stay := map[sources.Release]bool{}
	for _, s := range k.supplies {
		for _, w := range s.wants {
			v := w.Locked.Version
			if v == (sources.Version{}) {
				ids, err := b.PackagesOf(ctx, w.Provider)
				if err != nil {
					return nil, err
				}
				v = s.newestOf(w.Requirement, ids)
			}
			stay[sources.Release{Provider: w.Provider, Version: v}] = true
		}
	}
	return stay, nil
}

// newestOf returns the newest version of packages that a requirement and the policy allow. If the policy allows none of
// these, it returns the newest that the requirement allows.
func (m *rootModule) newestOf(r sources.Requirement, ids []sources.PackageID) sources.Version {
	var all, allowed []sources.Version
	for _, id := range ids {
		all = append(all, id.Version)
		if m.policy.Check(id.Provider, id.Version) == nil {
			allowed = append(allowed, id.Version)
		}
	}
	newest, ok := r.Constraints.Newest(allowed)
	if !ok {
		newest, _ = r.Constraints.Newest(all)
	}
	return newest
}
