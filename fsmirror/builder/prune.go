package builder

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// A Policy selects packages for removal: those that nothing requires. If it has
// limits, packages within a limit stay.
type Policy struct {
	Locked    func(sources.PackageID) bool // reports whether a lock file or a root module selects it; nil if none does
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
	entries, err := b.List(ctx, ListOptions{})
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

// PlanRemoval returns a plan that removes the packages with these archives, and unpacked ones that came from them. It
// also returns the packages that have other contents.
func (b *Builder) PlanRemoval(
	ctx context.Context, archives map[sources.PackageID]sources.Hash,
) (*Plan, []sources.PackageID, error) {
	entries, err := b.List(ctx, ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	plan := &Plan{}
	var others []sources.PackageID
	for _, e := range entries {
		if archives[e.ID] == "" {
			continue
		}
		switch s, err := b.Find(ctx, e.at); {
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case err == nil && s.ZH == archives[e.ID]:
			plan.Add(e)
		default:
			others = append(others, e.ID)
		}
	}
	return plan, slices.Compact(others), nil
}

// Missing returns the packages of a version that the index names, and that are not in their place.
func (b *Builder) Missing(of sources.Release) (all []Entry) {
	named := b.readDocument(document(home(of.Provider), of.Version)).Archives
	for _, text := range slices.Sorted(maps.Keys(named)) {
		platform, err := sources.ParsePlatform(text)
		at := b.place(sources.PackageID{Provider: of.Provider, Version: of.Version, Platform: platform}, false)
		if _, statErr := os.Lstat(at.Path()); err == nil && errors.Is(statErr, fs.ErrNotExist) {
			all = append(all, Entry{ID: at.ID, Path: b.relative(at.Path()), at: at})
		}
	}
	return all
}

// Prune removes the packages of the plan, first from the index and then from the
// disk. It returns the removed packages, once everything is on the disk. If it is interrupted, the index still names
// only existing packages, unless the disk is so full that the index can be written only after packages were removed. An
// empty plan completes what an earlier process that was killed has begun, and otherwise changes nothing.
func (b *Builder) Prune(ctx context.Context, p *Plan) (gone []Entry, err error) {
	if len(p.Remove) == 0 && !b.isChanged() {
		return nil, nil
	}
	how := indexing{without: map[fsmirror.Package]bool{}, keep: true}
	for _, e := range p.Remove {
		how.without[e.at] = true
	}
	err = b.update(ctx, how, func(index *plan, err error) error {
		if err == nil {
			err = b.leaveOutFull(ctx, p, index)
		}
		if err != nil {
			return disk.Explain(err, b.opts.Place)
		}
		gone, err = b.removeAll(ctx, p.Remove)
		return err
	})
	return gone, err
}

// leaveOutFull is leaveOut also where the index can be written only after packages were removed.
func (b *Builder) leaveOutFull(ctx context.Context, p *Plan, index *plan) error {
	err := b.leaveOut(ctx, p, index)
	for _, e := range p.Remove {
		if !disk.IsFull(err) {
			break
		}
		if err = b.remove(e.at); err == nil {
			err = b.leaveOut(ctx, p, index)
		}
	}
	return err
}

// leaveOut makes the index name all archives except those that will be removed.
func (b *Builder) leaveOut(ctx context.Context, p *Plan, index *plan) error {
	for _, e := range p.Remove { // a process that is killed then loses none of the removals
		if was, _ := b.recall(e.at); !p.Evicts {
			b.removed.Set(e.ID.Provider, store.KeyOf(e.ID), was.ZH)
		}
	}
	if err := b.apply(ctx, index); err != nil {
		return err
	}
	return errors.Join(b.change(sources.Provider{}), b.dir.SyncDirs(ctx))
}

// removeAll removes packages that the index doesn't name.
func (b *Builder) removeAll(ctx context.Context, going []Entry) (gone []Entry, err error) {
	var errs []error
	for _, e := range going {
		if ctx.Err() != nil {
			errs = append(errs, ctx.Err())
			break
		}
		if err := b.remove(e.at); err != nil {
			errs = append(errs, sources.InPackage(e.ID, err))
			continue
		}
		gone = append(gone, e)
	}
	errs = append(errs, b.tidy(context.WithoutCancel(ctx), gone), b.writeRecords(ctx), b.settle(ctx, nil))
	return gone, errors.Join(errs...)
}

// remove removes a package by renaming it first, so that it disappears as a whole.
func (b *Builder) remove(at fsmirror.Package) error {
	defer b.forgetTree()
	old := b.work.Name()
	defer func() { b.warn(b.work.RemoveTree(old)) }()
	name := b.relative(at.Path())
	dir, err := b.dir.Sub(path.Dir(name))
	if err == nil {
		defer dir.Close()
		err = b.work.Take(dir, path.Base(name), old)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	b.ledger.Remove(at.ID.Provider, keyOf(at))
	return nil
}

// tidy removes the evidence for versions that have no package left, and the directories that removed packages leave
// empty.
func (b *Builder) tidy(ctx context.Context, gone []Entry) error {
	left, err := b.packages(ctx)
	if err != nil {
		return err
	}
	stays := map[sources.Release]bool{}
	for _, pkg := range left {
		stays[pkg.ID.Release()] = true
	}
	var errs []error
	for _, e := range gone {
		if !stays[e.ID.Release()] {
			errs = append(errs, b.evidence.Remove(e.ID.Release()))
		}
		for _, dir := range append(homes(e.ID.Provider), path.Dir(e.Path)) {
			errs = append(errs, b.dir.RemoveEmpty(dir))
		}
	}
	return errors.Join(errs...)
}

// WasRemoved reports whether Larder has removed a package with this archive from the mirror, and not only to
// make space. If that was interrupted, the package may be there.
func (b *Builder) WasRemoved(id sources.PackageID, zh sources.Hash) bool {
	was, err := b.removed.Find(id.Provider, store.KeyOf(id))
	return err == nil && (was == "" || was == zh)
}
