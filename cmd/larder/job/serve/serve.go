// Package serve contains the job of larder serve: a mirror as a server, with an upstream. It leaves on disk what the
// mirror receives from the upstream.
package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/server"
	"github.com/larder-cli/larder/fsmirror/server/endpoint"
	"github.com/larder-cli/larder/fsmirror/server/metrics"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A ServeRequest says what to serve, and how.
type ServeRequest struct {
	Dir         string   // of the mirror, as typed
	Listen      []string // addresses; none means those of systemd, or else one that suits the certificate
	Cert, Key   string   // files, as typed; empty for plain HTTP or with SelfSigned
	SelfSigned  bool
	BehindProxy bool
	Name        string // the host, with its port unless that is 443; empty means that of each request
	Tokens      string // file, as typed; may be empty

	Upstream     bool // archives that the mirror lacks are fetched
	Fresh        time.Duration
	MaxSize      int64    // of the mirror, in bytes; 0 means no limit
	KeepLockedBy []string // lock files whose packages always stay, as typed
}

// shutdownTime is how long clients may continue with what they are receiving when the server ends.
const shutdownTime = 10 * time.Second

// Serve serves a mirror until ctx is done, which is no error.
func Serve(ctx context.Context, s *site.Site, request ServeRequest) (err error) {
	s.Server = "serve-" + rand.Text()
	s.Output.KeepLog(true)
	defer func() { s.Output.KeepLog(err == nil) }()
	if request.Upstream {
		_, _ = x509.SystemCertPool() // it is read once, which must not fail later for lack of file descriptors
	}
	m, err := s.Here(ctx)
	if err != nil {
		return err
	}
	fetching, endFetches := context.WithCancel(context.WithoutCancel(ctx)) // clients may be receiving what is fetched
	defer endFetches()
	served, err := toServe(fetching, m, request)
	if err != nil {
		return err
	}
	listeners, err := served.listen(ctx, request.SelfSigned || served.certificate != nil)
	if err != nil {
		return err
	}
	served.warnName(listeners)
	if served.upstream != nil {
		if err := served.upstream.trim(ctx); err != nil {
			s.Output.WarnOf(err) // what the mirror has can be served
		}
	}
	s.Output.Lingers(shutdownTime + time.Second)
	web := endpoint.NewServer(served.handler, served.handler.Client, served.certificate)
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { failed <- web.Serve(l) }()
	}
	s.Output.Serving(report.Serving{
		Mirror: served.dir, URL: served.url(listeners), Addresses: addresses(listeners),
		Authority: served.authority, Upstream: request.Upstream,
	})
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	web.End(ending)
	endFetches()
	served.handler.End()
	served.counting.Lock()
	defer served.counting.Unlock()
	s.Output.Stopped(served.sum)
	return err
}

// A serving is a mirror that is being served.
type serving struct {
	*site.Root
	request     ServeRequest
	dir         string
	handler     *server.Server
	host        string                                               // that of the request's Name
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error) // nil for plain HTTP
	certified   string                                               // a name in the certificate of the request, if any
	certifies   func(host string) error                              // whether that is for a host; nil without one
	authority   string                                               // path of the certificate that clients must trust
	counters    *metrics.Metrics
	checked     sources.Memo[checkedArchive, sources.Report]
	upstream    *upstream // nil if there is none
	counting    sync.Mutex
	sum         report.ServeSum // see counting
}

// toServe prepares to serve the mirror of a request.
func toServe(ctx context.Context, m *site.Root, request ServeRequest) (v *serving, err error) {
	v = &serving{Root: m, request: request, counters: metrics.New(m.Flags.Version)}
	v.checked.Max = mostChecked
	if request.Upstream {
		v.dir = site.Absolute(m.WorkDir, request.Dir)
		err = job.NoCache(m, v.dir)
	} else {
		const hint = "to serve packages that are added later, create the directory first, or use --upstream"
		v.dir, err = site.Existing(m.WorkDir, request.Dir, site.Directory, hint)
		err = cmp.Or(site.DirectoryOnly(request.Dir), err,
			job.CheckMirrorOrEmpty(v.dir, "name the directory of a mirror, or an empty one"))
	}
	if err != nil {
		return nil, err
	}
	key, err := m.RecordKey()
	if err != nil {
		return nil, err
	}
	opts := server.Options{
		Key: key, Agent: m.Server, BehindProxy: request.BehindProxy, Metrics: v.counters, Report: v.report, Ready: v.ready,
	}
	if request.Name != "" {
		if opts.Host, err = sources.ParsePunycodeHost(request.Name); err != nil {
			return nil, report.Usage(fmt.Errorf("--name: %w", err))
		}
		v.host = opts.Host.ASCII()
		if host, _, err := net.SplitHostPort(v.host); err == nil {
			v.host = host
		}
	}
	if request.Tokens != "" {
		tokens, err := watchTokens(m, request.Tokens)
		if err != nil {
			return nil, err
		}
		opts.Tokens = tokens.Get
	}
	if err := v.loadCertificate(); err != nil {
		return nil, err
	}
	if request.Upstream {
		if v.upstream, err = newUpstream(ctx, m, v); err != nil {
			return nil, err
		}
		opts.Upstream, opts.Fresh = v.upstream, request.Fresh-v.upstream.renewed
		made, err := disk.Make(v.dir)
		if err != nil {
			return nil, sources.WithHint(err, "choose another directory for the mirror")
		}
		made.Close()
	}
	opts.Rules, opts.Page = v, newPage(v).serve
	v.handler = server.New(ctx, v.dir, opts)
	v.counters.Watch(v.handler)
	v.warnUnindexed(ctx)
	v.warnSet(ctx)
	return v, nil
}

