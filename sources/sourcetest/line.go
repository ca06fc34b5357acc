package sourcetest

import (
	"net"
	"sync"
	"time"
)

// A line is what lies between a client and a server. It delays, and lets so many
// bytes pass in a second, on each connection for itself. Lost packets and slow
// starts are not modelled, nor are bytes on their way to the server counted.
type line struct {
	roundTrip time.Duration
	rate      int64 // bytes a second; 0 means any number
}

// Line puts the server as far away as a round trip says. On each TCP connection
// made from now on, setting it up takes one, every question and answer at least
// another, and so many bytes a second come from the server, however many
// requests share it; 0 means that there is no limit.
func (s *Server) Line(roundTrip time.Duration, bytesPerSecond int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = line{roundTrip, bytesPerSecond}
}

// A lineListener accepts connections at the end of the server's line.
type lineListener struct {
	net.Listener
	server *Server
}

func (l lineListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.server.mu.Lock()
	defer l.server.mu.Unlock()
	return l.server.line.connect(c), nil
}

// buffered is how much may be written before it can be sent, as the time that
// sending it takes.
const buffered = 50 * time.Millisecond

// maxFlights is how many writes may be on their way.
const maxFlights = 1024

// A lineConn is the server's end of a connection. As only what the client
// notices matters, the whole round trip is in the way back.
type lineConn struct {
	net.Conn
	line
	opened time.Time

	flights chan flight
	closed  chan struct{}
	close   func()

	mu   sync.Mutex // held while writing
	free time.Time  // when what was written so far has been sent
}

// A flight is what was written at once, and when it arrives.
type flight struct {
	data []byte
	due  time.Time
}

func (l line) connect(c net.Conn) net.Conn {
	if l == (line{}) {
		return c
	}
	conn := &lineConn{Conn: c, line: l, opened: time.Now(), flights: make(chan flight, maxFlights), closed: make(chan struct{})}
	conn.close = sync.OnceFunc(func() { close(conn.closed) })
	go conn.deliver()
	return conn
}

func (c *lineConn) Write(p []byte) (int, error) {
	backlog, err := c.send(append([]byte(nil), p...))
	if err != nil {
		return 0, err
	}
	if backlog > buffered {
		select {
		case <-time.After(backlog - buffered):
		case <-c.closed:
		}
	}
	return len(p), nil
}

// send puts data on its way, and returns how long it takes until all has left.
func (c *lineConn) send(data []byte) (backlog time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.free.Before(now) {
		c.free = now
	}
	if c.rate > 0 {
		c.free = c.free.Add(time.Duration(len(data)) * time.Second / time.Duration(c.rate))
	}
	due := c.free.Add(c.roundTrip)
	if setUp := c.opened.Add(2 * c.roundTrip); due.Before(setUp) {
		due = setUp
	}
	select {
	case <-c.closed:
		return 0, net.ErrClosed // for certain, even if there is room
	default:
	}
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	case c.flights <- flight{data, due}:
		return c.free.Sub(now), nil
	}
}

// deliver lets arrive what was written, when it is due, and that it was closed
// after all else.
func (c *lineConn) deliver() {
	defer c.Conn.Close()
	for {
		select {
		case f := <-c.flights:
			c.arrive(f)
		case <-c.closed:
			for len(c.flights) > 0 {
				c.arrive(<-c.flights)
			}
			return
		}
	}
}

// arrive hands a flight to the client, who may be gone: that the server learns
// when it reads or writes.
func (c *lineConn) arrive(f flight) {
	time.Sleep(time.Until(f.due))
	if _, err := c.Conn.Write(f.data); err != nil {
		c.close()
		c.Conn.Close()
	}
}

// patience is how long a client may take for what is on its way when the server
// closes the connection.
const patience = 5 * time.Second

// Close ends reading at once, and writing when the client has got everything.
func (c *lineConn) Close() error {
	c.close()
	now := time.Now()
	_ = c.Conn.SetWriteDeadline(now.Add(c.roundTrip + buffered + patience))
	return c.Conn.SetReadDeadline(now)
}

// SetDeadline and SetWriteDeadline leave alone the deadline of what has been
// written already.

func (c *lineConn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *lineConn) SetWriteDeadline(time.Time) error { return nil }
