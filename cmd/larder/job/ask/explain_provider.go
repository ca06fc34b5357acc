package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
)

// explainProvider shows how the version of a provider is chosen for the root module in dir.
func explainProvider(ctx context.Context, s *site.Site, dir, address string, all bool) error {
	q, done, err := newQuestion(ctx, s, dir, address)
	if err != nil {
		return err
	}
	defer done()
	e := report.Explanation{
		Provider: q.req.Provider.String(), Engine: string(q.Config.Engine), Because: q.Chosen.Because(q.Config.Tilde),
		Required: []report.Constraint{}, Installed: sources.Texts(q.here[hereInstalled]), Cached: sources.Texts(q.here[hereCached]),
		Nearby: sources.Texts(q.here[hereNearby]), Methods: q.methodAnswers(), Newer: []report.Excluded{}, Advice: []report.Advice{},
	}
	for _, from := range q.req.From {
		e.Required = append(e.Required, report.ConstraintOf(from))
	}
	if q.locked != (sources.Version{}) {
		e.Locked, e.LockedAt = q.locked.String(), report.Place{File: q.LockPath, Line: q.Lock.Block(q.req.Provider)}
	}
	e.Unread = q.unread
	plan, upgrade, err := q.plans(ctx)
	q.describeChoice(&e, plan, upgrade)
	q.describeOthers(ctx, &e, plan, upgrade)
	if !q.required && plan.err != nil && len(q.unknown) == 0 {
		err = errors.Join(err, q.Root.Explain(plan.err))
	}
	if e.Unmanaged = q.unmanaged(); e.Unmanaged != "" {
		e.Why, e.Chosen, e.From, e.Newer, e.Advice = "none: "+e.Unmanaged, "", "", []report.Excluded{}, []report.Advice{}
	}
	e.Unknown = append([]string{}, q.unknown...)
	q.Output.Explained(e, all)
	return errors.Join(append(q.errs, err)...)
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
	if err := q.CheckOverride(q.Config, q.req.Provider); err != nil && q.required {
		plan.err, upgrade.err = err, err
	}
	for _, p := range []planned{plan, upgrade} {
		if p.err == nil && p.How == installer.Planned {
			q.learn(ctx, p.Version)
		}
	}
	return plan, upgrade, ctx.Err()
}

// planner returns an installer that reports nothing, and reads no archives of mirrors: people wait for the answer.
func (q *question) planner(upgrade bool) *installer.Installer {
	opts := q.InstallerOptions(func(acquire.Event) {})
	opts.Upgrade, opts.Unread = upgrade, true
	return installer.New(sources.NewMulti(q.methods), q.store, q.Client, opts)
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
	if upgrade.err == nil && q.required {
		e.Upgrade = upgrade.Version.String()
	}
	newest := "the newest that the sources in use have"
	limited := plan.err == nil && q.excludesNewer(plan.Version)
	switch {
	case limited && q.req.Constraints.Empty():
		newest = "the newest that the policy allows"
	case limited:
		newest = "the newest that " + q.constraints("and the policy allow", "and the policy allow")
	case !q.req.Constraints.Empty():
		newest = "the newest that " + q.constraints("allows", "allow")
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
		e.Why, e.Chosen, e.From = "none, because "+cmp.Or(q.unread, "nothing requires it"), "", ""
		if plan.err == nil {
			e.Why += fmt.Sprintf("; the newest version is %s", plan.Version)
		}
		return
	}
	e.Install, e.InstallUpgrade = q.wouldDo(plan), q.wouldDo(upgrade)
	if e.InstallUpgrade == e.Install && strings.HasPrefix(e.Install, "fails: ") {
		e.InstallUpgrade = "fails" // for the same reason
	}
	if plan.err != nil && q.unread == "" { // the reason is the choice
		e.Install = "fails"
	}
}

// excludesNewer reports whether the policy excludes a newer version that the constraints allow.
func (q *question) excludesNewer(chosen sources.Version) bool {
	return slices.ContainsFunc(q.candidates(), func(c installer.Candidate) bool {
		return c.Bar == installer.Excluded && c.Version.Compare(chosen) > 0 && q.lacks(c.Version) != installer.NotOffered
	})
}

// mostConstraints is the length of constraints that are shown in a sentence.
const mostConstraints = 80

// constraints returns a clause whose subject is all constraints, which are not quoted if they are long.
func (q *question) constraints(singular, plural string) string {
	subject, verb := strconv.Quote(q.req.Constraints.String()), singular
	if len(subject) > mostConstraints {
		subject, verb = "the constraints together", plural
	}
	return strings.TrimSpace(subject + " " + verb)
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
	switch missing, ok := errors.AsType[*installer.MissingError](err); {
	case ok && missing.Version == sources.Version{}:
		return "no verified version on this machine is allowed, and --offline is set"
	case ok && !missing.Hashed && !missing.Damaged:
		return missing.Version.String() + " is " + missing.Cause()
	}
	if none, ok := errors.AsType[*installer.NoVersionError](err); ok && len(q.req.Constraints.String()) > mostConstraints && len(none.Offered) > 0 {
		return "no version matches " + q.constraints("", "")
	}
	for _, err := range sources.Errors(err) {
		reasons = append(reasons, cmp.Or(sources.Cause(err), strings.TrimPrefix(sources.Reason(err), q.req.Provider.String()+": ")))
	}
	return strings.Join(reasons, "; ")
}

