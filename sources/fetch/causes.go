package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/larder-cli/larder/sources"
)

// describe returns an error of Go's network packages, whose texts contain system calls and ports, in plain words. It
// marks the error as temporary, unless the same request would fail again.
func describe(err error) error {
	var proxy *ProxyError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var dns *net.DNSError
	op := innermost(err)
	text, hint, final := "", "", true
	switch {
	case errors.As(err, &proxy), errors.Is(err, http.ErrSchemeMismatch): // temporary has a rule for proxies
	case errors.As(err, &certificate):
		text = "TLS: " + strings.TrimPrefix(certificate.Err.Error(), "x509: ")
	case errors.As(err, &record):
		text = "the server does not speak TLS on this port: " + err.Error()
	case errors.As(err, &dns):
		text, final = plainDNS(dns), dns.IsNotFound && !dns.IsTemporary
	case op != nil && op.Op == "remote error": // a TLS alert
		text = "the server refused the TLS connection: " + strings.TrimPrefix(op.Err.Error(), "tls: ")
		if strings.Contains(text, "handshake failure") {
			hint = "the server may support only outdated TLS, such as SHA-1 signatures or RSA key exchange: update it"
		}
		if strings.Contains(text, "no application protocol") {
			hint = "allow HTTP/1.1 on the server: Larder requests archives over it"
		}
	case errors.Is(err, io.ErrUnexpectedEOF):
		final = false
	case errors.Is(err, io.EOF):
		text, final = "the server closed the connection without an answer", false
	case strings.HasSuffix(err.Error(), "TLS handshake timeout"): // net/http exports no type for it
		text, final = "the TLS handshake timed out", false
	default:
		text, final = plainOp(op), false
	}
	if !final {
		err = broken{err}
	}
	if text != "" {
		err = &worded{text, err}
	}
	if hint != "" {
		err = sources.WithHint(err, "%s", hint)
	}
	return err
}

// A worded error replaces the text of the error that it wraps.
type worded struct {
	text string
	error
}

func (w *worded) Error() string { return w.text }
func (w *worded) Unwrap() error { return w.error }

// plainDNS describes a DNS error, with the name server.
func plainDNS(e *net.DNSError) string {
	text := e.Err
	if strings.HasPrefix(text, "dial ") || strings.HasPrefix(text, "read ") || strings.HasPrefix(text, "write ") {
		text = text[strings.LastIndex(text, ": ")+1:]
	}
	if text = strings.TrimSpace(text); e.IsTimeout {
		text = "no answer from the DNS server"
	}
	server, port, err := net.SplitHostPort(e.Server)
	if err != nil || port != "53" {
		server = e.Server
	}
	switch {
	case e.Server == "":
		return text
	case e.IsTimeout:
		return text + " " + server
	}
	return text + " (DNS server " + server + ")"
}

// plainOp describes a failed network operation, with the address. It is empty for unknown errors.
func plainOp(e *net.OpError) string {
	if e == nil {
		return ""
	}
	text := ""
	errno, isSystem := errors.AsType[syscall.Errno](e)
	switch {
	case e.Timeout():
		text = "the connection timed out"
	case isSystem:
		text = errno.Error()
	case e.Op == "dial" && !errors.Is(e, context.Canceled):
		text = e.Err.Error()
	default:
		return ""
	}
	if e.Addr != nil {
		text += " (" + e.Addr.String() + ")"
	}
	return text
}

// innermost returns the innermost network operation in err, or nil.
func innermost(err error) *net.OpError {
	var last *net.OpError
	for op, ok := errors.AsType[*net.OpError](err); ok; op, ok = errors.AsType[*net.OpError](op.Err) {
		last = op
	}
	return last
}

// An UnreachableError reports a failure to connect to a host. It wraps the cause, such as a [net.DNSError].
type UnreachableError struct {
	Host  string // as the URL has it; a proxy's host and port
	Proxy bool   // whether Host is a proxy
	Err   error
}

