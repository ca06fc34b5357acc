package disk

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What is allocated for one file isn't free for another one, until the first file is truncated.
func TestAllocate(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("cannot mount: ", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	file := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	a, b := file("a"), file("b")
	allocates := func(f *os.File, size, spare int64, want bool) {
		t.Helper()
		if err := Allocate(f, size, spare); (err == nil) != want || err != nil && !IsFull(err) {
			t.Errorf("allocating %d bytes: %v", size, err)
		}
	}
	allocates(a, 600<<10, 500<<10, false)
	allocates(a, 600<<10, 400<<10, true)
	allocates(a, 600<<10, 400<<10, true) // it has them
	allocates(a, 600<<10, 500<<10, true)
	allocates(b, 500<<10, 0, false)
	if info, err := a.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("got %v, %v", info, err)
	}
	if err := a.Truncate(0); err != nil {
		t.Error(err)
	}
	allocates(b, 500<<10, 0, true)
}
