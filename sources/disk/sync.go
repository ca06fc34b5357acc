package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

// Sync writes the directory's entries to the disk, if the file system can do
// that.
func (d *Dir) Sync() error {
	f, err := d.handle()
	if err != nil {
		return err
	}
	return syncDir(f)
}

// SyncTree writes everything in d and below it to the disk. It follows no
// links.
func (d *Dir) SyncTree(ctx context.Context) error {
	return d.eachDir(ctx, func(in *Dir, entries []fs.DirEntry) error {
		for _, e := range entries {
			if !e.Type().IsRegular() {
				continue
			}
			if err := in.syncFile(e.Name()); err != nil {
				return err
			}
		}
		return in.Sync()
	})
}

// SyncDirs is like SyncTree, but writes only directory entries and no file
// contents.
func (d *Dir) SyncDirs(ctx context.Context) error {
	return d.eachDir(ctx, func(in *Dir, _ []fs.DirEntry) error { return in.Sync() })
}

func (d *Dir) syncFile(name string) error {
	f, err := d.root.OpenFile(name, syncFlag|openNow, 0)
	if errors.Is(err, fs.ErrPermission) {
		// Windows flushes only with write access, which a read-only file does
		// not permit.
		f, err = d.root.OpenFile(name, os.O_RDONLY|openNow, 0)
	}
	if err != nil {
		return d.named(err)
	}
	return errors.Join(f.Sync(), f.Close())
}

// eachDir visits d and every directory below it, parents first. It skips links,
// other file systems and directories of the system.
func (d *Dir) eachDir(ctx context.Context, visit func(*Dir, []fs.DirEntry) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := d.ReadDir()
	if err != nil {
		return err
	}
	if err := visit(d, entries); err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || MadeBySystem(e.Name()) { // which other users may not open
			continue
		}
		sub, err := d.enter(e.Name())
		var elsewhere *StrayError
		if errors.As(err, &elsewhere) || isMissing(err) {
			continue
		}
		if err != nil {
			return err
		}
		err = sub.eachDir(ctx, visit)
		sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