// wouldDo says what install does after a choice.
func (q *question) wouldDo(p planned) string {
	switch {
	case q.unread != "":
		return "fails: " + q.unread
	case p.err != nil:
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
	case q.obstacle(p) != "":
		return "fails: " + q.obstacle(p)
	default:
		return "takes " + p.Version.String() + " from " + from + lock
	}
}

// obstacle says why the package of a chosen version can't be installed, or returns "".
func (q *question) obstacle(p planned) string {
	version := p.Version.String()
	switch {
	case p.err != nil || p.Fails == nil:
		return ""
	case errors.Is(p.Fails, sources.ErrNoPlatform):
		return version + " has no package for " + sources.CurrentPlatform().String()
	}
	reason := q.reasonOf(p.Fails)
	if strings.HasPrefix(reason, version) {
		return reason
	}
	return version + ": " + reason
}

// describeOthers says why versions are not chosen: the one that the user asks about, or else all newer ones. It says
// what to change to get the newest.
func (q *question) describeOthers(ctx context.Context, e *report.Explanation, plan, upgrade planned) {
	var last installer.Candidate
	var newest *installer.Candidate
	found := false
	for _, w := range q.candidates() {
		switch {
		case q.asked != sources.Version{} && w.Version != q.asked, q.asked == sources.Version{} && plan.err == nil && w.Version.Compare(plan.Version) <= 0:
			continue
		case w.Version == plan.Version:
			found = true
			continue
		}
		found = true
		better := newest == nil && (q.asked != sources.Version{} || plan.err != nil) ||
			!w.Version.Prerelease() && (newest == nil || newest.Version.Prerelease())
		if better && w.Excluded == nil && !q.unusable(w.Version) { // no change of the configuration makes those usable
			newest = &w
		}
		why := q.whyNot(w, plan)
		if n := len(e.Newer); n > 0 && last.Bar == w.Bar && last.By == w.By && last.Together == w.Together && (w.Bar != installer.Excluded || why == e.Newer[n-1].Why) {
			e.Newer[n-1].Versions = append(e.Newer[n-1].Versions, w.Version.String())
			continue
		}
		last = w
		x := report.Excluded{Versions: []string{w.Version.String()}, Rule: string(w.Bar), Why: why}
		if w.Bar == installer.Excluded {
			rule := w.Excluded.Rule
			x.By = &report.Constraint{Constraint: rule.Text, Place: report.Place{File: rule.File, Line: rule.Line}}
		}
		if w.By != (sources.Origin{}) {
			by := report.ConstraintOf(w.By)
			x.By = &by
		}
		e.Newer = append(e.Newer, x)
	}
	if !found && q.asked != (sources.Version{}) {
		e.Newer = append(e.Newer, report.Excluded{Versions: []string{q.asked.String()}, Rule: string(installer.NotOffered), Why: "no source has this version"})
	}
	q.advise(ctx, e, newest, plan, upgrade)
}

// advise says what to change to get another version: the newest one that is excluded, or else one that can be installed.
func (q *question) advise(ctx context.Context, e *report.Explanation, newest *installer.Candidate, plan, upgrade planned) {
	excluded, is := errors.AsType[*installer.ExcludedError](plan.err)
	switch {
	case q.asked == sources.Version{} && q.obstacle(upgrade) != "":
		e.Advice = append(e.Advice, q.adviseOther(ctx, upgrade)...)
	case is && excluded.Locked && upgrade.err == nil && q.asked == sources.Version{}:
		e.Advice = []report.Advice{{Version: upgrade.Version.String(), Paste: q.upgradeCommand()}}
	case newest != nil:
		e.Advice = append(e.Advice, q.advice(*newest, upgrade)...)
	}
	if paste, what := q.adviseRegistry(); paste != "" && len(e.Advice) == 0 && (plan.err != nil || q.asked != plan.Version) {
		e.Advice = append(e.Advice, report.Advice{Version: "others", Paste: paste, What: what})
	}
}

// unusable reports whether a version is known to have no package that can be installed here.
func (q *question) unusable(v sources.Version) bool {
	lacks := q.lacks(v)
	return lacks != "" && lacks != installer.NotOffered
}

// whyNot says why a version is not chosen.
func (q *question) whyNot(w installer.Candidate, plan planned) string {
	at := func(from sources.Origin) string {
		text := report.ConstraintOf(from).Where(q.Out)
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
	case installer.Excluded:
		text := w.Excluded.Error()
		if from := w.Excluded.From(); from != "" {
			text += "; it will be allowed from " + from
		}
		return text
	case installer.NotOffered:
		return q.onlyElsewhere(w.Version)
	case installer.WithoutPlatform:
		return "no package for " + sources.CurrentPlatform().String()
	case installer.WrongProtocol:
		return "its plugin protocol " + sources.ProtocolNotSupported
	case installer.LockedOut:
		return fmt.Sprintf("the lock file keeps %s", q.locked)
	}
	if plan.err == nil && w.Version.Compare(plan.Version) < 0 {
		return "allowed, but older than " + plan.Version.String()
	}
	if plan.Offline {
		return "not verified on this machine, or not for " + sources.CurrentPlatform().String()
	}
	return "allowed"
}

// onlyElsewhere says where a version is that no method in use has.
func (q *question) onlyElsewhere(v sources.Version) string {
	for i, a := range q.answers {
		if !a.Applies && q.listed[i][v] {
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
