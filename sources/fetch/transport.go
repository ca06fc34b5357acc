package fetch

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// curves are those without a post-quantum key share, which makes the first message of a
// handshake longer than some firewalls let through. Engines leave it out, too.
var curves = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}

// NewTransport returns a transport as a Client makes for itself, for callers
// that have something to add to it. It connects within the timeout, and knows
// no proxy.
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
			// A connection that has died unnoticed would swallow one try after
			// another, as ending a request does not close it.
			SendPingTimeout: timeout / pingsPerTimeout,
			PingTimeout:     timeout / pingsPerTimeout,
		},
	}
}

// newTransports returns one transport for documents and one for archives. The
// latter speaks HTTP/1.1, by which each archive has a connection to itself: over
// a long line one connection alone does not bring what the line can.
func newTransports(opts Options) (documents, archives *http.Transport) {
	documents, archives = NewTransport(opts.Timeout), NewTransport(opts.Timeout)
	documents.Proxy, archives.Proxy = opts.Proxy, opts.Proxy
	archives.ForceAttemptHTTP2, archives.HTTP2 = false, nil
	archives.Protocols = new(http.Protocols)
	archives.Protocols.SetHTTP1(true)
	archives.TLSClientConfig.NextProtos = []string{"http/1.1"} // or servers with HTTP/2 alone would not say so
	archives.ReadBufferSize = bufferSize
	sessions := tls.NewLRUClientSessionCache(0) // as archives have many connections to few hosts
	documents.TLSClientConfig.ClientSessionCache, archives.TLSClientConfig.ClientSessionCache = sessions, sessions
	return documents, archives
}
