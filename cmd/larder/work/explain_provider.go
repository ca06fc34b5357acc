package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

// A question is what is known about one provider in a root module, for explain and versions.
type question struct {
	*rootModule
	root     *installer.Root // with all requirements that could be read
	req      sources.Requirement
	required bool
	asked    sources.Version // the version that the user asks about; zero if there is none
	locked   sources.Version
	store    installer.Cache

	methods []sources.Method
	answers []sources.Answer
	hidden  map[int]string            // the implied directory because of which a method isn't used, by the method's index
	kinds   map[int]*cliconfig.Method // as configured, by index; nil for implied ones
	here    map[string][]sources.Version

	unknown []string // what could not be found out
	errs    []error
}

// Where versions are on this machine, besides the installation methods.
const (
	hereInstalled = "installed"
	hereCached    = "cached"
	hereNearby    = "nearby"
)

// explainProvider shows how the version of a provider is chosen for the root module in dir.
func (s *Session) explainProvider(ctx context.Context, dir, address string, all bool) error {
	q, done, err := s.question(ctx, dir, address)
	if err != nil {
		return err
	}
	defer done()
	e := report.Explanation{
		Provider: q.req.Provider.String(), Engine: string(q.config.Engine), Because: q.chosen.because(q.config.Tilde),
		Required: []report.Constraint{}, Installed: sources.Texts(q.here[hereInstalled]), Cached: sources.Texts(q.here[hereCached]),
		Nearby: sources.Texts(q.here[hereNearby]), Methods: q.methodAnswers(), Newer: []report.Excluded{}, Advice: []report.Advice{},
	}
	for _, from := range q.req.From {
		e.Required = append(e.Required, report.ConstraintOf(from))
	}
	if q.locked != (sources.Version{}) {
		e.Locked, e.LockedAt = q.locked.String(), report.Place{File: q.lockPath, Line: q.lock.Block(q.req.Provider)}
	}
	plan, upgrade, err := q.plans(ctx)
	q.describeChoice(&e, plan, upgrade)
	q.describeOthers(ctx, &e, plan, upgrade)
	if !q.required && plan.err != nil && len(q.unknown) == 0 {
		err = errors.Join(err, q.rootModule.explain(plan.err))
	}
	e.Unmanaged = q.unmanaged()
	e.Unknown = append([]string{}, q.unknown...)
	q.output.Explained(e, all)
	return errors.Join(append(q.errs, err)...)
}

// question collects what is known about a provider. It fails only if nothing can be said. The caller calls done.
func (s *Session) question(ctx context.Context, dir, typed string) (q *question, done func(), err error) {
	m, err := s.root(ctx, dir, s.output)
	if err != nil {
		return nil, nil, err
	}
	q = &question{rootModule: m, here: map[string][]sources.Version{}, hidden: map[int]string{}, kinds: map[int]*cliconfig.Method{}}
	q.readRoot(ctx)
	if err := q.readAddress(typed); err != nil {
		return nil, nil, err
	}
	if q.store, done, err = m.store(); err != nil {
		return nil, nil, err
	}
	if e, ok := q.root.Lock.Entry(q.req.Provider); ok {
		q.locked = e.Version
	}
	if err := q.ask(ctx); err != nil {
		done()
		return nil, nil, err
	}
	q.look(ctx)
	return q, done, ctx.Err()
}

// readRoot reads the requirements of the root module. Errors in it are reported, and what could be read is used.
func (q *question) readRoot(ctx context.Context) {
	if q.lock == nil {
		q.errs = append(q.errs, q.lockProblems.Err())
		q.lock = &lockfile.File{}
	}
	q.root = &installer.Root{Dir: q.dir, DataDir: q.config.DataDir, Lock: q.lock, DryRun: true}
	tree, ds, err := q.load(ctx)
	if err != nil {
		q.errs = append(q.errs, err)
		return
	}
	for _, ds := range []sources.Diagnostics{ds, tree.Missing} {
		for i, d := range ds {
			ds[i].File = q.full(d.File)
		}
	}
	if err := q.out.Warnings(ds); err != nil {
		q.errs = append(q.errs, err)
		q.unknown = append(q.unknown, "constraints in the files with errors")
	}
	if err := q.missing(tree.Missing); err != nil {
		q.errs = append(q.errs, err)
		q.unknown = append(q.unknown, "constraints in modules that are not installed")
	}
	if tree.StateUnread {
		q.unknown = append(q.unknown, "whether the state, which is not on this machine, requires more")
	}
	q.root.StateUnread, q.root.Elsewhere = tree.StateUnread, tree.Elsewhere
	partial := tree.Partial && q.lock.Exists
	if q.config.Engine == sources.OpenTofu && !partial {
		_ = q.lock.Migrate()
	}
	if partial {
		tree.Requirements = append(tree.Requirements, q.recorded(lockfile.Name, tree.Requirements)...)
	}
	for _, r := range tree.Requirements {
		r.From = slices.Clone(r.From)
		for i, from := range r.From {
			r.From[i].File = q.full(from.File)
		}
		q.root.Requirements = append(q.root.Requirements, r)
	}
}

