package ask

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// maxCandidates is how many providers doctor requests from a server, until the server has one.
const maxCandidates = 5

// An examinedServer is a registry or mirror to examine. One of the fields is set.
type examinedServer struct {
	place string // URL of a mirror
	host  sources.Host
}

func (at examinedServer) String() string {
	if at.place != "" {
		return fetch.Redact(at.place)
	}
	return string(at.host)
}

// ExamineServer requests a provider from a registry or a mirror, as an installation does up to the beginning of the
// archive, and shows each request. Typed names the server, and the address the provider; it may be empty.
func ExamineServer(ctx context.Context, s *site.Site, typed, address string) error {
	s.Ask()
	s.Output.Secrets().AddURL(typed)
	at, err := readServer(s, typed)
	if err != nil {
		return report.Usage(err)
	}
	if s.Flags.Offline {
		err := fmt.Errorf("%w: doctor sends requests to the server that it examines", sources.ErrOffline)
		return sources.WithHint(err,
			"run it without --offline; larder doctor alone examines this machine, without any request")
	}
	m, err := s.Here(ctx)
	if err != nil {
		return err
	}
	at = serviceAt(m, at)
	candidates, err := candidates(ctx, m, at, address)
	if err != nil {
		return report.Usage(err)
	}
	source, err := sourceAt(ctx, m, at)
	if err != nil {
		return err
	}
	id, err := tryServer(fetch.Trace(ctx, s.Output.Exchange), m, source, at, candidates)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	text := fmt.Sprintf("%s can be installed from %s", id, at)
	d := report.Diagnosis{Severity: report.Healthy, Area: "server", Text: text}
	if err != nil {
		err = m.Explain(err)
		d.Severity, d.Text, d.Fix = report.Broken, sources.Text(err), strings.Join(sources.Hints(err), "; ")
	}
	sum := s.Output.Diagnosed([]report.Diagnosis{d})
	if err != nil {
		return report.FoundError{Err: errors.New(sum.Text())}
	}
	s.Output.Say("No problem found: %s", d.Text)
	return nil
}

// sourceAt returns the source that an installation uses for a server.
func sourceAt(ctx context.Context, m *site.Root, at examinedServer) (sources.Source, error) {
	if at.place == "" {
		return m.Registry(), nil
	}
	return m.Remote(at.place, func() (sources.Source, error) {
		return m.Browser(ctx, site.PlaceRequest{Place: at.place})
	})
}

// tryServer requests the candidates until the server has one, and then its package for this platform and the beginning
// of the archive.
func tryServer(
	ctx context.Context, m *site.Root, from sources.Source, at examinedServer, candidates []sources.Requirement,
) (id sources.PackageID, err error) {
	if len(candidates) == 0 {
		err := errors.New("no provider to try is known here")
		return id, sources.WithHint(err, "name one: larder doctor %s NAMESPACE/TYPE", at)
	}
	var absent []error
	for _, r := range candidates[:min(len(candidates), maxCandidates)] {
		listing, err := from.Versions(ctx, r.Provider)
		switch {
		case err == nil:
			return tryPackage(ctx, m, from, r, listing)
		case !errors.Is(err, sources.ErrNotFound):
			return id, err
		}
		absent = append(absent, err)
	}
	return id, sources.WithLastHint(absent[0],
		"check the address, or name a provider that it has: larder doctor %s NAMESPACE/TYPE", at)
}

// tryPackage requests the newest allowed version of a provider.
func tryPackage(
	ctx context.Context, m *site.Root, from sources.Source, r sources.Requirement, listing sources.Listing,
) (id sources.PackageID, err error) {
	by := acquire.New(from, nil, nil, m.InstallerOptions(m.Out.Event).Options)
	by.Warn(sources.PackageID{Provider: r.Provider}, listing.Warnings...)
	version, ok := r.Constraints.Newest(listing.Versions)
	if !ok {
		listing.From = []string{from.String()}
		return id, &sources.ProviderError{Provider: r.Provider, Err: installer.NoVersion(r, listing)}
	}
	id = sources.PackageID{Provider: r.Provider, Version: version, Platform: sources.CurrentPlatform()}
	offer, err := by.Ask(ctx, acquire.Request{ID: id})
	if err != nil {
		return id, err
	}
	about := func(err error) error { return &sources.PackageError{ID: id, Source: offer.Source, Err: err} }
	return id, site.Hasty{Source: from}.Within(ctx, func(ctx context.Context) error {
		if _, err := m.Client.Peek(ctx, offer.Location.URL); err != nil {
			return about(err)
		}
		return nil
	}, about)
}

// readServer reads the argument that names a server. Its errors show no user information of a URL.
func readServer(s *site.Site, typed string) (examinedServer, error) {
	if scheme, rest, ok := strings.Cut(typed, "://"); ok {
		return readServerURL(scheme, rest, typed)
	}
	first, _, _ := strings.Cut(typed, "/")
	hostLike := strings.Trim(first, ".~") != "" && !strings.HasPrefix(first, ".") &&
		strings.ContainsAny(first, ".:") && !filepath.IsAbs(typed)
	_, statErr := os.Stat(site.Absolute(s.WorkDir, typed))
	if hostLike && typed == first+"/" {
		typed = first
	}
	local := !hostLike && (job.IsPathForm(typed) || statErr == nil)
	host, err := sources.ParsePunycodeHost(typed)
	is, _ := site.IsAddressForm(typed)
	switch {
	case local:
		err := fmt.Errorf("%s is a path on this machine, not a server", typed)
		return examinedServer{}, sources.WithHint(err, "larder mirror verify %s examines a mirror there", site.ShellQuoted(typed))
	case err == nil && (hostLike || host == "localhost"):
		return examinedServer{host: host}, nil
	case is && strings.Contains(typed, "/"):
		err := fmt.Errorf("%s is a provider, not a server", typed)
		return examinedServer{}, sources.WithHint(err,
			"larder explain %s shows where it comes from; larder versions %s lists its versions", typed, typed)
	case strings.Contains(typed, "/"):
		err := fmt.Errorf("%q is not the host of a registry", bareArgument(typed))
		return examinedServer{}, sources.WithHint(err, "write https:// before the address of a network mirror")
	}
	return examinedServer{}, sources.WithHint(fmt.Errorf("%q is neither a URL nor a host", bareArgument(typed)),
		"name a network mirror, such as https://mirror.example.com/providers/, or "+
			"the host of a registry, such as registry.example.com")
}

