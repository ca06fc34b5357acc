package endpoint

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// The limits of a server, which docs/serve.md lists. Its memory follows from them: a connection takes up to 40 KB, and
// a request as much. The collector may leave more than that for a while (servedLimit of cmd/larder).
const (
	mostConnections = 2048
	mostRequests    = 1200     // at a time
	mostStreams     = 100      // requests of a connection at a time
	mostHeader      = 16 << 10 // bytes of a request
	mostBody        = 1 << 10  // bytes of a request's body that wait for a handler, which reads none
	chunk           = 32 << 10 // bytes of an answer that a client must take in stallTime

	headerTime = 10 * time.Second // for a request, or for the handshake
	stallTime  = 2 * time.Minute  // in which a client must take a chunk
	errorTime  = 10 * time.Second // in which it must take an error
	idleTime   = 2 * time.Minute  // between requests
)

// mostUnsent is about how many bytes of a connection wait in the system for the network, so that the server notices
// what a client takes, and the system needs little memory for clients that take nothing.
const mostUnsent = 1 << 20

// A budget limits how many connections or requests there are, in all and for each client. So a hostile client leaves
// half of them to others.
type budget struct {
	most int

	mu      sync.Mutex
	taken   int
	clients map[string]int // what each has taken
}

func newBudget(most int) budget { return budget{most: most, clients: map[string]int{}} }

// enter reports whether there is room for a client, which leaves when it has entered.
func (b *budget) enter(client string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken >= b.most || b.clients[client] >= b.most/2 {
		return false
	}
	b.taken++
	b.clients[client]++
	return true
}

func (b *budget) leave(client string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken--
	if b.clients[client]--; b.clients[client] == 0 {
		delete(b.clients, client)
	}
}

// limits are the budgets of a server. They are an [http.Handler] between it and another one.
type limits struct {
	handler               http.Handler
	client                func(*http.Request) string
	connections, requests budget
	open                  sync.Map // clients by net.Conn
}

// changed counts a new connection, or closes it, and counts a closed one.
func (l *limits) changed(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		bare := c
		if secure, ok := c.(*tls.Conn); ok {
			bare = secure.NetConn() // which closes without a message
		}
		if tcp, ok := bare.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(mostUnsent) // otherwise the system's default applies
		}
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		if client := network(host); l.connections.enter(client) {
			l.open.Store(c, client)
		} else {
			bare.Close()
		}
	case http.StateClosed, http.StateHijacked:
		if client, ok := l.open.LoadAndDelete(c); ok {
			l.connections.leave(client.(string))
		}
	}
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

// ServeHTTP implements [http.Handler].
func (l *limits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	client := network(l.client(r))
	if !l.requests.enter(client) {
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Content-Length", "0") // which a client gets even if it takes nothing
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer l.requests.leave(client)
	a := &answer{ResponseWriter: w, control: http.NewResponseController(w), patience: stallTime}
	a.wait() // for an answer without a body
	l.handler.ServeHTTP(a, r)
	if r.ProtoMajor == 2 && a.wrote { // while the request counts
		a.wait()
		_ = a.control.Flush()
	}
}

// An answer ends if the client takes too little of it.
type answer struct {
	http.ResponseWriter
	control  *http.ResponseController
	patience time.Duration // how long the client may take nothing
	wrote    bool
}

// wait begins to wait for the client.
func (a *answer) wait() { _ = a.control.SetWriteDeadline(time.Now().Add(a.patience)) }

// WriteHeader implements [http.ResponseWriter].
func (a *answer) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		a.patience = errorTime
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [io.Writer].
func (a *answer) Write(p []byte) (n int, err error) {
	a.wrote = true
	for more := true; more && err == nil; more = n < len(p) {
		a.wait()
		var m int
		m, err = a.ResponseWriter.Write(p[n:min(n+chunk, len(p))])
		n += m
	}
	return n, err
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
