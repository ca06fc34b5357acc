package builder

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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
	if err := syncTree(ctx, b.state("evidence")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return filepath.WalkDir(b.dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case e.IsDir():
			return syncDir(path)
		}
		return nil
	})
}

// syncTree sees to it that everything in dir is on the medium.
func syncTree(ctx context.Context, dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case e.IsDir():
			return syncDir(path)
		case !e.Type().IsRegular():
			return nil
		}
		f, err := os.OpenFile(path, syncMode, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
