package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// HostOptions are what holds for one host and port alone, and over https alone.
// A redirect elsewhere leaves all of it behind, and finds what holds there.
type HostOptions struct {
	Authorities  []*x509.Certificate // that may vouch for the host, besides the system's
	Certificates []tls.Certificate   // to show to the host, should it ask
	Headers      map[string]string   // of every request, unless it has them already

	// TokenForArchives says to send the host's token with every request to it,
	// for archives and what vouches for them too.
	TokenForArchives bool
}

// hostOptions are those for where u leads.
func (c *Client) hostOptions(u *url.URL) HostOptions {
	if len(c.opts.Hosts) == 0 || u.Scheme != "https" {
		return HostOptions{}
	}
	host, err := hostOf(u)
	if err != nil {
		return HostOptions{} // nobody can configure anything for it
	}
	return c.opts.Hosts[host]
}

// addHeaders adds those for the host that u leads to.
func (c *Client) addHeaders(header http.Header, u *url.URL) {
	for name, value := range c.hostOptions(u).Headers {
		if header.Get(name) == "" {
			header.Set(name, value)
		}
	}
}

// An ownTransport names the transport that a host has to itself.
type ownTransport struct {
	shared   http.RoundTripper // in place of this one
	hostPort string
}

// transport is what carries requests to u: the one shared by all hosts, or one
// like it if the host has TLS options of its own, as connections are for
// whoever asks for the host.
func (c *Client) transport(shared http.RoundTripper, u *url.URL) http.RoundTripper {
	o := c.hostOptions(u)
	like, ok := shared.(*http.Transport)
	if !ok || len(o.Authorities)+len(o.Certificates) == 0 {
		return shared
	}
	key := ownTransport{shared, hostPort(u)}
	c.mu.Lock()
	defer c.mu.Unlock()
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
	if t.TLSClientConfig.ClientSessionCache != nil { // sessions are what a certificate was shown for
		t.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	shared := t.TLSClientConfig.Clone()
	if len(o.Certificates) > 0 {
		t.TLSClientConfig.Certificates, t.TLSClientConfig.GetClientCertificate = o.Certificates, nil
	}
	if len(o.Authorities) > 0 {
		t.TLSClientConfig.RootCAs = withAuthorities(shared.RootCAs, o.Authorities)
	}
	// A proxy is another host, which these options are not for. As the proxy is
	// the same for all of a host, nothing else is dialled in this way.
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
		return nil // which every request will say
	}
	return proxy
}

// withAuthorities is a pool of authorities and more; nil stands for the
// system's. Where the system has none, there are only those.
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

// archiveCredentials are those for an archive, as an Authorization header has
// them: the URL's own, else the host's token if it is for archives too, else
// what the netrc file has. All but the first go over https only.
func (c *Client) archiveCredentials(ctx context.Context, u *url.URL) (string, error) {
	header := http.Header{}
	setUser(header, u)
	if u.User == nil && c.hostOptions(u).TokenForArchives {
		if err := c.setToken(ctx, header, u, sources.Host("")); err != nil {
			return "", err
		}
	}
	none := u.User == nil && header.Get("Authorization") == ""
	if none && c.opts.Netrc != nil && u.Scheme == "https" {
		if user, password, ok := c.opts.Netrc(u.Host); ok {
			setBasic(header, user, password)
		}
	}
	return header.Get("Authorization"), nil
}

// suggestToken adds what may help to an error of a request that was refused: the token of
// the host if it went without, unless its URL has expired.
func (c *Client) suggestToken(u *url.URL, err error) error {
	var e *Error
	var status *StatusError
	var other *redirected
	if !errors.As(err, &e) || !errors.As(err, &status) {
		return err
	}
	if status.expired() && (status.signed || strings.Contains(strings.ToLower(status.Said), "expired")) {
		e.Err = sources.WithHint(e.Err, "the URL is signed for a limited time: check the clock of this machine, and for how long the registry signs URLs")
		return err
	}
	if status.ObjectStore && errors.Is(err, ErrUnauthorized) {
		e.Err = sources.WithHint(e.Err, "object stores also return this for files that do not exist")
		return err
	}
	if u.Scheme == "https" && errors.Is(err, ErrUnauthorized) && !errors.As(err, &other) && !status.Credentials {
		e.Err = sources.WithHint(e.Err, "if archives of %[1]s need its token, add host %[1]q { send_token_to_archives = true } to %[2]s", u.Host, c.hostsFile())
	}
	return err
}

// A noted context knows which host is connected to.
type noted struct{}

func (c *Client) noting(ctx context.Context, u *url.URL) context.Context {
	return context.WithValue(ctx, noted{}, c.host(u))
}

// noCertificate shows none, and notes who asks for one: servers that insist
// break the connection, and few clients get to know why.
func noCertificate(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if h, ok := asked.Context().Value(noted{}).(*host); ok {
		h.asks.Store(true)
	}
	return &tls.Certificate{}, nil
}

// suggestCertificate adds what may help to an error of a connection.
func (c *Client) suggestCertificate(u *url.URL, err error) error {
	if !c.host(u).asks.Load() {
		return err
	}
	return sources.WithHint(err, "%[1]s requests a client certificate; add host %[1]q with client_certificate and client_key to %[2]s", u.Host, c.hostsFile())
}