// readAddress reads the provider and the version that the user asks about. An address
// without host or namespace means the provider that the root module requires, if there is one.
func (q *question) readAddress(typed string) error {
	address, version, versioned := sources.CutVersion(typed)
	p, err := sources.ParseProvider(address, q.config.Engine)
	if err != nil {
		return report.Usage(err)
	}
	if versioned {
		if q.asked, err = sources.ParseVersion(version); err != nil {
			return report.Usage(sources.WithHint(err, "write ADDRESS@VERSION to ask about a version"))
		}
	}
	find := func(is func(sources.Requirement) bool) bool {
		i := slices.IndexFunc(q.root.Requirements, is)
		if i >= 0 {
			q.req, q.required = q.root.Requirements[i], true
		}
		return i >= 0
	}
	q.req = sources.Requirement{Provider: p}
	if !find(func(r sources.Requirement) bool { return r.Provider == p }) {
		find(func(r sources.Requirement) bool {
			return strings.HasSuffix(r.Provider.String(), "/"+strings.ToLower(address))
		})
	}
	return nil
}

// ask queries the installation methods.
func (q *question) ask(ctx context.Context) (err error) {
	if q.methods, err = q.rootModule.methods(ctx); err != nil {
		return err
	}
	p := q.req.Provider
	q.answers = sources.Ask(ctx, p, q.methods)
	for i := range q.answers {
		a := &q.answers[i]
		if q.config.Implied && i == len(q.answers)-1 {
			q.hidden[i] = q.hiding[p]
		}
		if !q.config.Implied && len(q.config.Methods) == len(q.answers) {
			q.kinds[i] = &q.config.Methods[i]
		}
		if !a.Applies && (q.hidden[i] != "" || localMirror(a.Method) != nil) { // otherwise a server would learn the name
			a.Listing, a.Err = a.Method.Source.Versions(ctx, p)
		}
		if a.Err != nil && !errors.Is(a.Err, sources.ErrNotFound) {
			if q.unknown = append(q.unknown, "the versions of "+q.nameOf(i)); a.Applies && !errors.Is(a.Err, sources.ErrOffline) {
				q.errs = append(q.errs, a.Err)
			}
		}
	}
	return nil
}

// wasAsked reports whether a method was queried.
func (q *question) wasAsked(i int) bool {
	a := q.answers[i]
	return (a.Applies || q.hidden[i] != "" || localMirror(a.Method) != nil) && !errors.Is(a.Err, sources.ErrOffline)
}

// nameOf names a method as people know it: its kind and location.
func (q *question) nameOf(i int) string {
	mirror := localMirror(q.answers[i].Method)
	switch m := q.kinds[i]; {
	case m == nil && mirror != nil:
		return q.config.Tilde(mirror.Dir())
	case m == nil || m.Kind == cliconfig.Direct:
		return string(cliconfig.Direct) + " " + string(q.req.Provider.Host)
	case mirror != nil:
		return string(m.Kind) + " " + q.config.Tilde(mirror.Dir())
	}
	return strings.Replace(q.answers[i].Method.Source.String(), "network mirror", string(cliconfig.NetworkMirror), 1)
}

