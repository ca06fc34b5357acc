package ask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// An OutdatedRequest says which root modules to look at.
type OutdatedRequest struct {
	Roots []string // directories as typed; none means the one in which larder works
	Check bool     // a newer version is a finding
}

// An outdating is a run of outdated, with its results so far. Root modules with the same standing of a provider
// share a row.
type outdating struct {
	*site.Site

	// Only one root module at a time adds its results.
	rows  map[report.Standing]*report.Outdated
	ranks map[sources.Provider]report.Rank // the greatest of each provider
	sum   report.OutdatedSum
}

// Outdated lists locked providers that have newer versions. In a check, it returns a [report.FoundError] if a newer
// version is allowed.
func Outdated(ctx context.Context, s *site.Site, request OutdatedRequest) error {
	s.Ask()
	if err := job.TakeRoots(s, request.Roots); err != nil {
		for _, arg := range request.Roots {
			if address, _ := site.IsAddressForm(arg); address && !job.IsPathForm(arg) && strings.Contains(arg, "/") {
				return sources.WithLastHint(err, "if %s is a provider, run larder explain %[1]s", arg)
			}
		}
		return err
	}
	o := &outdating{Site: s, rows: map[report.Standing]*report.Outdated{}, ranks: map[sources.Provider]report.Rank{}}
	o.sum.Several = s.Flags.Recursive || len(s.Roots) > 1
	failed := o.Each(ctx, o.at)
	if ctx.Err() != nil {
		return failed
	}
	if told, several := errors.AsType[*report.ToldError](failed); several {
		o.sum.FailedRoots = told.Failed
	}
	o.show()
	hint := o.Again("install --upgrade") + " chooses the newest versions that the constraints allow"
	switch {
	case failed != nil && o.sum.Providers+o.sum.FailedRoots == 0: // there is nothing to sum up
		return failed
	case failed == nil && request.Check && o.sum.Upgradable > 0:
		return report.FoundError{Err: sources.WithHint(errors.New(o.sum.Text()), "%s", hint)}
	}
	o.Output.Conclude("%s", o.sum.Text())
	if o.sum.Upgradable > 0 {
		o.Output.AtLast(func() { o.Output.Hint("%s", hint) })
	}
	return failed
}

// at compares the locked versions of the root module in dir. If some sources don't answer, it returns what the
// others do.
func (o *outdating) at(ctx context.Context, dir string, out *report.Output) (show func(), err error) {
	nothing := func() {}
	m, err := o.Root(ctx, dir, out)
	if err != nil {
		return nothing, err
	}
	root, err := m.Needs(ctx)
	if err != nil || root == nil {
		return nothing, err
	}
	source, err := m.Source(ctx)
	if err != nil {
		return nothing, err
	}
	all, errs := make([]standing, len(root.Requirements)), make([]error, len(root.Requirements))
	var wg sync.WaitGroup
	for i, r := range root.Requirements {
		wg.Go(func() { all[i], errs[i] = o.compare(ctx, m, source, r) })
	}
	wg.Wait()
	return func() {
		o.sum.RootModules++
		for i, s := range all {
			if errs[i] == nil {
				o.add(m, s)
			}
		}
	}, m.Explain(errors.Join(errs...))
}

// A standing is that of a provider in one root module.
type standing struct {
	report.Standing
	provider   sources.Provider
	rank       report.Rank
	by         sources.Origin // the constraint
	notQueried []string
}

// compare compares the locked version of a provider with those that a source lists.
func (o *outdating) compare(ctx context.Context, m *site.Root, source sources.Source, r sources.Requirement) (standing, error) {
	listing, err := source.Versions(ctx, r.Provider)
	for _, warning := range listing.Warnings {
		o.WarnOnce(r.Provider.String() + ": " + warning)
	}
	if errors.Is(err, sources.ErrOffline) {
		listing.Versions = append(listing.Versions, cachedVersions(ctx, m, r.Provider)...)
	} else if err != nil {
		return standing{}, err
	}
	e, _ := m.Lock.Entry(r.Provider)
	if err := m.Policy.Learn(ctx, r.Provider, listing.Versions...); err != nil {
		return standing{}, err
	}
	m.Policy.See(ctx, r.Provider, listing)
	s := standingOf(installer.Rules{Requirement: r, Locked: e.Version, Policy: m.Policy}, listing.Versions)
	s.notQueried = listing.Unasked
	if s.rank == report.UpToDate && len(s.notQueried) > 0 {
		s.rank = report.Unknown
	}
	if rule, ok := m.Policy.SignedBy(r.Provider); ok {
		o.WarnOnce(fmt.Sprintf("signatures not verified, which %s at %s requires", rule.Setting, m.Brief(rule.Place())))
	}
	return s, nil
}

