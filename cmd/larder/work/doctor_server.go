package work

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/probe"
)

// firstByte is how long doctor waits for an archive to begin.
const firstByte = 25 * time.Second

// An examinedServer is a registry or mirror to examine. One of base and host is set.
type examinedServer struct {
	base *url.URL // of a mirror
	host sources.Host
}

// A triedProvider is a provider to try.
type triedProvider struct {
	probe.Candidate
	why string // for people
}

// The reasons to try a provider.
const (
	becauseNamed    = "named on the command line"
	becauseRequired = "required here"
	becauseLocked   = "locked here"
	becauseKnown    = "known on this machine"
	becauseCommon   = "a common provider"
)

// ExamineServer tries each step of the protocol of a mirror or a registry. Typed names the server, and the address
// the provider to try; it may be empty.
func ExamineServer(ctx context.Context, s *Session, typed, address string) error {
	s.flags.ReadOnly = true
	s.output.Secrets().AddURL(typed)
	at, err := s.readServer(typed)
	if err != nil {
		return report.Usage(err)
	}
	if s.flags.Offline {
		err := fmt.Errorf("%w: doctor sends requests to the server that it examines", sources.ErrOffline)
		return sources.WithHint(err, "run it without --offline; larder doctor alone examines this machine, without any request")
	}
	m, err := s.here(ctx)
	if err != nil {
		return err
	}
	at = m.serviceAt(at)
	candidates, err := m.candidates(ctx, at, address)
	if err != nil {
		return report.Usage(err)
	}
	result := m.tryServer(ctx, at, candidates)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	sum := s.output.ServerTried(m.serverTried(ctx, result, candidates))
	if sum == (report.Diagnosed{}) {
		s.output.Say("No problem found: packages can be installed from here")
		return nil
	}
	return report.FoundError{Err: errors.New(sum.Text())}
}

// readServer reads the argument that names a server. Its errors show no user information of a URL.
func (s *Session) readServer(typed string) (examinedServer, error) {
	if scheme, rest, ok := strings.Cut(typed, "://"); ok {
		return readServerURL(scheme, rest, typed)
	}
	first, _, _ := strings.Cut(typed, "/")
	hostLike := strings.Trim(first, ".~") != "" && !strings.HasPrefix(first, ".") && strings.ContainsAny(first, ".:") && !filepath.IsAbs(typed)
	_, statErr := os.Stat(Absolute(s.workDir, typed))
	if hostLike && typed == first+"/" {
		typed = first
	}
	local := !hostLike && (isPathForm(typed) || statErr == nil)
	host, err := sources.ParsePunycodeHost(typed)
	is, _ := isAddressForm(typed)
	switch {
	case local:
		return examinedServer{}, sources.WithHint(fmt.Errorf("%s is a path on this machine, not a server", typed), "larder mirror verify %s examines a mirror there", shellQuoted(typed))
	case err == nil && (hostLike || host == "localhost"):
		return examinedServer{host: host}, nil
	case is && strings.Contains(typed, "/"):
		return examinedServer{}, sources.WithHint(fmt.Errorf("%s is a provider, not a server", typed), "larder explain %s shows where it comes from; larder versions %s lists its versions", typed, typed)
	case strings.Contains(typed, "/"):
		err := fmt.Errorf("%q is not the host of a registry", bareArgument(typed))
		return examinedServer{}, sources.WithHint(err, "write https:// before the address of a network mirror")
	}
	return examinedServer{}, sources.WithHint(fmt.Errorf("%q is neither a URL nor a host", bareArgument(typed)),
		"name a network mirror, such as https://mirror.example.com/providers/, or the host of a registry, such as registry.example.com")
}

// bareArgument returns an argument without what may be user information or a query.
func bareArgument(typed string) string {
	typed, _, _ = strings.Cut(typed, "?")
	return typed[strings.LastIndexByte(typed, '@')+1:]
}

func readServerURL(scheme, rest, typed string) (examinedServer, error) {
	switch strings.ToLower(scheme) {
	case "https":
	case "http":
		err := fmt.Errorf("%s: engines and larder use registries and mirrors over https only", fetch.Redact(typed))
		return examinedServer{}, sources.WithHint(err, "try %s", fetch.Redact("https://"+rest))
	case "file":
		return examinedServer{}, sources.WithHint(errors.New("a file URL is not a server"), "larder mirror verify DIR examines a mirror on this machine")
	default:
		return examinedServer{}, sources.WithHint(fmt.Errorf("unsupported URL scheme %.20q", scheme), "write https:// before the address of a network mirror")
	}
	base, err := fetch.Resolve(&url.URL{}, typed)
	if err != nil {
		return examinedServer{}, fmt.Errorf("%s: %w", fetch.Redact(typed), err)
	}
	return examinedServer{base: base}, nil
}

// serviceAt returns the host of a registry if a host block in the CLI configuration has the server's URL as its
// registry.
func (m *rootModule) serviceAt(at examinedServer) examinedServer {
	if at.base == nil {
		return at
	}
	for host, services := range m.config.Hosts {
		if sameBase(services["providers.v1"], at.base.String()) {
			return examinedServer{host: host}
		}
	}
	return at
}

