// Package endpoint opens the ports and sockets of a server, and has its certificate: one from files, which are read
// again when they change, or one of a certificate authority of this machine.
//
// It leaves on disk the socket of an address "unix:PATH" while the server runs, and in the directory that it is given,
// authorities with their certificates.
package endpoint

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

const (
	unixPrefix  = "unix:"
	addressForm = "an address is HOST:PORT, such as :8443, or unix:PATH"
)

// Listen opens the address HOST:PORT, or unix:PATH for a socket. A socket that no server has open any more is replaced.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(address, unixPrefix)
	if !isUnix {
		network := "tcp"
		if at, err := netip.ParseAddrPort(address); err == nil && at.Addr().Is4() {
			network = "tcp4" // otherwise, 0.0.0.0 means [::], too
		}
		l, err := new(net.ListenConfig).Listen(ctx, network, address)
		return l, listenHint(address, err)
	}
	if path == "" {
		return nil, sources.WithHint(fmt.Errorf("%s names no socket", address), addressForm)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, sources.WithHint(fmt.Errorf("%s exists and is no socket", path), "choose another path with --listen")
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && removeAbandoned(ctx, path) == nil {
		l, err = new(net.ListenConfig).Listen(ctx, "unix", path)
	}
	return l, listenHint(address, err)
}

// removeAbandoned removes a socket that no program has open.
func removeAbandoned(ctx context.Context, path string) error {
	if conn, err := new(net.Dialer).DialContext(ctx, "unix", path); err == nil {
		conn.Close()
		return errors.New("a program has it open")
	}
	dir, err := disk.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Remove(filepath.Base(path))
}

// listenHint names the address, and says what to do.
func listenHint(address string, err error) error {
	op, other := errors.AsType[*net.OpError](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EADDRINUSE):
		return sources.WithHint(fmt.Errorf("another program listens on %s", address),
			"end it, or choose another address with --listen")
	case errors.Is(err, fs.ErrPermission):
		return sources.WithHint(fmt.Errorf("this user may not listen on %s", address),
			"choose a port from 1024 on with --listen, or let a proxy or systemd listen")
	case other:
		err = op.Err
	}
	if malformed, ok := errors.AsType[*net.AddrError](err); ok {
		err = errors.New(malformed.Err) // without the address, which the message names already
	}
	return sources.WithHint(fmt.Errorf("listening on %s: %w", address, err), addressForm)
}

// Local reports whether only programs of this machine reach a listener.
func Local(l net.Listener) bool {
	if l.Addr().Network() == "unix" {
		return true
	}
	addr, err := netip.ParseAddrPort(l.Addr().String())
	return err == nil && addr.Addr().IsLoopback()
}

// A Server serves HTTP for a handler, within limits.
type Server struct {
	limits
	web *http.Server
	end context.CancelCauseFunc
}

// NewServer returns a server for a handler that reads no bodies. Client returns the address of the client that
// made a request. Certificate is nil for plain HTTP.
func NewServer(
	h http.Handler, client func(*http.Request) string,
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error),
) *Server {
	s := &Server{limits: limits{handler: h, client: client}}
	s.connections, s.requests = newBudget(mostConnections), newBudget(mostRequests)
	base, end := context.WithCancelCause(context.Background())
	s.end = end
	s.web = &http.Server{
		Handler: &s.limits, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: mostHeader,
		BaseContext: func(net.Listener) context.Context { return base }, ConnContext: contextOf,
		HTTP2: &http.HTTP2Config{ // without pings: their answers wait behind what a slow client has not taken
			MaxConcurrentStreams: mostStreams, MaxReadFrameSize: leastFrame,
			MaxReceiveBufferPerConnection: leastWindow, MaxReceiveBufferPerStream: mostBody,
		},
	}
	if certificate != nil {
		s.web.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate}
	}
	return s
}

// Serve serves the connections of a listener. It returns when the listener fails or the server ends.
func (s *Server) Serve(l net.Listener) error {
	l = listener{l, &s.connections}
	if s.web.TLSConfig == nil {
		return s.web.Serve(l)
	}
	return s.web.ServeTLS(l, "", "")
}

// End ends the server. Clients may receive answers until ctx is done. Then these are cut off, and the cause of the
// contexts of their requests is [http.ErrServerClosed].
func (s *Server) End(ctx context.Context) {
	if s.web.Shutdown(ctx) != nil {
		s.end(http.ErrServerClosed)
		_ = s.web.Close() // the listeners are closed already
	}
}

// The smallest values that HTTP/2 allows, in bytes.
const (
	leastFrame  = 16 << 10
	leastWindow = 64 << 10
)
