package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/larder-cli/larder/sources"
)

// curves are the supported curves without post-quantum key exchange. With it, the first message of a handshake is
// longer than some firewalls allow. The engines disable it too.
var curves = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}

// NewTransport returns a transport like those of a Client, for callers that modify it. It connects within the timeout,
// and uses no proxy.
func NewTransport(timeout time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:            dialing(timeout, nil),
		TLSClientConfig:        &tls.Config{GetClientCertificate: noCertificate, CurvePreferences: curves},
		TLSHandshakeTimeout:    timeout - timeout/8,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		OnProxyConnectResponse: checkProxy,
		HTTP2: &http.HTTP2Config{
			// Ending a request does not close a connection. Without pings, one try after another would be sent over a
			// connection that is dead.
			SendPingTimeout: timeout / pingsPerTimeout,
			PingTimeout:     timeout / pingsPerTimeout,
		},
	}
}

// newTransports returns one transport for documents and one for archives. The one for archives uses HTTP/1.1, so that
// each archive has its own connection: over a network with long delays, a single connection does not reach the full
// speed.
func newTransports(opts Options) map[bool]http.RoundTripper {
	documents, archives := NewTransport(opts.Timeout), NewTransport(opts.Timeout)
	for _, t := range []*http.Transport{documents, archives} {
		t.Proxy, t.DialContext = opts.Proxy, dialing(opts.Timeout, opts.Connect)
	}
	archives.ForceAttemptHTTP2, archives.HTTP2 = false, nil
	archives.Protocols = new(http.Protocols)
	archives.Protocols.SetHTTP1(true)
	archives.TLSClientConfig.NextProtos = []string{"http/1.1"} // so that servers that support only HTTP/2 report that
	archives.ReadBufferSize = bufferSize
	dial := archives.DialContext
	archives.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &socket{Conn: conn}, nil
	}
	return map[bool]http.RoundTripper{false: documents, true: archives}
}

// dialing returns a function that connects if allow, which may be nil, permits the address. It checks the one that is
// connected to, so that a name can't lead elsewhere afterward. It gives up before the request does, so that the error
// is that of the connection.
func dialing(
	timeout time.Duration, allow func(host string, address netip.Addr) error,
) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		within := max(timeout/2, min(timeout-timeout/8, reachTime))
		dialer := net.Dialer{Timeout: within, KeepAlive: keepAlive}
		if allow != nil {
			host, _, _ := net.SplitHostPort(address)
			dialer.Control = func(_, resolved string, _ syscall.RawConn) error {
				at, err := netip.ParseAddrPort(resolved)
				if err == nil {
					err = allow(host, at.Addr().Unmap().WithZone(""))
				}
				if err != nil {
					return &UnreachableError{host, err}
				}
				return nil
			}
		}
		return dialer.DialContext(ctx, network, address)
	}
}

// Trust makes the client accept certificates of these authorities for the host of u, in addition to the others.
func (c *Client) Trust(u *url.URL, authorities []*x509.Certificate) {
	h := c.host(u)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.options.Authorities = slices.Concat(h.options.Authorities, authorities)
	clear(h.own)
}

// connect is the last link. It sends a request over the shared transport, or over that of its host: a host with TLS
// options has a separate one, so that its connections are not used for other hosts.
func (c *Client) connect(req *http.Request, _ http.RoundTripper) (*http.Response, error) {
	h, archive := c.host(req.URL), attemptOf(req).archive
	transport := c.shared[archive]
	h.mu.Lock()
	hasOwn := req.URL.Scheme == "https" && len(h.options.Authorities)+len(h.options.Certificates) > 0
	if shared, ok := transport.(*http.Transport); ok && hasOwn {
		if h.own[archive] == nil {
			h.own[archive] = newOwnTransport(shared, h.options, req.URL)
		}
		transport = h.own[archive]
	}
	h.mu.Unlock()
	return transport.RoundTrip(req)
}

