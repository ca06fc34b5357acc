//go:build unix

package disk_test

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Move removes a file that has taken the place of the one to be moved.
func TestMove(t *testing.T) {
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	write(t, "good", from.Path("."), "file")
	info, err := from.Lstat("file")
	check(t, err)
	check(t, disk.Move(from, "file", to, "moved", info))
	contains(t, to.Path("moved"), "good")
	for name, replace := range map[string]func() error{
		"file":      func() error { write(t, "evil", from.Path("."), "file"); return nil },
		"directory": func() error { write(t, "evil", from.Path("file"), "file"); return nil },
		"link":      func() error { return os.Symlink(to.Path("moved"), from.Path("file")) },
		"pipe":      func() error { return syscall.Mkfifo(from.Path("file"), 0o644) },
	} {
		check(t, replace())
		err := disk.Move(from, "file", to, "other", info)
		sourcetest.Expect(t, errors.Is(err, disk.ErrChanged) && strings.Contains(err.Error(), from.Path("file")), "%s: %v", name, err)
		sourcetest.Expect(t, !to.Exists("other"), "%s: it was left", name)
	}
	contains(t, to.Path("moved"), "good")
}
