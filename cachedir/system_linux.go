package cachedir

import (
	"golang.org/x/sys/unix"
	"os"
	"strings"
)

func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// setLock sets a lock that belongs to an open file.
const setLock = unix.F_OFD_SETLK
