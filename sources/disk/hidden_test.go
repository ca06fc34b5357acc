//go:build unix

package disk_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestHidden(t *testing.T) {
	sourcetest.RequireModes(t)
	for _, tt := range []struct {
		top, dir, file fs.FileMode
		want           fs.FileMode
	}{
		{0o755, 0o755, 0o644, 0},
		{0o711, 0o711, 0o444, 0},
		{0o755, 0o755, 0o600, 0o077},
		{0o755, 0o755, 0o640, 0o007},
		{0o755, 0o755, 0o604, 0o070},
		{0o755, 0o755, 0o711, 0o077}, // to execute is not to read
		{0o755, 0o700, 0o644, 0o077},
		{0o700, 0o755, 0o644, 0o077},
		{0o750, 0o755, 0o644, 0o007},
		{0o755, 0o744, 0o644, 0o077}, // to list is not to enter
		{0o750, 0o705, 0o644, 0o077},
	} {
		top := sourcetest.PublicDir(t)
		file, link := filepath.Join(top, "dir", "file"), filepath.Join(sourcetest.PublicDir(t), "link")
		write(t, "text", file)
		check(t, sourcetest.Symlink(t, file, link))
		check(t, os.Chmod(file, tt.file))
		check(t, os.Chmod(filepath.Dir(file), tt.dir))
		check(t, os.Chmod(top, tt.top))
		for _, path := range []string{file, link} {
			sourcetest.Equal(t, disk.Hidden(path), tt.want, path, tt)
		}
		check(t, os.Chmod(top, 0o755))
	}
	sourcetest.Equal(t, disk.Hidden(filepath.Join(t.TempDir(), "missing")), 0o077)
}
