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

// NewServer returns an HTTP server for a handler that reads no bodies. Client returns the address of the client that
// made a request. Certificate is nil for plain HTTP.
func NewServer(
	h http.Handler, client func(*http.Request) string,
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error),
) *http.Server {
	l := &limits{handler: h, client: client, connections: newBudget(mostConnections), requests: newBudget(mostRequests)}
	s := &http.Server{
		Handler: l, ConnState: l.changed, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: mostHeader,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: mostStreams, MaxReadFrameSize: leastFrame,
			MaxReceiveBufferPerConnection: leastWindow, MaxReceiveBufferPerStream: mostBody,
			SendPingTimeout: idleTime / 4, PingTimeout: headerTime, WriteByteTimeout: stallTime,
		},
	}
	if certificate != nil {
		s.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate}
	}
	return s
}

// The smallest values that HTTP/2 allows, in bytes.
const (
	leastFrame  = 16 << 10
	leastWindow = 64 << 10
)
