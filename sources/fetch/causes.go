package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
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

// A connection is the state of that of a request, in whose context it is.
type connection struct {
	host      *host
	tunnelled atomic.Bool // the proxy has reported that the tunnel to the host is open
	stands    atomic.Bool // connected to the host, including TLS; without TLS, connected to the proxy
}

// connectionKey is the key of the *connection in a context.
type connectionKey struct{}

// explaining is the link that describes why there was no answer.
func (c *Client) explaining(next http.RoundTripper) http.RoundTripper {
	return link(func(req *http.Request) (*http.Response, error) {
		u := req.URL
		proxy, variable, err := c.proxyOf(u)
		if err != nil { // no request can be sent
			return nil, err
		}
		conn := &connection{host: c.host(u)}
		trace := &httptrace.ClientTrace{
			TLSHandshakeStart: func() { // with a proxy that uses TLS too, it may be the handshake with the proxy
				conn.tunnelled.CompareAndSwap(false, proxy != nil && proxy.Scheme != "https")
			},
			GotConn: func(httptrace.GotConnInfo) { conn.stands.Store(true) },
		}
		ctx := context.WithValue(req.Context(), connectionKey{}, conn)
		resp, err := next.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, trace)))
		if err == nil {
			return resp, nil
		}
		stands, tunnelled := conn.stands.Load(), conn.tunnelled.Load()
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

// noCertificate returns no certificate, and records that the host requests one. Servers that require one close the
// connection, and rarely give the reason.
func noCertificate(requested *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if c, ok := requested.Context().Value(connectionKey{}).(*connection); ok {
		c.host.asks.Store(true)
	}
	return &tls.Certificate{}, nil
}

// describe returns an error of Go's network packages, whose texts contain system calls and ports, in plain words. It
// marks the error as temporary, unless the same request would fail again.
func describe(err error) error {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var dns *net.DNSError
	op := innermost(err)
	text, hint, final := "", "", true
	switch {
	case has[*ProxyError](err), errors.Is(err, http.ErrSchemeMismatch): // temporary has a rule for proxies
	case errors.As(err, &certificate):
		text = "TLS: " + strings.TrimPrefix(certificate.Err.Error(), "x509: ")
	case errors.As(err, &record):
		text = "the server does not speak TLS on this port: " + err.Error()
	case errors.As(err, &dns):
		text, final = plainDNS(dns), dns.IsNotFound && !dns.IsTemporary
	case op != nil && op.Op == "remote error": // a TLS alert
		text = "the server refused the TLS connection: " + strings.TrimPrefix(op.Err.Error(), "tls: ")
		switch {
		case strings.Contains(text, "handshake failure"):
			hint = "the server may support only outdated TLS, such as SHA-1 signatures or RSA key exchange: update it"
		case strings.Contains(text, "no application protocol"):
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

// plainDNS describes a DNS error, with the name server.
func plainDNS(e *net.DNSError) string {
	text := e.Err
	if op, _, _ := strings.Cut(text, " "); op == "dial" || op == "read" || op == "write" {
		text = text[strings.LastIndex(text, ": ")+1:]
	}
	server, port, err := net.SplitHostPort(e.Server)
	if err != nil || port != "53" {
		server = e.Server
	}
	switch text = strings.TrimSpace(text); {
	case e.IsTimeout:
		return strings.TrimSpace("no answer from the DNS server " + server)
	case e.Server == "":
		return text
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
func innermost(err error) (last *net.OpError) {
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

// disconnected returns an [UnreachableError] if err is the failure to connect to the host of u or to its proxy (nil if
// it has none).
func (c *Client) disconnected(u, proxy *url.URL, err error) error {
	op := innermost(err)
	stalled := errors.Is(err, ErrStalled)
	if !stalled && !has[*net.DNSError](err) && (op == nil || op.Op != "dial") {
		return err
	}
	if stalled {
		err = &worded{"no connection within " + c.opts.Timeout.String(), err}
	}
	unreachable := &UnreachableError{Host: u.Host, Err: err}
	if proxy != nil {
		unreachable.Host, unreachable.Proxy = proxy.Host, true
	}
	return meantHost(unreachable, u.Host, "check the network connection and the proxy settings (HTTPS_PROXY, NO_PROXY); "+
		"--offline uses the packages on this machine only")
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
	unknown := has[x509.UnknownAuthorityError](err)
	switch {
	case (unknown || has[x509.SystemRootsError](err)) && c.opts.CertificateFault != "":
		err = sources.WithHint(err, "SSL_CERT_FILE is ignored, because %s: correct or unset it", c.opts.CertificateFault)
	case unknown:
		system := "to the system's trust store, name its file in SSL_CERT_FILE"
		switch runtime.GOOS {
		case "darwin":
			system = "to the keychain"
		case "windows":
			system = "to the Windows certificate store"
		}
		err = sources.WithHint(err, "add the authority that issued the certificate of %[1]s %[2]s, "+
			"or add host %[1]q { ca_file = \"FILE\" } to %[3]s", u.Host, system, c.opts.HostsFile)
	}
	if h.asks.Load() {
		err = sources.WithHint(err, "%[1]s requests a client certificate; "+
			"add host %[1]q with client_certificate and client_key to %[2]s", u.Host, c.opts.HostsFile)
	}
	return err
}
