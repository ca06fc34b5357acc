package staging

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// SyncTree sees to it that everything in dir is on the medium.
func SyncTree(ctx context.Context, dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case e.IsDir():
			return SyncDir(path)
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
