// Package publish publishes what a mirror has in a place that other machines reach: an OCI registry, or a bucket with a
// static network mirror.
//
// It compares by checksums, and reads only archives that it uploads. It writes nothing on this machine.
package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/trust"
)

// A Release is a version in a mirror.
type Release struct {
	sources.Release
	Packages []Package       // sorted by platform; at least one
	Evidence *evidence.Files // nil if there is none
}

// A Package is a packed package of a mirror.
type Package struct {
	ID     sources.PackageID
	Path   string         // of the archive
	Size   int64          // of the archive, in bytes
	ZH     sources.Hash   // of the archive
	Hashes []sources.Hash // all that are known, with ZH
}

// open opens the archive.
func (p Package) open() (*os.File, error) {
	f, _, err := disk.OpenFile(p.Path)
	return f, err
}

// A State is the state of a release in a place.
type State struct {
	Archives map[sources.Platform]sources.Hash
	Signed   *sources.Signed // its evidence; nil if it has none that can be read, or the mirror has none
	Unlisted bool            // the place has the release, but doesn't list it yet: a push was interrupted
}

// A Target is a place that can be changed. What changes about a provider is changed while the lease in its slot is held.
// After [Target.Forget], Look reads the place again, and the other methods rely on the results of Look.
type Target interface {
	String() string

	// Look returns the state of a release in the place, compared with the release in a mirror. The error matches
	// [sources.ErrNotFound] if the place does not have it.
	Look(ctx context.Context, r Release) (State, error)

	// Check returns an error if the target can't distinguish some of the releases.
	Check(releases []Release) error

	Slot(p sources.Provider) Slot

	// Forget forgets the results of Look for a provider.
	Forget(p sources.Provider)

	// Put stores packages, in place of others for the same platforms, and the evidence, unless that is nil. Readers see the
	// old release or the new one. Sent is called with the bytes of archives that are done; a negative number is sent again.
	Put(ctx context.Context, r Release, sent func(bytes int64)) error

	// Finish lists what Put has stored of a provider.
	Finish(ctx context.Context, p sources.Provider) error

	// Versions returns the versions of a provider that the place has.
	Versions(ctx context.Context, p sources.Provider) ([]sources.Version, error)

	// Rests reports whether interrupted or replaced pushes have left something of a provider.
	Rests(ctx context.Context, p sources.Provider) (bool, error)

	// Remove removes packages, and the rests of their provider.
	Remove(ctx context.Context, p sources.Provider, packages []sources.PackageID) error
}

// Options configure [Push]. The zero Options are ready to use.
type Options struct {
	Replace bool // replace archives that differ
	DryRun  bool

	// Prune reports whether a package of one of the providers may be removed, because the mirror doesn't have it. It is only
	// called for packages that are not to be stored. Nil removes none. After an error, nothing is removed.
	Prune func(sources.PackageID) bool

	Judge  trust.Judge          // decides which evidence is better
	Jobs   int                  // how many releases are compared and stored concurrently; 0 means 8
	Report func(done, of int64) // called with the bytes of archives, one call at a time; may be nil
	Done   func(Change)         // called for each change when it was made, one call at a time; may be nil

	Holder  string                                  // of leases, for other pushers; see [Lease]
	Wait    func(p sources.Provider, holder string) // called when a push waits for the holder of a lease; may be nil
	Abandon time.Duration                           // the age at which a lease that isn't renewed is taken; 0 means a minute
}

// A Change is a package that was stored in a place, or removed from it, or would be.
type Change struct {
	ID   sources.PackageID
	Size int64 // of the archive in bytes; 0 if it was removed
	Did  Did
}

// Did is what happened to a package.
type Did string

// What can happen to a package in a place.
const (
	Added    Did = "added"
	Replaced Did = "replaced"
	Removed  Did = "removed"
	Kept     Did = "kept" // it was in the place already
)

// A Result is what Push has done, or would do.
type Result struct {
	Changes []Change // sorted by package
	Same    []Change // packages that were in the place already, sorted
	Differ  int      // packages that the place has with other contents, and keeps
	Signed  int      // releases that the place had, and whose evidence was stored or replaced
	Bytes   int64    // of the archives that were stored
}

// A DifferError is a package that a place has with other contents.
type DifferError struct {
	Place  string
	Theirs sources.Hash
	Ours   sources.Hash
}

func (e *DifferError) Error() string {
	return fmt.Sprintf("%s has a different archive, %s; the mirror has %s", e.Place, e.Theirs, e.Ours)
}

// A plan is what to change about one release.
type plan struct {
	put    Release  // what to store
	whole  Release  // what the mirror has
	change []Change // what storing it changes
	same   []Change
	signed bool                // whether the place has the release with other evidence or none, and gets the evidence in put
	list   bool                // whether the place has to list it
	drop   []sources.PackageID // what to remove after that
	errs   []error             // why packages can't be stored
	differ int                 // packages that the place has with other contents
}

// stores reports whether the plan adds something.
func (one *plan) stores() bool {
	return len(one.put.Packages) > 0 || one.put.Evidence != nil || one.list
}

