package builder

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// A Policy selects packages for removal: those that nothing requires. If it has
// limits, packages within a limit stay.
type Policy struct {
	Locked    func(sources.PackageID) bool // reports whether a lock file or a root module selects the package; nil if none does
	KeepLast  int                          // keep this many versions of each provider: the newest for each platform
	OlderThan time.Duration                // keep packages that have been there for less time; 0 means no limit
}

// A Plan lists the packages to remove. Nothing has been removed yet.
type Plan struct {
	Remove []Entry // sorted by path
	Freed  int64   // bytes of these packages
	Size   int64   // bytes of all packages
	Locked int     // packages kept because of Policy.Locked
	Recent int     // packages kept because of the limits

	Evicts bool // the packages are removed only to make space, so no bundle removes them elsewhere
}

// PlanPrune returns a plan of the packages to remove.
func (b *Builder) PlanPrune(ctx context.Context, policy Policy) (*Plan, error) {
	entries, err := b.List(ctx, ListOptions{Proofs: true})
	if err != nil {
		return nil, err
	}
	var ids []sources.PackageID
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	newest := sources.Newest(ids, policy.KeepLast)
	plan, now := &Plan{}, b.opts.Now()
	for _, e := range entries {
		plan.Size += e.Size
		switch {
		case policy.Locked != nil && policy.Locked(e.ID):
			plan.Locked++
		case newest[e.ID], policy.OlderThan > 0 && now.Sub(e.Since) <= policy.OlderThan:
			plan.Recent++
		default:
			plan.Add(e)
		}
	}
	return plan, nil
}

// Add adds a package to remove, unless the plan has it.
func (p *Plan) Add(e Entry) {
	if !slices.ContainsFunc(p.Remove, func(other Entry) bool { return other.at == e.at }) {
		p.Freed += e.Size
		p.Remove = append(p.Remove, e)
	}
}

// PlanRemoval returns a plan that removes the packages with these archives. An unpacked package is removed if it came
// from the archive, or has the same contents. It also returns the packages that have other contents.
func (b *Builder) PlanRemoval(
	ctx context.Context, archives map[sources.PackageID]sources.Hash,
) (*Plan, []sources.PackageID, error) {
	entries, err := b.List(ctx, ListOptions{Proofs: true})
	if err != nil {
		return nil, nil, err
	}
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return archives[e.ID] == "" })
	slices.SortStableFunc(entries, func(a, b Entry) int { // archives first
		return cmp.Or(a.ID.Compare(b.ID), strings.Compare(fmt.Sprint(a.Unpacked), fmt.Sprint(b.Unpacked)))
	})
	plan, contents := &Plan{}, map[sources.PackageID]sources.Hash{}
	var others []sources.PackageID
	for _, e := range entries {
		r, err := b.recall(e.at)
		if err != nil {
			r, err = b.look(ctx, e.at)
		}
		switch {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case err == nil && (r.ZH == archives[e.ID] || e.Unpacked && r.H1 == contents[e.ID]):
			plan.Add(e)
			contents[e.ID] = r.H1
		default:
			others = append(others, e.ID)
		}
	}
	return plan, slices.Compact(others), nil
}

// Missing returns the packages of a version that the index names, and that are not in their place.
func (b *Builder) Missing(of sources.Release) (all []Entry) {
	v := of.Version.String()
	named := b.readDocument(b.document(b.home(of.Provider), of.Version)).Archives
	for _, platform := range slices.Sorted(maps.Keys(named)) {
		id, err := sources.ParsePackageID(of.Provider.String(), v, platform)
		if err != nil {
			continue
		}
		at := b.place(id, false)
		if _, err := os.Lstat(at.path); errors.Is(err, fs.ErrNotExist) {
			all = append(all, Entry{ID: id, Path: b.relative(at.path), at: at})
		}
	}
	return all
}

// Prune removes the packages of the plan, first from the index and then from the
// disk. It returns the removed packages, once everything is on the disk. If it is
// interrupted, the index still names only existing packages.
func (b *Builder) Prune(ctx context.Context, plan *Plan) ([]Entry, error) {
	if err := b.busy.Acquire(ctx, everything); err != nil {
		return nil, err
	}
	defer b.busy.Release(everything)
	all, err := b.List(ctx, ListOptions{})
	if err != nil {
		return nil, err
	}
	going := map[spot]bool{}
	for _, e := range plan.Remove {
		going[e.at] = true
	}
	if err := b.leaveOut(ctx, going); err != nil {
		return nil, err
	}
	var gone []Entry
	removed := map[spot]bool{}
	var errs []error
	for _, e := range plan.Remove {
		if ctx.Err() != nil {
			errs = append(errs, ctx.Err())
			break
		}
		was, _ := b.recall(e.at)
		if err := b.remove(e.at); err != nil {
			errs = append(errs, sources.InPackage(e.ID, err))
			continue
		}
		gone = append(gone, e)
		if !plan.Evicts {
			b.noteRemoved(e.ID, was.ZH, true)
		}
		removed[e.at] = true
	}
	left := slices.DeleteFunc(all, func(e Entry) bool { return removed[e.at] })
	errs = append(errs, b.removeEvidence(gone, left), b.removeEmpty(gone))
	b.writeRecords(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	return gone, errors.Join(append(errs, b.writeRemovals(), b.settle(ctx))...)
}

// leaveOut makes the index name all archives except those in going.
func (b *Builder) leaveOut(ctx context.Context, going map[spot]bool) error {
	found, err := b.survey(ctx, going)
	if err != nil {
		return err
	}
	steps, err := b.planIndex(found, keepOthers)
	if err == nil {
		err = b.apply(ctx, steps)
	}
	if err != nil {
		return disk.Explain(err, b.opts.Place)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Join(b.change(), b.dir.SyncDirs(ctx))
}

// remove removes a package by renaming it first, so that it disappears as a whole.
func (b *Builder) remove(at spot) error {
	defer b.forgetTree()
	old := b.work.Name()
	defer func() { b.warn(b.work.RemoveTree(old)) }()
	parent, name := split(b.relative(at.path))
	dir, err := b.dir.Sub(parent)
	if err == nil {
		defer dir.Close()
		err = b.work.Take(dir, name, old)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b.ledger.Remove(at.id.Provider, at.key())
	return nil
}

// removeEvidence removes the evidence for versions that have no package left.
func (b *Builder) removeEvidence(gone, left []Entry) error {
	stays := map[sources.Release]bool{}
	for _, e := range left {
		stays[e.ID.Release()] = true
	}
	var errs []error
	for _, e := range gone {
		if !stays[e.ID.Release()] {
			errs = append(errs, b.evidence.Remove(e.ID.Release()))
		}
	}
	return errors.Join(errs...)
}

// removeEmpty removes the directories that the removed packages leave empty.
func (b *Builder) removeEmpty(gone []Entry) error {
	var errs []error
	for _, e := range gone {
		for _, home := range append(b.homes(e.ID.Provider), filepath.Dir(e.at.path)) {
			errs = append(errs, b.dir.RemoveEmpty(b.relative(home)))
		}
	}
	return errors.Join(errs...)
}

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
