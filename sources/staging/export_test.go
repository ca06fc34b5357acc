package staging

import (
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// init makes the stage keep downloads of any size, so that tests need no large
// archives.
func init() { worth = 1 }

// SetSilence changes how long processes wait for bytes, until the test ends.
func SetSilence(t *testing.T, d time.Duration) {
	before := silence
	silence = d
	t.Cleanup(func() { silence = before })
}

// AwaitWaiting returns when a process waits for the archive with this hash.
func AwaitWaiting(t *testing.T, dir string, zh sources.Hash) {
	t.Helper()
	in, err := disk.Open(dir)
	sourcetest.Check(t, err)
	defer in.Close()
	name, err := archiveName(zh)
	sourcetest.Check(t, err)
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		lock := in.Lock(name + ".wanted")
		lock.Existing = true
		ok, err := lock.Try()
		lock.Unlock()
		if err == nil && !ok {
			time.Sleep(50 * time.Millisecond) // for another one
			return
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatal("no process waits")
		}
	}
}
