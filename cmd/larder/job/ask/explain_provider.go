package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
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
	q.install, q.upgrade = q.plan(ctx, q.req, false), q.plan(ctx, q.req, true)
	e := Explanation{
		Provider: q.req.Provider.String(), Engine: string(q.Config.Engine), Because: q.Chosen.Because(),
		Required: []Constraint{}, Installed: sources.Texts(q.installed), Cached: sources.Texts(q.cached), Methods: q.answers,
		Newer: []Excluded{}, Advice: []Advice{}, Unread: q.unread, Unmanaged: q.unmanaged(),
	}
	for _, from := range q.req.From {
		e.Required = append(e.Required, constraintOf(from))
	}
	if q.locked != (sources.Version{}) {
		e.Locked, e.LockedAt = q.locked.String(), report.Place{File: q.LockPath, Line: q.Lock.Block(q.req.Provider)}
	}
	if q.describeChoice(&e); e.Unmanaged == "" {
		q.describeOthers(ctx, &e)
	}
	if err = ctx.Err(); !q.required && q.install.err != nil && len(q.unknown) == 0 {
		err = errors.Join(err, q.Root.Explain(q.install.err))
	}
	e.Unknown = append([]string{}, q.unknown...)
	q.show(e, all)
	return errors.Join(append(q.errs, err)...)
}

// causeOf returns an error without the provider, which is known.
func (q *question) causeOf(err error) string {
	return cmp.Or(sources.Cause(err), strings.TrimPrefix(sources.Reason(err), q.req.Provider.String()+": "))
}

// A planned is what install would do, or why it would fail.
type planned struct {
	installer.Plan
	err   error  // why no version can be chosen
	fails string // the reason in words, or why the package of the chosen version can't be installed; empty if it can
}

// plan returns what install or install --upgrade would do. It reports nothing, and reads no archives of mirrors: people
// wait for the answer.
func (q *question) plan(ctx context.Context, req sources.Requirement, upgrade bool) (p planned) {
	opts := q.InstallerOptions(func(acquire.Event) {})
	opts.Upgrade, opts.Unread = upgrade, true
	p.Plan, p.err = installer.New(sources.NewMulti(q.methods), q.store, q.Client, opts).Plan(ctx, *q.root, req)
	if err := q.CheckOverride(q.Config, q.req.Provider); err != nil && q.required {
		p.err = err
	}
	version := p.Version.String()
	switch {
	case p.err != nil:
		p.fails = q.reasonOf(p.err)
	case errors.Is(p.Fails, sources.ErrNoPlatform):
		p.fails = version + " has no package for " + sources.CurrentPlatform().String()
	case p.Fails != nil:
		if p.fails = q.reasonOf(p.Fails); !strings.HasPrefix(p.fails, version) {
			p.fails = version + ": " + p.fails
		}
	}
	return p
}

// describeChoice says which version install chooses, and why.
func (q *question) describeChoice(e *Explanation) {
	plan := q.install
	if q.upgrade.err == nil && q.required {
		e.Upgrade = q.upgrade.Version.String()
	}
	if plan.err == nil && q.required && e.Unmanaged == "" {
		e.Chosen, e.From = plan.Version.String(), q.deliveredBy(plan.Version)
	}
	switch {
	case !q.required:
		e.Why = "none, because " + cmp.Or(q.unread, "nothing requires it")
		if q.upgrade.err == nil { // whatever is locked
			e.Why += fmt.Sprintf("; the newest version is %s", q.upgrade.Version)
		}
	case plan.err != nil:
		e.Why = "none: " + plan.fails
	case plan.Offline:
		e.Why = "the newest verified version on this machine (--offline)"
	case plan.Version == q.locked:
		e.Why = "locked"
	default:
		e.Why = "the newest that " + q.limits(plan.Version)
	}
	if e.Unmanaged != "" {
		e.Why = "none: " + e.Unmanaged
	}
	if !q.required {
		return
	}
	e.Install, e.InstallUpgrade = q.wouldDo(plan), q.wouldDo(q.upgrade)
	if e.InstallUpgrade == e.Install && strings.HasPrefix(e.Install, "fails: ") {
		e.InstallUpgrade = "fails" // for the same reason
	}
	if plan.err != nil && q.unread == "" { // the reason is the choice
		e.Install = "fails"
	}
}

// limits says what excludes versions that are newer than the chosen one.
func (q *question) limits(chosen sources.Version) string {
	var by []string
	if !q.req.Constraints.Empty() {
		by = append(by, fmt.Sprintf("%q", q.req.Constraints))
	}
	if slices.ContainsFunc(q.candidates(), func(c installer.Candidate) bool {
		return c.Bar == installer.Excluded && c.Version.Compare(chosen) > 0 && q.lacks(c.Version) != installer.NotOffered
	}) {
		by = append(by, "the policy")
	}
	switch len(by) {
	case 0:
		return "the sources in use have"
	case 1:
		return by[0] + " allows"
	}
	return ui.List("and", by) + " allow"
}