// methodAnswers returns the answers of the methods.
func (q *question) methodAnswers() []report.MethodAnswer {
	all := []report.MethodAnswer{}
	for i, a := range q.answers {
		answer := report.MethodAnswer{Method: q.nameOf(i), Implied: q.kinds[i] == nil, Used: a.Applies, Asked: q.wasAsked(i), Versions: len(a.Listing.Versions)}
		if m := q.kinds[i]; m != nil {
			answer.Place = report.Place{File: q.config.Tilde(m.File), Line: m.Line}
		}
		if a.By != nil && q.hidden[i] == "" {
			answer.Pattern = a.By.String()
		}
		if q.hidden[i] != "" {
			answer.Hidden = q.config.Tilde(q.hidden[i])
		}
		if newest, ok := newestOf(a.Listing.Versions); ok {
			answer.Newest = newest.String()
		}
		switch {
		case errors.Is(a.Err, sources.ErrOffline):
			answer.Problem = "not queried (--offline)"
		case errors.Is(a.Err, sources.ErrNotFound):
			answer.Absent = true
		case a.Err != nil:
			answer.Problem = "no answer: " + cmp.Or(sources.Cause(a.Err), strings.TrimPrefix(sources.Reason(a.Err), q.req.Provider.String()+": "))
		}
		all = append(all, answer)
	}
	return all
}

// newestOf returns the newest release, or the newest pre-release if there is no release.
func newestOf(all []sources.Version) (sources.Version, bool) {
	if newest, ok := (sources.Constraints{}).Newest(all); ok {
		return newest, true
	}
	if len(all) == 0 {
		return sources.Version{}, false
	}
	return slices.MaxFunc(all, sources.Version.Compare), true
}

// look finds the versions on this machine.
func (q *question) look(ctx context.Context) {
	p, platform := q.req.Provider, sources.CurrentPlatform()
	versions := func(ids []sources.PackageID, err error) (all []sources.Version) {
		if err != nil {
			q.errs = append(q.errs, err)
		}
		for _, id := range ids {
			if id.Platform == platform {
				all = append(all, id.Version)
			}
		}
		return newestFirst(all)
	}
	workdir := q.store.Workdir(q.dir, filepath.Join(q.config.DataDir, "providers"))
	defer workdir.Close()
	q.here[hereInstalled] = versions(workdir.PackagesOf(ctx, p))
	if !q.flags.NoCache {
		q.here[hereCached] = versions(q.store.PackagesOf(ctx, p))
	}
	var nearby []sources.Version
	for _, mirror := range q.nearby() {
		if slices.ContainsFunc(q.methods, func(m sources.Method) bool { return localMirror(m) != nil && localMirror(m).Dir() == mirror.Dir() }) {
			continue
		}
		listing, err := mirror.Versions(ctx, p)
		if err == nil {
			nearby = append(nearby, listing.Versions...)
		}
	}
	q.here[hereNearby] = newestFirst(nearby)
}

// newestFirst sorts versions, and removes duplicates.
func newestFirst(all []sources.Version) []sources.Version {
	slices.SortFunc(all, func(a, b sources.Version) int { return b.Compare(a) })
	return slices.Compact(all)
}

// unmanaged returns why engines install no package of the provider, or "".
func (q *question) unmanaged() string {
	if dir := q.config.DevOverrides[q.req.Provider]; dir != "" {
		return "dev_overrides replaces it with " + q.config.Tilde(dir) + ": nothing is installed"
	}
	if slices.Contains(q.config.Unmanaged, q.req.Provider) {
		return "TF_REATTACH_PROVIDERS says that it is running: nothing is installed"
	}
	return ""
}

// A planned is what install would do, or why it would fail.
type planned struct {
	installer.Plan
	err error
}

// plans returns what install and install --upgrade would do. The error is the one to report.
func (q *question) plans(ctx context.Context) (plan, upgrade planned, err error) {
	plan.Plan, plan.err = q.planner(false).Plan(ctx, *q.root, q.req)
	upgrade.Plan, upgrade.err = q.planner(true).Plan(ctx, *q.root, q.req)
	return plan, upgrade, ctx.Err()
}

// planner returns an installer that reports nothing.
func (q *question) planner(upgrade bool) *installer.Installer {
	opts := q.installerOptions(func(acquire.Event) {})
	opts.Upgrade = upgrade
	return installer.New(sources.NewMulti(q.methods), q.store, q.client, opts)
}

