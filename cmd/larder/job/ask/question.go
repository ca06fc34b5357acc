package ask

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
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
)

// A question is one provider in a root module, with the table of its candidates, for explain and versions.
type question struct {
	*site.Root
	root     *installer.Root // with all requirements that could be read
	req      sources.Requirement
	required bool
	asked    sources.Version // the version that the user asks about; zero if there is none
	locked   sources.Version
	store    installer.Cache

	methods   []sources.Method
	answers   []MethodAnswer
	install   planned // without a change, for explain
	upgrade   planned
	installed []sources.Version
	cached    []sources.Version

	unknown []string // what could not be found out
	unread  string   // why install fails: what of the root module can't be read
	errs    []error
}

// A MethodAnswer is what an installation method says about the provider.
type MethodAnswer struct {
	Method       string `json:"method"` // its kind and location
	report.Place        // in the CLI configuration; none for implied ones
	Implied      bool   `json:"implied,omitempty"` // the configuration has no provider_installation block
	Used         bool   `json:"used"`              // takes part
	Pattern      string `json:"pattern,omitempty"` // of include or exclude, that decides
	Hidden       string `json:"hidden,omitempty"`  // the implied directory for which the method is not used
	Versions     int    `json:"versions"`          // number of versions
	Newest       string `json:"newest,omitempty"`  // the newest release, or else the newest version
	Asked        bool   `json:"asked"`             // it was queried
	Problem      string `json:"problem,omitempty"` // why it has no answer
	Absent       bool   `json:"absent,omitempty"`  // it answered that it doesn't have the provider
	Refused      bool   `json:"refused,omitempty"` // it answered that it doesn't deliver the provider

	of sources.Answer
}

// has reports whether the method lists a version.
func (a MethodAnswer) has(v sources.Version) bool { return slices.Contains(a.of.Listing.Versions, v) }

// offers reports whether the method takes part and lists a version.
func (a MethodAnswer) offers(v sources.Version) bool { return a.Used && a.has(v) }

// newQuestion collects what is known about a provider. It fails only if nothing can be said. The caller calls done.
func newQuestion(ctx context.Context, s *site.Site, dir, typed string) (q *question, done func(), err error) {
	m, err := s.Root(ctx, dir, s.Output)
	if err != nil {
		return nil, nil, err
	}
	q = &question{Root: m}
	if err := q.read(ctx, typed); err != nil {
		return nil, nil, err
	}
	if q.store, done, err = m.Store(); err != nil { // the rest is still an answer
		q.errs, q.unknown = append(q.errs, err), append(q.unknown, "the packages in the plugin cache")
		s.Flags.NoCache = true
		if q.store, done, err = m.Store(); err != nil {
			return nil, nil, err
		}
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
		q.Policy.See(ctx, q.req.Provider, a.of.Listing)
	}
	return q, done, ctx.Err()
}

// read reads the root module, and what it requires and locks of the provider that the user asks about.
func (q *question) read(ctx context.Context, typed string) error {
	q.readRoot(ctx)
	err := q.readAddress(typed)
	e, _ := q.root.Lock.Entry(q.req.Provider)
	q.locked = e.Version
	return err
}

