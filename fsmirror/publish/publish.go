// Package publish publishes what a mirror has in a place that other machines reach: an OCI registry, or a bucket with a
// static network mirror.
//
// It compares by checksums, and reads only archives that it uploads. It writes nothing on this machine.
package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
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

	// Forget forgets what was read of a provider.
	Forget(p sources.Provider)

	// Upload stores the archive of a package, unless it is there. Sent is called with the bytes that are done; a negative
	// number is sent again.
	Upload(ctx context.Context, p Package, archive io.ReaderAt, sent func(bytes int64)) error

	// Put stores packages whose archives are there, in place of others for the same platforms, and the evidence, unless
	// that is nil. Readers see the old release or the new one.
	Put(ctx context.Context, r Release) error

	// Finish lists what Put has stored of a provider.
	Finish(ctx context.Context, p sources.Provider) error

	// Present returns the versions of a provider that the place has, and whether interrupted or replaced pushes have left
	// something of it.
	Present(ctx context.Context, p sources.Provider) (versions []sources.Version, rests bool, err error)

	// Remove removes packages, and the rests of their provider.
	Remove(ctx context.Context, p sources.Provider, packages []sources.PackageID) error
}

// Options configure [Push]. The zero Options are ready to use.
type Options struct {
	Replace bool // replace archives that differ
	DryRun  bool

	// Prune reports whether a package of one of the providers may be removed, because the mirror doesn't have it. It is only
	// called for packages that are not to be stored. Nil removes none. After an error about a provider, nothing of it is
	// removed.
	Prune func(sources.PackageID) bool

	Judge  trust.Judge          // decides which evidence is better
	Jobs   int                  // how many releases are compared and stored concurrently; 0 means 8
	Report func(done, of int64) // called with the bytes of archives, one call at a time; may be nil

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
	change []Change // what storing it changes
	same   []Change
	signed bool                // whether the place has the release with other evidence or none, and gets the evidence in put
	list   bool                // whether the place has to list it
	drop   []sources.PackageID // what to remove after that
	differ int                 // packages that the place has with other contents
}

// A job is what to do about a provider.
type job struct {
	provider sources.Provider
	releases []Release // of the mirror

	mu    sync.Mutex
	plans []plan
	rests bool // whether the place has something that no version needs
	errs  []error
}

// add adds a plan, and an error unless it is nil.
func (j *job) add(one plan, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.plans = append(j.plans, one); err != nil {
		j.errs = append(j.errs, err)
	}
}

// drops returns what to remove.
func (j *job) drops() (all []sources.PackageID) {
	for _, one := range j.plans {
		all = append(all, one.drop...)
	}
	return all
}

// stores reports whether there is something to store.
func (j *job) stores() bool {
	return slices.ContainsFunc(j.plans, func(one plan) bool {
		return len(one.put.Packages) > 0 || one.put.Evidence != nil || one.list
	})
}

// bytes returns the size of the archives to store.
func (j *job) bytes() (sum int64) {
	for _, one := range j.plans {
		for _, pkg := range one.put.Packages {
			sum += pkg.Size
		}
	}
	return sum
}

// Push stores the packages and the evidence of a mirror that a target lacks. If some packages fail, it stores the others and
// returns all errors. An interrupted Push leaves a valid target, and the next one continues.
func Push(ctx context.Context, to Target, releases []Release, opts Options) (Result, error) {
	if err := to.Check(releases); err != nil {
		return Result{}, err
	}
	opts.Jobs = cmp.Or(opts.Jobs, 8)
	p := &pusher{to: to, opts: opts, slots: make(chan struct{}, opts.Jobs)}
	jobs := map[sources.Provider]*job{}
	for _, r := range releases {
		if jobs[r.Provider] == nil {
			jobs[r.Provider] = &job{provider: r.Provider}
		}
		jobs[r.Provider].releases = append(jobs[r.Provider].releases, r)
	}
	all := slices.SortedFunc(maps.Values(jobs), func(a, b *job) int { return a.provider.Compare(b.provider) })
	each(p, ctx, all, func(j *job) {
		p.plan(ctx, j)
		p.to.Forget(j.provider) // a place may have many documents
	})
	for _, j := range all {
		p.size += j.bytes()
	}
	if !opts.DryRun {
		p.sent(0)
		each(p, ctx, all, func(j *job) { p.run(ctx, j) })
	}
	var errs []error
	for _, j := range all {
		for _, one := range j.plans {
			if opts.DryRun {
				p.stored(one)
			}
			p.result.Same = append(p.result.Same, one.same...)
			p.result.Differ += one.differ
		}
		if opts.DryRun {
			p.removed(j.drops())
		}
		errs = append(errs, j.errs...)
	}
	for _, changes := range [][]Change{p.result.Changes, p.result.Same} {
		slices.SortFunc(changes, func(a, b Change) int { return a.ID.Compare(b.ID) })
	}
	for _, c := range p.result.Changes {
		p.result.Bytes += c.Size
	}
	return p.result, errors.Join(append(errs, ctx.Err())...)
}

// A pusher is the state of a Push.
type pusher struct {
	to    Target
	opts  Options
	slots chan struct{} // one for each release that is being compared or stored, and each archive that is being uploaded

	mu         sync.Mutex
	result     Result
	done, size int64
}

