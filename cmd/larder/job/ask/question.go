package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
)

// A question is what is known about one provider in a root module, for explain and versions.
type question struct {
	*site.Root
	root     *installer.Root // with all requirements that could be read
	req      sources.Requirement
	required bool
	asked    sources.Version // the version that the user asks about; zero if there is none
	locked   sources.Version
	store    installer.Cache

	methods []sources.Method
	answers []sources.Answer
	listed  []map[sources.Version]bool // the versions of each answer
	hidden  map[int]string             // implied directories that hide a method, by its index
	kinds   map[int]*cliconfig.Method  // as configured, by index; nil for implied ones
	here    map[string][]sources.Version

	unknown []string // what could not be found out
	unread  string   // why install fails: what of the root module can't be read
	errs    []error
}

// Where versions are on this machine, besides the installation methods.
const (
	hereInstalled = "installed"
	hereCached    = "cached"
	hereNearby    = "nearby"
)

// newQuestion collects what is known about a provider. It fails only if nothing can be said. The caller calls done.
func newQuestion(ctx context.Context, s *site.Site, dir, typed string) (q *question, done func(), err error) {
	m, err := s.Root(ctx, dir, s.Output)
	if err != nil {
		return nil, nil, err
	}
	q = &question{Root: m, here: map[string][]sources.Version{}, hidden: map[int]string{}, kinds: map[int]*cliconfig.Method{}}
	q.readRoot(ctx)
	if err := q.readAddress(typed); err != nil {
		return nil, nil, err
	}
	if q.store, done, err = m.Store(); err != nil { // the rest is still an answer
		q.errs, q.unknown = append(q.errs, err), append(q.unknown, "the packages in the plugin cache")
		s.Flags.NoCache = true
		if q.store, done, err = m.Store(); err != nil {
			return nil, nil, err
		}
	}
	if e, ok := q.root.Lock.Entry(q.req.Provider); ok {
		q.locked = e.Version
	}
	if err := q.ask(ctx); err != nil {
		done()
		return nil, nil, err
	}
	q.look(ctx)
	if err := q.Policy.Learn(ctx, q.req.Provider, q.versions()...); err != nil {
		done()
		return nil, nil, err
	}
	for _, a := range q.answers {
		q.Policy.See(ctx, q.req.Provider, a.Listing)
	}
	return q, done, ctx.Err()
}

// readRoot reads the requirements of the root module. Errors in it are reported, and what could be read is used.
func (q *question) readRoot(ctx context.Context) {
	if q.Lock == nil {
		q.errs = append(q.errs, q.LockProblems.Err())
		q.Lock = &lockfile.File{}
		q.cannotRead("the lock file can't be read", report.Unlocked)
	}
	q.root = &installer.Root{Dir: q.Dir, DataDir: q.Config.DataDir, Lock: q.Lock, DryRun: true}
	tree, problems := readTree(ctx, q.Root)
	if err := q.Out.Warnings(problems); err != nil {
		q.errs = append(q.errs, err)
		q.cannotRead("the configuration can't be read", "constraints in the files with errors")
	}
	if tree == nil {
		return
	}
	for i, d := range tree.Missing {
		tree.Missing[i].File = q.Full(d.File)
	}
	if err := q.Missing(tree.Missing); err != nil {
		q.errs = append(q.errs, err)
		q.cannotRead("modules are not installed", "constraints in modules that are not installed")
	}
	if tree.StateUnread {
		q.unknown = append(q.unknown, "whether the state, which is not on this machine, requires more")
	}
	if q.Config.Engine == sources.OpenTofu && !(tree.Partial && q.Lock.Exists) {
		_ = q.Lock.Migrate()
	}
	q.root.StateUnread, q.root.Elsewhere, q.root.Requirements = tree.StateUnread, tree.Elsewhere, tree.Requirements
}

// cannotRead notes what is unknown, because a part of the root module can't be read. Install fails for the first reason.
func (q *question) cannotRead(reason, unknown string) {
	q.unread = cmp.Or(q.unread, reason)
	q.unknown = append(q.unknown, unknown)
}

