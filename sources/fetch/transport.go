package fetch

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// curves are the supported curves without post-quantum key exchange. With it, the first
// message of a handshake is longer than some firewalls allow. The engines disable it too.
var curves = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}

// NewTransport returns a transport like those of a Client, for callers that
// modify it. It connects within the timeout, and uses no proxy.
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
			// Ending a request does not close a connection. Without pings, one
			// try after another would be sent over a connection that is dead.
			SendPingTimeout: timeout / pingsPerTimeout,
			PingTimeout:     timeout / pingsPerTimeout,
		},
	}
}

// newTransports returns one transport for documents and one for archives. The
// one for archives uses HTTP/1.1, so that each archive has its own connection:
// over a network with long delays, a single connection does not reach the full
// speed.
func newTransports(opts Options) (documents, archives *http.Transport) {
	documents, archives = NewTransport(opts.Timeout), NewTransport(opts.Timeout)
	documents.Proxy, archives.Proxy = opts.Proxy, opts.Proxy
	if opts.Connect != nil {
		documents.DialContext, archives.DialContext = connecting(opts), connecting(opts)
	}
	archives.ForceAttemptHTTP2, archives.HTTP2 = false, nil
	archives.Protocols = new(http.Protocols)
	archives.Protocols.SetHTTP1(true)
	archives.TLSClientConfig.NextProtos = []string{"http/1.1"} // without it, servers that support only HTTP/2 would not report that
	archives.ReadBufferSize = bufferSize
	sessions := tls.NewLRUClientSessionCache(0) // archives use many connections to few hosts
	documents.TLSClientConfig.ClientSessionCache, archives.TLSClientConfig.ClientSessionCache = sessions, sessions
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
		dialer := &net.Dialer{Timeout: opts.Timeout, KeepAlive: keepAlive, Control: func(_, resolved string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(resolved)
			if err != nil {
				return err
			}
			if err := opts.Connect(host, at.Addr().Unmap().WithZone("")); err != nil {
				return &addressError{err}
			}
			return nil
		}}
		return dialer.DialContext(ctx, network, address)
	}
}
