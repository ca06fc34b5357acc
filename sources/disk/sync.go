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
// links, and skips other file systems and directories of the system.
func (d *Dir) SyncTree(ctx context.Context) error { return d.syncAll(ctx, true) }

// SyncDirs is like SyncTree, but writes only directory entries and no file
// contents.
func (d *Dir) SyncDirs(ctx context.Context) error { return d.syncAll(ctx, false) }

func (d *Dir) syncAll(ctx context.Context, files bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := d.ReadDir()
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.IsDir() && !MadeBySystem(e.Name()): // which other users may not open
			err = d.syncDir(ctx, e.Name(), files)
		case e.Type().IsRegular() && files:
			err = d.syncFile(e.Name())
		}
		if err != nil {
			return err
		}
	}
	return d.Sync()
}

func (d *Dir) syncDir(ctx context.Context, name string, files bool) error {
	sub, err := d.enter(name)
	if _, elsewhere := errors.AsType[*StrayError](err); elsewhere || isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer sub.Close()
	return sub.syncAll(ctx, files)
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
