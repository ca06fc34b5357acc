//go:build unix && !linux && !darwin

package disk

import "golang.org/x/sys/unix"

const setLock = unix.F_SETLK
