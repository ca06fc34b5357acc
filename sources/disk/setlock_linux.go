package disk

import "golang.org/x/sys/unix"

// setLock sets a lock that belongs to an open file.
const setLock = unix.F_OFD_SETLK
