package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

func cachePruneCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "prune",
		ArgsUsage: "[FLAG...]",
		Usage:     "remove packages from the plugin cache that nothing uses",
		Description: "Root modules are known once larder has installed in them. They use what their\n" +
			"lock files select and what is in their .terraform. Packages that a program runs\n" +
			"stay. With limits, only what exceeds --older-than or --max-size goes. What the\n" +
			"packages hashed to stays known.",
		Flags: append([]cli.Flag{
			rootsFlag(),
			maxSizeFlag("the least recently used, down to a `SIZE` such as 20G"),
			&cli.BoolFlag{Name: "all", Usage: "also remove packages in use"},
			&cli.BoolFlag{Name: "aside", Usage: "also remove what larder cache repair has set aside"},
		}, pruneFlags("not been used for an `AGE`, such as 30d")...),
		Action: func(c *cli.Context) error { return cachePrune(c, out) },
	}
}

// cachePrune plans first, and shows the plan unless --yes is set. When it removes the
// packages of the plan it skips those that came into use in between: another process may
// have installed them while the user was reading the question.
func cachePrune(c *cli.Context, out *ui.Output) error {
	policy, err := readPolicy(c)
	if err != nil {
		return err
	}
	asks, err := asks(c)
	if err != nil {
		return err
	}
	k, err := openCache(c, out, true)
	if err != nil || k.cache == nil {
		return err
	}
	if policy.ListOptions, err = k.use(c); err != nil {
		return err
	}
	plan, err := k.cache.PlanPrune(c.Context, policy)
	if err != nil {
		return err
	}
	if err := worthwhile(plan, policy); err != nil {
		return err
	}
	if !c.Bool("yes") {
		k.removals(plan.Remove, !asks)
	}
	k.tellPlan(plan, policy)
	nothing := len(plan.Remove) == 0 && plan.Extra().Count == 0
	if c.Bool("dry-run") || nothing && (asks || plan.Stale == 0) {
		return nil
	}
	if asks {
		if yes, err := out.Ask(c.Context, "remove "+planned(plan)+"?"); err != nil || !yes {
			return err
		}
	}
	pruned, err := k.cache.Prune(c.Context, plan)
	if pruned == nil {
		return err
	}
	if !asks {
		k.removals(pruned.Removed, false)
	}
	if kept := len(plan.Remove) - len(pruned.Removed); kept > 0 && err == nil {
		out.Say("%s needed by now, and kept", ui.Count(kept, "package"))
	}
	out.Say("removed %s, %s", ui.Count(len(pruned.Removed), "package"), ui.Size(pruned.Freed))
	if pruned.Extra.Count > 0 {
		out.Result("removed", extraRemoved{pruned.Extra.Count, pruned.Extra.Bytes}, "removed %s, %s", extra(pruned.Extra), ui.Size(pruned.Extra.Bytes))
	}
	return err
}

// extraRemoved is what was removed besides packages, in JSON.
type extraRemoved struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
}

// planned says what is to be removed.
func planned(plan *cachedir.Plan) string {
	var parts []string
	if n := len(plan.Remove); n > 0 {
		parts = append(parts, ui.Count(n, "package"))
	}
	if a := plan.Extra(); a.Count > 0 {
		parts = append(parts, extra(a))
	}
	return strings.Join(parts, " and ")
}

// extra says how much there is besides packages.
func extra(a cachedir.Amount) string { return ui.Count(a.Count, "leftover") + " of earlier runs" }

// readPolicy reads the flags that say which packages go.
func readPolicy(c *cli.Context) (p cachedir.Policy, err error) {
	p.All, p.Aside = c.Bool("all"), c.Bool("aside")
	if p.KeepLast, err = positive(c, "keep-last"); err != nil {
		return p, err
	}
	if p.MaxSize, err = maxSize(c); err != nil {
		return p, err
	}
	p.OlderThan, err = age(c)
	return p, err
}

// worthwhile refuses to remove everything only because no root module is known yet.
func worthwhile(plan *cachedir.Plan, policy cachedir.Policy) error {
	limited := policy.OlderThan > 0 || policy.MaxSize > 0 || policy.KeepLast > 0
	if plan.Roots > 0 || limited || policy.All || len(plan.Remove) == 0 {
		return nil
	}
	return sources.WithHint(errors.New("no root module is known, so every package would be removed"),
		"name directories of root modules with --roots, set a limit such as --older-than 30d, or remove everything with --all")
}

// removals writes which packages go.
func (k *targetCache) removals(removals []cachedir.Removal, planned bool) {
	var rows [][]string
	for _, r := range removals {
		rows = append(rows, []string{r.ID.String(), ui.Size(r.Freed), ui.Since(r.Used, time.Now()), string(r.Reason)})
	}
	k.out.Table("removal", rows, func(i int) any {
		return struct {
			cachedPackage
			Reason string `json:"reason"`
			DryRun bool   `json:"dry_run"`
		}{cached(removals[i].Entry, ui.Signature{}), string(removals[i].Reason), planned}
	})
}

// tellPlan says what the plan comes to.
func (k *targetCache) tellPlan(plan *cachedir.Plan, policy cachedir.Policy) {
	for _, note := range plan.Notes {
		k.out.Say("%s", note)
	}
	left := plan.Size - plan.Freed
	kept := []string{ui.Count(plan.Used, "package") + " in use"}
	if plan.Running > 0 {
		kept = append(kept, fmt.Sprintf("%d running", plan.Running))
	}
	if plan.Recent > 0 {
		kept = append(kept, fmt.Sprintf("%d within the limits", plan.Recent))
	}
	goes := "nothing"
	if n := len(plan.Remove); n > 0 {
		goes = fmt.Sprintf("%s, %s of %s,", ui.Count(n, "package"), ui.Size(plan.Freed), ui.Size(plan.Size))
	}
	k.out.Say("%s to go; to stay: %s", goes, strings.Join(kept, ", "))
	if a := plan.Extra(); a.Count > 0 {
		k.out.Say("%s to go, %s", extra(a), ui.Size(a.Bytes))
	}
	k.besides(plan.Usage)
	if policy.MaxSize > 0 && left > policy.MaxSize {
		k.out.Warn("packages in use exceed --max-size: %s stay", ui.Size(left))
	}
}
