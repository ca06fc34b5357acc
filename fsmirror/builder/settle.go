package builder

import (
	"context"
	"errors"
	"io/fs"
)

const unsettled = "unsettled"

// change records that something is about to change. The caller holds b.mu.
func (b *Builder) change() error {
	if b.changed {
		return nil
	}
	f, err := b.own.Create(unsettled, 0o644)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	b.changed = true
	if f == nil {
		return nil
	}
	return f.Close()
}

// settle returns when everything is on the disk, and records that it is.
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
	return b.own.Remove(unsettled)
}

// sync flushes the names of all files, and the contents of evidence. The contents
// of packages and documents are on the disk before they get their names.
func (b *Builder) sync(ctx context.Context) error {
	evidence, err := b.own.Sub("evidence")
	if err == nil {
		err = evidence.SyncTree(ctx)
		evidence.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return b.dir.SyncDirs(ctx)
}
