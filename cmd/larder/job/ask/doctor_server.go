package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// maxTried is how many providers doctor requests from a server, until the server has one.
const maxTried = 5

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
	at, err := readServer(typed)
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
	for host, services := range m.Config.Hosts { // a mirror's URL may be that of a registry's services
		if at.place != "" && sameBase(services["providers.v1"], at.place) {
			at = examinedServer{host: host}
		}
	}
	candidates, err := toTry(ctx, m, at, address)
	if err != nil {
		return report.Usage(err)
	}
	from := m.Registry()
	if at.place != "" {
		open := func() (sources.Source, error) { return m.Browser(ctx, site.PlaceRequest{Place: at.place}) }
		from, err = m.Remote(at.place, open)
	}
	if err != nil {
		return err
	}
	d := tryServer(fetch.Trace(ctx, s.Output.Exchange), m, from, at, candidates, address != "")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	sum := s.Output.Diagnosed([]report.Finding{d})
	if d.Severity != report.Healthy {
		return report.FoundError{Err: errors.New(sum.Text())}
	}
	s.Output.Say("No problem found: %s", d.Text)
	return nil
}

// readServer reads the argument that names a server.
func readServer(typed string) (examinedServer, error) {
	scheme, _, isURL := strings.Cut(typed, "://")
	host, err := sources.ParsePunycodeHost(strings.TrimSuffix(typed, "/"))
	switch {
	case isURL && (scheme == site.InOCI || scheme == site.InBucket):
		return examinedServer{place: typed}, nil
	case isURL && strings.EqualFold(scheme, "https"):
		base, err := fetch.Resolve(&url.URL{}, typed)
		if err != nil {
			return examinedServer{}, fmt.Errorf("%s: %w", fetch.Redact(typed), err)
		}
		return examinedServer{place: base.String()}, nil
	case !isURL && err == nil && (strings.ContainsAny(typed, ".:") || host == "localhost"):
		return examinedServer{host: host}, nil
	}
	// The argument may have a secret.
	err = errors.New("larder doctor takes the https URL of a mirror or the host of a registry")
	const hint = "for a mirror on this machine, use larder mirror verify DIR; for a provider, use larder explain ADDRESS"
	return examinedServer{}, sources.WithHint(err, hint)
}

// sameBase reports whether two base URLs are the same, apart from a slash at their end.
func sameBase(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// toTry returns the providers to try, in order: the one with the address, or those that are required here and that the
// server may be asked for, or else one of HashiCorp's, which everybody knows.
func toTry(
	ctx context.Context, m *site.Root, at examinedServer, address string,
) (some []sources.Requirement, err error) {
	if address != "" {
		if bare, _, _ := sources.CutVersion(address); at.place == "" && strings.Count(bare, "/") == 1 {
			address = string(at.host) + "/" + address
		}
		r, err := sources.ParseRequirement(address, m.Config.Engine)
		if err == nil && at.place == "" && r.Provider.Host != at.host {
			err = fmt.Errorf("%s is not a provider of %s: its registry is %s", r.Provider, at.host, r.Provider.Host)
			err = sources.WithHint(err, "try larder doctor %s %s", r.Provider.Host, r.Provider)
		}
		return []sources.Requirement{r}, err
	}
	var all []sources.Requirement
	if tree, _ := readTree(ctx, m); tree != nil {
		all = tree.Requirements
	}
	known := sources.Provider{Host: m.Config.Engine.DefaultHost(), Namespace: "hashicorp", Type: "null"}
	for _, r := range append(slices.Clone(all), sources.Requirement{Provider: known}) {
		if m.Lock != nil {
			if e, ok := m.Lock.Entry(r.Provider); ok {
				r.Constraints, _ = sources.ParseConstraints(e.Version.String()) // which is a version
			}
		}
		if !r.Provider.BuiltIn() && !r.Provider.Legacy() && mayAsk(m, at, r.Provider) {
			some = append(some, r)
		}
	}
	if len(some) == 0 {
		err = sources.WithHint(errors.New("no provider to try is known here"), "add one: larder doctor %s NAMESPACE/TYPE", at)
	}
	return some, err
}

// mayAsk reports whether a server may be asked for a provider: a request tells the server its name. A registry is asked
// for its own, and a mirror in the CLI configuration for what that includes.
func mayAsk(m *site.Root, at examinedServer, p sources.Provider) bool {
	if at.place == "" {
		return p.Host == at.host
	}
	for _, method := range m.Config.Methods {
		if method.Kind == cliconfig.NetworkMirror && sameBase(method.URL, at.place) ||
			method.Kind == cliconfig.OCIMirror && site.InOCI+"://"+method.Template.String() == at.place {
			return site.Applies(method, p)
		}
	}
	return true
}

// tryServer requests the providers until the server has one, and then its package for this platform and the beginning
// of the archive. A server may have none of them, unless the user asks about one.
func tryServer(
	ctx context.Context, m *site.Root, from sources.Source, at examinedServer, all []sources.Requirement, named bool,
) report.Finding {
	d := report.Finding{Severity: report.Broken, Area: "server"}
	var absent []sources.Provider
	var why error // of the first one
	for _, r := range all[:min(len(all), maxTried)] {
		id, err := tryProvider(ctx, m, from, r)
		if _, ok := errors.AsType[*sources.NotFoundError](err); ok && !named {
			absent, why = append(absent, r.Provider), cmp.Or(why, err)
			continue
		}
		d.Severity, d.Text = report.Healthy, fmt.Sprintf("%s can be installed from %s", id, at)
		if err != nil {
			err = m.Explain(err)
			d.Severity, d.Text, d.Hints = report.Broken, sources.Text(err), sources.Hints(err)
		}
		return d
	}
	d.Severity = report.Risky
	d.Text = fmt.Sprintf("%s answers, but has none of the providers that were tried: %s", at, names(absent))
	why = sources.WithHint(m.Explain(why), "add a provider that it should have: larder doctor %s NAMESPACE/TYPE", at)
	d.Hints = sources.Hints(why)
	return d
}

// tryProvider requests the newest allowed version of a provider.
func tryProvider(
	ctx context.Context, m *site.Root, from sources.Source, r sources.Requirement,
) (id sources.PackageID, err error) {
	listing, err := from.Versions(ctx, r.Provider)
	if err != nil {
		return id, err
	}
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
	_, err = site.InTime(ctx, about, func(ctx context.Context) (any, error) {
		if _, err := m.Client.Peek(ctx, offer.Location.URL); err != nil {
			return nil, about(err)
		}
		return nil, nil
	})
	return id, err
}