// sameBase reports whether two base URLs are the same, apart from a slash at their end.
func sameBase(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// candidates returns the providers to try, in order: the one with the address, or those that are required, locked
// or known here and that the server may have, and at last ones that everybody knows.
func (m *rootModule) candidates(ctx context.Context, at examinedServer, address string) ([]triedProvider, error) {
	if address != "" {
		c, err := m.namedCandidate(at, address)
		return []triedProvider{c}, err
	}
	all := m.knownCandidates(ctx)
	if at.base == nil {
		all = slices.DeleteFunc(all, func(c triedProvider) bool { return c.Provider.Host != at.host })
	} else {
		all = slices.DeleteFunc(all, func(c triedProvider) bool { return !m.mayAsk(at.base, c) })
	}
	var unique []triedProvider
	for _, c := range all {
		known := func(other triedProvider) bool { return other.Provider == c.Provider }
		if !slices.ContainsFunc(unique, known) && !c.Provider.BuiltIn() && !c.Provider.Legacy() {
			unique = append(unique, c)
		}
	}
	return unique, nil
}

// namedCandidate returns the provider of an argument. Without a host, it is that of the examined registry.
func (m *rootModule) namedCandidate(at examinedServer, address string) (triedProvider, error) {
	if bare, _, _ := sources.CutVersion(address); at.base == nil && strings.Count(bare, "/") == 1 {
		address = string(at.host) + "/" + address
	}
	r, err := sources.ParseRequirement(address, m.config.Engine)
	if err == nil && at.base == nil && r.Provider.Host != at.host {
		err = fmt.Errorf("%s is not a provider of %s: its registry is %s", r.Provider, at.host, r.Provider.Host)
		err = sources.WithHint(err, "try larder doctor %s %s", r.Provider.Host, r.Provider)
	}
	return triedProvider{probe.Candidate{Provider: r.Provider, Constraints: r.Constraints}, becauseNamed}, err
}

// knownCandidates returns all providers that are known here.
func (m *rootModule) knownCandidates(ctx context.Context) (all []triedProvider) {
	lockedAt := func(p sources.Provider) (v sources.Version) {
		if m.lock != nil {
			if e, ok := m.lock.Entry(p); ok {
				v = e.Version
			}
		}
		return v
	}
	if tree, _, err := m.load(ctx); err == nil {
		for _, r := range tree.Requirements {
			all = append(all, triedProvider{probe.Candidate{Provider: r.Provider, Constraints: r.Constraints, Locked: lockedAt(r.Provider)}, becauseRequired})
		}
	}
	if m.lock != nil {
		for _, e := range m.lock.Entries() {
			all = append(all, triedProvider{probe.Candidate{Provider: e.Provider, Locked: e.Version}, becauseLocked})
		}
	}
	for _, p := range m.knownProviders(ctx) {
		all = append(all, triedProvider{probe.Candidate{Provider: p}, becauseKnown})
	}
	for _, e := range []sources.Engine{m.config.Engine, sources.Terraform, sources.OpenTofu} {
		p := sources.Provider{Host: e.DefaultHost(), Namespace: "hashicorp", Type: "null"}
		all = append(all, triedProvider{probe.Candidate{Provider: p}, becauseCommon})
	}
	return all
}

// mayAsk reports whether a mirror may be asked for a provider: a request tells the mirror its name. A mirror in the
// CLI configuration is asked for what that includes. Others are asked for what is required here, and for providers
// of public registries.
func (m *rootModule) mayAsk(base *url.URL, c triedProvider) bool {
	for _, method := range m.mirrorsAt(func(u *url.URL) bool { return sameBase(u.String(), base.String()) }) {
		return sources.Method{Include: method.Include, Exclude: method.Exclude}.Applies(c.Provider)
	}
	public := c.Provider.Host == sources.Terraform.DefaultHost() || c.Provider.Host == sources.OpenTofu.DefaultHost()
	return public || c.why == becauseRequired || c.why == becauseLocked
}

// mirrorsAt returns the configured network mirrors whose URL is selected.
func (m *rootModule) mirrorsAt(is func(*url.URL) bool) (all []cliconfig.Method) {
	for _, method := range m.config.Methods {
		if u, err := url.Parse(method.URL); method.Kind == cliconfig.NetworkMirror && err == nil && is(u) {
			all = append(all, method)
		}
	}
	return all
}

// tryServer tries the server with a client that sends each request once.
func (m *rootModule) tryServer(ctx context.Context, at examinedServer, candidates []triedProvider) probe.Report {
	client := m.clientOptions(m.config)
	client.Tries, client.DownloadTries, client.FirstByte, client.Report = 1, 1, firstByte, nil
	opts := probe.Options{
		Client: fetch.New(client), Engine: m.config.Engine, Services: m.config.Hosts, Platform: sources.CurrentPlatform(),
		TokenForArchives: func(at string) bool { return m.config.HostOptions[hostOfURL(at)].TokenForArchives },
	}
	for _, c := range candidates {
		opts.Candidates = append(opts.Candidates, c.Candidate)
	}
	if at.base != nil {
		return probe.Mirror(ctx, opts, at.base)
	}
	isHost := func(u *url.URL) bool { return strings.EqualFold(u.Host, at.host.ASCII()) }
	for _, method := range m.mirrorsAt(isHost) {
		opts.Mirrors = append(opts.Mirrors, method.URL)
	}
	for _, c := range m.knownCandidates(ctx) {
		if base := (&url.URL{Scheme: "https", Host: at.host.ASCII(), Path: "/"}); m.mayAsk(base, c) {
			opts.Others = append(opts.Others, c.Candidate)
		}
	}
	return probe.Registry(ctx, opts, at.host)
}

// serverTried returns what the output shows of the steps.
func (m *rootModule) serverTried(ctx context.Context, r probe.Report, candidates []triedProvider) report.Server {
	s := report.Server{
		Server: r.Server, Protocol: "registry", Latency: wholeMilliseconds(r.Latency), Rate: r.Rate,
		Served: append([]string{}, r.Served...), NotServed: append([]string{}, r.NotServed...),
	}
	if r.Mirror {
		s.Protocol = "mirror"
	}
	if r.ID.Provider != (sources.Provider{}) {
		s.Provider, s.Version, s.Platform = r.ID.Provider.String(), r.ID.Version.String(), r.ID.Platform.String()
		for _, c := range candidates {
			if c.Provider == r.ID.Provider {
				s.Reason = c.why
			}
		}
	}
	var exchanges []fetch.Exchange
	for _, step := range r.Steps {
		s.Steps = append(s.Steps, stepTried(step))
		exchanges = append(exchanges, step.Exchanges...)
	}
	m.examineSigned(ctx, &s, r.Package)
	s.Connections = m.connections(ctx, sources.Host(r.Server), exchanges)
	return s
}

// wholeMilliseconds returns a duration that isn't zero as at least one millisecond.
func wholeMilliseconds(d time.Duration) int64 {
	return (d + time.Millisecond - 1).Milliseconds()
}

// stepTried returns what the output shows of a step.
func stepTried(r probe.Result) report.Step {
	step := report.Step{Severity: report.Untried, Step: r.Step}
	if !r.Tried {
		return step
	}
	step = report.Step{
		Severity: report.Healthy, Step: r.Step, URL: r.URL, Status: r.Status, Took: wholeMilliseconds(r.Took), Bytes: r.Bytes, Found: r.Found,
	}
	for _, f := range r.Findings {
		d := report.Diagnosis{Severity: report.Risky, Area: r.Step, Trap: f.Trap, Text: f.Text, Why: f.Why, Fix: f.Fix}
		if f.Fails {
			d.Severity = report.Broken
		}
		if step.Severity != report.Broken {
			step.Severity = d.Severity
		}
		step.Findings = append(step.Findings, d)
	}
	return step
}

// hostOfURL returns the host of a URL, or "" if it has none that can be configured.
func hostOfURL(rawURL string) sources.Host {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	host, err := sources.ParsePunycodeHost(u.Host)
	if err != nil {
		return ""
	}
	return host
}

// connections returns how requests reached each host, in the order of the first requests. The registry is the
// examined one; if a host block names its services, these get its token.
func (m *rootModule) connections(ctx context.Context, registry sources.Host, exchanges []fetch.Exchange) (all []report.Connection) {
	for _, e := range exchanges {
		i := slices.IndexFunc(all, func(c report.Connection) bool { return c.Host == e.Host })
		if i < 0 {
			tokenOf := hostOfURL(e.URL)
			if services, ok := m.config.Hosts[registry]; ok && hostOfURL(services["providers.v1"]) == tokenOf {
				tokenOf = registry
			}
			i, all = len(all), append(all, m.connection(ctx, e, tokenOf))
		}
		c := &all[i]
		c.Sent = c.Sent || e.Credentials
		if c.Authority == "" {
			c.Authority = e.Authority
		}
	}
	for i, c := range all {
		if c.Sent && c.Credentials == "" { // the only credentials that don't come from a token
			all[i].Credentials = "user and password of the URL or the netrc file"
		}
	}
	return all
}

// connection returns what the configuration has for the host of a request.
func (m *rootModule) connection(ctx context.Context, e fetch.Exchange, tokenOf sources.Host) report.Connection {
	host := hostOfURL(e.URL)
	c := report.Connection{Host: e.Host, Proxy: e.Proxy, Trust: m.config.AuthoritiesOrigin(host)}
	if origin, err := m.config.TokenOrigin(ctx, tokenOf); err == nil && origin != "" && tokenOf != "" {
		c.Credentials = "token from " + origin
	}
	if o := m.config.HostOptions[host]; len(o.Headers)+len(o.Certificates) > 0 {
		c.Headers = m.config.LarderFile()
	}
	return c
}
