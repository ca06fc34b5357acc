package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"
)

// curves are the supported curves without post-quantum key exchange. With it, the first message of a handshake is
// longer than some firewalls allow. The engines disable it too.
var curves = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}

// NewTransport returns a transport like those of a Client, for callers that modify it. It connects within the timeout,
// and uses no proxy.
func NewTransport(timeout time.Duration) *http.Transport {
	dialer := &net.Dialer{Timeout: timeout, KeepAlive: keepAlive}
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{GetClientCertificate: noCertificate, CurvePreferences: curves},
		TLSHandshakeTimeout:    timeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		OnProxyConnectResponse: checkProxy,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize:              readFrame,
			MaxReceiveBufferPerStream:     streamBuffer,
			MaxReceiveBufferPerConnection: connectionBuffer,
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
func newTransports(opts Options) (documents, archives *http.Transport) {
	documents, archives = NewTransport(opts.Timeout), NewTransport(opts.Timeout)
	sessions := tls.NewLRUClientSessionCache(0) // archives use many connections to few hosts
	for _, t := range []*http.Transport{documents, archives} {
		t.Proxy, t.TLSClientConfig.ClientSessionCache = opts.Proxy, sessions
		if opts.Connect != nil {
			t.DialContext = connecting(opts)
		}
	}
	archives.ForceAttemptHTTP2, archives.HTTP2 = false, nil
	archives.Protocols = new(http.Protocols)
	archives.Protocols.SetHTTP1(true)
	archives.TLSClientConfig.NextProtos = []string{"http/1.1"} // so that servers that support only HTTP/2 report that
	archives.ReadBufferSize = bufferSize
	return documents, archives
}

// An addressError is an address that [Options].Connect refuses.
type addressError struct{ error }

func (e *addressError) Unwrap() error { return e.error }

// connecting returns a function that connects if the options allow it. It checks the address that is connected to, so
// that a name can't lead elsewhere afterward.
func connecting(opts Options) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		dialer := &net.Dialer{Timeout: opts.Timeout, KeepAlive: keepAlive}
		dialer.Control = func(_, resolved string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(resolved)
			if err == nil {
				err = opts.Connect(host, at.Addr().Unmap().WithZone(""))
			}
			if err != nil {
				return &addressError{err}
			}
			return nil
		}
		return dialer.DialContext(ctx, network, address)
	}
}

// Trust makes the client accept certificates of these authorities for the host of u, in addition to the others.
func (c *Client) Trust(u *url.URL, authorities []*x509.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := hostPort(u)
	c.trusted[at] = authorities
	maps.DeleteFunc(c.own, func(t ownTransport, _ *http.Transport) bool { return t.hostPort == at })
}

// An ownTransport identifies the separate transport of a host.
type ownTransport struct {
	shared   http.RoundTripper // the transport that it replaces
	hostPort string
}

// connections is the last link. It sends a request over the shared transport, or over that of its host: a host with TLS
// options has a separate one, so that its connections are not used for other hosts.
func (c *Client) connections(shared http.RoundTripper) http.RoundTripper {
	like, ok := shared.(*http.Transport)
	if !ok {
		return shared
	}
	return link(func(req *http.Request) (*http.Response, error) { return c.transport(like, req.URL).RoundTrip(req) })
}

// transport returns the transport for requests to u.
func (c *Client) transport(shared *http.Transport, u *url.URL) *http.Transport {
	o := c.hostOptions(u)
	key := ownTransport{shared, hostPort(u)}
	c.mu.Lock()
	defer c.mu.Unlock()
	o.Authorities = slices.Concat(o.Authorities, c.trusted[key.hostPort])
	if len(o.Authorities)+len(o.Certificates) == 0 {
		return shared
	}
	if c.own[key] == nil {
		c.own[key] = newOwnTransport(shared, o, u)
	}
	return c.own[key]
}

func newOwnTransport(like *http.Transport, o HostOptions, u *url.URL) *http.Transport {
	t := like.Clone()
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{}
	}
	if t.TLSClientConfig.ClientSessionCache != nil { // a session may depend on the client certificate
		t.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	shared := t.TLSClientConfig.Clone()
	if len(o.Certificates) > 0 {
		t.TLSClientConfig.Certificates, t.TLSClientConfig.GetClientCertificate = o.Certificates, nil
	}
	if len(o.Authorities) > 0 {
		t.TLSClientConfig.RootCAs = withAuthorities(shared.RootCAs, o.Authorities)
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

// withAuthorities returns the pool with more authorities added. A nil pool means the system's. If the system has none,
// the result has only those in more.
func withAuthorities(pool *x509.CertPool, more []*x509.Certificate) *x509.CertPool {
	if pool == nil {
		pool, _ = x509.SystemCertPool()
	}
	if pool == nil {
		pool = x509.NewCertPool()
	}
	pool = pool.Clone()
	for _, cert := range more {
		pool.AddCert(cert)
	}
	return pool
}