// readAddress reads the provider and the version that the user asks about. An address
// without host or namespace means the provider that the root module requires, if there is one.
func (q *question) readAddress(typed string) error {
	address, version, versioned := sources.CutVersion(typed)
	p, err := sources.ParseProvider(address, q.Config.Engine)
	if err != nil {
		return report.Usage(err)
	}
	if p.BuiltIn() {
		return report.Usage(fmt.Errorf("%s is a part of %s: it has no versions, and nothing is installed", p, q.Config.Engine))
	}
	if versioned {
		if q.asked, err = sources.ParseVersion(version); err != nil {
			return report.Usage(sources.WithHint(err, "write ADDRESS@VERSION to ask about a version"))
		}
	}
	q.req = sources.Requirement{Provider: p}
	var short []sources.Requirement // the short address may mean each of these
	for _, r := range q.root.Requirements {
		switch {
		case r.Provider == p:
			q.req, q.required = r, true
			return nil
		case strings.HasSuffix(r.Provider.String(), "/"+strings.ToLower(address)):
			short = append(short, r)
		}
	}
	switch len(short) {
	case 0:
	case 1:
		q.req, q.required = short[0], true
	default:
		err := fmt.Errorf("%s can mean %s or %s", address, q.Out.Name(short[0].Provider), q.Out.Name(short[1].Provider))
		return report.Usage(sources.WithHint(err, "write the namespace, too"))
	}
	return nil
}

// ask queries the installation methods.
func (q *question) ask(ctx context.Context) (err error) {
	if q.methods, err = q.Root.Methods(ctx); err != nil {
		return err
	}
	p := q.req.Provider
	q.answers = sources.Ask(ctx, p, q.methods)
	for i := range q.answers {
		a := &q.answers[i]
		if q.Config.Implied && i == len(q.answers)-1 {
			q.hidden[i] = q.Hiding[p]
		}
		if !q.Config.Implied && len(q.Config.Methods) == len(q.answers) {
			q.kinds[i] = &q.Config.Methods[i]
		}
		if !a.Applies && (q.hidden[i] != "" || site.LocalMirror(a.Method) != nil) { // otherwise a server would learn the name
			a.Listing, a.Err = a.Method.Source.Versions(ctx, p)
		}
		if a.Err != nil && !errors.Is(a.Err, sources.ErrNotFound) {
			if q.unknown = append(q.unknown, "the versions of "+q.nameOf(i)); a.Applies && !errors.Is(a.Err, sources.ErrOffline) {
				q.errs = append(q.errs, a.Err)
			}
		}
		q.listed = append(q.listed, map[sources.Version]bool{})
		for _, v := range a.Listing.Versions {
			q.listed[i][v] = true
		}
	}
	return nil
}

// wasAsked reports whether a method was queried.
func (q *question) wasAsked(i int) bool {
	a := q.answers[i]
	return (a.Applies || q.hidden[i] != "" || site.LocalMirror(a.Method) != nil) && !errors.Is(a.Err, sources.ErrOffline)
}

// nameOf names a method as people know it: its kind and location.
func (q *question) nameOf(i int) string {
	mirror := site.LocalMirror(q.answers[i].Method)
	switch m := q.kinds[i]; {
	case m == nil && mirror != nil:
		return q.Config.Tilde(mirror.Dir())
	case m == nil || m.Kind == cliconfig.Direct:
		return string(cliconfig.Direct) + " " + string(q.req.Provider.Host)
	case mirror != nil:
		return string(m.Kind) + " " + q.Config.Tilde(mirror.Dir())
	}
	return strings.Replace(q.answers[i].Method.Source.String(), "network mirror", string(cliconfig.NetworkMirror), 1)
}

