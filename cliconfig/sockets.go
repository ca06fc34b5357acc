package cliconfig

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
)

// firstSocket is the descriptor of the first socket that systemd passes.
// https://www.freedesktop.org/software/systemd/man/latest/sd_listen_fds.html
const firstSocket = 3

// Sockets returns the sockets that systemd has opened for this process, or none.
func (m Machine) Sockets() (all []net.Listener, err error) {
	if m.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	n, err := strconv.Atoi(m.Getenv("LISTEN_FDS"))
	if err != nil || n < 0 || n > 100 {
		return nil, fmt.Errorf("LISTEN_FDS=%q is not a number of sockets", m.Getenv("LISTEN_FDS"))
	}
	for fd := firstSocket; fd < firstSocket+n; fd++ {
		f := os.NewFile(uintptr(fd), "socket "+strconv.Itoa(fd))
		if f == nil {
			return nil, fmt.Errorf("descriptor %d from LISTEN_FDS is not open", fd)
		}
		l, err := net.FileListener(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("descriptor %d from LISTEN_FDS: %w", fd, err)
		}
		all = append(all, l)
	}
	return all, nil
}