// readRoot reads the requirements of the root module. Errors in it are reported, and what could be read is used.
func (q *question) readRoot(ctx context.Context) {
	if q.Lock == nil {
		q.errs = append(q.errs, q.LockProblems.Err())
		q.Lock = &lockfile.File{}
		q.cannotRead("the lock file can't be read", unlocked)
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

// cannotRead notes what is unknown because a part of the root module can't be read. Install fails for the first reason.
func (q *question) cannotRead(reason, unknown string) {
	q.unread = cmp.Or(q.unread, reason)
	q.unknown = append(q.unknown, unknown)
}

// parseAsked parses the address, and the version if there is one, that the user asks about.
func parseAsked(typed string, e sources.Engine) (p sources.Provider, v sources.Version, err error) {
	address, version, versioned := sources.CutVersion(typed)
	if p, err = sources.ParseProvider(address, e); err != nil {
		return p, v, report.Usage(err)
	}
	if p.BuiltIn() {
		const text = "%s is a part of %s: it has no versions, and nothing is installed"
		return p, v, report.Usage(fmt.Errorf(text, p, e))
	}
	if versioned {
		if v, err = sources.ParseVersion(version); err != nil {
			return p, v, report.Usage(sources.WithHint(err, "write ADDRESS@VERSION to ask about a version"))
		}
	}
	return p, v, nil
}

// readAddress reads the provider and the version that the user asks about. An address
// without host or namespace means the provider that the root module requires, if there is one.
func (q *question) readAddress(typed string) (err error) {
	address, _, _ := sources.CutVersion(typed)
	p, asked, err := parseAsked(typed, q.Config.Engine)
	if err != nil {
		return err
	}
	q.asked, q.req = asked, sources.Requirement{Provider: p}
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

// ask queries the installation methods. Of those that aren't used, it queries only what tells no server the name of the
// provider, and the registry that an implied directory hides.
func (q *question) ask(ctx context.Context) (err error) {
	if q.methods, err = q.Root.Methods(ctx); err != nil {
		return err
	}
	q.answers = []MethodAnswer{}
	for i, a := range sources.Ask(ctx, q.req.Provider, q.methods) {
		one, mirror, hiding := MethodAnswer{Implied: q.Config.Implied, Used: a.Applies}, site.LocalMirror(a.Method), ""
		kind := cliconfig.Direct
		if !q.Config.Implied {
			m := q.Config.Methods[i]
			kind, one.Place = m.Kind, report.Place{File: m.File, Line: m.Line}
		} else if i == len(q.methods)-1 {
			hiding = q.Hiding[q.req.Provider]
		}
		switch { // as people know it: by its kind, unless it is implied, and its location
		case mirror != nil && q.Config.Implied:
			one.Method = q.Shown(mirror.Dir())
		case mirror != nil:
			one.Method = string(kind) + " " + q.Shown(mirror.Dir())
		case kind == cliconfig.Direct:
			one.Method = string(kind) + " " + string(q.req.Provider.Host)
		default:
			one.Method = strings.Replace(a.Method.Source.String(), "network mirror", string(cliconfig.NetworkMirror), 1)
		}
		if hiding != "" {
			one.Hidden = q.Shown(hiding)
		} else if a.By != nil {
			one.Pattern = a.By.String()
		}
		asked := a.Applies || hiding != "" || mirror != nil
		if asked && !a.Applies {
			a.Listing, a.Err = a.Method.Source.Versions(ctx, q.req.Provider)
		}
		one.of, one.Versions, one.Newest = a, len(a.Listing.Versions), newestOf(a.Listing.Versions).String()
		one.Asked = asked && !errors.Is(a.Err, sources.ErrOffline)
		switch {
		case a.Err == nil:
		case errors.Is(a.Err, sources.ErrNotFound):
			one.Absent = true
		case errors.Is(a.Err, sources.ErrOffline):
			one.Problem = "not queried (--offline)"
		default:
			one.Refused = errors.Is(a.Err, sources.ErrRefused)
			if one.Problem = report.Said(one.Refused, "refused: ", "no answer: ") + q.causeOf(a.Err); a.Applies {
				q.errs = append(q.errs, a.Err)
			}
		}
		if one.Problem != "" {
			q.unknown = append(q.unknown, "the versions of "+one.Method)
		}
		q.answers = append(q.answers, one)
	}
	return nil
}

// newestOf returns the newest release, or else the newest pre-release. It is zero if there is neither.
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
	q.installed = versions(workdir.PackagesOf(ctx, p))
	if !q.Flags.NoCache {
		q.cached = versions(q.store.PackagesOf(ctx, p))
	}
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
		return "dev_overrides replaces it with " + dir
	}
	if slices.Contains(q.Config.Unmanaged, q.req.Provider) {
		return "it runs already (TF_REATTACH_PROVIDERS)"
	}
	return ""
}

// deliveredBy names the first method that has a version.
func (q *question) deliveredBy(v sources.Version) string {
	for _, a := range q.answers {
		if a.offers(v) && a.of.Listing.Details[v].For(sources.CurrentPlatform()) {
			return a.Method
		}
	}
	return ""
}

// lacks returns what prevents the installation of a version, as far as the methods that take part say so. With
// --offline, a version on this machine needs no method.
func (q *question) lacks(v sources.Version) installer.Bar {
	lacks := installer.NotOffered
	if q.Flags.Offline && (slices.Contains(q.installed, v) || slices.Contains(q.cached, v)) {
		lacks = ""
	}
	for _, a := range q.answers {
		detail := a.of.Listing.Details[v]
		switch {
		case !a.offers(v) || lacks == "":
		case !detail.For(sources.CurrentPlatform()):
			lacks = installer.WithoutPlatform
		case !detail.Usable():
			lacks = installer.WrongProtocol
		default:
			lacks = ""
		}
	}
	return lacks
}

// again returns another command line for the root module and the same packages.
func (q *question) again(words string) string {
	command := q.Again(words)
	if q.Flags.Offline {
		command += " --offline"
	}
	return command
}

// versions returns all versions that are known from anywhere, the newest first.
func (q *question) versions() (all []sources.Version) {
	for _, a := range q.answers {
		all = append(all, a.of.Listing.Versions...)
	}
	return newestFirst(slices.Concat(all, q.installed, q.cached))
}

// candidates returns all known versions, the newest first, each with what excludes it.
func (q *question) candidates() []installer.Candidate {
	rules := installer.Rules{Requirement: q.req, Locked: q.locked, Policy: q.Policy, Lacks: q.lacks}
	return rules.Candidates(q.versions())
}

// readTree reads the root module.
func readTree(ctx context.Context, m *site.Root) (*modules.Tree, sources.Diagnostics) {
	tree, problems, err := m.Load(ctx)
	if err != nil {
		return nil, sources.Diagnostics{{Text: sources.Text(err), Hint: strings.Join(sources.Hints(err), "; ")}}
	}
	if tree.Partial && m.Lock.Exists {
		tree.Requirements = append(tree.Requirements, m.Recorded(tree.Requirements)...)
	}
	return tree, problems
}
