package install

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
)

// A CheckRequest says which root modules to check, and how.
type CheckRequest struct {
	Roots  []string // directories as typed; none means the one in which larder works
	Strict bool     // as for lock: report every hash that no known package has
	Since  string   // only root modules that have changed since this revision of the repository; empty means all
	Format CheckFormat
}

// A checking is a run of check, with its results so far.
type checking struct {
	*lockers
	request CheckRequest
	changed *changes // nil without --since
	unread  []string // root modules that have not changed, and can't be read
	sum     CheckSum
	modules []checkResult
}

// Check holds root modules to the policy and to their lock files, and changes none of them. It returns a
// [report.FoundError] if there are findings.
func Check(ctx context.Context, s *site.Site, request CheckRequest) (err error) {
	s.Checks, s.Reading.Certain = true, true
	c := &checking{request: request, lockers: newLockers(s, LockRequest{Strict: request.Strict})}
	c.platforms = platformsToCheck
	defer c.closeScratch()
	if err = job.TakeRoots(s, request.Roots); err == nil && request.Since != "" {
		s.Flags.Recursive = true
		c.changed, err = changedSince(ctx, s, request.Since)
	}
	if err == nil {
		err = c.Each(ctx, c.at)
	}
	if ctx.Err() != nil {
		return err
	}
	return c.conclude(err)
}

// platformsToCheck returns the platforms that lock files must have hashes for: those that the policy declares, and
// those of the flags, or else this machine's.
func platformsToCheck(m *site.Root) []sources.Platform {
	return site.ThisIfNone(m.NamedPlatforms())
}

// conclude shows the findings and the totals. Failed is the error of the root modules that could not be checked.
func (c *checking) conclude(failed error) error {
	if len(c.unread) > 0 {
		c.Output.Warn("not checked, because they can't be read and have not changed: %s",
			sources.JoinSome(c.unread, 5, ", ", " and %d others"))
	}
	if failed != nil && c.sum.Failed == 0 { // the root modules could not be found
		c.modules = append(c.modules, checkResult{Name: ".", Errors: c.Output.ErrorFindings(failed)})
	}
	var findings []report.Finding
	for _, m := range c.modules {
		findings = append(findings, m.Findings...)
	}
	findings = report.ByCause(findings, true)
	if write := documents[c.request.Format]; write != nil {
		shorten := func(text string) string { return ui.Visible(c.Output.ShortenHere(text)) }
		c.Output.ShowText(write(document{c.modules, c.inRepository, shorten, c.Flags.Version}))
	} else {
		c.Output.Findings(findings...)
	}
	c.sum.Problems = len(findings)
	c.Output.Summary(c.sum)
	text := c.sum.text()
	switch {
	case failed != nil:
		if c.sum.Modules > 0 || len(findings) > 0 {
			c.Output.Say("%s", text)
		}
		for _, hint := range hintsOf(findings) {
			c.Output.Say("hint: %s", hint)
		}
		return failed
	case len(findings) > 0:
		err := errors.New(text)
		for _, hint := range slices.Backward(hintsOf(findings)) { // the outermost is shown first
			err = sources.WithHint(err, "%s", hint)
		}
		return report.FoundError{Err: err}
	case c.changed != nil && c.sum.Modules == 0:
		text = fmt.Sprintf("Nothing to check: no root module has changed since %s", c.request.Since)
	}
	c.Output.Conclude("%s", text)
	return nil
}

// hintsOf returns the hints of findings that are shown.
func hintsOf(findings []report.Finding) (all []string) {
	for _, f := range findings {
		all = site.AddHints(all, f.Hints)
	}
	return all
}

// inRepository returns the slashed path of a file for documents of CI systems: relative to the top of the repository
// or, if there is none, to the working directory. Other files have their absolute path.
func (c *checking) inRepository(file string) string {
	dir := c.Real(c.WorkDir)
	path := filepath.Join(c.Real(filepath.Dir(file)), filepath.Base(file))
	if relative, err := filepath.Rel(cmp.Or(c.Repository(dir), dir), path); err == nil && filepath.IsLocal(relative) {
		path = relative
	}
	return filepath.ToSlash(path)
}

