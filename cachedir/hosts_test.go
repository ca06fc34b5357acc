package cachedir_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A pause that one process records applies to other processes.
func TestPausesAreShared(t *testing.T) {
	root := t.TempDir()
	one, other := open(t, root, cachedir.Options{}), open(t, root, cachedir.Options{})
	for _, host := range []string{"example.test:443", "[::1]:8443"} {
		got, pauses := other.Until(host)
		sourcetest.Expect(t, got.IsZero() && pauses == 0, "%s: %v, %d before", host, got, pauses)
		until := time.Now().Add(time.Minute).Truncate(time.Second)
		for _, want := range []int{3, 0} {
			one.Leave(host, until, want)
			got, pauses = other.Until(host)
			sourcetest.Expect(t, got.Equal(until) && pauses == want, "%s: %v, %d, want %v, %d", host, got, pauses, until, want)
		}
	}
	closed := open(t, root, cachedir.Options{ReadOnly: true})
	closed.Leave("example.test:443", time.Now().Add(time.Hour), 1)
	until, pauses := one.Until("example.test:443")
	sourcetest.Expect(t, time.Until(until) < 2*time.Minute && pauses == 0, "a read-only cache was written")
}

// A link instead of a host's file is not followed.
func TestHostFileIsNotALink(t *testing.T) {
	root, outside := t.TempDir(), filepath.Join(t.TempDir(), "file")
	sourcetest.Check(t, os.WriteFile(outside, nil, 0o644))
	before, err := os.Stat(outside)
	sourcetest.Check(t, err)
	d := open(t, root, cachedir.Options{})
	d.Leave("other.test:443", time.Now(), 1)
	sourcetest.Check(t, sourcetest.Symlink(t, outside, filepath.Join(root, ".larder", "hosts", "example.test_443")))
	d.Leave("example.test:443", time.Now().Add(time.Hour), 1)
	after, err := os.Stat(outside)
	sourcetest.Check(t, err)
	sourcetest.Expect(t, after.ModTime().Equal(before.ModTime()), "the file that the link leads to was touched")
	until, _ := d.Until("example.test:443")
	sourcetest.Expect(t, until.IsZero(), "got %v", until)
}

// A hardlink of a user's file instead of a host's file is replaced, and the file stays as it is.
func TestHostFileIsNoUsersFile(t *testing.T) {
	root, mine := t.TempDir(), filepath.Join(t.TempDir(), "file")
	sourcetest.Check(t, os.WriteFile(mine, []byte("text"), 0o644))
	before, err := os.Stat(mine)
	sourcetest.Check(t, err)
	d := open(t, root, cachedir.Options{})
	d.Leave("other.test:443", time.Now(), 1)
	sourcetest.Check(t, os.Link(mine, filepath.Join(root, ".larder", "hosts", "example.test_443")))
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	d.Leave("example.test:443", until, 3)
	after, err := os.Stat(mine)
	sourcetest.Expect(t, err == nil && after.ModTime().Equal(before.ModTime()) && after.Size() == 4, "the user's file was changed: %v, %v", after, err)
	got, pauses := d.Until("example.test:443")
	sourcetest.Expect(t, got.Equal(until) && pauses == 3, "got %v, %d", got, pauses)
}

// The files of hosts are no leftovers: no command removes them.
func TestHostsAreNoLeftover(t *testing.T) {
	d := open(t, t.TempDir(), cachedir.Options{})
	d.Leave("example.test:443", time.Now(), 1)
	u, err := d.Usage(t.Context())
	sourcetest.Check(t, err)
	sourcetest.Equal(t, u.Leftover, cachedir.Amount{}, "leftovers")
}
