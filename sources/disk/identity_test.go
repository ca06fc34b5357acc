package disk_test

import (
	"os"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// The identity of a file stays while it is read, renamed and, if there is a birth time,
// linked. A file that takes its place has another one, even with the same inode, size
// and modification time.
func TestIdentify(t *testing.T) {
	path := write(t, "text", t.TempDir(), "file")
	identify := func() (disk.Identity, string) {
		t.Helper()
		check(t, os.Chtimes(path, time.Unix(1e9, 0), time.Unix(1e9, 0)))
		info, err := os.Stat(path)
		check(t, err)
		return disk.Identify(path, info), disk.Print(path, info)
	}
	before, first := identify()
	sourcetest.Require(t, before.Bound() && before.Inode != 0, "%+v", before)
	time.Sleep(20 * time.Millisecond) // more than a tick of the file system's clock
	contains(t, path, "text")
	check(t, sourcetest.Link(t, path, path+".link"))
	check(t, os.Remove(path))
	check(t, os.Rename(path+".link", path))
	linked, _ := identify()
	linked.Changed = before.Changed
	sourcetest.Equal(t, linked, before)

	check(t, os.Remove(path))
	write(t, "text", path)
	other, second := identify()
	other.Inode, linked.Inode = 0, 0
	sourcetest.Expect(t, other != linked && second != first, "a restored file has the identity %+v", other)
}
