package bundle

import (
	"context"
	"os"
	"slices"
	"sync"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/store"
)

// A Receiver is the mirror that a bundle is for. Its methods are safe for concurrent use.
type Receiver struct {
	Manifest
	mu      sync.Mutex
	skipped map[sources.PackageID]Package
}

// ReceiverAt returns the receiver with the manifest, bundle or mirror at path.
func ReceiverAt(ctx context.Context, path string, records store.Records, warn func(error)) (*Receiver, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	r := &Receiver{}
	if info.IsDir() {
		r.Manifest, err = Describe(ctx, path, records, warn)
	} else {
		r.Manifest, err = ReadManifest(path)
	}
	return r, err
}

// Skips reports whether the receiver has a package that satisfies lock files with these hashes,
// and no signed checksums are missing there that the source has.
func (r *Receiver) Skips(ctx context.Context, from sources.Source, id sources.PackageID, locks [][]sources.Hash) bool {
	p, evidenced, ok := r.find(id)
	if !ok {
		return false
	}
	for _, locked := range locks {
		if len(locked) > 0 && !sources.MatchesAny(locked, p.H1, p.ZipH1, p.ZH) {
			return false
		}
	}
	if !evidenced {
		if offered, err := from.Package(ctx, id); err != nil || offered.Signed != nil {
			return false
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.skipped == nil {
		r.skipped = map[sources.PackageID]Package{}
	}
	r.skipped[id] = p
	return true
}

// Skipped returns the number of packages for which Skips returned true. The receiver may be nil.
func (r *Receiver) Skipped() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.skipped)
}

// removedFrom returns the packages of the receiver that were removed from a mirror, which has others now.
func (r *Receiver) removedFrom(mirror *builder.Builder, now []fsmirror.Package) (removed []Package) {
	if r == nil {
		return nil
	}
	for _, p := range slices.Concat(r.Packages, r.Base) {
		there := func(other fsmirror.Package) bool { return other.ID == p.ID }
		if mirror.WasRemoved(p.ID, p.ZH) && !slices.ContainsFunc(now, there) {
			removed = append(removed, Package{ID: p.ID, ZH: p.ZH})
		}
	}
	slices.SortFunc(removed, byID)
	return removed
}

// Since returns m without the packages that the receiver has, which become the base. The base
// includes those that were skipped, and that m lacks for this reason. Packages for which only m
// has evidence are not left out.
func (m Manifest) Since(r *Receiver) Manifest {
	delta := Manifest{Removed: m.Removed}
	for _, p := range m.Packages {
		has, evidenced, ok := r.find(p.ID)
		if ok && has.ZH == p.ZH && (evidenced || !m.Evidenced(p.ID.Release())) {
			delta.Base = append(delta.Base, Package{ID: p.ID, ZH: p.ZH})
		} else {
			delta.Packages = append(delta.Packages, p)
		}
	}
	for _, p := range r.without(m) {
		delta.Base = append(delta.Base, Package{ID: p.ID, ZH: p.ZH})
	}
	slices.SortFunc(delta.Base, byID)
	releases := releasesOf(delta.Packages)
	delta.Evidence = slices.DeleteFunc(slices.Clone(m.Evidence), func(e Evidence) bool { return !releases[e.Release] })
	return delta
}