// Push stores the packages and the evidence of a mirror that a target lacks. If some packages fail, it stores the others and
// returns all errors. An interrupted Push leaves a valid target, and the next one continues.
func Push(ctx context.Context, to Target, releases []Release, opts Options) (Result, error) {
	if err := to.Check(releases); err != nil {
		return Result{}, err
	}
	p := &pusher{to: to, opts: opts}
	if p.opts.Jobs == 0 {
		p.opts.Jobs = 8
	}
	p.storing = make(chan struct{}, p.opts.Jobs)
	plans, rests := p.plan(ctx, releases)
	if !opts.DryRun && ctx.Err() == nil {
		p.run(ctx, plans, rests)
	}
	for _, one := range plans {
		if opts.DryRun {
			p.stored(one)
			p.removed(one.drop)
		}
		p.errs = append(p.errs, one.errs...)
		p.result.Same = append(p.result.Same, one.same...)
		p.result.Differ += one.differ
	}
	for _, changes := range [][]Change{p.result.Changes, p.result.Same} {
		slices.SortFunc(changes, func(a, b Change) int { return a.ID.Compare(b.ID) })
	}
	for _, c := range p.result.Changes {
		p.result.Bytes += c.Size
	}
	return p.result, errors.Join(append(p.errs, ctx.Err())...)
}

// A pusher is the state of a Push.
type pusher struct {
	to      Target
	opts    Options
	storing chan struct{} // a place for each release that is being stored

	mu         sync.Mutex
	result     Result
	errs       []error
	done, size int64
}

func (p *pusher) failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errs = append(p.errs, err)
}

// each calls f for each item, as many at the same time as the options permit.
func each[T any](p *pusher, ctx context.Context, items []T, f func(T)) {
	var group errgroup.Group
	group.SetLimit(p.opts.Jobs)
	for _, item := range items {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			f(item)
			return nil
		})
	}
	_ = group.Wait()
}

// plan compares releases with the target, and returns which providers have rests. Then it forgets each provider, because
// a place may have many documents.
func (p *pusher) plan(ctx context.Context, releases []Release) (plans []*plan, rests map[sources.Provider]bool) {
	left, has, rests := map[sources.Provider]int{}, map[sources.Release]bool{}, map[sources.Provider]bool{}
	for _, r := range releases {
		plans = append(plans, &plan{whole: r, put: Release{Release: r.Release}})
		left[r.Provider]++
		has[r.Release] = true
	}
	var strays []*plan
	each(p, ctx, plans, func(one *plan) {
		p.compare(ctx, one)
		provider := one.whole.Provider
		p.mu.Lock()
		left[provider]--
		isLast := left[provider] == 0
		p.mu.Unlock()
		if !isLast {
			return
		}
		more, rest := p.stray(ctx, provider, has)
		p.to.Forget(provider)
		p.mu.Lock()
		defer p.mu.Unlock()
		strays, rests[provider] = append(strays, more...), rest
	})
	return append(plans, strays...), rests
}

// compare looks at a release in the target, and plans what to change.
func (p *pusher) compare(ctx context.Context, one *plan) {
	r := one.whole
	*one = plan{whole: r, put: Release{Release: r.Release}}
	there, err := p.to.Look(ctx, r)
	if err != nil && !errors.Is(err, sources.ErrNotFound) {
		one.errs = []error{err}
		return
	}
	one.list = there.Unlisted && len(r.Packages) > 0
	for _, pkg := range r.Packages {
		hash, ok := there.Archives[pkg.ID.Platform]
		switch {
		case !ok:
			one.change = append(one.change, Change{pkg.ID, pkg.Size, Added})
		case hash == pkg.ZH:
			one.same = append(one.same, Change{pkg.ID, pkg.Size, Kept})
			continue
		case p.opts.Replace:
			one.change = append(one.change, Change{pkg.ID, pkg.Size, Replaced})
		default:
			err := &sources.PackageError{ID: pkg.ID, Err: &DifferError{p.to.String(), hash, pkg.ZH}}
			one.errs = append(one.errs, sources.WithHint(err, hintDiffers))
			one.differ++
			continue
		}
		one.put.Packages = append(one.put.Packages, pkg)
	}
	if len(one.put.Packages)+len(one.same) > 0 {
		one.put.Evidence = p.evidence(ctx, r, there, *one)
		one.signed = one.put.Evidence != nil && len(there.Archives) > 0 && !sameFiles(one.put.Evidence, there.Signed)
	}
	for platform := range there.Archives {
		id := sources.PackageID{Provider: r.Provider, Version: r.Version, Platform: platform}
		stays := slices.ContainsFunc(r.Packages, func(pkg Package) bool { return pkg.ID.Platform == platform })
		if !stays && p.opts.Prune != nil && p.opts.Prune(id) {
			one.drop = append(one.drop, id)
		}
	}
}

