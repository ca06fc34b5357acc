package sourcetest

import (
	"net"
	"sync"
	"time"
)

// A line simulates the network between a client and a server: for each
// connection separately, it adds a delay and limits the speed. It does not
// simulate lost packets and slow starts, and does not limit the speed to the
// server.
type line struct {
	roundTrip time.Duration
	rate      int64 // in bytes a second; 0 means no limit
}

// Line simulates a network between clients and the server. On each new TCP
// connection, the handshake takes one round trip, and every request and its
// answer take at least another. The server sends at most this many bytes a
// second on a connection, however many requests share it; 0 means no limit.
func (s *Server) Line(roundTrip time.Duration, bytesPerSecond int64) {
	s.set(func() { s.line = line{roundTrip, bytesPerSecond} })
}

// buffered is how much data may be written before it can be sent, as the time
// that sending it takes.
const buffered = 50 * time.Millisecond

// maxFlights is the maximum number of writes on their way.
const maxFlights = 1024

// A lineConn is the server's end of a connection. The delay of the whole round
// trip is added to the answer, because the client cannot tell the difference.
type lineConn struct {
	net.Conn
	line
	opened time.Time

	flights chan flight
	closed  chan struct{}
	close   func()

	mu   sync.Mutex // held while writing
	free time.Time  // when the data written so far will have been sent
}

// A flight is the data of one write, and the time of its arrival.
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

// send queues data, and returns how long sending everything queued takes.
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
		return 0, net.ErrClosed // without this check, the next select could still choose the other case
	default:
	}
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	case c.flights <- flight{data, due}:
		return c.free.Sub(now), nil
	}
}

// deliver writes queued data to the client when it is due. After a close, it
// delivers all data first.
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

// arrive writes a flight to the client. If the client has disconnected, the
// server notices when it next reads or writes.
func (c *lineConn) arrive(f flight) {
	time.Sleep(time.Until(f.due))
	if _, err := c.Conn.Write(f.data); err != nil {
		c.close()
		c.Conn.Close()
	}
}

// patience is how long a client may take to read the remaining data after the
// server has closed the connection.
const patience = 5 * time.Second

// Close ends reading at once, and writing when the client has received
// everything.
func (c *lineConn) Close() error {
	c.close()
	now := time.Now()
	_ = c.Conn.SetWriteDeadline(now.Add(c.roundTrip + buffered + patience))
	return c.Conn.SetReadDeadline(now)
}

// SetDeadline and SetWriteDeadline do not change the deadline of data that has
// been written.

func (c *lineConn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *lineConn) SetWriteDeadline(time.Time) error { return nil }
