package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
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
	Check bool     // a newer version is a finding, and a locked one that must change
}

// A standing is how the locked version of a provider compares with the others. It is the same for many root modules.
type standing struct {
	Provider string        `json:"provider"`
	Locked   string        `json:"locked,omitempty"`  // empty if no version is locked
	Allowed  string        `json:"allowed,omitempty"` // the newest version that the constraints allow, if any
	Newest   string        `json:"newest,omitempty"`  // the newest release, or pre-release if there are only these
	Refused  bool          `json:"refused,omitempty"` // the constraint or the policy refuses the locked version
	Bar      installer.Bar `json:"excluded_by,omitempty"`

	// The constraint that excludes the newest version, or else the locked one, and what it would have to be. Together,
	// constraints may exclude a version that each of them allows.
	Constraint string `json:"constraint,omitempty"`
	Instead    string `json:"instead,omitempty"`

	rank  rank
	fault string // of the locked version, as in "not allowed"; may be empty
}

// A rank is how much there is to do about a standing.
type rank int

// The ranks, in order.
const (
	upToDate rank = iota
	unknown       // nothing newer is known, and not all sources were queried
	notLocked
	heldBack   // there is a newer version, and something excludes it
	mustChange // the locked version is not allowed, or not offered
	upgradable // the constraints allow a newer version
)

// An Outdated is a provider with a locked version in some root modules.
type Outdated struct {
	report.Typed `type:"outdated"`
	standing
	Places      []report.Place `json:"places,omitempty"`       // of the constraint
	RootModules []string       `json:"root_modules,omitempty"` // empty if there is only one

	notQueried []string // sources that may have newer versions
	hint       string   // empty if the locked version may stay
}

// why describes what excludes the newest version: a constraint with its place, or another rule.
func (d Outdated) why() string {
	text := map[installer.Bar]string{
		installer.Excluded: "the policy", installer.LockedOut: "the lock file",
		installer.Prereleased: "the rule for pre-releases",
	}[d.Bar]
	if d.Constraint != "" {
		text = strconv.Quote(d.Constraint)
	}
	if len(d.Places) > 0 {
		text += " at " + d.Places[0].String()
	}
	if more := len(d.Places) - 1; more > 0 {
		text += " and " + ui.Count(more, "other place")
	}
	return text
}

// Cells implements [report.Row].
func (d Outdated) Cells(o *report.Output) []report.Cell {
	locked, paint, instead := cmp.Or(d.Locked, "not locked"), ui.Plain, ""
	if d.fault != "" {
		locked += " (" + d.fault + ")"
	}
	if d.rank == upgradable {
		paint = ui.Added
	}
	if o.Level == report.Verbose && d.Instead != "" {
		instead = strconv.Quote(d.Instead)
	}
	return []report.Cell{
		report.ProviderColumn.Of(d.Provider),
		report.Column{Head: "LOCKED"}.Of(locked),
		rootsCell(o, d.RootModules),
		report.Column{Head: "ALLOWED"}.Painted(paint, cmp.Or(d.Allowed, "none")),
		report.Column{Head: "NEWEST"}.Of(d.Newest),
		report.Column{Head: "HELD BACK BY"}.Of(o.ShortenHere(d.why())),
		report.Column{Head: "TO ALLOW IT"}.Of(instead),
	}
}

// rootsCell returns the cell with the root modules that share a row. It is empty if there can be only one.
func rootsCell(o *report.Output, roots []string) report.Cell {
	text := report.Labeled("in ", roots...)
	if len(roots) > 1 && o.Level < report.Verbose {
		text = "in " + ui.Count(len(roots), "root module")
	}
	return report.Column{}.Of(text)
}

// mostOutdated is how many rows are listed without --verbose.
const mostOutdated = 20

