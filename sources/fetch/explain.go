package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"syscall"

	"github.com/larder-cli/larder/sources"
)

// hostKey is the key of the *host of a request in its context.
type hostKey struct{}

// explaining is the link that describes why there was no answer.
func (c *Client) explaining(req *http.Request, next http.RoundTripper) (resp *http.Response, err error) {
	u, h := req.URL, c.host(req.URL)
	var proxy *url.URL
	if c.opts.Proxy != nil && c.opts.Transport == nil {
		if proxy, err = c.opts.Proxy(req); err != nil {
			return nil, err
		}
	}
	resp, err = next.RoundTrip(req.WithContext(context.WithValue(req.Context(), hostKey{}, h)))
	if err == nil {
		resp.Request = cmp.Or(resp.Request, req)
		return resp, nil
	}
	op, isOp := errors.AsType[*net.OpError](err)
	ofProxy := isOp && op.Op == "proxyconnect" // such as an error of TLS with the proxy
	noHandshake := !isOp && timedOut(err)
	switch err = ended(req.Context(), describe(err)); {
	case unreachable(err) != nil: // because the proxy or Options.Connect has refused
	case has[*net.DNSError](err), isDial(err), noHandshake && req.Context().Err() == nil:
		down := &UnreachableError{u.Host, err}
		if proxy != nil && !noHandshake {
			down.what = "the proxy " + proxy.Host
		}
		err = meantHost(down, u.Host, "check the network connection and the proxy settings (HTTPS_PROXY, NO_PROXY); "+
			"--offline uses the packages on this machine only")
	case proxy != nil && (ofProxy || temporary(err)):
		err = sources.WithHint(fmt.Errorf("%w (through the proxy %s)", err, proxy.Host),
			"if %s can be reached without the proxy, add the host to NO_PROXY", u.Host)
	}
	return nil, c.suggestHostOptions(u, h, err)
}

// noCertificate returns no certificate, and records that the host requests one. Servers that require one close the
// connection, and rarely give the reason.
func noCertificate(requested *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if h, ok := requested.Context().Value(hostKey{}).(*host); ok {
		h.asks.Store(true)
	}
	return &tls.Certificate{}, nil
}

// describe returns an error of Go's network packages, whose texts contain system calls and ports, in plain words. It
// marks the error as temporary, unless the same request would fail again.
func describe(err error) error {
	op := innermost(err)
	dns, unresolved := errors.AsType[*net.DNSError](err)
	certificate, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	text, at, hint, final := "", "", "", true
	switch {
	case unreachable(err) != nil:
		return err
	case untrusted:
		text = "TLS: " + strings.TrimPrefix(certificate.Err.Error(), "x509: ")
	case has[tls.RecordHeaderError](err), errors.Is(err, http.ErrSchemeMismatch):
		text = "the server does not speak TLS on this port: " + err.Error()
	case unresolved:
		text = strings.TrimSpace(dns.Err[strings.LastIndex(dns.Err, ": ")+1:])
		if final = dns.IsNotFound && !dns.IsTemporary; dns.Server != "" || dns.IsTimeout {
			at = strings.TrimSpace("DNS server " + strings.TrimSuffix(dns.Server, ":53"))
		}
	case op != nil && op.Op == "remote error": // a TLS alert
		alert := strings.TrimPrefix(op.Err.Error(), "tls: ")
		text, hint = "the server refused the TLS connection: "+alert, alerts[alert]
	case errors.Is(err, io.EOF):
		text, final = "the server closed the connection without an answer", false
	case op != nil:
		text, final = op.Err.Error(), false
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			text = errno.Error()
		}
		if op.Addr != nil {
			at = op.Addr.String()
		}
	case timedOut(err):
		at, final = "TLS handshake", false
	default:
		return broken{err}
	}
	if timedOut(err) {
		text = "no answer"
	}
	if at != "" {
		text += " (" + at + ")"
	}
	if !final {
		err = broken{err}
	}
	err = &worded{text, err}
	if hint != "" {
		err = sources.WithHint(err, "%s", hint)
	}
	return err
}

