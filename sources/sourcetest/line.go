package sourcetest

import (
	"context"
	"net"
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

const (
	buffered   = 50 * time.Millisecond // how much may be written ahead, as the time that sending it takes
	maxFlights = 1024                  // how many writes may be on their way
	patience   = 5 * time.Second       // for a client that reads the rest after the server has closed the connection
)

// A lineConn is the server's end of a connection. The delay of the whole round
// trip is added to the answer, because the client cannot tell the difference.
// Like most writers of bytes, it has one goroutine that writes.
type lineConn struct {
	net.Conn
	line
	opened  time.Time
	free    time.Time // when the data written so far will have been sent
	flights chan flight
	open    context.Context
	close   func()
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
	conn := &lineConn{Conn: c, line: l, opened: time.Now(), flights: make(chan flight, maxFlights)}
	conn.open, conn.close = context.WithCancel(context.Background())
	go conn.deliver()
	return conn
}

// Write queues data, and waits while too much is queued.
func (c *lineConn) Write(p []byte) (int, error) {
	now := time.Now()
	c.free = latest(c.free, now)
	if c.rate > 0 {
		c.free = c.free.Add(time.Duration(len(p)) * time.Second / time.Duration(c.rate))
	}
	f := flight{append([]byte(nil), p...), latest(c.free.Add(c.roundTrip), c.opened.Add(2*c.roundTrip))}
	if c.open.Err() != nil {
		return 0, net.ErrClosed // without this check, select could still choose the other case
	}
	select {
	case <-c.open.Done():
		return 0, net.ErrClosed
	case c.flights <- f:
	}
	select {
	case <-time.After(c.free.Sub(now) - buffered):
	case <-c.open.Done():
	}
	return len(p), nil
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// deliver writes queued data to the client when it is due. After a close, it
// delivers all data first. If the client has disconnected, the server notices
// when it next reads or writes.
func (c *lineConn) deliver() {
	defer c.Conn.Close()
	for {
		var f flight
		select {
		case f = <-c.flights:
		case <-c.open.Done():
			if len(c.flights) == 0 {
				return
			}
			f = <-c.flights
		}
		time.Sleep(time.Until(f.due))
		if _, err := c.Conn.Write(f.data); err != nil {
			c.close()
			c.Conn.Close()
		}
	}
}

// Close ends reading at once, and writing when the client has received
// everything.
func (c *lineConn) Close() error {
	c.close()
	now := time.Now()
	_ = c.Conn.SetWriteDeadline(now.Add(c.roundTrip + buffered + patience))
	return c.SetReadDeadline(now)
}

// SetWriteDeadline does not change the deadline of data that has been written.
func (c *lineConn) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline sets the deadline of reading only.
func (c *lineConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }
