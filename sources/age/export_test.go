package age

import (
	"testing"
	"time"
)

// SetLockWait sets how long a run waits for the lock, for a test.
func SetLockWait(t *testing.T, wait time.Duration) {
	before := lockWait
	lockWait = wait
	t.Cleanup(func() { lockWait = before })
}
