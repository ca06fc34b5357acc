package builder

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/larder-cli/larder/sources/staging"
)

const unsettled = "unsettled"

// change says that something is about to change. The caller holds b.mu.
func (b *Builder) change() error {
	if b.changed {
		return nil
	}
	b.changed = true
	return os.WriteFile(b.state(unsettled), nil, 0o644)
}

// settle sees to it that the names of everything are on the medium. The contents
// of packages and documents are already; those of evidence are not.
func (b *Builder) settle(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.changed {
		return nil
	}
	if err := b.sync(ctx); err != nil {
		return err
	}
	b.changed = false
	return os.Remove(b.state(unsettled))
}

func (b *Builder) sync(ctx context.Context) error {
	if err := staging.SyncTree(ctx, b.state("evidence")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return filepath.WalkDir(b.dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case e.IsDir():
			return staging.SyncDir(path)
		}
		return nil
	})
}