func (e *UnreachableError) Error() string {
	what := e.Host
	if e.Proxy {
		what = "the proxy " + e.Host
	}
	return "cannot reach " + what + ": " + strings.TrimSuffix(e.Err.Error(), " ("+e.Host+")")
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// unreachable returns the UnreachableError in err, or nil.
func unreachable(err error) *UnreachableError {
	e, _ := errors.AsType[*UnreachableError](err)
	return e
}

// A ProxyError is the failure of a proxy to connect to a host, or an error for which the proxy may be the reason. Its
// status comes from the proxy, so it means nothing about the contents of the host.
type ProxyError struct {
	Proxy     string // host and port of the proxy
	Host      string // the host to connect to
	Code      int    // status of the proxy's answer; 0 if there was none
	Err       error  // why there was no answer
	Uncertain bool   // whether Err may be the error of the host
}

func (e *ProxyError) Error() string {
	switch {
	case e.Uncertain:
		return fmt.Sprintf("%v (through the proxy %s)", e.Err, e.Proxy)
	case e.Err != nil:
		return fmt.Sprintf("the proxy %s did not connect to %s: %v", e.Proxy, e.Host, e.Err)
	}
	return fmt.Sprintf("the proxy %s refused the connection to %s: %v", e.Proxy, e.Host, &StatusError{Code: e.Code})
}

func (e *ProxyError) Unwrap() error { return e.Err }

// A connection is the state of that of a request, in whose context it is.
type connection struct {
	host      *host
	tunnelled atomic.Bool // the proxy has reported that the tunnel to the host is open
	stands    atomic.Bool // connected to the host, including TLS; without TLS, connected to the proxy
}

// connectionKey is the key of the *connection in a context.
type connectionKey struct{}

// noCertificate returns no certificate, and records that the host requests one. Servers that require one close the
// connection, and rarely give the reason.
func noCertificate(requested *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if c, ok := requested.Context().Value(connectionKey{}).(*connection); ok {
		c.host.asks.Store(true)
	}
	return &tls.Certificate{}, nil
}

// explaining is the link that describes why there was no answer.
func (c *Client) explaining(next http.RoundTripper) http.RoundTripper {
	return link(func(req *http.Request) (*http.Response, error) {
		proxy, variable, err := c.proxyOf(req.URL)
		if err != nil { // no request can be sent
			return nil, err
		}
		conn := &connection{host: c.host(req.URL)}
		trace := &httptrace.ClientTrace{
			TLSHandshakeStart: func() {
				if proxy != nil && proxy.Scheme != "https" { // otherwise it may be the handshake with the proxy
					conn.tunnelled.Store(true)
				}
			},
			GotConn: func(httptrace.GotConnInfo) { conn.stands.Store(true) },
		}
		ctx := context.WithValue(req.Context(), connectionKey{}, conn)
		resp, err := next.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
		if err == nil {
			return resp, nil
		}
		u, stands, tunnelled := req.URL, conn.stands.Load(), conn.tunnelled.Load()
		err = ended(ctx, describe(err))
		if !stands {
			err = c.disconnected(u, proxy, err)
		}
		switch {
		case proxy == nil || namesProxy(err) || errors.Is(err, context.Canceled):
		case stands && u.Scheme == "http", !stands && tunnelled && temporary(err): // not an error of TLS with the host
			err = c.mayBeProxy(u, err)
		case !stands && !tunnelled:
			err = sources.WithHint(&ProxyError{Proxy: proxy.Host, Host: u.Host, Err: err},
				"check the proxy that %s names, or add the host to NO_PROXY if it can be reached without a proxy", variable)
		}
		return nil, c.suggestHostOptions(u, conn.host, err)
	})
}

// disconnected returns an [UnreachableError] if err is the failure to connect to the host of u or to its proxy (nil if
// it has none).
func (c *Client) disconnected(u, proxy *url.URL, err error) error {
	op := innermost(err)
	_, isDNS := errors.AsType[*net.DNSError](err)
	stalled := errors.Is(err, ErrStalled)
	if !stalled && !isDNS && (op == nil || op.Op != "dial") {
		return err
	}
	if stalled {
		err = &worded{"no connection within " + c.opts.Timeout.String(), err}
	}
	unreachable := &UnreachableError{Host: u.Host, Err: err}
	if proxy != nil {
		unreachable.Host, unreachable.Proxy = proxy.Host, true
	}
	return meantHost(unreachable, u.Host, "check the network connection and the proxy settings (HTTPS_PROXY, NO_PROXY); --offline uses the packages on this machine only")
}

// meantHost adds a hint to the error about a host that can't be reached: the engine's registry that the host may be a
// misspelling of, or else advice.
func meantHost(err error, host, advice string) error {
	registries := sources.Texts([]sources.Host{sources.Terraform.DefaultHost(), sources.OpenTofu.DefaultHost()})
	return sources.DidYouMean(err, host, registries, advice)
}

// suggestHostOptions adds a hint to a connection error that an option for the host can prevent: an unknown authority,
// or a client certificate that the host requests.
func (c *Client) suggestHostOptions(u *url.URL, h *host, err error) error {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, none := errors.AsType[x509.SystemRootsError](err)
	switch {
	case (unknown || none) && c.opts.CertificateFault != "":
		err = sources.WithHint(err, "SSL_CERT_FILE is ignored, because %s: correct or unset it", c.opts.CertificateFault)
	case unknown:
		system := "to the system's trust store, name its file in SSL_CERT_FILE"
		switch runtime.GOOS {
		case "darwin":
			system = "to the keychain"
		case "windows":
			system = "to the Windows certificate store"
		}
		err = sources.WithHint(err, "add the authority that issued the certificate of %[1]s %[2]s, or add host %[1]q { ca_file = \"FILE\" } to %[3]s",
			u.Host, system, c.opts.HostsFile)
	}
	if h.asks.Load() {
		err = sources.WithHint(err, "%[1]s requests a client certificate; add host %[1]q with client_certificate and client_key to %[2]s", u.Host, c.opts.HostsFile)
	}
	return err
}

// checkProxy returns a ProxyError if the proxy rejects the connection.
func checkProxy(ctx context.Context, proxy *url.URL, asked *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		if conn, ok := ctx.Value(connectionKey{}).(*connection); ok {
			conn.tunnelled.Store(true)
		}
		return nil
	}
	return explainProxy(&ProxyError{Proxy: proxy.Host, Host: asked.Host, Code: resp.StatusCode}, proxy, resp.Header, "HTTPS_PROXY")
}

