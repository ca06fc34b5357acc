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
		"link":      func() error { return sourcetest.Symlink(t, to.Path("moved"), from.Path("file")) },
		"pipe":      func() error { return syscall.Mkfifo(from.Path("file"), 0o644) },
	} {
		check(t, replace())
		err := disk.Move(from, "file", to, "other", info)
		sourcetest.Expect(t, errors.Is(err, disk.ErrChanged) && strings.Contains(err.Error(), from.Path("file")), "%s: %v", name, err)
		sourcetest.Expect(t, !to.Exists("other"), "%s: it was left", name)
	}
	contains(t, to.Path("moved"), "good")
}

// Another user can put a directory instead of a new scratch directory before it is
// opened, where directories can be renamed by everybody.
func TestScratchOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	d := open(t, t.TempDir())
	for owner, want := range map[int]bool{0: true, stranger: false} {
		name := "run-" + strings.Repeat("A", 12)
		check(t, os.Mkdir(d.Path(name), 0o755))
		check(t, os.WriteFile(d.Path(name+"/~lock"), nil, 0o666))
		check(t, os.Chown(d.Path(name+"/~lock"), owner, -1))
		check(t, os.Chown(d.Path(name), owner, -1))
		s, err := d.Occupy(name)
		sourcetest.Expect(t, (s != nil) == want, "of user %d: got %v, %v", owner, s, err)
		if s != nil {
			check(t, s.Close())
			continue
		}
		strayed(t, "Scratch", err, d.Path(name))
		check(t, os.RemoveAll(d.Path(name)))
	}
}