// An OutdatedSum is the summary of outdated.
type OutdatedSum struct {
	RootModules int      `json:"root_modules"`
	FailedRoots int      `json:"root_modules_failed,omitempty"`
	Providers   int      `json:"providers"`              // different ones
	Upgradable  int      `json:"upgradable"`             // a root module allows a newer version
	MustChange  int      `json:"must_change"`            // others whose locked version is not allowed, or not offered
	HeldBack    int      `json:"held_back"`              // others with a newer version
	NotLocked   int      `json:"not_locked"`             // others that a root module doesn't lock
	UpToDate    int      `json:"up_to_date"`             // all others
	Unknown     int      `json:"undetermined,omitempty"` // with --offline, those without a known newer version
	NotQueried  []string `json:"not_queried,omitempty"`  // sources that may have newer versions; with --offline
}

// text sums up: "5 providers in 3 root modules: 1 upgradable, 4 up to date".
func (t OutdatedSum) text(several bool) string {
	text := ui.Count(t.Providers, "provider")
	if several {
		text += " in " + ui.Count(t.RootModules, "root module")
	}
	if t.UpToDate < t.Providers {
		text += ": " + strings.Join(ui.Numbers(ui.N(t.Upgradable, "upgradable"),
			ui.N(t.MustChange, "must change"), ui.N(t.HeldBack, "held back"), ui.N(t.NotLocked, "not locked"),
			ui.N(t.UpToDate, "up to date"), ui.N(t.Unknown, "unknown")), ", ")
	} else if t.Providers > 0 {
		text += " up to date"
	}
	if t.FailedRoots > 0 {
		text += "; " + ui.Count(t.FailedRoots, "root module") + " failed"
	}
	return text
}

// An outdating is a run of outdated, with its results so far. Only one root module at a time adds its results.
type outdating struct {
	*site.Site
	several bool       // there can be more than one root module
	all     []Outdated // of each root module
	sum     OutdatedSum
}

// ListOutdated lists locked providers that have newer versions. In a check, it returns a [report.FoundError] if a newer
// version is allowed, or if a locked version must change.
func ListOutdated(ctx context.Context, s *site.Site, request OutdatedRequest) error {
	s.Ask()
	if err := takeRoots(s, request.Roots); err != nil {
		return err
	}
	o := &outdating{Site: s, several: s.Flags.Recursive || len(s.Roots) > 1}
	failed := o.Each(ctx, o.at)
	if ctx.Err() != nil {
		return failed
	}
	o.sum.FailedRoots = failedRoots(failed)
	o.show()
	text := o.sum.text(o.several)
	var hints []string
	for _, one := range o.all {
		if one.hint != "" {
			hints = site.AddHints(hints, []string{one.hint})
		}
	}
	switch {
	case failed != nil && o.sum.Providers+o.sum.FailedRoots == 0: // there is nothing to sum up
		return failed
	case failed == nil && request.Check && o.sum.Upgradable+o.sum.MustChange > 0:
		err := errors.New(text)
		for _, hint := range slices.Backward(hints) { // the outermost is shown first
			err = sources.WithHint(err, "%s", hint)
		}
		return report.FoundError{Err: err}
	}
	o.Output.Conclude("%s", text)
	for _, hint := range hints {
		o.Output.AtLast(func() { o.Output.Hint("%s", hint) })
	}
	return failed
}

// takeRoots is [job.TakeRoots] for questions about all providers.
func takeRoots(s *site.Site, args []string) error {
	err := job.TakeRoots(s, args)
	if err == nil {
		return nil
	}
	for _, arg := range args {
		if address, _ := site.IsAddressForm(arg); address && !job.IsPathForm(arg) && strings.Contains(arg, "/") {
			command := "explain"
			if s.Flags.Recursive {
				command += " -R"
			}
			return sources.WithLastHint(err, "if %s is a provider, run larder %s %[1]s", arg, command)
		}
	}
	return err
}

