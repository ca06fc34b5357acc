package cachedir

import (
	"context"
	"errors"
	"slices"

	"github.com/larder-cli/larder/sources"
)

// A Layered store reads from a read-only cache, and puts missing packages into another store.
type Layered struct {
	*Dir // the cache
	Own  *Dir
}

// Get returns the package from the cache, or else from the other store.
func (l Layered) Get(ctx context.Context, id sources.PackageID) (sources.Stored, error) {
	s, err := l.Dir.Get(ctx, id)
	if errors.Is(err, sources.ErrNotFound) {
		return l.Own.Get(ctx, id)
	}
	return s, err
}

// PackagesOf returns the packages of a provider in both stores.
func (l Layered) PackagesOf(ctx context.Context, p sources.Provider) ([]sources.PackageID, error) {
	all, err := l.Dir.PackagesOf(ctx, p)
	more, ownErr := l.Own.PackagesOf(ctx, p)
	all = slices.SortedFunc(slices.Values(append(all, more...)), sources.PackageID.Compare)
	return slices.Compact(all), errors.Join(err, ownErr)
}

// Begin begins a transaction in the other store. It starts with the package from the cache, if
// the cache has it.
func (l Layered) Begin(ctx context.Context, id sources.PackageID, purpose sources.Purpose) (sources.Held, sources.Tx, error) {
	held, tx, err := l.Own.Begin(ctx, id, purpose)
	if err != nil {
		return held, tx, err
	}
	if purpose == sources.ToStore && held.Package.ZH == "" {
		if s, err := l.Dir.Get(ctx, id); err == nil {
			held.Package = s
		}
	}
	switch s, err := l.Dir.Recall(id); {
	case err == nil:
		held.Known = s
	case !errors.Is(err, sources.ErrNotFound):
		tx.Close()
		return held, nil, err
	}
	return held, tx, nil
}

// Recall returns the record from the cache, or else from the other store.
func (l Layered) Recall(id sources.PackageID) (sources.Stored, error) {
	s, err := l.Dir.Recall(id)
	if errors.Is(err, sources.ErrNotFound) {
		return l.Own.Recall(id)
	}
	return s, err
}

// Recorded returns the records of both stores.
func (l Layered) Recorded(p sources.Provider, v sources.Version) ([]sources.Platform, error) {
	all, err := l.Dir.Recorded(p, v)
	more, ownErr := l.Own.Recorded(p, v)
	return append(all, more...), errors.Join(err, ownErr)
}

// Evidence returns the evidence in the cache, or else in the other store.
func (l Layered) Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error) {
	signed, err := l.Dir.Evidence(p, v)
	if err != nil {
		return l.Own.Evidence(p, v)
	}
	return signed, nil
}
