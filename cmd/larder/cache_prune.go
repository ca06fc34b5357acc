package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

func cachePruneCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "prune",
		Usage:     "remove packages that no root module uses",
		ArgsUsage: "[FLAG...]",
		UsageText: "larder cache prune --older-than 30d --dry-run",
		Description: "Larder knows the root modules that it has installed providers in. They use what\n" +
			"their lock files select and what is in .terraform. Packages in use by a running\n" +
			"program stay.",
		Flags: append([]cli.Flag{
			rootsFlag(),
			maxSizeFlag("remove the least recently used, down to a `SIZE` such as 20G"),
			&cli.BoolFlag{Name: "all", Usage: "also remove packages in use"},
			&cli.BoolFlag{Name: "aside", Usage: "also remove damaged and changed files that were set aside"},
		}, pruneFlags("packages unused for an `AGE`, such as 30d")...),
		Action: func(c *cli.Context) error { return cachePrune(c, out) },
	}
}

// cachePrune plans first, and shows the plan unless --yes is set. While it removes the
// planned packages, it skips those that have come into use since: another process may
// install them while the user reads the question.
func cachePrune(c *cli.Context, out *ui.Output) error {
	policy, err := readPolicy(c)
	if err != nil {
		return err
	}
	asks, err := asks(c, out)
	if err != nil {
		return err
	}
	k, err := openCache(c, out, true)
	if err != nil || k.cache == nil {
		return err
	}
	if !c.Bool("dry-run") { // they contain no packages
		if err := removeGoneViews(k.machine); err != nil {
			return err
		}
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
	sum := &pruneSummary{Used: plan.Used, Running: plan.Running, Recent: plan.Recent, Others: plan.Others, DryRun: c.Bool("dry-run")}
	out.Summary(sum)
	if !c.Bool("yes") {
		k.removals(plan.Remove, !asks)
	}
	k.tellPlan(c, plan, policy)
	if len(plan.Remove) == 0 && plan.Extra().Count == 0 && (sum.DryRun || asks || plan.Stale == 0) {
		out.Say("Nothing to remove%s", sum.kept())
		return nil
	}
	if sum.DryRun {
		sum.Packages, sum.Freed, sum.Leftovers = len(plan.Remove), plan.Freed, plan.Extra().Count
		out.Say("Would remove %s%s", removed(len(plan.Remove), plan.Freed, plan.Extra()), sum.kept())
		return nil
	}
	if asks {
		out.OnInterrupt("nothing was removed")
		if yes, err := out.Ask(c.Context, removed(len(plan.Remove), plan.Freed, plan.Extra())+". Remove?"); err != nil || !yes {
			return err
		}
		out.OnInterrupt(interruptions["cache prune"])
	}
	return k.prune(c.Context, plan, sum, asks)
}

// prune removes the packages of the plan and prints the result.
func (k *targetCache) prune(ctx context.Context, plan *cachedir.Plan, sum *pruneSummary, asked bool) error {
	pruned, err := k.cache.Prune(ctx, plan)
	if pruned == nil {
		return err
	}
	if !asked {
		k.removals(pruned.Removed, false)
	}
	sum.Packages, sum.Freed, sum.Leftovers = len(pruned.Removed), pruned.Freed, pruned.Extra.Count
	if sum.Failed = len(sources.Errors(err)); err == nil {
		sum.InUse = len(plan.Remove) - len(pruned.Removed)
	}
	if pruned.Extra.Count > 0 && k.out.JSON {
		k.out.Object("removed", extraRemoved{pruned.Extra.Count, pruned.Extra.Bytes})
	}
	k.out.Conclude("Removed %s%s", removed(sum.Packages, sum.Freed, pruned.Extra), sum.kept())
	return err
}

// pruneSummary is the summary of a prune, in JSON.
type pruneSummary struct {
	Packages  int   `json:"packages"` // removed, or that would be removed
	Freed     int64 `json:"freed"`
	Leftovers int   `json:"leftovers"`           // of earlier runs; removed, or that would be removed
	Used      int   `json:"used"`                // packages that root modules use
	Running   int   `json:"running"`             // packages of running programs
	Recent    int   `json:"recent"`              // packages within the limits
	Others    int   `json:"of_others,omitempty"` // packages that only other users may remove
	InUse     int   `json:"in_use_since"`
	Failed    int   `json:"failed"`
	DryRun    bool  `json:"dry_run,omitempty"`
}

// kept prints what remains, and what could not be removed.
func (s *pruneSummary) kept() string {
	return keptText(s.Failed, ui.Number{N: s.Used, What: "used by root modules"}, ui.Number{N: s.Running, What: "running"},
		ui.Number{N: s.Recent, What: "within the limits"},
		ui.Number{N: s.Others, What: "of other users"}, ui.Number{N: s.InUse, What: "in use since the listing"})
}

// extraRemoved describes removed items other than packages, in JSON.
type extraRemoved struct {
	Count int   `json:"count"`
	Bytes int64 `json:"bytes"`
}

// removed describes the removed packages: "97 packages, 21.4 GB".
func removed(packages int, freed int64, extra cachedir.Amount) string {
	var parts []string
	if packages > 0 || extra.Count == 0 {
		parts = append(parts, fmt.Sprintf("%s, %s", ui.Count(packages, "package"), ui.Size(freed)))
	}
	if extra.Count > 0 {
		parts = append(parts, fmt.Sprintf("%s of earlier runs, %s", ui.Count(extra.Count, "leftover"), ui.Size(extra.Bytes)))
	}
	return strings.Join(parts, ", and ")
}

// readPolicy reads the flags that select the packages to remove.
func readPolicy(c *cli.Context) (p cachedir.Policy, err error) {
	p.All, p.Aside = c.Bool("all"), c.Bool("aside")
	if p.KeepLast, err = positive(c, "keep-last", "--keep-last"); err != nil {
		return p, err
	}
	if p.MaxSize, err = maxSize(c); err != nil {
		return p, err
	}
	p.OlderThan, err = age(c)
	return p, err
}

// worthwhile fails if all packages would be removed because no root module is known yet.
func worthwhile(plan *cachedir.Plan, policy cachedir.Policy) error {
	limited := policy.OlderThan > 0 || policy.MaxSize > 0 || policy.KeepLast > 0
	if plan.Roots > 0 || limited || policy.All || len(plan.Remove) == 0 {
		return nil
	}
	return sources.WithHint(errors.New("no root module is known, so every package would be removed"),
		"name directories of root modules with --roots, set a limit such as --older-than 30d, or remove everything with --all")
}

// reasons are the reasons of removals, as the table shows them.
var reasons = map[cachedir.Reason]string{cachedir.NoUser: "unused", cachedir.TooOld: "not used for long", cachedir.TooMuch: "least recently used", cachedir.Everything: "--all"}

// removals prints the packages to remove.
func (k *targetCache) removals(removals []cachedir.Removal, planned bool) {
	rows := make([]ui.Row, len(removals))
	for i, r := range removals {
		value := struct {
			cachedPackage
			Reason string `json:"reason"`
			DryRun bool   `json:"dry_run"`
		}{cached(r.Entry), string(r.Reason), planned}
		rows[i] = ui.Row{Value: value, Cells: append(packageCells(k.out, r.ID, r.Freed, r.Used), ui.Span{Text: reasons[r.Reason]})}
	}
	columns := append(packageColumns("LAST USED"), ui.Column{Head: "REASON", Drop: 2})
	columns[3].Head = "FREES" // less than the size if root modules share files with the package
	k.out.Grid("removal", columns, rows)
}

// tellPlan prints what could not be determined, and what pruning leaves besides packages.
func (k *targetCache) tellPlan(c *cli.Context, plan *cachedir.Plan, policy cachedir.Policy) {
	for _, note := range plan.Notes {
		k.out.Say("%s", note)
	}
	k.besides(plan.Usage)
	if left := plan.Size - plan.Freed; policy.MaxSize > 0 && left > policy.MaxSize {
		what := "packages in use"
		if plan.Others > 0 {
			what += " or of other users"
		}
		k.out.Warn("%s take %s, more than --max-size %s", what, ui.Size(left), c.String("max-size"))
	}
}