// ready returns why the server can't do its work.
func (v *serving) ready() error {
	dir, err := disk.Open(v.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if v.upstream == nil {
		return nil
	}
	if err := dir.Writable(); err != nil {
		return err
	}
	makesRoom := v.upstream.limit > 0 && !v.upstream.full.Load()
	if free, ok := v.handler.Free(); ok && free < leastFree && !makesRoom {
		return disk.NoSpace(v.dir, "the mirror", leastFree)
	}
	return nil
}

// leastFree is how many bytes must be free on the disk of a server that fetches: few providers are smaller.
const leastFree = 8 << 20

const mostTokens = 1 << 20 // bytes

// watchTokens reads a file of tokens, and again when it changes. While it is missing or damaged, the old tokens are
// valid.
func watchTokens(m *site.Root, typed string) (*endpoint.Watched[server.Tokens], error) {
	path, err := site.Existing(m.WorkDir, typed, site.File, "name a file with lines NAME SHA256")
	if err != nil {
		return nil, fmt.Errorf("--tokens: %w", err)
	}
	started := false
	failed := func(err error) { m.Output.WarnOf(fmt.Errorf("the old tokens stay valid: %w", err)) }
	return endpoint.Watch(failed, func() (server.Tokens, error) {
		text, err := disk.ReadFile(path, mostTokens)
		if err != nil {
			return nil, err
		}
		tokens, err := server.ParseTokens(text)
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		if started && errors.Is(err, server.ErrNoTokens) {
			m.Output.WarnOf(fmt.Errorf("no client can use the server: %w", err))
			return server.Tokens{}, nil
		}
		started = true
		return tokens, err
	}, path)
}

// loadCertificate loads the certificate of the request, if there is one.
func (v *serving) loadCertificate() error {
	if v.request.Cert == "" {
		return nil
	}
	cert, err := site.Existing(v.WorkDir, v.request.Cert, site.File, "name a file with the certificate, in PEM")
	if err != nil {
		return fmt.Errorf("--cert: %w", err)
	}
	key, err := site.Existing(v.WorkDir, v.request.Key, site.File, "name a file with the key of the certificate, in PEM")
	if err != nil {
		return fmt.Errorf("--key: %w", err)
	}
	certificate, err := endpoint.Load(cert, key, v.host, v.Output.WarnOf)
	if err != nil {
		return err
	}
	v.certificate, v.certified, v.certifies = certificate.Get, certificate.Name(), certificate.For
	return nil
}

// warnName warns if the certificate of the request isn't for the URL of the server. With a name in the request, loading
// it has warned.
func (v *serving) warnName(listeners []net.Listener) {
	at, err := url.Parse(v.url(listeners))
	if err != nil || at.Host == "" || v.certifies == nil || v.host != "" {
		return
	}
	if err := v.certifies(at.Hostname()); err != nil {
		err = fmt.Errorf("clients refuse the certificate in %s: %w", v.request.Cert, err)
		v.Output.WarnOf(sources.WithHint(err, "name the host that clients use with --name"))
	}
}

// selfSign gets a certificate from an authority of this machine.
func (v *serving) selfSign(all []net.Listener) error {
	if v.Config.StateDir == "" {
		err := errors.New("no directory is known in which to keep the certificate authority")
		return sources.WithHint(err, "set HOME or XDG_STATE_HOME, or use --cert and --key")
	}
	dir := filepath.Join(v.Config.StateDir, "serve")
	authority, err := endpoint.LocalAuthority(dir, v.hosts(all))
	if err != nil {
		err = fmt.Errorf("the certificate authority of --self-signed: %w", err)
		const hint = "it is kept in %s; set XDG_STATE_HOME for another directory, or use --cert and --key"
		return sources.WithLastHint(err, hint, dir)
	}
	v.certificate, v.authority = authority.Get, authority.Path
	return nil
}

// hosts returns the names under which clients may know the server, sorted: those that it listens on, or all of this
// machine.
func (v *serving) hosts(listeners []net.Listener) []string {
	name, _ := os.Hostname()
	all := []string{"localhost", "127.0.0.1", "::1", v.host, name}
	for i, l := range listeners {
		tcp, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			continue
		}
		if i < len(v.request.Listen) { // otherwise systemd has opened it
			host, _, _ := net.SplitHostPort(v.request.Listen[i])
			if _, err := netip.ParseAddr(host); err != nil {
				all = append(all, host)
			}
		}
		if !tcp.IP.IsUnspecified() {
			all = append(all, tcp.IP.String())
			continue
		}
		// Many machines have IPv6 addresses that change every day, and each would need a new authority.
		addrs, _ := net.InterfaceAddrs()
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
				all = append(all, n.IP.String())
			}
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(host string) bool { return host == "" })
}

