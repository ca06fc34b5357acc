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

// settle returns when everything is on the disk, and records that it is. The contents
// of all files are there before: those of packages and documents before they get their
// names, and those of evidence since [Builder.apply].
func (b *Builder) settle(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.changed {
		return nil
	}
	if err := b.dir.SyncDirs(ctx); err != nil {
		return err
	}
	b.changed = false
	return b.own.Remove(unsettled)
}

// syncEvidence flushes the evidence, which was written without doing so.
func (b *Builder) syncEvidence(ctx context.Context) error {
	evidence, err := b.own.Sub("evidence")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer evidence.Close()
	return evidence.SyncTree(ctx)
}
