package endpoint

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
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
	restTime   = time.Second      // after which a full budget ends what rests
)

// mostUnsent is about how many bytes of a connection wait in the system for the network, so that the server notices
// what a client takes, and the system needs little memory for clients that take nothing.
const mostUnsent = 1 << 20

// A budget limits how many connections or requests there are. If it is full, a new one takes the place of one that
// rests, which means that the client doesn't take what the server sends, or requests nothing. That is one of the client
// with the most places, and never one of a client with fewer places than the new one's. So a hostile client takes
// places from itself.
type budget struct {
	most int

	mu      sync.Mutex
	places  map[*place]struct{}
	clients map[string]*int // places of each
	until   int64           // nothing has rested for restTime before; in nanoseconds since 1970
}

func newBudget(most int) budget {
	return budget{most: most, places: map[*place]struct{}{}, clients: map[string]*int{}}
}

// A place is what a connection or a request takes of a budget.
type place struct {
	of      *budget
	client  string
	places  *int         // of the client
	working atomic.Int32 // what the server does for it now; 0 means that it rests
	since   atomic.Int64 // when it did the last of that

	mu  sync.Mutex
	end func() // makes the client lose its place; nil after that, and after leave
}

// enter returns a place that rests, or nil if the budget is full and there is no place to take.
func (b *budget) enter(client string, end func()) *place {
	p := &place{of: b, client: client, end: end}
	p.since.Store(time.Now().UnixNano())
	b.mu.Lock()
	if p.places = b.clients[client]; p.places == nil {
		p.places = new(int)
	}
	if len(b.places) >= b.most {
		loser := b.loser(p)
		if loser == nil {
			b.mu.Unlock()
			return nil
		}
		b.remove(loser)
		defer loser.lose()
	}
	b.clients[client], b.places[p] = p.places, struct{}{}
	*p.places++
	b.mu.Unlock()
	return p
}

// few is how many places a client may have before it can lose one to a client with less than half as many, even if it
// has just begun to rest.
const few = 16

// loser returns the place that a new one takes: one that has rested for a while, or one of a client with many more
// places. The caller holds the lock.
func (b *budget) loser(to *place) (loser *place) {
	now := time.Now().UnixNano()
	if now < b.until && *to.places > b.most/2 {
		return nil
	}
	first := now
	for p := range b.places {
		since := p.since.Load()
		if p.working.Load() > 0 {
			continue
		}
		first = min(first, since)
		if *p.places < *to.places || now-since < int64(restTime) && *p.places < few+2**to.places {
			continue
		}
		if loser == nil || *p.places > *loser.places || *p.places == *loser.places && since < loser.since.Load() {
			loser = p
		}
	}
	b.until = first + int64(restTime)
	return loser
}

// remove removes a place. The caller holds the lock.
func (b *budget) remove(p *place) {
	if _, ok := b.places[p]; !ok {
		return
	}
	delete(b.places, p)
	if *p.places--; *p.places == 0 {
		delete(b.clients, p.client)
	}
}

// work says that the server begins to do something for the client, which rest ends.
func (p *place) work() { p.working.Add(1) }

func (p *place) rest() {
	p.since.Store(time.Now().UnixNano())
	p.working.Add(-1)
}

func (p *place) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end != nil {
		p.end()
		p.end = nil
	}
}

// leave gives the place back. Nothing ends it afterwards.
func (p *place) leave() {
	p.mu.Lock()
	p.end = nil
	p.mu.Unlock()
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.of.remove(p)
}

// limits are the budgets of a server. They are an [http.Handler] between it and another one.
type limits struct {
	handler               http.Handler
	client                func(*http.Request) string
	connections, requests budget
	open                  sync.Map // places by net.Conn
}

type placeOfConnection struct{}

// connect gives a new connection a place, or closes it.
func (l *limits) connect(ctx context.Context, c net.Conn) context.Context {
	bare := c
	if secure, ok := c.(*tls.Conn); ok {
		bare = secure.NetConn() // which closes without a message
	}
	if tcp, ok := bare.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(mostUnsent) // otherwise the system's default applies
	}
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	p := l.connections.enter(network(host), func() { bare.Close() })
	if p == nil {
		bare.Close()
		return ctx
	}
	l.open.Store(c, p)
	return context.WithValue(ctx, placeOfConnection{}, p)
}

// changed gives the place of a closed connection back.
func (l *limits) changed(c net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	if p, ok := l.open.LoadAndDelete(c); ok {
		p.(*place).leave()
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
	connection, ok := r.Context().Value(placeOfConnection{}).(*place)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	control := http.NewResponseController(w)
	end := connection.lose
	if r.ProtoMajor == 2 { // only the stream
		end = func() { _ = control.SetWriteDeadline(time.Unix(1, 0)) }
	}
	request := l.requests.enter(network(l.client(r)), end)
	if request == nil {
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Content-Length", "0") // which a client gets even if it takes nothing
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer request.leave()
	a := &answer{ResponseWriter: w, control: control, connection: connection, request: request, patience: stallTime}
	a.work()
	defer connection.rest()
	_ = control.SetWriteDeadline(time.Now().Add(stallTime)) // for an answer without a body
	l.handler.ServeHTTP(a, r)
	if r.ProtoMajor == 2 && a.wrote { // while the request has its place
		_ = a.send(control.Flush)
	}
}

// An answer knows whether the server works for it, or waits until the client takes something.
type answer struct {
	http.ResponseWriter
	control             *http.ResponseController
	connection, request *place
	patience            time.Duration // how long the client may take nothing
	wrote               bool
}

func (a *answer) work() {
	a.connection.work()
	a.request.work()
}

// send does what waits for the client.
func (a *answer) send(do func() error) error {
	a.request.rest()
	a.connection.rest()
	defer a.work()
	_ = a.control.SetWriteDeadline(time.Now().Add(a.patience))
	return do()
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
	for begin := true; err == nil && (begin || len(p) > 0); begin = false {
		err = a.send(func() error {
			m, err := a.ResponseWriter.Write(p[:min(len(p), chunk)])
			n, p = n+m, p[m:]
			return err
		})
	}
	a.wrote = a.wrote || n > 0
	return n, err
}

// ReadFrom implements [io.ReaderFrom], so that files are not copied through this program where the system can avoid it.
func (a *answer) ReadFrom(from io.Reader) (n int64, err error) {
	if _, ok := a.ResponseWriter.(io.ReaderFrom); !ok {
		return io.CopyBuffer(struct{ io.Writer }{a}, struct{ io.Reader }{from}, make([]byte, chunk))
	}
	for more := true; more && err == nil; {
		err = a.send(func() error {
			m, err := io.Copy(a.ResponseWriter, io.LimitReader(from, chunk))
			n, more = n+m, m == chunk
			return err
		})
	}
	return n, err
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