// describeChoice says which version install chooses, and why.
func (q *question) describeChoice(e *report.Explanation, plan, upgrade planned) {
	switch {
	case plan.err != nil:
		e.Why = "none: " + q.reasonOf(plan.err)
	default:
		e.Chosen = plan.Version.String()
		e.From = q.deliveredBy(plan.Version)
	}
	newest := "the newest that the sources in use have"
	if !q.req.Constraints.Empty() {
		newest = fmt.Sprintf("the newest that %q allows", q.req.Constraints)
	}
	switch {
	case plan.err != nil:
	case plan.Offline:
		e.Why = "the newest verified version on this machine (--offline)"
	case plan.Version == q.locked && upgrade.err == nil && upgrade.Version == q.locked && q.answered():
		e.Why = "locked; it is also " + newest
	case plan.Version == q.locked:
		e.Why = "locked"
	default:
		e.Why = newest
	}
	if !q.required {
		e.Why, e.Chosen, e.From = "none, because nothing requires it", "", ""
		if plan.err == nil {
			e.Why += fmt.Sprintf("; the newest version is %s", plan.Version)
		}
		return
	}
	e.Install, e.Upgrade = q.wouldDo(plan), q.wouldDo(upgrade)
}

// answered reports whether all methods that take part have answered.
func (q *question) answered() bool {
	return !slices.ContainsFunc(q.answers, func(a sources.Answer) bool { return a.Err != nil && !errors.Is(a.Err, sources.ErrNotFound) })
}

// reasonOf returns why no version can be chosen, without the provider, which is known, and without the errors of
// methods, which are shown with them.
func (q *question) reasonOf(err error) string {
	var reasons []string
	for i, a := range q.answers {
		if a.Applies && a.Err != nil && !errors.Is(a.Err, sources.ErrNotFound) && !errors.Is(a.Err, sources.ErrOffline) {
			reasons = append(reasons, q.nameOf(i)+" doesn't answer")
		}
	}
	if len(reasons) > 0 {
		return strings.Join(reasons, ", ")
	}
	for _, err := range sources.Errors(err) {
		reasons = append(reasons, strings.TrimPrefix(sources.Reason(err), q.req.Provider.String()+": "))
	}
	return strings.Join(reasons, "; ")
}

// deliveredBy names the first method that has a version.
func (q *question) deliveredBy(v sources.Version) string {
	for i, a := range q.answers {
		if a.Applies && slices.Contains(a.Listing.Versions, v) && a.Listing.Details[v].For(sources.CurrentPlatform()) {
			return q.nameOf(i)
		}
	}
	return ""
}

// wouldDo says what install does after a choice.
func (q *question) wouldDo(p planned) string {
	if p.err != nil {
		return "fails: " + q.reasonOf(p.err)
	}
	lock := ""
	switch {
	case q.locked == sources.Version{}:
		lock = ", and locks it"
	case q.locked != p.Version:
		lock = ", and locks it in place of " + q.locked.String()
	}
	switch from := q.deliveredBy(p.Version); {
	case q.unmanaged() != "":
		return "installs nothing"
	case p.How == installer.WasInstalled:
		return cmp.Or(strings.TrimPrefix(lock, ", and "), "has nothing to do")
	case p.How == installer.FromStore:
		return "takes " + p.Version.String() + " from the plugin cache" + lock
	case from == "" && !q.offered(p.Version):
		return "fails: no source has " + p.Version.String()
	case from == "":
		return fmt.Sprintf("fails: %s has no package for %s", p.Version, sources.CurrentPlatform())
	default:
		return "takes " + p.Version.String() + " from " + from + lock
	}
}

// offered reports whether a method that takes part has a version.
func (q *question) offered(v sources.Version) bool {
	return slices.ContainsFunc(q.answers, func(a sources.Answer) bool { return a.Applies && slices.Contains(a.Listing.Versions, v) })
}

// candidates returns all versions that are known from anywhere.
func (q *question) candidates() []installer.Candidate {
	index := map[sources.Version]int{}
	var all []installer.Candidate
	add := func(v sources.Version) *installer.Candidate {
		i, known := index[v]
		if !known {
			i = len(all)
			index[v] = i
			all = append(all, installer.Candidate{Version: v, NoPlatform: true, NoProtocol: true})
		}
		return &all[i]
	}
	for _, a := range q.answers {
		for _, v := range a.Listing.Versions {
			c := add(v)
			if detail := a.Listing.Details[v]; a.Applies {
				c.Offered = true
				c.NoPlatform = c.NoPlatform && !detail.For(sources.CurrentPlatform())
				c.NoProtocol = c.NoProtocol && !detail.Usable()
			}
		}
	}
	for _, versions := range q.here {
		for _, v := range versions {
			add(v)
		}
	}
	return all
}

