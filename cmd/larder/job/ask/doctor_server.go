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

// A trial is the examination of a registry or a mirror, for the root module in the working directory.
type trial struct {
	*site.Root
	place string       // URL of the mirror; empty for a registry
	host  sources.Host // of the registry
	from  sources.Source
}

// at names the server.
func (t trial) at() string { return cmp.Or(fetch.Redact(t.place), string(t.host)) }

// ExamineServer requests a provider from a registry or a mirror, as an installation does up to the beginning of the
// archive, and shows each request. Typed names the server, and the address the provider; it may be empty.
func ExamineServer(ctx context.Context, s *site.Site, typed, address string) error {
	s.Ask()
	s.Output.Secrets().AddURL(typed)
	t, err := readServer(typed)
	if err != nil {
		return report.Usage(err)
	}
	if s.Flags.Offline {
		err := fmt.Errorf("%w: doctor sends requests to the server that it examines", sources.ErrOffline)
		return sources.WithHint(err,
			"run it without --offline; doctor alone examines this machine, without any request")
	}
	if t.Root, err = s.Here(ctx); err != nil {
		return err
	}
	for host, services := range t.Config.Hosts { // a mirror's URL may be that of a registry's services
		if t.place != "" && sameBase(services["providers.v1"], t.place) {
			t.place, t.host = "", host
		}
	}
	candidates, err := t.candidates(ctx, address)
	if err != nil {
		return report.Usage(err)
	}
	t.from = t.Registry()
	if t.place != "" {
		open := func() (sources.Source, error) { return t.Browser(ctx, site.PlaceRequest{Place: t.place}) }
		t.from, err = t.Remote(t.place, open)
	}
	if err != nil {
		return err
	}
	d := t.run(fetch.Trace(ctx, s.Output.Exchange), candidates, address != "")
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
func readServer(typed string) (t trial, err error) {
	scheme, _, isURL := strings.Cut(typed, "://")
	host, err := sources.ParsePunycodeHost(strings.TrimSuffix(typed, "/"))
	switch {
	case isURL && (scheme == site.InOCI || scheme == site.InBucket):
		return trial{place: typed}, nil
	case isURL && strings.EqualFold(scheme, "https"):
		base, err := fetch.Resolve(&url.URL{}, typed)
		if err != nil {
			return t, fmt.Errorf("%s: %w", fetch.Redact(typed), err)
		}
		return trial{place: base.String()}, nil
	case !isURL && err == nil && (strings.ContainsAny(typed, ".:") || host == "localhost"):
		return trial{host: host}, nil
	}
	// The argument may have a secret.
	err = errors.New("larder doctor takes the https URL of a mirror or the host of a registry")
	const hint = "for a mirror on this machine, use larder mirror verify DIR; for a provider, use larder explain ADDRESS"
	return t, sources.WithHint(err, hint)
}

// sameBase reports whether two base URLs are the same, apart from a slash at their end.
func sameBase(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// candidates returns the providers to try, in order: the one with the address, or those that are required here and that
// the server may be asked for, or else one of HashiCorp's, which everybody knows.
func (t trial) candidates(ctx context.Context, address string) (some []sources.Requirement, err error) {
	if address != "" {
		if bare, _, _ := sources.CutVersion(address); t.place == "" && strings.Count(bare, "/") == 1 {
			address = string(t.host) + "/" + address
		}
		r, err := sources.ParseRequirement(address, t.Config.Engine)
		if err == nil && t.place == "" && r.Provider.Host != t.host {
			err = fmt.Errorf("%s is not a provider of %s: its registry is %s", r.Provider, t.host, r.Provider.Host)
			err = sources.WithHint(err, "try larder doctor %s %s", r.Provider.Host, r.Provider)
		}
		return []sources.Requirement{r}, err
	}
	var all []sources.Requirement
	if tree, _ := readTree(ctx, t.Root); tree != nil {
		all = tree.Requirements
	}
	known := sources.Provider{Host: t.Config.Engine.DefaultHost(), Namespace: "hashicorp", Type: "null"}
	for _, r := range append(slices.Clone(all), sources.Requirement{Provider: known}) {
		if t.Lock != nil {
			if e, ok := t.Lock.Entry(r.Provider); ok {
				r.Constraints, _ = sources.ParseConstraints(e.Version.String()) // which is a version
			}
		}
		if !r.Provider.BuiltIn() && !r.Provider.Legacy() && t.mayAsk(r.Provider) {
			some = append(some, r)
		}
	}
	if len(some) == 0 {
		err = errors.New("no provider to try is known here")
		err = sources.WithHint(err, "add one: larder doctor %s NAMESPACE/TYPE", t.at())
	}
	return some, err
}

// mayAsk reports whether a server may be asked for a provider: a request tells the server its name. A registry is asked
// for its own, and a mirror in the CLI configuration for what that includes.
func (t trial) mayAsk(p sources.Provider) bool {
	if t.place == "" {
		return p.Host == t.host
	}
	for _, method := range t.Config.Methods {
		if method.Kind == cliconfig.NetworkMirror && sameBase(method.URL, t.place) ||
			method.Kind == cliconfig.OCIMirror && site.InOCI+"://"+method.Template.String() == t.place {
			return site.Applies(method, p)
		}
	}
	return true
}

// run requests the providers until the server has one, and then its package for this platform and the beginning of the
// archive. A server may have none of them, unless the user has named one.
func (t trial) run(ctx context.Context, all []sources.Requirement, named bool) report.Finding {
	d := report.Finding{Area: "server"}
	var absent []sources.Provider
	var why error // of the first one
	for _, r := range all[:min(len(all), maxTried)] {
		id, err := t.request(ctx, r)
		if _, ok := errors.AsType[*sources.NotFoundError](err); ok && !named {
			absent, why = append(absent, r.Provider), cmp.Or(why, err)
			continue
		}
		d.Severity, d.Text = report.Healthy, fmt.Sprintf("%s can be installed from %s", id, t.at())
		if err != nil {
			err = t.Explain(err)
			d.Severity, d.Text, d.Hints = report.Broken, sources.Text(err), sources.Hints(err)
		}
		return d
	}
	d.Severity = report.Risky
	d.Text = fmt.Sprintf("%s answers, but has none of the providers that were tried: %s", t.at(), names(absent))
	why = sources.WithHint(t.Explain(why), "add a provider that it should have: larder doctor %s NAMESPACE/TYPE", t.at())
	d.Hints = sources.Hints(why)
	return d
}

// request requests the newest allowed version of a provider.
func (t trial) request(ctx context.Context, r sources.Requirement) (id sources.PackageID, err error) {
	listing, err := t.from.Versions(ctx, r.Provider)
	if err != nil {
		return id, err
	}
	by := acquire.New(t.from, nil, nil, t.InstallerOptions(t.Out.Event).Options)
	by.Warn(sources.PackageID{Provider: r.Provider}, listing.Warnings...)
	version, ok := r.Constraints.Newest(listing.Versions)
	if !ok {
		listing.From = []string{t.from.String()}
		return id, &sources.ProviderError{Provider: r.Provider, Err: installer.NoVersion(r, listing)}
	}
	id = sources.PackageID{Provider: r.Provider, Version: version, Platform: sources.CurrentPlatform()}
	offer, err := by.Ask(ctx, acquire.Request{ID: id})
	if err != nil {
		return id, err
	}
	about := func(err error) error { return &sources.PackageError{ID: id, Source: offer.Source, Err: err} }
	_, err = site.InTime(ctx, about, func(ctx context.Context) (size int64, err error) {
		if size, err = t.Client.Peek(ctx, offer.Location.URL); err != nil {
			err = about(err)
		}
		return size, err
	})
	return id, err
}