// failedRoots returns how many root modules failed, if there can be several.
func failedRoots(err error) int {
	if told, several := errors.AsType[*report.ToldError](err); several {
		return told.Failed
	}
	return 0
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
	all, errs := make([]Outdated, len(root.Requirements)), make([]error, len(root.Requirements))
	var wg sync.WaitGroup
	for i, r := range root.Requirements {
		wg.Go(func() { all[i], errs[i] = o.compare(ctx, m, source, r) })
	}
	wg.Wait()
	return func() {
		o.sum.RootModules++
		for i, one := range all {
			if errs[i] != nil {
				continue
			}
			if o.several {
				one.RootModules = []string{m.Shown(m.Dir)}
			}
			o.all = append(o.all, one)
		}
	}, m.Explain(errors.Join(errs...))
}

// compare compares the locked version of a provider with those that a source lists.
func (o *outdating) compare(
	ctx context.Context, m *site.Root, source sources.Source, r sources.Requirement,
) (Outdated, error) {
	listing, err := listed(ctx, m, source, r.Provider)
	if err != nil {
		return Outdated{}, err
	}
	e, _ := m.Lock.Entry(r.Provider)
	one := outdatedOf(rulesOf(m, r, e.Version, listing), listing.Versions)
	one.notQueried = listing.Unasked
	if one.rank == upToDate && len(one.notQueried) > 0 {
		one.rank = unknown
	}
	switch {
	case one.rank == mustChange && one.Allowed == "":
		one.hint = m.ExplainCommand(r.Provider) + " shows which versions are allowed"
	case one.rank >= mustChange:
		one.hint = o.Again("install --upgrade") + " chooses the newest versions that the constraints allow"
	}
	if rule, ok := m.Policy.SignedBy(r.Provider); ok {
		o.WarnOnce(fmt.Sprintf("signatures not verified, which %s at %s requires", rule.Setting, m.Shown(rule.Place())))
	}
	return one, nil
}

// listed returns the versions of a provider, and lets the policy learn them. With --offline, these are the installed
// ones, and those in the plugin cache and in mirrors on this machine.
func listed(ctx context.Context, m *site.Root, from sources.Source, p sources.Provider) (sources.Listing, error) {
	listing, err := from.Versions(ctx, p)
	for _, warning := range listing.Warnings {
		m.WarnOnce(p.String() + ": " + warning)
	}
	if errors.Is(err, sources.ErrOffline) {
		dirs := []string{filepath.Join(m.Config.DataDir, "providers")}
		if root := m.CacheRoot(); root != "" && !m.Flags.NoCache {
			dirs = append(dirs, root)
		}
		for _, dir := range dirs {
			here, _ := m.Mirror(dir).Versions(ctx, p) // these have the layout of a mirror
			listing.Versions = append(listing.Versions, here.Versions...)
		}
	} else if err != nil {
		return listing, err
	}
	if err := m.Policy.Learn(ctx, p, listing.Versions...); err != nil {
		return listing, err
	}
	m.Policy.See(ctx, p, listing)
	return listing, nil
}

// rulesOf returns the rules of a root module for a provider. If all sources were queried, they don't offer what they
// don't list.
func rulesOf(m *site.Root, r sources.Requirement, locked sources.Version, listing sources.Listing) installer.Rules {
	rules := installer.Rules{Requirement: r, Locked: locked, Policy: m.Policy}
	if len(listing.Unasked) == 0 {
		offered := map[sources.Version]installer.Bar{}
		for _, v := range listing.Versions {
			offered[v] = ""
		}
		rules.Lacks = func(v sources.Version) installer.Bar {
			if bar, ok := offered[v]; ok {
				return bar
			}
			return installer.NotOffered
		}
	}
	return rules
}

