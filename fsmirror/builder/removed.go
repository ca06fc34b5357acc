package builder

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/store"
)

// removals are the packages of a provider that were removed from the mirror for good, by their keys, with the checksum of
// each archive, which is empty if unknown. The mirror keeps them for all users: a user who can write there
// could also remove the packages.
type removals struct {
	all     map[string]sources.Hash
	changed bool
}

const maxRemovals = 16 << 20 // in bytes

func removalsPath(p sources.Provider) string { return own + "/removed/" + p.String() + ".json" }

// removals returns the removed packages of a provider. The caller holds b.mu.
func (b *Builder) removals(p sources.Provider) *removals {
	r, ok := b.removed[p]
	if !ok {
		r = &removals{all: map[string]sources.Hash{}}
		if data, err := b.read(removalsPath(p), maxRemovals); err != nil || json.Unmarshal(data, &r.all) != nil || r.all == nil {
			r.all = map[string]sources.Hash{}
		}
		b.removed[p] = r
	}
	return r
}

// noteRemoved records that a package was removed, or that it is there again.
func (b *Builder) noteRemoved(id sources.PackageID, zh sources.Hash, removed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, key := b.removals(id.Provider), store.KeyOf(id)
	if _, was := r.all[key]; was || removed {
		delete(r.all, key)
		r.changed = true
	}
	if removed {
		r.all[key] = zh
	}
}

// WasRemoved reports whether Larder has removed a package with this archive from the mirror, and not only to
// make space. The package may have been added again.
func (b *Builder) WasRemoved(id sources.PackageID, zh sources.Hash) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, ok := b.removals(id.Provider).all[store.KeyOf(id)]
	return ok && (was == "" || was == zh)
}

// writeRemovals writes what was removed. The caller holds b.mu.
func (b *Builder) writeRemovals() error {
	var errs []error
	for _, p := range slices.SortedFunc(maps.Keys(b.removed), sources.Provider.Compare) {
		r := b.removed[p]
		if !r.changed || b.own == nil {
			continue
		}
		data, err := json.Marshal(r.all)
		if err == nil {
			err = b.write(b.dir.Path(removalsPath(p)), data)
		}
		r.changed = err != nil
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