// methodAnswers returns the answers of the methods.
func (q *question) methodAnswers() []report.MethodAnswer {
	all := []report.MethodAnswer{}
	for i, a := range q.answers {
		answer := report.MethodAnswer{Method: q.nameOf(i), Implied: q.kinds[i] == nil, Used: a.Applies, Asked: q.wasAsked(i), Versions: len(a.Listing.Versions)}
		if m := q.kinds[i]; m != nil {
			answer.Place = report.Place{File: q.Config.Tilde(m.File), Line: m.Line}
		}
		if a.By != nil && q.hidden[i] == "" {
			answer.Pattern = a.By.String()
		}
		if q.hidden[i] != "" {
			answer.Hidden = q.Config.Tilde(q.hidden[i])
		}
		answer.Newest = newestOf(a.Listing.Versions).String()
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

// newestOf returns the newest release, or the newest pre-release if there is no release. It is zero if there is neither.
func newestOf(all []sources.Version) sources.Version {
	if newest, ok := (sources.Constraints{}).Newest(all); ok || len(all) == 0 {
		return newest
	}
	return slices.MaxFunc(all, sources.Version.Compare)
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
	workdir := q.store.Workdir(q.Dir, filepath.Join(q.Config.DataDir, "providers"))
	defer workdir.Close()
	q.here[hereInstalled] = versions(workdir.PackagesOf(ctx, p))
	if !q.Flags.NoCache {
		q.here[hereCached] = versions(q.store.PackagesOf(ctx, p))
	}
	var nearby []sources.Version
	for _, mirror := range q.Nearby() {
		if slices.ContainsFunc(q.methods, func(m sources.Method) bool {
			return site.LocalMirror(m) != nil && site.LocalMirror(m).Dir() == mirror.Dir()
		}) {
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
	if q.CheckOverride(q.Config, q.req.Provider) != nil { // install fails
		return ""
	}
	if dir := q.Config.DevOverrides[q.req.Provider]; dir != "" {
		return "dev_overrides replaces it with " + q.Config.Tilde(dir)
	}
	if slices.Contains(q.Config.Unmanaged, q.req.Provider) {
		return "it runs already (TF_REATTACH_PROVIDERS)"
	}
	return ""
}

// answered reports whether all methods that take part have answered.
func (q *question) answered() bool {
	return !slices.ContainsFunc(q.answers, func(a sources.Answer) bool { return a.Err != nil && !errors.Is(a.Err, sources.ErrNotFound) })
}

// deliveredBy names the first method that has a version.
func (q *question) deliveredBy(v sources.Version) string {
	for i, a := range q.answers {
		if a.Applies && q.listed[i][v] && a.Listing.Details[v].For(sources.CurrentPlatform()) {
			return q.nameOf(i)
		}
	}
	return ""
}

// learn queries the methods that list versions without platforms for those of a version.
func (q *question) learn(ctx context.Context, v sources.Version) {
	for i := range q.answers {
		a := &q.answers[i]
		detailer, ok := a.Method.Source.(sources.Detailer)
		if _, known := a.Listing.Details[v]; known || !ok || !a.Applies || !slices.Contains(a.Listing.Versions, v) {
			continue
		}
		detail, err := detailer.Detail(ctx, sources.Release{Provider: q.req.Provider, Version: v})
		if err != nil {
			continue // install reports it
		}
		details := map[sources.Version]sources.Detail{v: detail}
		maps.Copy(details, a.Listing.Details) // other users may have this map
		a.Listing.Details = details
	}
}

// rules returns what decides which version of the provider is chosen.
func (q *question) rules() installer.Rules {
	return installer.Rules{Requirement: q.req, Locked: q.locked, Policy: q.Policy, Lacks: q.lacks}
}

// lacks returns what prevents the installation of a version, as far as the methods that take part say so.
func (q *question) lacks(v sources.Version) installer.Bar {
	lacks := installer.NotOffered
	platform, protocol := false, false
	for i, a := range q.answers {
		if a.Applies && q.listed[i][v] {
			lacks = ""
			detail := a.Listing.Details[v]
			platform, protocol = platform || detail.For(sources.CurrentPlatform()), protocol || detail.Usable()
		}
	}
	switch {
	case lacks != "":
		return lacks
	case !platform:
		return installer.WithoutPlatform
	case !protocol:
		return installer.WrongProtocol
	}
	return ""
}

// versions returns all versions that are known from anywhere, the newest first.
func (q *question) versions() (all []sources.Version) {
	for _, a := range q.answers {
		all = append(all, a.Listing.Versions...)
	}
	for _, versions := range q.here {
		all = append(all, versions...)
	}
	return newestFirst(all)
}

// candidates returns all known versions, the newest first, each with what excludes it.
func (q *question) candidates() []installer.Candidate { return q.rules().Candidates(q.versions()) }

// readTree reads the root module. The problems name files by their full paths.
func readTree(ctx context.Context, m *site.Root) (*modules.Tree, sources.Diagnostics) {
	tree, problems, err := m.Load(ctx)
	if err != nil {
		return nil, sources.Diagnostics{{Text: sources.Text(err), Hint: strings.Join(sources.Hints(err), "; ")}}
	}
	for i, r := range tree.Requirements {
		tree.Requirements[i].From = slices.Clone(r.From)
		for j, from := range r.From {
			tree.Requirements[i].From[j].File = m.Full(from.File)
		}
	}
	for i, d := range problems {
		problems[i].File = m.Full(d.File)
	}
	if tree.Partial && m.Lock.Exists {
		tree.Requirements = append(tree.Requirements, m.Recorded(m.LockPath, tree.Requirements)...)
	}
	return tree, problems
}