// proxyOf returns the proxy for requests to u and the environment variable that sets it, or nil.
func (c *Client) proxyOf(u *url.URL) (proxy *url.URL, variable string, err error) {
	if c.opts.Proxy == nil || c.opts.Transport != nil {
		return nil, "", nil
	}
	proxy, err = c.opts.Proxy(&http.Request{URL: u})
	return proxy, strings.ToUpper(u.Scheme) + "_PROXY", err
}

// through returns err with the proxy that may have caused it. Without TLS, a proxy can answer in place of the host, and
// the two cannot be distinguished.
func (c *Client) through(u *url.URL, err error) error {
	if err == nil || u.Scheme != "http" {
		return err
	}
	return c.mayBeProxy(u, err)
}

func (c *Client) mayBeProxy(u *url.URL, err error) error {
	proxy, variable, _ := c.proxyOf(u)
	if proxy == nil || namesProxy(err) {
		return err
	}
	err = &ProxyError{Proxy: proxy.Host, Host: u.Host, Err: err, Uncertain: true}
	return sources.WithHint(err, "this may come from the proxy that %s names: if %s can be reached without it, add the host to NO_PROXY", variable, u.Host)
}

// namesProxy reports whether err already names the proxy, or the host that can't be reached without one.
func namesProxy(err error) bool {
	_, named := errors.AsType[*ProxyError](err)
	return named || unreachable(err) != nil
}

// explainProxy adds a hint to a proxy's rejection. The variable is the one that sets the proxy.
func explainProxy(err *ProxyError, proxy *url.URL, header http.Header, variable string) error {
	if err.Code != http.StatusProxyAuthRequired {
		host, _, _ := strings.Cut(err.Host, ":")
		return meantHost(err, host, fmt.Sprintf("ask the operator of the proxy that %s names to allow %s, or add the host to NO_PROXY", variable, err.Host))
	}
	schemes, basic := []string{}, false
	for _, offer := range header.Values("Proxy-Authenticate") {
		scheme, _, _ := strings.Cut(strings.TrimSpace(offer), " ")
		basic = basic || strings.EqualFold(scheme, "Basic")
		schemes = append(schemes, Printable(scheme))
	}
	offers := strings.Join(schemes[:min(len(schemes), maxQuoted)], ", ")
	switch {
	case offers != "" && !basic:
		return sources.WithHint(err, "the proxy requires authentication by %s; larder supports Basic only", offers)
	case proxy.User != nil:
		return sources.WithHint(err, "the proxy refused the user and password in %s", variable)
	}
	return sources.WithHint(err, "the proxy requires authentication: set %s=http://USER:PASSWORD@%s", variable, err.Proxy)
}
