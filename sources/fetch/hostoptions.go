package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
)

// HostOptions apply to a single host and port, and only over https. After a
// redirect to another host, the options of that host apply instead.
type HostOptions struct {
	Authorities  []*x509.Certificate // certificate authorities for the host, in addition to the system's
	Certificates []tls.Certificate   // client certificates, if the host requests one
	Headers      map[string]string   // added to every request that does not have them already

	// TokenForArchives sends the host's token with every request to it,
	// including those for archives and signed checksums.
	TokenForArchives bool
}

// hostOptions returns the options for the host of u.
func (c *Client) hostOptions(u *url.URL) HostOptions {
	if len(c.opts.Hosts) == 0 || u.Scheme != "https" {
		return HostOptions{}
	}
	host, err := hostOf(u)
	if err != nil {
		return HostOptions{} // nothing can be configured for such a host
	}
	return c.opts.Hosts[host]
}

// Trust makes the client accept certificates of these authorities for the host of u, in addition to the others.
func (c *Client) Trust(u *url.URL, authorities []*x509.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := hostPort(u)
	c.trusted[at] = authorities
	maps.DeleteFunc(c.own, func(t ownTransport, _ *http.Transport) bool { return t.hostPort == at })
}

// addHeaders adds the configured headers for the host of u.
func (c *Client) addHeaders(header http.Header, u *url.URL) {
	for name, value := range c.hostOptions(u).Headers {
		if header.Get(name) == "" {
			header.Set(name, value)
		}
	}
}

// An ownTransport identifies the separate transport of a host.
type ownTransport struct {
	shared   http.RoundTripper // the transport that it replaces
	hostPort string
}

// transport returns the transport for requests to u. A host with TLS options
// has a separate one, similar to the shared one, so that its connections are
// not used for other hosts.
func (c *Client) transport(shared http.RoundTripper, u *url.URL) http.RoundTripper {
	o := c.hostOptions(u)
	key := ownTransport{shared, hostPort(u)}
	c.mu.Lock()
	defer c.mu.Unlock()
	o.Authorities = slices.Concat(o.Authorities, c.trusted[key.hostPort])
	like, ok := shared.(*http.Transport)
	if !ok || len(o.Authorities)+len(o.Certificates) == 0 {
		return shared
	}
	if c.own[key] == nil {
		c.own[key] = newOwnTransport(like, o, u)
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
	// A proxy is another host, so these options do not apply to it. All
	// connections of this transport go to the same proxy.
	if proxy := proxyFor(t, u); proxy != nil && proxy.Scheme == "https" {
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

func proxyFor(t *http.Transport, u *url.URL) *url.URL {
	if t.Proxy == nil {
		return nil
	}
	proxy, err := t.Proxy(&http.Request{URL: u})
	if err != nil {
		return nil // every request will return the error
	}
	return proxy
}

// withAuthorities returns the pool with more authorities added. A nil pool
// means the system's. If the system has none, the result has only those in
// more.
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

// archiveCredentials returns the Authorization header for an archive: from the
// URL itself, otherwise the host's token if it is for archives too, otherwise
// from the netrc file. All but the first are sent only over https. It is empty if
// an [Authorizer] adds it.
func (c *Client) archiveCredentials(ctx context.Context, u *url.URL) (string, error) {
	if c.authorizer(u) != nil {
		return "", nil
	}
	header := http.Header{}
	setUser(header, u)
	if u.User == nil && c.hostOptions(u).TokenForArchives {
		if err := c.setToken(ctx, header, u, ""); err != nil {
			return "", err
		}
	}
	none := u.User == nil && header.Get("Authorization") == ""
	if none && c.opts.Netrc != nil && u.Scheme == "https" {
		if user, password, ok := c.opts.Netrc(u.Host); ok {
			(&http.Request{Header: header}).SetBasicAuth(user, password)
		}
	}
	return header.Get("Authorization"), nil
}

// A note is the state of a request's connection. It is in the request's
// context.
type note struct {
	host      *host
	tunnelled atomic.Bool // the proxy has reported that the tunnel to the host is open
	stands    atomic.Bool // connected to the host, including TLS; without TLS, connected to the proxy
}

type noted struct{}

// noCertificate returns no certificate, and records that the host requests one.
// Servers that require one close the connection, and rarely give the reason.
func noCertificate(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if n, ok := asked.Context().Value(noted{}).(*note); ok {
		n.host.asks.Store(true)
	}
	return &tls.Certificate{}, nil
}
