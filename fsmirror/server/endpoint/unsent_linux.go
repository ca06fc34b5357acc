package endpoint

import (
	"net"

	"golang.org/x/sys/unix"
)

// mostUnsent is how many bytes wait in the system for the network, so that the server notices what a client takes, and
// the system needs little memory for clients that take nothing.
const mostUnsent = 128 << 10

// limitUnsent sets mostUnsent for a TCP connection.
func limitUnsent(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, mostUnsent)
		})
	}
}
