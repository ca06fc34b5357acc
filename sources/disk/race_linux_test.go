package disk_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Another process exchanges a directory or a file for a link to one in the same tree,
// again and again. Nothing in the target of the link is opened.
func TestExchangesForLinks(t *testing.T) {
	root := t.TempDir()
	write(t, "right", root, "dir", "file")
	write(t, "right", root, "file")
	write(t, "wrong", root, "other", "file")
	for link, target := range map[string]string{"dirlink": "other", "filelink": "other/file"} {
		check(t, sourcetest.Symlink(t, target, filepath.Join(root, link)))
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, name := range []string{"dir", "file"} {
				at := filepath.Join(root, name)
				_ = unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, at+"link", unix.RENAME_EXCHANGE)
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	d := open(t, root)
	for until := time.Now().Add(time.Second); time.Now().Before(until); {
		for _, name := range []string{"dir/file", "file"} {
			data, _, err := d.ReadFile(name, 10)
			var stray *disk.StrayError
			switch {
			case err == nil:
				sourcetest.Equal(t, string(data), "right", name)
			case !errors.As(err, &stray):
				var failed *fs.PathError
				sourcetest.Expect(t, errors.As(err, &failed), "%s: %v", name, err)
			}
		}
	}
}