// alerts are hints about TLS alerts.
var alerts = map[string]string{
	"handshake failure": "the server may support only outdated TLS, such as SHA-1 signatures or RSA key exchange: " +
		"update it",
	"no application protocol": "allow HTTP/1.1 on the server: Larder requests archives over it",
}

// innermost returns the innermost network operation in err, or nil.
func innermost(err error) (last *net.OpError) {
	for op, ok := errors.AsType[*net.OpError](err); ok; op, ok = errors.AsType[*net.OpError](op.Err) {
		last = op
	}
	return last
}

// isDial reports whether err is the failure to connect.
func isDial(err error) bool {
	op := innermost(err)
	return op != nil && op.Op == "dial"
}

// timedOut reports whether err is that of an operation that took too long.
func timedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// isSilent reports whether err is that of a host that can't be reached because nothing answered: no DNS server, not its
// address, not the gateway to it, or nothing that speaks TLS.
func isSilent(err error) bool {
	return unreachable(err) != nil && (timedOut(err) || errors.Is(err, syscall.EHOSTUNREACH))
}

// An UnreachableError reports a failure to connect to a host. It wraps the cause, such as a [net.DNSError].
type UnreachableError struct {
	what string // the host as in the URL, or the proxy
	err  error
}

func (e *UnreachableError) Error() string {
	at := " (" + strings.TrimPrefix(e.what, "the proxy ") + ")"
	return "cannot reach " + e.what + ": " + strings.TrimSuffix(e.err.Error(), at)
}

func (e *UnreachableError) Unwrap() error { return e.err }

// unreachable returns the UnreachableError in err, or nil.
func unreachable(err error) *UnreachableError {
	e, _ := errors.AsType[*UnreachableError](err)
	return e
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
		stores := map[string]string{"darwin": "to the keychain", "windows": "to the Windows certificate store"}
		system := cmp.Or(stores[runtime.GOOS], "to the system's trust store, name its file in SSL_CERT_FILE")
		err = sources.WithHint(err, "add the authority that issued the certificate of %[1]s %[2]s, "+
			"or add host %[1]q { ca_file = \"FILE\" } to %[3]s", u.Host, system, c.opts.HostsFile)
	}
	if h.asks.Load() {
		err = sources.WithHint(err, "%[1]s requests a client certificate; "+
			"add host %[1]q with client_certificate and client_key to %[2]s", u.Host, c.opts.HostsFile)
	}
	return err
}

// checkProxy returns an error, which says nothing about the host, if the proxy refuses the connection to it.
func checkProxy(_ context.Context, proxy *url.URL, asked *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	status := &StatusError{Code: resp.StatusCode}
	err := fmt.Errorf("the proxy %s refused the connection: %s", proxy.Host, status.Error())
	if status.Temporary() {
		err = broken{err}
	}
	err = &UnreachableError{asked.Host, err}
	offers := Printable(strings.Join(resp.Header.Values("Proxy-Authenticate"), ", "))
	switch {
	case status.Code != http.StatusProxyAuthRequired:
		name, _, _ := strings.Cut(asked.Host, ":")
		return meantHost(err, name, fmt.Sprintf("ask the operator of the proxy that HTTPS_PROXY names to allow %s, "+
			"or add the host to NO_PROXY", asked.Host))
	case offers != "" && !strings.Contains(strings.ToLower(offers), "basic"):
		return sources.WithHint(err, "the proxy requires authentication by %.80s; larder supports Basic only", offers)
	case proxy.User != nil:
		return sources.WithHint(err, "the proxy refused the user and password in HTTPS_PROXY")
	}
	return sources.WithHint(err, "the proxy requires authentication: set HTTPS_PROXY=http://USER:PASSWORD@%s", proxy.Host)
}
