package cache

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// Prune plans first, and shows the plan. While it removes the planned packages, it skips those that
// have come into use since: another process may install them while the user reads the question. The size of the policy
// is as typed in maxSize.
func Prune(ctx context.Context, s *site.Site, policy cachedir.Policy, maxSize string) error {
	k, err := job.OpenCache(ctx, s, true)
	if err != nil || k.Cache == nil {
		return err
	}
	asks, err := job.Asks(s)
	if err != nil {
		return err
	}
	if !s.Flags.DryRun { // they contain no packages
		if err := job.RemoveGoneViews(k.Machine); err != nil {
			return err
		}
	}
	if policy.ListOptions, err = use(ctx, k); err != nil {
		return err
	}
	plan, err := plan(ctx, k, policy)
	if err == nil {
		err = plan.Blocked
	}
	if err != nil {
		return err
	}
	sum := &report.PruneSum{
		Used: plan.Used, Kept: plan.Kept, Recent: plan.Recent, Others: plan.Others, DryRun: s.Flags.DryRun,
	}
	s.Output.Summary(sum)
	if !s.Flags.Yes {
		showRemovals(s.Output, plan.Packages, !asks)
	}
	tellPlan(k, plan, policy, maxSize)
	planned := removedText(plan.Removed)
	switch {
	case plan.Empty() && (sum.DryRun || asks || plan.Stale == 0):
		s.Output.Say("Nothing to remove%s", sum.KeptText())
		return nil
	case sum.DryRun:
		count(sum, plan.Removed)
		s.Output.Say("Would remove %s%s", planned, sum.KeptText())
		return nil
	}
	if yes, err := job.Confirmed(ctx, s.Output, asks, planned); err != nil || !yes {
		return err
	}
	return prune(ctx, k, plan, sum, asks)
}

// prune removes the packages of the plan and shows the result.
func prune(ctx context.Context, k *job.TargetCache, plan *cachedir.Plan, sum *report.PruneSum, asked bool) error {
	pruned, err := k.Cache.Prune(ctx, plan)
	if pruned == nil {
		return err
	}
	if !asked {
		showRemovals(k.Out, pruned.Packages, false)
	}
	count(sum, *pruned)
	if sum.Failed = len(sources.Errors(err)); err == nil {
		sum.InUse = len(plan.Packages) - len(pruned.Packages)
	}
	k.Out.Conclude("Removed %s%s", removedText(*pruned), sum.KeptText())
	return err
}

// count counts what was removed, or would be.
func count(sum *report.PruneSum, r cachedir.Removed) {
	sum.Packages, sum.Freed, sum.Leftovers = len(r.Packages), r.Freed, r.Besides.Total().Count
}

// plan determines what the cache contains and what a prune removes. It blocks the removal of all
// packages because no root module is known yet.
func plan(ctx context.Context, k *job.TargetCache, policy cachedir.Policy) (*cachedir.Plan, error) {
	plan, err := k.Cache.PlanPrune(ctx, policy)
	if err != nil {
		return nil, err
	}
	limited := policy.OlderThan > 0 || policy.MaxSize > 0 || policy.KeepLast > 0
	known := len(plan.Listing.Roots) > 0
	if plan.Blocked == nil && !known && !limited && !policy.All && len(plan.Packages) > 0 {
		plan.Blocked = sources.WithHint(errors.New("no root module is known, so every package would be removed"),
			"name directories of root modules with --roots, set a limit such as --older-than 30d, "+
				"or remove everything with --all")
	}
	return plan, nil
}

// tellPlan reports why more remains than --max-size allows.
func tellPlan(k *job.TargetCache, plan *cachedir.Plan, policy cachedir.Policy, maxSize string) {
	if policy.MaxSize > 0 && plan.Left > policy.MaxSize {
		what := "packages in use"
		if plan.Others > 0 {
			what += " or of other users"
		}
		k.Out.Warn("%s take %s, more than --max-size %s", what, ui.Size(plan.Left), maxSize)
	}
}
