package sourcetest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"time"
)

// A line is a simulated network between a client and a server. Packets are not lost, starts are not slow, and the speed
// to the server has no limit.
type line struct {
	roundTrip time.Duration
	rate      int64 // in bytes a second, for each connection; 0 means no limit
}

// Line simulates a network between clients and the server. On each new connection, the handshakes of TCP and TLS take
// two round trips, and every request and its answer take another. The server sends at most this many bytes a second on
// a connection, however many requests share it; 0 means no limit.
func (s *Server) Line(roundTrip time.Duration, bytesPerSecond int64) {
	s.set(func() { s.line = line{roundTrip, bytesPerSecond} })
}

// Connections returns how many connections have been made.
func (s *Server) Connections() (made int) {
	s.set(func() { made = s.made })
	return made
}

// A listener accepts connections that can be reset, and that are as slow as the server's line.
type listener struct {
	net.Listener
	server *Server
}

func (l listener) Accept() (net.Conn, error) {
	tcp, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s := l.server
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	c := &conn{Conn: tcp, server: s, rate: s.line.rate, free: time.Now().Add(2 * s.line.roundTrip)}
	s.conns[tcp.RemoteAddr().String()] = c
	return c, nil
}

// A conn is the server's end of a TCP connection.
type conn struct {
	net.Conn
	server *Server
	rate   int64     // see [line]
	free   time.Time // when what was written has been sent
}

// ahead is how much may be written at once, as the time that sending it takes.
const ahead = 50 * time.Millisecond

func (c *conn) Write(p []byte) (int, error) {
	time.Sleep(time.Until(c.free))
	if c.rate > 0 {
		if idle := time.Now().Add(-ahead); c.free.Before(idle) {
			c.free = idle
		}
		c.free = c.free.Add(time.Duration(len(p)) * time.Second / time.Duration(c.rate))
	}
	return c.Conn.Write(p)
}

// reset closes the connection with a TCP reset, as a machine does that has
// restarted.
func (c *conn) reset() {
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	_ = c.Close() // it may be closed
}

func (c *conn) Close() error {
	c.server.set(func() { delete(c.server.conns, c.RemoteAddr().String()) })
	return c.Conn.Close()
}

// startProxy starts an HTTP proxy that connects every host except this machine
// to the registry or the mirror, so that no program in the world's environment
// reaches real servers. It returns the proxy's URL.
func (w *World) startProxy() string {
	server := httptest.NewServer(http.HandlerFunc(w.tunnel))
	w.t.Cleanup(server.Close)
	return server.URL
}

// tunnel answers CONNECT, the only method that clients use for https URLs.
func (w *World) tunnel(rw http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(rw, "this proxy is for https only", http.StatusMethodNotAllowed)
		return
	}
	server, err := net.Dial("tcp", w.route(r.Host))
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close() // ends the copying below too
	client, buffered, err := http.NewResponseController(rw).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		defer client.Close()
		io.Copy(client, server)
	}()
	io.Copy(server, buffered)
}