// outdatedOf compares the locked version, which is zero if there is none, with the versions that could be chosen.
func outdatedOf(rules installer.Rules, all []sources.Version) (d Outdated) {
	r, locked := rules.Requirement, rules.Locked
	candidates, newest := rules.Candidates(all), newestOf(all)
	var allowed sources.Version
	if i := slices.IndexFunc(candidates, installer.Candidate.Upgradable); i >= 0 {
		allowed = candidates[i].Version
	}
	is, isLocked := rules.Candidate(locked), locked != sources.Version{}
	accepted, gone := r.AllowsLocked(locked) && is.Excluded == nil, is.Bar == installer.NotOffered
	if isLocked && !gone && (r.Fixed() || accepted && locked.Compare(allowed) > 0) {
		allowed = locked
	}
	d.Provider, d.Locked, d.Allowed, d.Newest = r.Provider.String(), locked.String(), allowed.String(), newest.String()
	why := newest // the version whose exclusion is told
	switch {
	case !isLocked:
		d.rank = notLocked
	case !accepted:
		d.rank, d.Refused = mustChange, true
		d.fault = "not allowed by the " + report.Said(is.Bar == installer.Excluded, "policy", "constraints")
		if rules.Candidate(newest).Upgradable() {
			why = locked
		}
	case gone:
		d.rank, d.fault = mustChange, "not offered"
	case newest.Compare(locked) > 0:
		d.rank = heldBack
	default:
		return d
	}
	if isLocked && allowed.Compare(locked) > 0 {
		d.rank = upgradable
	}
	if why != (sources.Version{}) {
		d.explain(r, rules.Candidate(why))
	}
	return d
}

// explain sets what excludes a version.
func (d *Outdated) explain(r sources.Requirement, c installer.Candidate) {
	d.Bar, d.Constraint = c.Bar, c.By.Constraint
	switch {
	case c.Together:
		d.Constraint = r.Constraints.String()
	case d.Constraint != "" && c.Excluded == nil:
		d.Instead = installer.Relax(c.By, c.Version)
	}
	if at := barOf(c).Place; at.File != "" {
		d.Places = []report.Place{at}
	}
}

// show shows the rows, those that can be upgraded first, and counts each provider by its greatest rank. Root modules
// with the same standing of a provider share a row.
func (o *outdating) show() {
	var all []Outdated
	t, ranks := &o.sum, map[string]rank{}
	for _, same := range report.GroupBy(o.all, func(one Outdated) standing { return one.standing }) {
		row := Outdated{standing: same[0].standing}
		for _, one := range same {
			t.NotQueried = append(t.NotQueried, one.notQueried...)
			row.Places = append(row.Places, one.Places...)
			row.RootModules = append(row.RootModules, one.RootModules...)
		}
		row.Places = report.Unique(row.Places)
		ranks[row.Provider] = max(ranks[row.Provider], row.rank)
		if row.rank > unknown || o.Output.Level == report.Verbose {
			all = append(all, row)
		}
	}
	slices.SortFunc(all, func(a, b Outdated) int {
		return cmp.Or(
			cmp.Compare(b.rank, a.rank), strings.Compare(a.Provider, b.Provider), len(b.RootModules)-len(a.RootModules),
			strings.Compare(a.Locked, b.Locked), strings.Compare(a.Constraint, b.Constraint),
			slices.Compare(a.RootModules, b.RootModules),
		)
	})
	shown := len(all)
	if o.Output.Level != report.Verbose && !o.Output.JSON {
		shown = min(shown, mostOutdated)
	}
	report.Grid(o.Output, all[:shown])
	if more := len(all) - shown; more > 0 {
		o.Output.Sentence("and %s (--verbose lists them)", ui.Count(more, "other row"))
	}
	counts := []*int{&t.UpToDate, &t.Unknown, &t.NotLocked, &t.HeldBack, &t.MustChange, &t.Upgradable}
	for _, rank := range ranks {
		t.Providers++
		*counts[rank]++
	}
	slices.Sort(t.NotQueried)
	t.NotQueried = slices.Compact(t.NotQueried)
	o.Output.Summary(*t)
	if len(t.NotQueried) > 0 && !o.Output.JSON { // programs get the sources with the summary
		o.Output.Warn("--offline: %s may have newer versions", ui.Some(t.NotQueried, 5))
	}
}
