package disk

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const uptimeClock = unix.CLOCK_BOOTTIME

// uptimeOffset returns what the time namespace of this process adds to the clock. Every user can create a namespace.
func uptimeOffset() time.Duration {
	text, err := os.ReadFile("/proc/self/timens_offsets")
	if err != nil {
		return 0 // the kernel has no such namespaces
	}
	for line := range bytes.Lines(text) {
		var seconds, nanoseconds int64
		if n, _ := fmt.Sscanf(string(line), "boottime %d %d", &seconds, &nanoseconds); n == 2 {
			return time.Duration(seconds)*time.Second + time.Duration(nanoseconds)
		}
	}
	return 0
}
