package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/larder-cli/larder/sources"
)

// reachTries is the number of attempts to connect to an unreachable host before any host has
// answered, because then the network is probably missing. Later failures to connect are
// retried like other errors.
const reachTries = 2

// An UnreachableError reports a failure to connect to a host. It wraps the cause, such as a
// [net.DNSError].
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

// A worded error replaces the text of the error that it wraps.
type worded struct {
	text string
	error
}

func (w *worded) Error() string { return w.text }
func (w *worded) Unwrap() error { return w.error }

// connecting returns the error of a request to u in plain words. It is an [UnreachableError] if
// the client could not connect to the host or to its proxy (nil if it has none).
func (c *Client) connecting(u, proxy *url.URL, connected bool, err error) error {
	var dns *net.DNSError
	op := innermost(err)
	dialling := op != nil && op.Op == "dial" || errors.As(err, &dns) || errors.Is(err, ErrStalled)
	if connected || !dialling {
		return plain(err)
	}
	unreachable := &UnreachableError{Host: u.Host, Err: plain(err)}
	if errors.Is(err, ErrStalled) {
		unreachable.Err = &worded{"no connection within " + c.opts.Timeout.String(), err}
	}
	if proxy != nil {
		unreachable.Host, unreachable.Proxy = proxy.Host, true
	}
	return sources.WithHint(unreachable, "check the network connection and the proxy settings (HTTPS_PROXY, NO_PROXY)")
}

// plain rewords an error of Go's network packages, whose texts contain system calls and ports.
func plain(err error) error {
	text := ""
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	op := innermost(err)
	switch {
	case errors.As(err, &dns):
		text = plainDNS(dns)
	case errors.As(err, &certificate):
		text = "TLS: " + strings.TrimPrefix(certificate.Err.Error(), "x509: ")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case errors.Is(err, io.EOF):
		text = "the server closed the connection without an answer"
	case isHandshakeTimeout(err):
		text = "the TLS handshake timed out"
	case op != nil && op.Op == "remote error":
		text = "the server refused the TLS connection: " + strings.TrimPrefix(op.Err.Error(), "tls: ")
	case op != nil:
		text = plainOp(op)
	}
	if text == "" {
		return err
	}
	return &worded{text, err}
}

// innermost returns the innermost network operation in err, or nil.
func innermost(err error) *net.OpError {
	var last *net.OpError
	for op, ok := errors.AsType[*net.OpError](err); ok; op, ok = errors.AsType[*net.OpError](op.Err) {
		last = op
	}
	return last
}

// isHandshakeTimeout reports whether err is the timeout of a TLS handshake, for which net/http
// exports no type.
func isHandshakeTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout() && strings.HasSuffix(timeout.Error(), "TLS handshake timeout")
}

// plainDNS describes a DNS error, with the name server.
func plainDNS(e *net.DNSError) string {
	text := e.Err
	if strings.HasPrefix(text, "dial ") || strings.HasPrefix(text, "read ") || strings.HasPrefix(text, "write ") {
		text = text[strings.LastIndex(text, ": ")+1:]
	}
	if text = strings.TrimSpace(text); e.IsTimeout {
		text = "no answer from the DNS server"
	}
	if e.Server == "" {
		return text
	}
	server, port, err := net.SplitHostPort(e.Server)
	if err != nil || port != "53" {
		server = e.Server
	}
	if e.IsTimeout {
		return text + " " + server
	}
	return text + " (DNS server " + server + ")"
}

// plainOp describes a failed network operation, with the address. It is empty for unknown
// errors.
func plainOp(e *net.OpError) string {
	var errno syscall.Errno
	text := ""
	switch {
	case e.Timeout():
		text = "the connection timed out"
	case errors.As(e, &errno):
		text = errno.Error()
	case errors.Is(e, context.Canceled), e.Op != "dial":
		return ""
	default:
		text = e.Err.Error()
	}
	if e.Addr == nil {
		return text
	}
	return text + " (" + e.Addr.String() + ")"
}

// unreachable returns the UnreachableError in err, or nil.
func unreachable(err error) *UnreachableError {
	e, _ := errors.AsType[*UnreachableError](err)
	return e
}

// triesFor returns the maximum number of tries after one that ended in err.
func (c *Client) triesFor(err error, tries int) int {
	if unreachable(err) == nil || c.answered.Load() || c.opts.Patient {
		return tries
	}
	if c.hopeless.Load() {
		return 1
	}
	return min(tries, reachTries)
}

// giveUp records the final error of a request. If the host is unreachable and no host has
// answered yet, other unreachable hosts are not retried.
func (c *Client) giveUp(err error) {
	if unreachable(err) != nil && !c.answered.Load() {
		c.hopeless.Store(true)
	}
}
