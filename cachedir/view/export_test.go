package view

import (
	"errors"
	"testing"

	"github.com/larder-cli/larder/sources/disk"
)

// WithoutLinks lets views have no links until the test ends, and no hardlinks either unless they are allowed.
func WithoutLinks(t *testing.T, hardlinks bool) {
	oldSymlink, oldHardlink := symlink, hardlink
	t.Cleanup(func() { symlink, hardlink = oldSymlink, oldHardlink })
	symlink = func(*disk.Dir, string, string) error { return errors.ErrUnsupported }
	if !hardlinks {
		hardlink = func(*disk.Dir, string, *disk.Dir, string) error { return errors.ErrUnsupported }
	}
}