// describeOthers says why versions are not chosen: the one that the user asks about, or else all newer ones. It says
// what to change to get the newest.
func (q *question) describeOthers(ctx context.Context, e *report.Explanation, plan, upgrade planned) {
	var last installer.Weighed
	var newest *installer.Weighed
	found := false
	for _, w := range installer.Weigh(q.req, q.locked, q.candidates()) {
		switch {
		case q.asked != sources.Version{} && w.Version != q.asked, q.asked == sources.Version{} && plan.err == nil && w.Version.Compare(plan.Version) <= 0:
			continue
		case w.Version == plan.Version:
			found = true
			continue
		}
		found = true
		if newest == nil && (!w.Version.Prerelease() || q.asked != sources.Version{}) {
			newest = &w
		}
		if n := len(e.Newer); n > 0 && last.Bar == w.Bar && last.By == w.By && last.Together == w.Together {
			e.Newer[n-1].Versions = append(e.Newer[n-1].Versions, w.Version.String())
			continue
		}
		last = w
		x := report.Excluded{Versions: []string{w.Version.String()}, Rule: string(w.Bar), Why: q.whyNot(w, plan)}
		if w.By != (sources.Origin{}) {
			by := report.ConstraintOf(w.By)
			x.By = &by
		}
		e.Newer = append(e.Newer, x)
	}
	if !found && q.asked != (sources.Version{}) {
		e.Newer = append(e.Newer, report.Excluded{Versions: []string{q.asked.String()}, Rule: string(installer.NotOffered), Why: "no source has this version"})
	}
	if other, ok := q.otherForPlatform(plan); ok && q.asked == (sources.Version{}) {
		e.Advice = q.require(other)
	} else if newest != nil {
		e.Advice = q.advice(*newest, upgrade)
	} else if paste, what := q.adviseRegistry(); paste != "" && (plan.err != nil || q.asked != plan.Version) {
		e.Advice = append(e.Advice, report.Advice{Version: "others", Paste: paste, What: what})
	}
}

// whyNot says why a version is not chosen.
func (q *question) whyNot(w installer.Weighed, plan planned) string {
	at := func(from sources.Origin) string {
		text := report.ConstraintOf(from).Where(q.out)
		if from.Module != "" {
			text += " (" + from.Module + ")"
		}
		return text
	}
	switch w.Bar {
	case installer.Constrained:
		if w.Together {
			return "the constraints together exclude it"
		}
		return fmt.Sprintf("excluded by %q at %s", w.By.Constraint, at(w.By))
	case installer.Prereleased:
		return "a pre-release: only a constraint with exactly this version allows it"
	case installer.NotOffered:
		return q.onlyElsewhere(w.Version)
	case installer.WithoutPlatform:
		return "no package for " + sources.CurrentPlatform().String()
	case installer.WrongProtocol:
		return "its plugin protocol is too old for this engine"
	case installer.LockedOut:
		return fmt.Sprintf("the lock file keeps %s", q.locked)
	}
	if plan.Offline {
		return "not verified on this machine, or not for " + sources.CurrentPlatform().String()
	}
	return "allowed"
}

// onlyElsewhere says where a version is that no method in use has.
func (q *question) onlyElsewhere(v sources.Version) string {
	for i, a := range q.answers {
		if !a.Applies && slices.Contains(a.Listing.Versions, v) {
			return "only in " + q.nameOf(i) + ", which is not used"
		}
	}
	for _, where := range []string{hereInstalled, hereCached, hereNearby} {
		if slices.Contains(q.here[where], v) {
			return map[string]string{
				hereInstalled: "installed, but in no source", hereCached: "in the plugin cache, but in no source",
				hereNearby: "only in a mirror on this machine that is not an installation method",
			}[where]
		}
	}
	return "no source has it"
}