// The addresses without --listen.
const (
	secureAddress = ":8443"
	plainAddress  = "127.0.0.1:8080"
)

// listen opens the addresses. If it fails, the program ends, and its sockets with it.
func (v *serving) listen(ctx context.Context, secure bool) (all []net.Listener, err error) {
	addresses := v.request.Listen
	if len(addresses) == 0 {
		if all, err = v.Machine.Sockets(); err != nil {
			return nil, err
		}
		switch {
		case len(all) > 0:
		case secure:
			addresses = []string{secureAddress}
		default:
			addresses = []string{plainAddress}
		}
	}
	for _, address := range addresses {
		l, err := endpoint.Listen(ctx, address)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	for _, l := range all {
		if !secure && !v.request.BehindProxy && !endpoint.Local(l) {
			err := fmt.Errorf("%s can be reached from other machines, and engines use network mirrors only over HTTPS", l.Addr())
			const hint = "use --cert and --key, or --self-signed; or --behind-proxy if a proxy in front has a certificate"
			return nil, report.Usage(sources.WithHint(err, hint))
		}
	}
	if v.request.SelfSigned { // an authority is made only if the server can listen
		err = v.selfSign(all)
	}
	return all, err
}

// url returns the base URL for clients, or nothing if the server has only sockets.
func (v *serving) url(all []net.Listener) string {
	scheme := "http://"
	if v.certificate != nil {
		scheme = "https://"
	}
	if v.request.Name != "" {
		return scheme + v.request.Name + "/"
	}
	for _, l := range all {
		tcp, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			continue
		}
		host := tcp.IP.String()
		switch {
		case tcp.IP.IsLoopback():
			host = "localhost"
		case v.certified != "":
			host = v.certified
		case tcp.IP.IsUnspecified():
			name, _ := os.Hostname()
			host = cmp.Or(name, "localhost")
		}
		if tcp.Port != 443 || v.certificate == nil {
			host = net.JoinHostPort(host, fmt.Sprint(tcp.Port))
		}
		return scheme + host + "/"
	}
	return ""
}

func addresses(all []net.Listener) (texts []string) {
	for _, l := range all {
		texts = append(texts, l.Addr().String())
	}
	return texts
}

// warnUnindexed warns about providers that the index lacks, which are not served.
func (v *serving) warnUnindexed(ctx context.Context) {
	providers, err := fsmirror.New(v.dir, fsmirror.Options{}).Providers(ctx)
	if err != nil {
		v.Output.WarnOf(err)
		return
	}
	var without []error
	for _, p := range providers {
		if _, err := os.Lstat(filepath.Join(v.dir, filepath.FromSlash(p.String()), fsmirror.Index)); err != nil {
			err := errors.New("not served: the mirror has no index.json for it")
			err = sources.WithHint(err, "larder mirror index %s writes it, for packed packages", site.ShellQuoted(v.request.Dir))
			without = append(without, &sources.ProviderError{Provider: p, Err: err})
		}
	}
	v.Output.WarnAll(without)
}

// report shows a request, and counts it.
func (v *serving) report(r server.Served) {
	v.counters.Count(r)
	v.counting.Lock()
	v.sum.Add(r)
	v.counting.Unlock()
	if v.upstream != nil && r.Complete() {
		v.upstream.served(*r.Package, r.Time)
	}
	v.Output.Served(r)
}