// at checks the root module in dir.
func (c *checking) at(ctx context.Context, dir string, out *report.Output) (show func(), err error) {
	k := &checkedModule{checking: c, out: out, checkResult: checkResult{
		Name: c.inRepository(dir), LockFile: filepath.Join(dir, lockfile.Name),
	}}
	k.Root, err = c.Root(ctx, dir, out)
	if c.changed != nil {
		affected, fault := c.changed.affects(ctx, dir, k.Root, err)
		if !affected && ctx.Err() == nil {
			return func() {
				if c.sum.Unchanged++; fault != nil {
					c.unread = append(c.unread, c.Shown(dir))
				}
			}, nil
		}
	}
	if err == nil {
		err = k.check(ctx)
	}
	err = k.take(err)
	k.Errors = k.out.ErrorFindings(err)
	slices.SortStableFunc(k.Findings, func(a, b report.Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
	return func() {
		out.WarnAll(k.offline)
		c.sum.Unchecked += len(k.offline)
		if c.modules = append(c.modules, k.checkResult); err != nil {
			c.sum.Failed++
			return
		}
		c.sum.Modules++
	}, err
}

// A checkedModule is the check of one root module.
type checkedModule struct {
	checkResult
	*checking
	*site.Root
	out     *report.Output
	offline []error // what could not be checked without the network
}

// check holds the root module to the policy, and then to its lock file.
func (k *checkedModule) check(ctx context.Context) error {
	root, err := k.NeedsIfAny(ctx, k.Flags.Recursive) // a check of nothing is not a success
	if root != nil {
		err = errors.Join(err, k.checkRoot(ctx, root))
	}
	return errors.Join(err, k.checkOther(ctx))
}

// checkOther holds what only the other engine requires to the rules about providers, unless the user has chosen the
// engine. The lock file is not for that engine.
func (k *checkedModule) checkOther(ctx context.Context) error {
	if !k.Differs || k.Requested.Engine != "" {
		return nil
	}
	at := func(from sources.Origin) report.Place { return report.Place{File: from.File, Line: from.Line} }
	here := map[report.Place]bool{}
	for _, r := range k.Required {
		for _, from := range r.From {
			here[at(from)] = true
		}
	}
	opts := k.LoadOptions(ctx)
	opts.Engine = site.BothEngines[1-slices.Index(site.BothEngines, opts.Engine)]
	tree, ds := k.ReadTree(ctx, opts)
	for _, r := range slices.Concat(tree.Requirements, tree.Sources) {
		r.From = slices.DeleteFunc(slices.Clone(r.From), func(from sources.Origin) bool { return here[at(from)] })
		if len(r.From) > 0 {
			k.Required = append(k.Required, r)
			k.allowed(ctx, r.Provider)
		}
	}
	return ds.Err()
}

// checkRoot is check for the requirements of the root module.
func (k *checkedModule) checkRoot(ctx context.Context, root *installer.Root) error {
	for _, p := range root.Unmanaged {
		k.Providers = append(k.Providers, p.String())
		if err := k.Policy.CheckOverride(p); err != nil {
			k.add(errorFinding(p, sources.Version{}, err), k.declared(p))
		}
	}
	k.checkEngine(root)
	if !k.Lock.Exists && len(root.Requirements) > 0 {
		f := report.Finding{Kind: ruleNoLockFile, Text: "there is no lock file", Hints: k.lockHint("writes the lock file")}
		k.add(f, k.declared(root.Requirements[0].Provider))
	}
	for _, e := range k.Lock.Entries() {
		if !slices.Contains(root.Unmanaged, e.Provider) && !requires(root, e.Provider) {
			k.allowed(ctx, e.Provider)
		}
	}
	root.Requirements = slices.DeleteFunc(root.Requirements, func(r sources.Requirement) bool {
		k.Providers = append(k.Providers, r.Provider.String())
		return !k.allowed(ctx, r.Provider) || !k.matches(r)
	})
	k.note(k.Dir, root)
	if len(root.Requirements) == 0 {
		return nil
	}
	locker, _, err := k.open(ctx, k.Root)
	if err != nil {
		return err
	}
	root.Requirements = slices.DeleteFunc(root.Requirements, func(r sources.Requirement) bool {
		return !k.signed(locker, r.Provider)
	})
	locked := &lockedModule{out: k.out, file: k.LockFile, check: true}
	err = k.complete(ctx, k.Root, root, locked)
	k.takeLocked(locked)
	return err
}

// checkEngine adds a finding if the policy doesn't list the engine of the root module. Only the commands that start the
// engine know its version.
func (k *checkedModule) checkEngine(root *installer.Root) {
	err := k.AllowsEngine("the engine is "+string(k.Root.Config.Engine), nil)
	v, is := errors.AsType[*policy.Violation](err)
	if !is {
		return
	}
	at := report.Place{File: k.LockFile, Line: 1}
	if !k.Lock.Exists && len(root.Requirements) > 0 {
		at = k.declared(root.Requirements[0].Provider)
	}
	k.add(report.Finding{
		Kind: policyRule(v), Text: err.Error(),
		Hints:   []string{k.ExplainCommand(sources.Provider{}) + " shows why this is the engine", v.Hint()},
		Related: []report.Place{{File: v.Rule.File, Line: v.Rule.Line}},
	}, at)
}

// lockHint returns the hint with the command that completes the lock file.
func (k *checkedModule) lockHint(does string) []string {
	return []string{k.Again("lock", k.NamedPlatforms()...) + " " + does}
}

// allowed reports whether the policy allows a provider and its locked version, and whether its host is expected.
func (k *checkedModule) allowed(ctx context.Context, p sources.Provider) bool {
	found := len(k.Findings)
	e, isLocked := k.Lock.Entry(p)
	switch err := k.Policy.CheckProvider(p); {
	case err != nil:
		k.add(errorFinding(p, sources.Version{}, err), k.declared(p))
	case !k.Policy.Has(policy.Allow) && !slices.Contains(k.NamedHosts(), p.Host):
		// Otherwise someone has named it, or has listed all providers that are allowed.
		f := report.Finding{Kind: ruleUnexpectedHost}
		f.Text = fmt.Sprintf("neither the CLI configuration nor the policy names the host %s, "+
			"so the provider's hashes were not checked", p.Host)
		const hint = `if %s is a registry that you use, add allow = ["*/*", "%[1]s/*/*"] to the policy in %s`
		f.Hints = []string{fmt.Sprintf(hint, p.Host, k.policyFile())}
		if near := sources.Nearest(string(p.Host), sources.Texts(k.NamedHosts())); near != "" {
			f.Hints = []string{fmt.Sprintf("did you mean %s?", near)}
		}
		k.add(f.About(p, sources.Version{}), k.declared(p))
	case !isLocked:
	default:
		if err := k.AcceptLocked(ctx, p, e.Version); err != nil && ctx.Err() == nil {
			f := errorFinding(p, e.Version, err)
			hint := k.ExplainCommand(p) + " shows which versions are allowed"
			if k.checking.Flags.Recursive { // there may be many root modules to explain
				hint = k.UpgradeHint(p, sources.Version{}, false) + ", if one is allowed"
			}
			f.Hints = slices.Insert(f.Hints, 0, hint)
			k.add(f, k.lockedAt(p))
		}
	}
	return len(k.Findings) == found
}

// policyFile returns the file for rules about the root module, as shown: one where the user works, if it applies.
func (k *checkedModule) policyFile() string {
	dirs := k.DirsOf(k.Dir)
	dir := dirs[len(dirs)-1]
	if here := k.Real(k.Machine.WorkDir); slices.Contains(dirs, here) {
		dir = here
	}
	return k.Shown(filepath.Join(dir, cliconfig.CheckoutFile))
}

// matches reports whether the lock file selects a version that the constraints allow.
func (k *checkedModule) matches(r sources.Requirement) bool {
	e, isLocked := k.Lock.Entry(r.Provider)
	switch {
	case isLocked && r.AllowsLocked(e.Version):
		return true
	case isLocked:
		conflict := &installer.LockConflictError{Requirement: r, Locked: e.Version}
		f := errorFinding(r.Provider, e.Version, conflict)
		f.Hints = []string{k.UpgradeHint(r.Provider, sources.Version{}, false)}
		for _, from := range r.From {
			if from.Constraint != "" {
				f.Related = append(f.Related, report.Place{File: from.File, Line: from.Line})
			}
		}
		k.add(f, k.lockedAt(r.Provider))
	case k.Lock.Exists:
		f := report.Finding{Kind: ruleNotLocked, Text: "not in the lock file", Hints: k.lockHint("adds the provider")}
		k.add(f.About(r.Provider, sources.Version{}), k.declared(r.Provider))
	}
	return false
}

// signed reports whether a locked version is signed as the policy requires, as far as this machine has recorded that.
// If nothing is recorded, the locker finds it out.
func (k *checkedModule) signed(locker *installer.Locker, p sources.Provider) bool {
	e, _ := k.Lock.Entry(p)
	for _, platform := range platformsToCheck(k.Root) {
		id := sources.PackageID{Provider: p, Version: e.Version, Platform: platform}
		known, err := locker.Recall(id)
		unknown := k.Judge().NeedsApproval(p) && len(k.Judge().Current(known.Report.Approvals)) == 0
		if err != nil || unknown || !known.Proof.Signed() || !sources.MatchesAny(e.Hashes, known.Hashes()...) {
			continue
		}
		if err := k.Judge().Check(id, known.Report); err != nil {
			k.add(errorFinding(p, e.Version, err), k.lockedAt(p))
			return false
		}
	}
	return true
}

// takeLocked adds the problems of the lock file.
func (k *checkedModule) takeLocked(locked *lockedModule) {
	hints := map[string][]string{
		ruleLockOutOfDate: {k.Again("lock") + " updates the lock file"}, ruleLockIncomplete: k.lockHint("adds the hashes"),
		ruleUnknownHash: {k.unknownHint()}, ruleCheckoutMirror: {checkoutHint},
	}
	for _, f := range locked.problems(false) {
		f.Hints = hints[f.Kind]
		k.add(f, f.Place())
	}
}

// take turns the errors that are findings, and those about the network under --offline, into what they are, and returns
// the others.
func (k *checkedModule) take(err error) error {
	var others []error
	for _, err := range sources.Errors(err) {
		p, f := findingOf(err)
		switch {
		case f.Kind != "":
			k.add(f, k.lockedAt(p))
		case k.checking.Flags.Offline && errors.Is(err, sources.ErrOffline):
			k.offline = append(k.offline, uncheckedError{err})
			f.Text = sources.Text(err)
			k.Unchecked = append(k.Unchecked, f)
		default:
			others = append(others, err)
		}
	}
	return errors.Join(others...)
}

// An uncheckedError is an error about something that could not be checked without the network.
type uncheckedError struct{ error }

func (e uncheckedError) Error() string { return "not checked: " + sources.Text(e.error) }

func (e uncheckedError) Unwrap() error { return e.error }

// Cause returns the cause without the package, see [sources.Cause].
func (e uncheckedError) Cause() string {
	if cause := sources.Cause(e.error); cause != "" {
		return "not checked: " + cause
	}
	return ""
}

// findingOf returns the finding that an error about a package or a provider is, and the provider. The finding has no
// kind if the error is something else.
func findingOf(err error) (p sources.Provider, f report.Finding) {
	var pkg *sources.PackageError
	var provider *sources.ProviderError
	var missing *installer.MissingError
	var violation *policy.Violation
	v := sources.Version{}
	switch {
	case errors.As(err, &pkg):
		p, v = pkg.ID.Provider, pkg.ID.Version
	case errors.As(err, &provider):
		p = provider.Provider
	case errors.As(err, &missing):
		p, v = missing.Requirement.Provider, missing.Version
	case errors.As(err, &violation):
		p, v = violation.Provider, violation.Version
	default:
		return p, f
	}
	return p, errorFinding(p, v, err)
}

// errorFinding returns the finding about a provider, and a version unless it is zero, that an error is. It has no kind
// if the error is something else.
func errorFinding(p sources.Provider, v sources.Version, err error) report.Finding {
	var violation *policy.Violation
	var conflict *installer.LockConflictError
	var mismatch *acquire.HashMismatchError
	var republished *acquire.RepublishedError
	f := report.Finding{Text: cmp.Or(sources.Cause(err), sources.Text(err)), Hints: sources.Hints(err)}
	switch {
	case errors.As(err, &violation):
		f.Kind, f.Text = policyRule(violation), violation.Error()
		f.Related = []report.Place{{File: violation.Rule.File, Line: violation.Rule.Line}}
	case errors.As(err, &conflict) && !conflict.Gone:
		f.Kind, f.Text = ruleLockConflict, conflict.Cause()
	case errors.As(err, &republished):
		f.Kind = ruleRepublished
	case errors.As(err, &mismatch) && mismatch.By != "":
		f.Kind = ruleWrongHash
	}
	return f.About(p, v)
}

// add adds a finding at a place, unless it was found before.
func (k *checkedModule) add(f report.Finding, at report.Place) {
	switch {
	case at.File != "":
	case len(f.Related) > 0:
		at = f.Related[0]
	default:
		at.File = k.LockFile
	}
	f = k.out.Ruled(f, at)
	if !slices.ContainsFunc(k.Findings, f.Same) {
		k.Findings = append(k.Findings, f)
	}
}

// lockedAt returns the place of a provider in the lock file, or else in the configuration.
func (k *checkedModule) lockedAt(p sources.Provider) report.Place {
	if k.Root == nil || k.Lock == nil {
		return report.Place{}
	}
	if line := k.Lock.Block(p); line > 0 {
		return report.Place{File: k.LockFile, Line: line}
	}
	return k.declared(p)
}

// declared returns the place that requires a provider, or else the one in the lock file. Installed modules are not in
// the repository, so a place there is the last choice.
func (k *checkedModule) declared(p sources.Provider) (place report.Place) {
	for _, r := range k.Required {
		for _, from := range r.From {
			at := report.Place{File: from.File, Line: from.Line}
			switch {
			case r.Provider != p:
			case !site.IsBelow(from.File, k.Config.DataDir):
				return at
			case place.File == "":
				place = at
			}
		}
	}
	if line := k.Lock.Block(p); line > 0 {
		return report.Place{File: k.LockFile, Line: line}
	}
	return place
}

// checkoutHint is the hint about providers that the checkout serves.
const checkoutHint = "anyone who can change the checkout chooses these packages and their hashes: " +
	"compare them with the origin registry, or keep the mirror elsewhere"