// slot waits for a slot, and returns a function that frees it.
func (p *pusher) slot() (free func()) {
	p.slots <- struct{}{}
	return func() { <-p.slots }
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

// plan compares the releases of a provider with the target, and those that the mirror doesn't have if they may be removed.
func (p *pusher) plan(ctx context.Context, j *job) {
	j.plans, j.errs, j.rests = nil, nil, false
	each(p, ctx, j.releases, func(r Release) { j.add(p.compare(ctx, r)) })
	if p.opts.Prune == nil {
		return
	}
	versions, rests, err := p.to.Present(ctx, j.provider)
	if err != nil && !errors.Is(err, sources.ErrNotFound) {
		j.errs = append(j.errs, err)
	}
	j.rests = rests
	versions = slices.DeleteFunc(versions, func(v sources.Version) bool {
		return slices.ContainsFunc(j.releases, func(r Release) bool { return r.Version == v })
	})
	each(p, ctx, versions, func(v sources.Version) {
		one, err := p.compare(ctx, Release{Release: sources.Release{Provider: j.provider, Version: v}})
		if !errors.Is(err, ErrForeign) { // which is not a package, so it stays
			j.add(one, err)
		}
	})
}

// compare looks at a release in the target, and returns what to change. The error joins those of packages that can't be
// stored.
func (p *pusher) compare(ctx context.Context, r Release) (one plan, err error) {
	defer p.slot()()
	one.put.Release = r.Release
	there, err := p.to.Look(ctx, r)
	if err != nil && !errors.Is(err, sources.ErrNotFound) {
		return one, err
	}
	var errs []error
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
			errs = append(errs, sources.WithHint(err, hintDiffers))
			one.differ++
			continue
		}
		one.put.Packages = append(one.put.Packages, pkg)
	}
	if len(one.put.Packages)+len(one.same) > 0 {
		one.put.Evidence = p.evidence(ctx, r, there, one)
		one.signed = one.put.Evidence != nil && len(there.Archives) > 0 && !sameFiles(one.put.Evidence, there.Signed)
	}
	for platform := range there.Archives {
		id := sources.PackageID{Provider: r.Provider, Version: r.Version, Platform: platform}
		stays := slices.ContainsFunc(r.Packages, func(pkg Package) bool { return pkg.ID.Platform == platform })
		if !stays && p.opts.Prune != nil && p.opts.Prune(id) {
			one.drop = append(one.drop, id)
		}
	}
	return one, errors.Join(errs...)
}

// run does a job while it holds the lease of the provider. It plans again, because another pusher may have had the lease.
func (p *pusher) run(ctx context.Context, j *job) {
	if !j.stores() && (len(j.errs) > 0 || len(j.drops()) == 0 && !j.rests) {
		return
	}
	lease := Lease{Holder: p.opts.Holder, Abandon: p.opts.Abandon, Wait: func(holder string) {
		if p.opts.Wait != nil {
			p.opts.Wait(j.provider, holder)
		}
	}}
	err := Hold(ctx, p.to.Slot(j.provider), lease, func(ctx context.Context) error {
		before := j.bytes()
		p.to.Forget(j.provider)
		defer p.to.Forget(j.provider)
		p.plan(ctx, j)
		p.mu.Lock()
		p.size += j.bytes() - before
		p.mu.Unlock()
		if err := p.put(ctx, j); err != nil || len(j.errs) > 0 || ctx.Err() != nil {
			return err
		}
		drops := j.drops()
		if len(drops) == 0 && !j.rests {
			return nil
		}
		err := p.to.Remove(ctx, j.provider, drops)
		if err == nil {
			p.removed(drops)
		}
		return err
	})
	if err != nil {
		j.errs = append(j.errs, err)
	}
}

// put stores the packages and the evidence of a job.
func (p *pusher) put(ctx context.Context, j *job) error {
	if !j.stores() {
		return nil
	}
	each(p, ctx, slices.Clone(j.plans), func(one plan) {
		if len(one.put.Packages) == 0 && one.put.Evidence == nil {
			return
		}
		var uploads errgroup.Group // after an error, the others continue, as the next push needs them too
		for _, pkg := range one.put.Packages {
			uploads.Go(func() error { return sources.InPackage(pkg.ID, p.upload(ctx, pkg)) })
		}
		err := uploads.Wait()
		defer p.slot()()
		if err == nil {
			err = p.to.Put(ctx, one.put)
		}
		if err != nil {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.errs = append(j.errs, err)
			return
		}
		p.stored(one)
	})
	return p.to.Finish(ctx, j.provider)
}

// upload stores the archive of a package. The place refuses one with another checksum.
func (p *pusher) upload(ctx context.Context, pkg Package) error {
	defer p.slot()()
	archive, info, err := disk.OpenFile(pkg.Path)
	if err != nil {
		return err
	}
	defer archive.Close()
	if info.Size() != pkg.Size {
		return sources.WithHint(errors.New("not uploaded: the archive has changed since the mirror was read"), "push again")
	}
	return p.to.Upload(ctx, pkg, archive, p.sent)
}

// stored records that a plan's packages and evidence are stored, or would be.
func (p *pusher) stored(one plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result.Changes = append(p.result.Changes, one.change...)
	if one.signed {
		p.result.Signed++
	}
}

// removed records removals.
func (p *pusher) removed(ids []sources.PackageID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		p.result.Changes = append(p.result.Changes, Change{ID: id, Did: Removed})
	}
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
