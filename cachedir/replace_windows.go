package cachedir

import (
	"errors"
	"os"
	"time"

	"github.com/larder-cli/larder/sources"
	"golang.org/x/sys/windows"
)

// rename tries for a while, as virus scanners hold on to files that are new.
func rename(from, to string) error {
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := os.Rename(from, to)
		busy := errors.Is(err, windows.ERROR_SHARING_VIOLATION) || errors.Is(err, windows.ERROR_ACCESS_DENIED)
		if !busy {
			return err
		}
		if time.Since(begun) > 2*time.Second {
			return sources.WithHint(err, "stop the programs that use %s or %s, such as a running provider or a virus scanner", from, to)
		}
	}
}
