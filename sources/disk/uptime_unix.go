//go:build linux || darwin

package disk

import (
	"time"

	"golang.org/x/sys/unix"
)

// Uptime returns for how long the system has been running since its boot, including the time in which it was
// suspended. Setting the clock doesn't change it. It is 0 if it is unknown. [Boot] identifies the boot.
func Uptime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(uptimeClock, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano()) - uptimeOffset()
}