// reasonOf returns why no version can be chosen, without the errors of methods, which are shown with them.
func (q *question) reasonOf(err error) string {
	var reasons []string
	for _, a := range q.answers {
		if a.Used && a.Asked && a.Problem != "" {
			reasons = append(reasons, a.Method+report.Said(a.Refused, " refuses it", " doesn't answer"))
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
	for _, err := range sources.Errors(err) {
		reasons = append(reasons, q.causeOf(err))
	}
	return strings.Join(reasons, "; ")
}

// wouldDo says what install does after a choice.
func (q *question) wouldDo(p planned) string {
	lock := ""
	switch {
	case q.locked == sources.Version{}:
		lock = ", and locks it"
	case q.locked != p.Version:
		lock = ", and locks it in place of " + q.locked.String()
	}
	switch {
	case q.unread != "":
		return "fails: " + q.unread
	case p.err == nil && q.unmanaged() != "":
		return "installs nothing"
	case p.fails != "":
		return "fails: " + p.fails
	case p.How == installer.WasInstalled:
		return cmp.Or(strings.TrimPrefix(lock, ", and "), "has nothing to do")
	case p.How == installer.FromStore:
		return "takes " + p.Version.String() + " from the plugin cache" + lock
	}
	return "takes " + p.Version.String() + " from " + q.deliveredBy(p.Version) + lock
}

// describeOthers says why versions are not chosen: the one that the user asks about, or else all newer ones. It says
// what to change to get the newest.
func (q *question) describeOthers(ctx context.Context, e *Explanation) {
	var newest *installer.Candidate
	found, asks := false, q.asked != sources.Version{}
	for _, w := range q.candidates() {
		if asks && w.Version != q.asked || !asks && q.install.err == nil && w.Version.Compare(q.install.Version) <= 0 {
			continue
		}
		if found = true; w.Version == q.install.Version {
			continue
		}
		lacks, pre := q.lacks(w.Version), w.Version.Prerelease()
		suggests := lacks != installer.WithoutPlatform && lacks != installer.WrongProtocol && w.Excluded == nil
		if suggests && (asks || q.install.err != nil || !pre) && (newest == nil || newest.Version.Prerelease() && !pre) {
			newest = &w
		}
		q.addExcluded(e, w)
	}
	if !found && asks {
		e.Newer = append(e.Newer, Excluded{
			Versions: []string{q.asked.String()}, Rule: string(installer.NotOffered), Why: "no source has this version",
		})
	}
	excluded, is := errors.AsType[*installer.ExcludedError](q.install.err)
	switch {
	case q.unread != "": // install fails whatever else is changed
	case !asks && q.upgrade.err == nil && q.upgrade.fails != "":
		e.Advice = append(e.Advice, q.adviseOther(ctx)...)
	case !asks && is && excluded.Locked && q.upgrade.err == nil:
		e.Advice = []Advice{{Version: q.upgrade.Version.String(), Paste: q.again("install --upgrade")}}
	case newest != nil:
		e.Advice = append(e.Advice, q.advice(*newest)...)
	}
}

// addExcluded adds a version that isn't chosen, to the versions before it if the reason is the same.
func (q *question) addExcluded(e *Explanation, w installer.Candidate) {
	x := Excluded{Versions: []string{w.Version.String()}, Rule: string(w.Bar), Why: q.whyNot(w)}
	if n := len(e.Newer) - 1; n >= 0 && e.Newer[n].Rule == x.Rule && e.Newer[n].Why == x.Why {
		e.Newer[n].Versions = append(e.Newer[n].Versions, x.Versions...)
		return
	}
	if by := barOf(w); by != (Constraint{}) {
		x.By = &by
	}
	e.Newer = append(e.Newer, x)
}

// whyNot says why a version is not chosen.
func (q *question) whyNot(w installer.Candidate) string {
	switch w.Bar {
	case installer.Constrained:
		if w.Together {
			return "the constraints together exclude it"
		}
		text := fmt.Sprintf("excluded by %q at %s", w.By.Constraint, q.where(w.By))
		if w.By.Module != "" {
			text += " (" + w.By.Module + ")"
		}
		return text
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
	if q.install.err == nil && w.Version.Compare(q.install.Version) < 0 {
		return "allowed, but older than " + q.install.Version.String()
	}
	if q.install.Offline || errors.Is(q.install.err, sources.ErrOffline) {
		return "not verified on this machine, or not for " + sources.CurrentPlatform().String()
	}
	return "allowed"
}

// onlyElsewhere says where a version is that no method in use has.
func (q *question) onlyElsewhere(v sources.Version) string {
	for _, a := range q.answers {
		if !a.Used && a.has(v) {
			return "only in " + a.Method + ", which is not used"
		}
	}
	switch {
	case slices.Contains(q.installed, v):
		return "installed, but in no source"
	case slices.Contains(q.cached, v):
		return "in the plugin cache, but in no source"
	}
	return "no source has it"
}
