package view

import (
	"context"
	"errors"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// WithoutLinks lets views have no links until the test ends, and no hardlinks either unless they are allowed.
func WithoutLinks(t *testing.T, hardlinks bool) {
	old := placeBy
	t.Cleanup(func() { placeBy = old })
	placeBy = func(ctx context.Context, mode sources.LinkMode, dir string, files []string, in *disk.Dir, name string) error {
		if mode == sources.LinkSymlink || mode == sources.LinkHard && !hardlinks {
			return errors.ErrUnsupported
		}
		return old(ctx, mode, dir, files, in, name)
	}
}
