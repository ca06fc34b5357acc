package disk

import (
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Processes that take a fleeting lock one after the other exclude each other, although each of them removes its file.
// Try would also exclude the goroutines of this process by itself.
func TestFleetingLock(t *testing.T) {
	path := t.TempDir()
	var processes sync.WaitGroup
	var holders, together atomic.Int32
	for range 4 {
		processes.Go(func() {
			d, err := Open(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			for range 50 {
				l := d.Lock("x.lock")
				l.Fleeting = true
				for ok := false; !ok && err == nil; {
					ok, err = l.try(alone)
				}
				if holders.Add(1) > 1 {
					together.Add(1)
				}
				time.Sleep(time.Microsecond)
				holders.Add(-1)
				l.Unlock()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	processes.Wait()
	left, err := os.ReadDir(path)
	if together.Load() > 0 || err != nil || removesOpenFiles && len(left) > 0 {
		t.Errorf("held %d times by two, left %v, %v", together.Load(), left, err)
	}
}
