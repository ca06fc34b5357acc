package endpoint

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// The limits of a server, which docs/serve.md lists. Its memory follows from them: a connection takes up to 40 KB, and
// a request as much. The collector may leave more than that for a while (servedLimit of cmd/larder).
const (
	mostConnections = 2048
	mostRequests    = 2048     // at a time
	mostStreams     = 100      // requests of a connection at a time
	mostHeader      = 16 << 10 // bytes of a request
	mostBody        = 1 << 10  // bytes of a request's body that wait for a handler, which reads none
	chunk           = 32 << 10 // bytes of an answer that are written at once

	headerTime = 10 * time.Second // for a request, or for the handshake
	stallTime  = 2 * time.Minute  // after which a client that takes nothing makes room for others
	errorTime  = 10 * time.Second // the same for an error
	idleTime   = 2 * time.Minute  // between requests
)

// mostUnsent is about how many bytes of a connection wait in the system for the network, so that the server notices
// what a client takes, and the system needs little memory for clients that take nothing.
const mostUnsent = 1 << 20

// A place is what a connection or a request has of a budget. It makes room for another one only if the budget is
// exhausted, and if its client has taken nothing for a while: the system shows the progress of a slow client late, and
// notices itself if a client is dead.
type place struct {
	of     string       // the client
	yields atomic.Int64 // when it may have to make room, as [now]; 0 while it doesn't wait for the client
	end    func()       // ends it
}

var begun = time.Now()

// now returns the time by a clock that always advances.
func now() int64 { return int64(time.Since(begun)) }

// wait notes that from now on, the client must take something within a time.
func (p *place) wait(most time.Duration) { p.yields.Store(now() + int64(most)) }

// A budget limits how many connections or requests there are, in all and for each client. So a hostile client leaves
// half of them to others.
type budget struct {
	most int

	mu      sync.Mutex
	places  map[*place]bool
	clients map[string]int // how many places each has
}

func newBudget(most int) budget {
	return budget{most: most, places: map[*place]bool{}, clients: map[string]int{}}
}

// enter reports whether there is room for a place, which leaves when it has entered. If there is none, the place whose
// client has taken nothing for the longest time ends: one of the same client, if that has too many.
func (b *budget) enter(p *place) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if tooMany := b.clients[p.of] >= b.most/2; tooMany || len(b.places) >= b.most {
		var slowest *place
		at := now()
		for other := range b.places {
			yields := other.yields.Load()
			if yields != 0 && yields < at && (!tooMany || other.of == p.of) {
				slowest, at = other, yields
			}
		}
		if slowest == nil {
			return false
		}
		b.remove(slowest)
		go slowest.end()
	}
	b.places[p] = true
	b.clients[p.of]++
	return true
}

// leave is for a place that has entered, and may have had to make room since.
func (b *budget) leave(p *place) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(p)
}

// remove removes a place, unless that was done. The caller holds the lock.
func (b *budget) remove(p *place) {
	if !b.places[p] {
		return
	}
	delete(b.places, p)
	if b.clients[p.of]--; b.clients[p.of] == 0 {
		delete(b.clients, p.of)
	}
}

// limits are the budgets of a server. They are an [http.Handler] between it and another one.
type limits struct {
	handler               http.Handler
	client                func(*http.Request) string
	connections, requests budget
}

// A listener closes connections for which there is no room.
type listener struct {
	net.Listener
	connections *budget
}

// Accept implements [net.Listener].
func (l listener) Accept() (net.Conn, error) {
	for {
		bare, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if tcp, ok := bare.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(mostUnsent) // otherwise the system's default applies
		}
		host, _, _ := net.SplitHostPort(bare.RemoteAddr().String())
		c := &conn{Conn: bare, in: l.connections, cancel: func(error) {}}
		c.of, c.end = network(host), c.abort
		c.wait(stallTime)
		if l.connections.enter(&c.place) {
			return c, nil
		}
		bare.Close()
	}
}

// A conn is a connection, and its place.
type conn struct {
	net.Conn
	place
	in     *budget
	cancel context.CancelCauseFunc // of the context of its requests
}

// connKey is the key of the [conn] in the context of a request.
type connKey struct{}

// contextOf returns the context of a connection's requests.
func contextOf(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	own := c.(*conn) // which the listener has accepted
	ctx, own.cancel = context.WithCancelCause(ctx)
	return context.WithValue(ctx, connKey{}, own)
}

// Write implements [io.Writer].
func (c *conn) Write(p []byte) (n int, err error) {
	n, err = c.Conn.Write(p)
	c.wait(stallTime)
	return n, err
}

// CloseWrite is for [http.Server], which waits after it until the client has the answer.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements [io.Closer].
func (c *conn) Close() error {
	c.in.leave(&c.place)
	defer c.cancel(nil)
	return c.Conn.Close()
}

// abort ends the connection, without what waits for the network.
func (c *conn) abort() {
	c.cancel(os.ErrDeadlineExceeded)
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// network returns the network of a client that has many addresses, or its address.
func network(client string) string {
	addr, err := netip.ParseAddr(client)
	if err != nil || addr.Is4() || addr.Is4In6() {
		return client
	}
	prefix, _ := addr.WithZone("").Prefix(64)
	return prefix.String()
}

// ServeHTTP implements [http.Handler]. The cause of a context is [os.ErrDeadlineExceeded] if the request had to make
// room.
func (l *limits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	a := &answer{ResponseWriter: w, control: http.NewResponseController(w), patience: stallTime, left: make(chan struct{})}
	a.of, a.end = network(l.client(r)), func() {
		cancel(os.ErrDeadlineExceeded)
		if c, ok := ctx.Value(connKey{}).(*conn); !a.abort() && ok {
			c.abort()
		}
	}
	if !l.requests.enter(&a.place) {
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Content-Length", "0") // which a client gets even if it takes nothing
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer l.requests.leave(&a.place)
	defer a.leave()
	l.handler.ServeHTTP(a, r.WithContext(ctx))
}

// An answer is a request's place. It notes when it waits for the client.
type answer struct {
	http.ResponseWriter
	place
	control  *http.ResponseController
	patience time.Duration // how long the client may take nothing

	leaving sync.Mutex
	left    chan struct{} // closed when the handler has ended
}

// leave notes that the handler has ended.
func (a *answer) leave() {
	a.leaving.Lock()
	defer a.leaving.Unlock()
	close(a.left)
}

// abort ends the answer, with HTTP/2 only its stream, and reports whether its handler has ended. If the client takes
// nothing at all, it doesn't.
func (a *answer) abort() bool {
	a.leaving.Lock()
	select {
	case <-a.left: // the writer is invalid
	default:
		_ = a.control.SetWriteDeadline(begun)
	}
	a.leaving.Unlock()
	select {
	case <-a.left:
		return true
	case <-time.After(errorTime):
		return false
	}
}

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		a.patience = errorTime
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [io.Writer].
func (a *answer) Write(p []byte) (n int, err error) {
	defer a.yields.Store(0)
	for more := true; more && err == nil; more = n < len(p) {
		a.wait(a.patience)
		var m int
		m, err = a.ResponseWriter.Write(p[n:min(n+chunk, len(p))])
		n += m
	}
	return n, err
}

// FlushError is for [http.ResponseController].
func (a *answer) FlushError() error {
	defer a.yields.Store(0)
	a.wait(a.patience)
	return a.control.Flush()
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
