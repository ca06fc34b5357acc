package builder

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/larder-cli/larder/sources/disk"
)

// Abort is [Builder.Close] after a failure. If Open created the directory of the mirror, and there is no
// package in it, Abort removes it. Left reports whether it stays for an interrupted download, which the next run
// continues.
func (b *Builder) Abort() (left bool, err error) {
	err = b.Close()
	all, readErr := os.ReadDir(b.path)
	if !b.made || readErr != nil || len(all) > 1 || len(all) == 1 && all[0].Name() != own {
		return false, err
	}
	if begun, _ := os.ReadDir(filepath.Join(b.path, own, partial)); len(begun) > 0 {
		return true, err
	}
	parent, openErr := disk.Open(filepath.Dir(b.path))
	if openErr != nil {
		return false, errors.Join(err, openErr)
	}
	defer parent.Close()
	return false, errors.Join(err, parent.RemoveTree(filepath.Base(b.path)))
}