func newOwnTransport(like *http.Transport, o HostOptions, u *url.URL) *http.Transport {
	t := like.Clone()
	t.TLSClientConfig = cmp.Or(t.TLSClientConfig, &tls.Config{})
	shared := t.TLSClientConfig.Clone()
	if len(o.Certificates) > 0 {
		t.TLSClientConfig.Certificates, t.TLSClientConfig.GetClientCertificate = o.Certificates, nil
	}
	if len(o.Authorities) > 0 {
		system, _ := x509.SystemCertPool() // nil if there is none
		t.TLSClientConfig.RootCAs = cmp.Or(shared.RootCAs, system, x509.NewCertPool()).Clone()
		for _, authority := range o.Authorities {
			t.TLSClientConfig.RootCAs.AddCert(authority)
		}
	}
	if t.Proxy == nil {
		return t
	}
	// A proxy is another host, so these options do not apply to it. All connections of this transport go to the same
	// proxy. If the proxy can't be found, every request returns the error.
	if proxy, err := t.Proxy(&http.Request{URL: u}); err == nil && proxy != nil && proxy.Scheme == "https" {
		shared.ServerName, shared.NextProtos = proxy.Hostname(), nil
		t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := t.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return tls.Client(conn, shared), nil
		}
	}
	return t
}

// A host is the state shared by all requests to one host and port.
type host struct {
	name  sources.Host        // empty if nothing can be configured for the host
	slots *semaphore.Weighted // for the archives being downloaded
	turns *semaphore.Weighted // for the large ones
	parts atomic.Bool         // whether the last archive that arrived in parts was complete
	asks  atomic.Bool         // requests a client certificate, but none is configured

	answered atomic.Bool // a request, whatever the answer was

	reported atomic.Int64 // time of the last event about an unavailable host, in nanoseconds

	opening atomic.Bool     // whether a request has begun to open the first connection for documents
	opened  context.Context // ends when that is open or has failed
	open    func()          // ends it

	mu      sync.Mutex
	options HostOptions              // only for https
	own     map[bool]*http.Transport // if it has TLS options: for documents and, at true, for archives
	silent  error                    // why it could not be reached, if it did not answer at all
	until   time.Time                // the end of the last pause; zero if there was none
	pauses  int                      // number of pauses in a row, without a good answer in between
}

// host returns the state of the host of u.
func (c *Client) host(u *url.URL) *host {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := hostPort(u)
	h, ok := c.hosts[key]
	if !ok {
		h = &host{slots: semaphore.NewWeighted(int64(c.opts.PerHost)), own: map[bool]*http.Transport{}}
		h.turns = semaphore.NewWeighted(maxTurns)
		h.name, _ = sources.ParsePunycodeHost(key)
		h.options = c.opts.Hosts[h.name]
		h.opened, h.open = context.WithCancel(context.Background())
		c.hosts[key] = h
	}
	return h
}

// opening is the link that lets the first request for a document open a connection to a host before others are sent,
// because over HTTP/2 all can share it: otherwise each of the first requests would open its own. The others wait only
// briefly.
func (c *Client) opening(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	h := c.host(req.URL)
	switch {
	case attemptOf(req).archive:
		a := attemptOf(req)
		trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) { a.socket = socketOf(got.Conn) }}
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), trace))
	case h.opening.Swap(true):
		select {
		case <-h.opened.Done():
		case <-time.After(maxOpening):
		case <-req.Context().Done():
		}
	default:
		defer h.open()
		trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { h.open() }}
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), trace))
	}
	return next.RoundTrip(req)
}

// A socket is a connection that counts how often less could be read from it than was wanted: then nothing else had
// arrived. A clock would take waiting for a processor for waiting for the server.
type socket struct {
	net.Conn
	reads, short atomic.Int64
}

// Read implements [net.Conn].
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if s.reads.Add(1); n < len(p) {
		s.short.Add(1)
	}
	return n, err
}

func (s *socket) reset() {
	s.reads.Store(0)
	s.short.Store(0)
}

// starved reports whether what had arrived was often read before more did.
func (s *socket) starved() bool { return 4*s.short.Load() > s.reads.Load() }

// socketOf returns the socket of a connection, or nil if it isn't known.
func socketOf(conn net.Conn) *socket {
	if over, ok := conn.(*tls.Conn); ok {
		conn = over.NetConn()
	}
	s, _ := conn.(*socket)
	return s
}

// limiting is the link that limits the archives being downloaded from one host. A request waits for a slot at its host,
// and first releases the slot that its attempt has at another one. As no request waits while it has one, there is no
// deadlock.
func (c *Client) limiting(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	h, a := c.host(req.URL), attemptOf(req)
	if !a.limited || a.slot == h.slots {
		return next.RoundTrip(req)
	}
	a.release()
	if !h.slots.TryAcquire(1) {
		c.emit(Event{URL: bare(req.URL), Host: req.URL.Host})
		if err := h.slots.Acquire(req.Context(), 1); err != nil {
			return nil, err
		}
	}
	a.slot = h.slots
	return next.RoundTrip(req)
}
