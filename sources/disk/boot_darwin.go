package disk

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Boot returns the ID of the current boot of the system.
var Boot = sync.OnceValue(func() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
})