// bareArgument returns an argument without what may be user information or a query.
func bareArgument(typed string) string {
	typed, _, _ = strings.Cut(typed, "?")
	return typed[strings.LastIndexByte(typed, '@')+1:]
}

func readServerURL(scheme, rest, typed string) (examinedServer, error) {
	switch strings.ToLower(scheme) {
	case site.InOCI, site.InBucket:
		return examinedServer{place: typed}, nil
	case "https":
	case "http":
		err := fmt.Errorf("%s: engines and larder use registries and mirrors over https only", fetch.Redact(typed))
		return examinedServer{}, sources.WithHint(err, "try %s", fetch.Redact("https://"+rest))
	case "file":
		err := errors.New("a file URL is not a server")
		return examinedServer{}, sources.WithHint(err, "larder mirror verify DIR examines a mirror on this machine")
	default:
		err := fmt.Errorf("unsupported URL scheme %.20q", scheme)
		return examinedServer{}, sources.WithHint(err, "write https:// before the address of a network mirror")
	}
	base, err := fetch.Resolve(&url.URL{}, typed)
	if err != nil {
		return examinedServer{}, fmt.Errorf("%s: %w", fetch.Redact(typed), err)
	}
	return examinedServer{place: base.String()}, nil
}

// serviceAt returns the host of a registry if a host block in the CLI configuration has the server's URL as its
// registry.
func serviceAt(m *site.Root, at examinedServer) examinedServer {
	for host, services := range m.Config.Hosts {
		if at.place != "" && sameBase(services["providers.v1"], at.place) {
			return examinedServer{host: host}
		}
	}
	return at
}

// sameBase reports whether two base URLs are the same, apart from a slash at their end.
func sameBase(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// candidates returns the providers to try, in order: the one with the address, or those that are locked, required or
// known here and that the server may be asked for, and at last ones that everybody knows.
func candidates(ctx context.Context, m *site.Root, at examinedServer, address string) ([]sources.Requirement, error) {
	if address != "" {
		r, err := namedCandidate(m, at, address)
		return []sources.Requirement{r}, err
	}
	var all []sources.Requirement
	if m.Lock != nil {
		for _, e := range m.Lock.Entries() {
			exact, _ := sources.ParseConstraints(e.Version.String())
			all = append(all, sources.Requirement{Provider: e.Provider, Constraints: exact})
		}
	}
	if tree, _, err := m.Load(ctx); err == nil {
		all = append(all, tree.Requirements...)
	}
	used := len(all)
	for _, p := range m.KnownProviders(ctx) {
		all = append(all, sources.Requirement{Provider: p})
	}
	for _, e := range []sources.Engine{m.Config.Engine, sources.Terraform, sources.OpenTofu} {
		p := sources.Provider{Host: e.DefaultHost(), Namespace: "hashicorp", Type: "null"}
		all = append(all, sources.Requirement{Provider: p})
	}
	var some []sources.Requirement
	for i, r := range all {
		same := func(other sources.Requirement) bool { return other.Provider == r.Provider }
		mayExist := !r.Provider.BuiltIn() && !r.Provider.Legacy()
		if mayExist && !slices.ContainsFunc(some, same) && mayAsk(m, at, r.Provider, i < used) {
			some = append(some, r)
		}
	}
	return some, nil
}

// namedCandidate returns the provider of an argument. Without a host, it is that of the examined registry.
func namedCandidate(m *site.Root, at examinedServer, address string) (sources.Requirement, error) {
	if bare, _, _ := sources.CutVersion(address); at.place == "" && strings.Count(bare, "/") == 1 {
		address = string(at.host) + "/" + address
	}
	r, err := sources.ParseRequirement(address, m.Config.Engine)
	if err == nil && at.place == "" && r.Provider.Host != at.host {
		err = fmt.Errorf("%s is not a provider of %s: its registry is %s", r.Provider, at.host, r.Provider.Host)
		err = sources.WithHint(err, "try larder doctor %s %s", r.Provider.Host, r.Provider)
	}
	return r, err
}

// mayAsk reports whether a server may be asked for a provider: a request tells the server its name. A registry is asked
// for its own. A mirror in the CLI configuration is asked for what that includes. Others are asked for what the root
// module uses, and for providers of public registries.
func mayAsk(m *site.Root, at examinedServer, p sources.Provider, used bool) bool {
	if at.place == "" {
		return p.Host == at.host
	}
	for _, method := range m.Config.Methods {
		if method.Kind == cliconfig.NetworkMirror && sameBase(method.URL, at.place) ||
			method.Kind == cliconfig.OCIMirror && site.InOCI+"://"+method.Template.String() == at.place {
			return site.Applies(method, p)
		}
	}
	return used || p.Host == sources.Terraform.DefaultHost() || p.Host == sources.OpenTofu.DefaultHost()
}
