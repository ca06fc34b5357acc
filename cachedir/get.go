package cachedir

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// Get describes the entry for id. If there is no valid record, it hashes the entry
// and writes a record. It always hashes an entry that another user can change or
// exchange. The error matches [sources.ErrNotFound] if there is no usable entry.
func (d *Dir) Get(ctx context.Context, id sources.PackageID) (sources.Stored, error) {
	if under := d.opts.Under; under != nil {
		if s, err := under.Get(ctx, id); !errors.Is(err, sources.ErrNotFound) {
			return s, err
		}
	}
	var r record
	err := d.checkHome(id)
	if err == nil {
		r, err = d.recall(id, d.entry(id), d.ledger)
	}
	if err == nil && r.H1 == "" {
		r, err = d.findLocked(ctx, id)
	}
	if d.denies(err) { // this user can't use the package
		err = fmt.Errorf("%w: %w", sources.ErrNotFound, err)
	}
	if err != nil {
		return sources.Stored{}, sources.InPackage(id, err)
	}
	return d.stored(id, d.entry(id), r), nil
}

// findLocked is find under the package's lock, so that only one of several processes
// hashes.
func (d *Dir) findLocked(ctx context.Context, id sources.PackageID) (record, error) {
	if d.readOnly == nil {
		unlock, err := d.lock(ctx, id)
		if err != nil {
			return record{}, err
		}
		defer unlock()
	}
	r, err := d.find(ctx, id, d.entry(id), d.ledger)
	d.warn(d.ledger.Write(ctx))
	return r, err
}

// find determines the contents of dir, from the records in ledgers or by hashing. Then
// it replaces the record in the last ledger, which the caller writes, unless the contents
// differ from the verified ones: damage is never recorded.
func (d *Dir) find(ctx context.Context, id sources.PackageID, dir string, ledgers ...*ledger) (record, error) {
	r, err := d.recall(id, dir, ledgers...)
	if err != nil || r.H1 != "" {
		return r, err
	}
	if _, err := archive.Executable(dir, id.Provider.Type); errors.Is(err, archive.ErrNoExecutable) {
		return record{}, fmt.Errorf("%w: %w", sources.ErrNotFound, err)
	}
	if d.opts.Recorded {
		return record{}, nil
	}
	if r, err = hash(ctx, dir); err != nil {
		return record{}, err
	}
	d.distrust(dir, r.Files)
	if r, err = d.inherit(id, r, ledgers...); err != nil {
		return record{}, err
	}
	if err := d.letExecute(id, dir, r); err != nil {
		return record{}, err
	}
	if dir == d.entry(id) {
		d.noteUse(id) // it may have no record for a long time, as in a cache of several users
	}
	if r.was == nil && settled(r.Files, d.opts.Now()) {
		d.set(ledgers[len(ledgers)-1], id, r)
	}
	return r, nil
}

// letExecute restores the execute permission of the provider in dir, which has the
// contents r, unless these are other than the verified ones. The error matches
// [sources.ErrNotFound] if the permission is still missing.
func (d *Dir) letExecute(id sources.PackageID, dir string, r record) error {
	if d.opts.ReadOnly || d.opts.Checks && dir != d.entry(id) { // a dry run assumes that it can be restored
		return nil
	}
	err := checkExecutable(dir, r.Files, id)
	if errors.Is(err, archive.ErrNotExecutable) && d.readOnly == nil && r.was == nil {
		_, err = store.LetExecute(dir, id, d.warn)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", sources.ErrNotFound, err)
	}
	return nil
}

// hash hashes the contents of dir. Another program may be changing them, because
// Terraform unpacks in place, so it tries more than once.
func hash(ctx context.Context, dir string) (record, error) {
	for range 5 {
		before, err := scan(dir)
		if err != nil {
			return record{}, err
		}
		contents, hashErr := archive.Hash(ctx, dir)
		after, err := scan(dir)
		if err != nil {
			return record{}, err
		}
		if same(before, after) {
			return record{Facts: store.Facts{H1: contents.H1, Sums: store.SumsOf(contents)}, Files: after}, hashErr
		}
		select {
		case <-ctx.Done():
			return record{}, ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return record{}, fmt.Errorf("%s is being changed by another program", dir)
}

// stored describes the package of r in dir.
func (d *Dir) stored(id sources.PackageID, dir string, r record) sources.Stored {
	s := d.evidence.Describe(id, dir, r.Facts)
	if len(r.Files) > 0 {
		s.Seen = &seen{r.Files, r.From}
	}
	if r.was != nil {
		s.Differs, s.Changes = r.was.H1, r.Differ(r.was.Facts).Error()
	}
	return s
}

// seen implements [sources.Seen].
type seen struct {
	marks []mark
	from  *original // nil if unknown
}

// CopyOf implements [sources.Seen].
func (s *seen) CopyOf(path string) bool {
	if s.from == nil || s.from.Path != path {
		return false
	}
	now, err := disk.PrintTree(path)
	return err == nil && now == s.from.Print
}
