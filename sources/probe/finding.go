package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/netmirror"
	"github.com/larder-cli/larder/sources/registry"
)

// A Finding is something that is wrong with a server.
type Finding struct {
	Trap  string // permanent name of the kind of finding
	Fails bool   // nothing can be installed
	Text  string // what is wrong, in one sentence without a full stop
	Why   string // why it matters, likewise; may be empty
	Fix   string // what fixes it, likewise; may be empty
}

// slowAnswer is how long an answer may take to begin without being a finding. Servers that fetch archives from
// elsewhere need longer for these.
const (
	slowAnswer  = 2 * time.Second
	slowArchive = 10 * time.Second
)

// kinds are the kinds of errors, in the order in which they are tried.
var kinds = []struct {
	trap string
	is   func(error) bool
}{
	{"certificate-authority", isA[x509.UnknownAuthorityError]},
	{"certificate-name", isA[x509.HostnameError]},
	{"certificate-expired", isExpired},
	{"tls", isA[*tls.CertificateVerificationError]},
	{"proxy", isA[*fetch.ProxyError]},
	{"dns", isA[*net.DNSError]},
	{"timeout", func(err error) bool { return errors.Is(err, fetch.ErrStalled) }},
	{"unreachable", isA[*fetch.UnreachableError]},
	{"unauthorized", func(err error) bool { return errors.Is(err, fetch.ErrUnauthorized) }},
	{"html-page", func(err error) bool { return errors.Is(err, fetch.ErrPage) }},
	{"content-type", func(err error) bool { return errors.Is(err, fetch.ErrContentType) }},
	{"too-large", func(err error) bool { return errors.Is(err, fetch.ErrTooLarge) }},
	{"no-registry", func(err error) bool { return errors.Is(err, registry.ErrNoRegistry) }},
	{"no-platform", func(err error) bool { return errors.Is(err, sources.ErrNoPlatform) }},
	{"not-found", isNotFound},
	{"refused", isA[*fetch.StatusError]},
}

// isA reports whether err wraps an error of a type.
func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func isExpired(err error) bool {
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	return ok && invalid.Reason == x509.Expired
}

func isNotFound(err error) bool {
	status, ok := errors.AsType[*fetch.StatusError](err)
	return errors.Is(err, sources.ErrNotFound) || ok && status.Code == 404
}

// trapOf returns the kind of an error.
func trapOf(err error) string {
	for _, k := range kinds {
		if k.is(err) {
			return k.trap
		}
	}
	return "invalid"
}

// failure returns the finding about the error that ended a step.
func failure(err error, r *Result) Finding {
	if mixed, ok := errors.AsType[*mixedUp](err); ok {
		return mixed.Finding
	}
	f := Finding{Trap: trapOf(err), Fails: true, Text: textOf(err), Fix: strings.Join(sources.Hints(err), "; ")}
	switch f.Trap {
	case "no-platform":
		f.Fails, f.Why = true, "terraform and tofu can't install it on this platform either"
	case "certificate-expired":
		f.Fix = "renew the certificate of the server, or correct the clock of this machine"
	case "certificate-name":
		f.Fix = "use a name that the certificate covers, or have one issued for this name"
	case "unauthorized":
		f.Why = "no credentials were sent with the request"
		if i := len(r.Exchanges) - 1; i >= 0 && r.Exchanges[i].Credentials {
			f.Why = "the server refused the credentials that were sent"
		} else if r.Step == Archive || r.Step == Checksums {
			f.Why = "terraform and tofu send no token with requests for archives and checksums, so they fail here"
		}
	case "html-page":
		f.Why = "a login page or the page of a captive portal stands before the server"
	case "not-found":
		if r.Step == Archive {
			f.Why = "the server lists the archive, but does not have it"
			f.Fix = "upload the archive, or correct its URL in the server's documents"
		}
	}
	return f
}

// textOf returns the text of an error without the provider and the source, which the report names.
func textOf(err error) string {
	if absent, ok := errors.AsType[*fetch.AbsentError](err); ok && !errors.Is(err, sources.ErrNoPlatform) {
		return absent.Answer.URL + ": " + absent.Answer.Error()
	}
	if failed, ok := errors.AsType[*fetch.Error](err); ok {
		return failed.Error()
	}
	if failed, ok := errors.AsType[*sources.PackageError](err); ok {
		err = failed.Err
	}
	if failed, ok := errors.AsType[*sources.ProviderError](err); ok {
		err = failed.Err
	}
	if failed, ok := errors.AsType[*registry.DiscoveryError](err); ok {
		err = failed.Err
	}
	return sources.Text(err)
}

