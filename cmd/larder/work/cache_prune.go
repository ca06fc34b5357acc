package work

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// A PruneRequest says how to prune.
type PruneRequest struct {
	Roots   []string // directories to search for root modules that use the cache
	MaxSize string   // as typed
	Yes     bool     // remove without showing the plan and asking for confirmation
	Leaves  string   // what remains after an interruption

	asks bool // for confirmation
}

var errNoTerminal = errors.New("cannot ask for confirmation without a terminal: add --yes or --dry-run")

// check determines whether to ask for confirmation, and fails if that is impossible.
func (r *PruneRequest) check(s *Session) error {
	r.asks = !r.Yes && !s.flags.DryRun
	if r.asks && !s.output.CanAsk() {
		return report.Usage(errNoTerminal)
	}
	return nil
}

// confirmed asks for confirmation, if the request wants that.
func (r PruneRequest) confirmed(ctx context.Context, out *report.Output, planned string) (bool, error) {
	if !r.asks {
		return true, nil
	}
	out.OnInterrupt("nothing was removed")
	defer out.OnInterrupt(r.Leaves)
	return out.Ask(ctx, planned+". Remove?")
}

// PruneCache plans first, and shows the plan. While it removes the planned packages, it skips those that
// have come into use since: another process may install them while the user reads the question.
func PruneCache(ctx context.Context, s *Session, policy cachedir.Policy, request PruneRequest) error {
	k, err := openCache(ctx, s, true)
	if err != nil || k.cache == nil {
		return err
	}
	if err := request.check(s); err != nil {
		return err
	}
	if !s.flags.DryRun { // they contain no packages
		if err := removeGoneViews(k.machine); err != nil {
			return err
		}
	}
	if policy.ListOptions, err = k.use(ctx, request.Roots); err != nil {
		return err
	}
	plan, err := k.plan(ctx, policy)
	if err == nil {
		err = plan.Blocked
	}
	if err != nil {
		return err
	}
	sum := &report.Pruned{Used: plan.Used, Kept: plan.Kept, Recent: plan.Recent, Others: plan.Others, DryRun: s.flags.DryRun}
	s.output.Summary(sum)
	if !request.Yes {
		s.output.Removals(plan.Packages, !request.asks)
	}
	k.tellPlan(plan, policy, request.MaxSize)
	planned := report.RemovedText(plan.Removed)
	switch {
	case plan.Empty() && (sum.DryRun || request.asks || plan.Stale == 0):
		s.output.Say("Nothing to remove%s", sum.KeptText())
		return nil
	case sum.DryRun:
		sum.Add(plan.Removed)
		s.output.Say("Would remove %s%s", planned, sum.KeptText())
		return nil
	}
	if yes, err := request.confirmed(ctx, s.output, planned); err != nil || !yes {
		return err
	}
	return k.prune(ctx, plan, sum, request.asks)
}

// prune removes the packages of the plan and shows the result.
func (k *targetCache) prune(ctx context.Context, plan *cachedir.Plan, sum *report.Pruned, asked bool) error {
	pruned, err := k.cache.Prune(ctx, plan)
	if pruned == nil {
		return err
	}
	if !asked {
		k.out.Removals(pruned.Packages, false)
	}
	sum.Add(*pruned)
	if sum.Failed = len(sources.Errors(err)); err == nil {
		sum.InUse = len(plan.Packages) - len(pruned.Packages)
	}
	if extra := pruned.Besides.Total(); extra.Count > 0 {
		k.out.Tell(report.Leftover{Count: extra.Count, Bytes: extra.Bytes})
	}
	k.out.Conclude("Removed %s%s", report.RemovedText(*pruned), sum.KeptText())
	return err
}

// plan determines what the cache contains and what a prune removes. It blocks the removal of all
// packages because no root module is known yet.
func (k *targetCache) plan(ctx context.Context, policy cachedir.Policy) (*cachedir.Plan, error) {
	plan, err := k.cache.PlanPrune(ctx, policy)
	if err != nil {
		return nil, err
	}
	limited := policy.OlderThan > 0 || policy.MaxSize > 0 || policy.KeepLast > 0
	known := len(plan.Listing.Roots) > 0
	if plan.Blocked == nil && !known && !limited && !policy.All && len(plan.Packages) > 0 {
		plan.Blocked = sources.WithHint(errors.New("no root module is known, so every package would be removed"),
			"name directories of root modules with --roots, set a limit such as --older-than 30d, or remove everything with --all")
	}
	return plan, nil
}

// tellPlan reports why more remains than --max-size allows.
func (k *targetCache) tellPlan(plan *cachedir.Plan, policy cachedir.Policy, maxSize string) {
	if policy.MaxSize > 0 && plan.Left > policy.MaxSize {
		what := "packages in use"
		if plan.Others > 0 {
			what += " or of other users"
		}
		k.out.Warn("%s take %s, more than --max-size %s", what, ui.Size(plan.Left), maxSize)
	}
}