// cachedVersions returns the versions of a provider in the plugin cache, for --offline.
func cachedVersions(ctx context.Context, m *site.Root, p sources.Provider) []sources.Version {
	root := m.CacheRoot()
	if root == "" || m.Flags.NoCache {
		return nil
	}
	listing, _ := m.Mirror(root).Versions(ctx, p) // a cache has the layout of a mirror
	return listing.Versions
}

// standingOf compares the locked version, which is zero if there is none, with the versions that could be chosen.
func standingOf(rules installer.Rules, all []sources.Version) standing {
	r, locked := rules.Requirement, rules.Locked
	candidates, newest := rules.Candidates(all), newestOf(all)
	var allowed sources.Version
	if i := slices.IndexFunc(candidates, installer.Candidate.Upgradable); i >= 0 {
		allowed = candidates[i].Version
	}
	isLocked, accepted := locked != sources.Version{}, r.AllowsLocked(locked) && rules.Candidate(locked).Excluded == nil
	if isLocked && (r.Fixed() || accepted && locked.Compare(allowed) > 0) {
		allowed = locked
	}
	s := standing{provider: r.Provider}
	s.Provider, s.Locked, s.Allowed, s.Newest = r.Provider.String(), locked.String(), allowed.String(), newest.String()
	why := newest // the version whose exclusion is told
	switch {
	case !isLocked:
		s.rank = report.NotLocked
	case !accepted:
		s.rank, s.Refused, why = report.HeldBack, true, locked
	case newest.Compare(locked) > 0:
		s.rank = report.HeldBack
	default:
		return s
	}
	if isLocked && allowed.Compare(locked) > 0 {
		s.rank = report.Upgradable
	}
	if why != (sources.Version{}) {
		s.explain(r, rules.Candidate(why))
	}
	return s
}

// explain sets what excludes a version.
func (s *standing) explain(r sources.Requirement, c installer.Candidate) {
	s.Bar, s.Constraint, s.by = c.Bar, c.By.Constraint, c.By
	switch {
	case c.Bar == installer.Excluded:
		s.by = sources.Origin{File: c.Excluded.Rule.File, Line: c.Excluded.Rule.Line}
	case c.Together:
		s.Constraint = r.Constraints.String()
	case s.Constraint != "" && c.Excluded == nil:
		s.Instead = installer.Relax(c.By, c.Version)
	}
}

// add adds the standing of a provider in a root module to the rows.
func (o *outdating) add(m *site.Root, s standing) {
	o.ranks[s.provider] = max(o.ranks[s.provider], s.rank)
	o.sum.NotQueried = append(o.sum.NotQueried, s.notQueried...)
	slices.Sort(o.sum.NotQueried)
	o.sum.NotQueried = slices.Compact(o.sum.NotQueried)
	if s.rank <= report.Unknown && o.Output.Level != report.Verbose {
		return
	}
	name, row := "", o.rows[s.Standing]
	if o.sum.Several {
		name = m.Shown(m.Dir)
	}
	if row == nil {
		row = &report.Outdated{Standing: s.Standing, Rank: s.rank}
		o.rows[s.Standing] = row
	}
	row.Add(name, s.by)
}

// show shows the rows.
func (o *outdating) show() {
	var all []report.Outdated
	for _, row := range o.rows {
		all = append(all, *row)
	}
	o.Output.Outdated(all)
	for _, rank := range o.ranks {
		o.sum.Add(rank)
	}
	o.Output.Summary(o.sum)
	if len(o.sum.NotQueried) > 0 && !o.Output.JSON { // programs get the sources with the summary
		o.Output.Warn("--offline: %s may have newer versions", ui.Some(o.sum.NotQueried, 5))
	}
}
