package cachedir

import "golang.org/x/sys/unix"

func bootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}

// setLock sets a lock that belongs to an open file: F_OFD_SETLK of the system's
// <sys/fcntl.h>.
const setLock = 90
