package builder

import (
	"context"
	"errors"
	"io/fs"

	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

const unsettled = "unsettled"

// change creates the file that marks unfinished changes. The caller holds b.mu.
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

// settle returns when everything is on the disk, and then removes the file that marks
// unfinished changes. All files have been synced before: packages
// and documents before their rename, evidence by [Builder.apply].
// The caller holds b.mu.
func (b *Builder) settle(ctx context.Context) error {
	if !b.changed {
		return nil
	}
	if err := b.dir.SyncDirs(ctx); err != nil {
		return err
	}
	b.changed = false
	return b.own.Remove(unsettled)
}

// syncEvidence syncs the evidence, which is written without syncing.
func (b *Builder) syncEvidence(ctx context.Context) error {
	return store.Within(b.own, "evidence", func(all *disk.Dir) error { return all.SyncTree(ctx) })
}
