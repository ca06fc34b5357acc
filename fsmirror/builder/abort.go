package builder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/larder-cli/larder/sources/disk"
)

// Abort is [Builder.Close] after a failure. If Open created the directory of the mirror, and there is no
// package in it, Abort removes it, with the directories above it that Open created. Left reports whether it
// stays for an interrupted download, which the next run continues.
func (b *Builder) Abort() (left bool, err error) {
	err = b.Close()
	all, readErr := os.ReadDir(b.path)
	if b.made == "" || readErr != nil || len(all) > 1 || len(all) == 1 && all[0].Name() != own {
		return false, err
	}
	if begun, _ := os.ReadDir(filepath.Join(b.path, own, partial)); len(begun) > 0 {
		return true, err
	}
	return false, errors.Join(err, b.removeMade())
}

// removeMade removes the directories that Open created.
func (b *Builder) removeMade() error {
	parent, err := disk.Open(filepath.Dir(b.path))
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := parent.RemoveTree(filepath.Base(b.path)); err != nil || b.made == b.path {
		return err
	}
	above, err := disk.Open(filepath.Dir(b.made))
	if err != nil {
		return err
	}
	defer above.Close()
	rel, err := filepath.Rel(filepath.Dir(b.made), filepath.Dir(b.path))
	if err != nil {
		return err
	}
	return above.RemoveEmpty(filepath.ToSlash(rel))
}

// topMissing returns the topmost directory that must be created for dir, or "" if dir exists.
func topMissing(dir string) (top string) {
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return top
		}
		top, dir = dir, filepath.Dir(dir)
	}
}