// remarks returns the findings that don't end a step.
func remarks(r *Result) (all []Finding) {
	seen := map[string]bool{}
	for i, e := range r.Exchanges {
		if next := i + 1; next < len(r.Exchanges) && strings.HasPrefix(e.Location, "http:") && strings.HasPrefix(e.URL, "https:") &&
			strings.HasPrefix(r.Exchanges[next].URL, "https:") {
			all = append(all, Finding{
				Trap: "redirect-to-http", Text: e.URL + " redirects to " + e.Location,
				Why: "the redirect leaves TLS; larder requested the same URL over https, and sends no token over http",
				Fix: "if a proxy in front of the server ends TLS, have it send X-Forwarded-Proto: https",
			})
		}
		limit := slowAnswer
		if r.Step == Archive {
			limit = slowArchive
		}
		if e.Status != 0 && e.Wait > limit {
			all = append(all, Finding{
				Trap: "slow-answer", Text: fmt.Sprintf("%s answered after %s", e.URL, e.Wait.Round(100*time.Millisecond)),
				Why: "each provider needs several requests",
			})
		}
		left, life := time.Until(e.Expires), e.Expires.Sub(e.Issued)
		if e.Authority != "" && left < life/10 && !seen[e.Host] {
			seen[e.Host] = true
			all = append(all, Finding{
				Trap: "certificate-expires", Text: fmt.Sprintf("the certificate of %s expires at %s", e.Host, e.Expires.UTC().Format("2006-01-02 15:04 MST")),
				Why: "after that, every connection fails", Fix: "renew the certificate of the server",
			})
		}
	}
	return all
}

// noSlash returns the finding about a mirror's URL without a slash at its end.
func noSlash(base *url.URL) Finding {
	engines := *base
	if engines.Path = path.Dir(base.Path); engines.Path != "/" {
		engines.Path += "/"
	}
	return Finding{
		Trap: "no-slash", Text: "the URL has no slash at its end",
		Why: "terraform and tofu leave out what follows its last slash, and search the mirror at " + fetch.Redact(engines.String()),
		Fix: fmt.Sprintf("write url = %q in the network_mirror block", fetch.Redact(base.String()+"/")),
	}
}

// A mixedUp error means that a server was tried as something that it isn't.
type mixedUp struct {
	Finding
	error
}

// notRegistry returns the error of service discovery, or what the host is instead of a registry.
func (w *walk) notRegistry(ctx context.Context, host sources.Host, err error) error {
	switch trapOf(err) {
	case "no-registry", "html-page", "content-type", "invalid", "not-found":
	default:
		return err
	}
	ctx = new(fetch.Trace).Record(ctx) // these requests are no part of the step
	for _, at := range append(w.Mirrors, "https://"+host.ASCII()+"/", "https://"+host.ASCII()+"/providers/") {
		m, invalid := netmirror.New(w.Client, at, netmirror.Options{})
		if invalid != nil {
			continue
		}
		for _, c := range w.Others[:min(len(w.Others), maxCandidates)] {
			if _, err := m.Versions(ctx, c.Provider); err == nil {
				at := fetch.Redact(at)
				return &mixedUp{Finding{
					Trap: "mirror-as-registry", Fails: true,
					Text: fmt.Sprintf("%s is not a registry: it has a network mirror at %s", host, at),
					Why:  "the host in a provider's address names a registry; a mirror serves providers of other hosts",
					Fix:  fmt.Sprintf("write provider_installation { network_mirror { url = %q } } in the CLI configuration; larder doctor %s tries the mirror", at, at),
				}, err}
			}
		}
	}
	return err
}

// notMirror replaces the finding of a step if the URL is that of a registry.
func (w *walk) notMirror(ctx context.Context, s *Result, base *url.URL) {
	host, err := sources.ParsePunycodeHost(base.Host)
	if err != nil || len(w.Candidates) == 0 || s.Findings[0].Trap == "unauthorized" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	url := fetch.Redact(base.String())
	f := Finding{
		Trap: "registry-as-mirror", Fails: true,
		Why: "a registry serves the providers that have its host in their address; a network_mirror block for it fails",
		Fix: fmt.Sprintf("remove its network_mirror block, and write %s/NAMESPACE/TYPE as source of its providers; larder doctor %s tries it", host, host),
	}
	at, err := registry.New(w.Client, registry.Options{Engine: w.Engine, Services: w.Services}).Discover(ctx, host)
	discovered := err == nil
	switch {
	case discovered && strings.TrimSuffix(at.String(), "/") == strings.TrimSuffix(base.String(), "/"),
		w.isRegistryAt(ctx, base):
		f.Text = url + " is the base URL of a registry, not a network mirror"
	case discovered:
		f.Text = fmt.Sprintf("%s is a registry, and has no network mirror at %s", host, url)
	default:
		return
	}
	if !discovered {
		f.Fix = fmt.Sprintf("replace its network_mirror block with host %q { services = { \"providers.v1\" = %q } }; larder doctor %s tries it", host, url, host)
	}
	s.Findings[0] = f
}

// isRegistryAt reports whether a base URL is that of a registry.
func (w *walk) isRegistryAt(ctx context.Context, base *url.URL) bool {
	at := *base
	at.User, at.RawQuery = nil, ""
	return slices.ContainsFunc(w.Candidates[:min(len(w.Candidates), maxCandidates)], func(c Candidate) bool {
		return IsRegistryAt(ctx, w.Client, at.String(), c.Provider)
	})
}

// IsRegistryAt reports whether a registry with a base URL has a provider. It is requested as a provider of the URL's
// host, so that the URL never gets the token of another host.
func IsRegistryAt(ctx context.Context, client *fetch.Client, base string, p sources.Provider) bool {
	u, err := url.Parse(strings.TrimSuffix(base, "/") + "/")
	if err != nil {
		return false
	}
	if p.Host, err = sources.ParsePunycodeHost(u.Host); err != nil {
		return false
	}
	services := map[sources.Host]map[string]string{p.Host: {"providers.v1": u.String()}}
	listing, err := registry.New(client, registry.Options{Services: services}).Versions(ctx, p)
	return err == nil && len(listing.Versions) > 0
}
