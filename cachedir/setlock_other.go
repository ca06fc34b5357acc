//go:build unix && !linux && !darwin

package cachedir

import "golang.org/x/sys/unix"

const setLock = unix.F_SETLK
