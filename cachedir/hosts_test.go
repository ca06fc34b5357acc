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
		sourcetest.Expect(t, other.Until(host).IsZero(), "%s: %v before", host, other.Until(host))
		until := time.Now().Add(time.Minute).Truncate(time.Second)
		one.Leave(host, until)
		sourcetest.Expect(t, other.Until(host).Equal(until), "%s: %v, want %v", host, other.Until(host), until)
	}
	closed := open(t, root, cachedir.Options{ReadOnly: true})
	closed.Leave("example.test:443", time.Now().Add(time.Hour))
	sourcetest.Expect(t, time.Until(one.Until("example.test:443")) < 2*time.Minute, "a read-only cache was written")
}

// A link in the place of a host's file is not followed.
func TestHostFileIsNotALink(t *testing.T) {
	root, outside := t.TempDir(), filepath.Join(t.TempDir(), "file")
	sourcetest.Check(t, os.WriteFile(outside, nil, 0o644))
	before, err := os.Stat(outside)
	sourcetest.Check(t, err)
	d := open(t, root, cachedir.Options{})
	d.Leave("other.test:443", time.Now())
	sourcetest.Check(t, os.Symlink(outside, filepath.Join(root, ".larder", "hosts", "example.test_443")))
	d.Leave("example.test:443", time.Now().Add(time.Hour))
	after, err := os.Stat(outside)
	sourcetest.Check(t, err)
	sourcetest.Expect(t, after.ModTime().Equal(before.ModTime()), "the file that the link leads to was touched")
	sourcetest.Expect(t, d.Until("example.test:443").IsZero(), "got %v", d.Until("example.test:443"))
}