// advice returns what to change to get a version that is excluded.
func (q *question) advice(w installer.Weighed, upgrade planned) []report.Advice {
	v := w.Version
	var all []report.Advice
	add := func(v sources.Version, paste, what string) {
		all = append(all, report.Advice{Version: v.String(), Paste: paste, What: what})
	}
	if upgrade.err == nil && upgrade.Version.Compare(q.locked) > 0 && q.locked != (sources.Version{}) && q.asked == (sources.Version{}) {
		add(upgrade.Version, q.upgradeCommand(), "")
	}
	switch w.Bar {
	case installer.Constrained, installer.Prereleased:
		for _, from := range q.req.From {
			c, err := sources.ParseConstraints(from.Constraint)
			if from.Constraint != "" && from.Line > 0 && (err != nil || !c.Allow(v)) {
				add(v, fmt.Sprintf("version = %q", installer.Relax(from, v)), "at "+report.ConstraintOf(from).Where(q.out))
			}
		}
		if len(all) == 0 || all[len(all)-1].Version != v.String() {
			all = append(all, q.require(v)...)
		}
		if q.locked != (sources.Version{}) {
			add(v, q.upgradeCommand(), "after that")
		}
	case installer.NotOffered:
		paste, what := q.adviseMethod(v)
		if paste != "" {
			add(v, paste, what)
		}
	case installer.LockedOut:
		if len(all) == 0 {
			add(v, q.upgradeCommand(), "")
		}
	}
	return all
}

// otherForPlatform returns the newest allowed version that has a package for this platform, if the chosen one lacks
// it.
func (q *question) otherForPlatform(plan planned) (sources.Version, bool) {
	if plan.err != nil || q.deliveredBy(plan.Version) != "" || !q.offered(plan.Version) {
		return sources.Version{}, false
	}
	var all []sources.Version
	for _, c := range q.candidates() {
		if c.Offered && !c.NoPlatform {
			all = append(all, c.Version)
		}
	}
	return q.req.Constraints.Newest(all)
}

// require returns what to change to require exactly a version.
func (q *question) require(v sources.Version) []report.Advice {
	i := slices.IndexFunc(q.req.From, func(from sources.Origin) bool { return from.Line > 0 })
	if i < 0 {
		return nil
	}
	return []report.Advice{{Version: v.String(), Paste: fmt.Sprintf("version = %q", v), What: "in required_providers, at " + report.ConstraintOf(q.req.From[i]).Where(q.out)}}
}

// upgradeCommand is the command that locks the newest version.
func (q *question) upgradeCommand() string { return q.again("install --upgrade") }

// adviseMethod returns the line of the CLI configuration that lets a method deliver a version.
func (q *question) adviseMethod(v sources.Version) (paste, what string) {
	for i, a := range q.answers {
		if a.Applies || !slices.Contains(a.Listing.Versions, v) {
			continue
		}
		if dir := q.hidden[i]; dir != "" {
			return fmt.Sprintf("provider_installation { filesystem_mirror { path = %q } direct {} }", dir), "in " + q.config.Tilde(q.mainFile())
		}
		if m := q.kinds[i]; m != nil && a.By != nil {
			return fmt.Sprintf("exclude = [%q]", a.By), fmt.Sprintf("to be removed at %s:%d", q.config.Tilde(m.File), m.Line)
		}
	}
	return "", ""
}

// adviseRegistry returns the line of the CLI configuration that lets the origin registry be queried. It may have other
// versions.
func (q *question) adviseRegistry() (paste, what string) {
	for i, a := range q.answers {
		m := q.kinds[i]
		switch {
		case q.hidden[i] == "" && (m == nil || m.Kind == cliconfig.Direct) && a.Applies:
			return "", ""
		case m == nil || m.Kind != cliconfig.Direct:
		case a.By != nil:
			return fmt.Sprintf("exclude = [%q]", a.By), fmt.Sprintf("to be removed from direct at %s:%d, so that the registry is queried", q.config.Tilde(m.File), m.Line)
		default:
			return fmt.Sprintf("include = [%q]", q.req.Provider), fmt.Sprintf("to be added to direct at %s:%d, so that the registry is queried", q.config.Tilde(m.File), m.Line)
		}
	}
	if len(q.config.Methods) == 0 {
		return "", ""
	}
	m := q.config.Methods[len(q.config.Methods)-1]
	return fmt.Sprintf("direct { include = [%q] }", q.req.Provider), "to be added to provider_installation in " + q.config.Tilde(m.File) + ", so that the registry is queried"
}

// mainFile is the CLI configuration file to change.
func (q *question) mainFile() string {
	for _, f := range q.config.InputFiles() {
		return f.Name
	}
	return "the CLI configuration"
}