// stray plans the removal of versions of a provider that the mirror doesn't have, and returns whether the provider has
// rests.
func (p *pusher) stray(
	ctx context.Context, provider sources.Provider, has map[sources.Release]bool,
) (plans []*plan, rests bool) {
	if p.opts.Prune == nil {
		return nil, false
	}
	versions, err := p.to.Versions(ctx, provider)
	for _, v := range versions {
		one := &plan{whole: Release{Release: sources.Release{Provider: provider, Version: v}}}
		if has[one.whole.Release] {
			continue
		}
		p.compare(ctx, one)
		isForeign := func(err error) bool { return errors.Is(err, ErrForeign) } // not a package, so it stays
		one.errs = slices.DeleteFunc(one.errs, isForeign)
		plans = append(plans, one)
	}
	if err == nil {
		rests, err = p.to.Rests(ctx, provider)
	}
	if err != nil && !errors.Is(err, sources.ErrNotFound) {
		p.failed(err)
	}
	return plans, rests
}

// run carries out the plans, provider by provider. It looks at each release again while it holds the lease, because another pusher may
// have had it.
func (p *pusher) run(ctx context.Context, plans []*plan, rests map[sources.Provider]bool) {
	puts, drops := map[sources.Provider][]*plan{}, map[sources.Provider][]*plan{}
	for _, one := range plans {
		if one.stores() {
			puts[one.whole.Provider] = append(puts[one.whole.Provider], one)
		}
		if len(one.drop) > 0 {
			drops[one.whole.Provider] = append(drops[one.whole.Provider], one)
		} else if rests[one.whole.Provider] && drops[one.whole.Provider] == nil {
			drops[one.whole.Provider] = []*plan{}
		}
		for _, pkg := range one.put.Packages {
			p.size += pkg.Size
		}
	}
	p.sent(0)
	each(p, ctx, slices.SortedFunc(maps.Keys(puts), sources.Provider.Compare), func(provider sources.Provider) {
		p.holding(ctx, provider, puts[provider], p.putAll)
	})
	each(p, ctx, slices.SortedFunc(maps.Keys(drops), sources.Provider.Compare), func(provider sources.Provider) {
		if !p.hasFailed(plans) {
			p.holding(ctx, provider, drops[provider], p.dropAll)
		}
	})
}

// holding calls f while it holds the lease of a provider, after it has looked at the releases again.
func (p *pusher) holding(ctx context.Context, provider sources.Provider, plans []*plan, f func(context.Context, sources.Provider, []*plan) error) {
	wait := func(holder string) {
		if p.opts.Wait != nil {
			p.opts.Wait(provider, holder)
		}
	}
	err := Hold(ctx, p.to.Slot(provider), Lease{Holder: p.opts.Holder, Abandon: p.opts.Abandon, Wait: wait}, func(ctx context.Context) error {
		p.to.Forget(provider)
		defer p.to.Forget(provider)
		each(p, ctx, plans, func(one *plan) {
			before := one.bytes()
			p.compare(ctx, one)
			p.mu.Lock()
			p.size += one.bytes() - before
			p.mu.Unlock()
		})
		return f(ctx, provider, plans)
	})
	if err != nil {
		p.failed(err)
	}
}

// bytes returns the size of the archives to store.
func (one *plan) bytes() (sum int64) {
	for _, pkg := range one.put.Packages {
		sum += pkg.Size
	}
	return sum
}

// putAll stores the packages and the evidence of the plans.
func (p *pusher) putAll(ctx context.Context, provider sources.Provider, plans []*plan) error {
	each(p, ctx, plans, func(one *plan) {
		if len(one.put.Packages) == 0 && one.put.Evidence == nil {
			return
		}
		p.storing <- struct{}{}
		err := p.to.Put(ctx, one.put, p.sent)
		if <-p.storing; err != nil {
			p.failed(err)
			return
		}
		p.stored(one)
	})
	return p.to.Finish(ctx, provider)
}

// dropAll removes the packages that the plans drop.
func (p *pusher) dropAll(ctx context.Context, provider sources.Provider, plans []*plan) error {
	var all []sources.PackageID
	for _, one := range plans {
		all = append(all, one.drop...)
	}
	if err := p.to.Remove(ctx, provider, all); err != nil {
		return err
	}
	p.removed(all)
	return nil
}

// stored records that a plan's packages and evidence are stored, or would be.
func (p *pusher) stored(one *plan) {
	p.changed(one.change)
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.signed {
		p.result.Signed++
	}
}

// removed records removals.
func (p *pusher) removed(ids []sources.PackageID) {
	var all []Change
	for _, id := range ids {
		all = append(all, Change{ID: id, Did: Removed})
	}
	p.changed(all)
}

func (p *pusher) changed(changes []Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result.Changes = append(p.result.Changes, changes...)
	if p.opts.Done != nil && !p.opts.DryRun {
		for _, c := range changes {
			p.opts.Done(c)
		}
	}
}

func (p *pusher) hasFailed(plans []*plan) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.errs) > 0 || slices.ContainsFunc(plans, func(one *plan) bool { return len(one.errs) > 0 })
}

const hintDiffers = "find out which one is right; --replace replaces the archive there, which breaks lock files that have the hash of that one"

// sent reports progress.
func (p *pusher) sent(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += bytes
	if p.opts.Report != nil {
		p.opts.Report(p.done, p.size)
	}
}
