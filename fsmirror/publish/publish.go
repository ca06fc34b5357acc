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

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/trust"
)

// A Release is a version in a mirror.
type Release struct {
	sources.Release
	Packages []Package       // sorted by platform; at least one
	Signed   *sources.Signed // the evidence; nil if there is none
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

// A Target is a place that can be changed.
type Target interface {
	String() string

	// Check returns an error if the target can't distinguish some of the releases.
	Check(releases []Release) error

	// Slot returns where the lease of a provider is. Who holds it may change what the place has of the provider.
	Slot(p sources.Provider) Slot

	// Open reads what the place has of a provider.
	Open(ctx context.Context, p sources.Provider) (Shelf, error)
}

// A Shelf is what a place has of a provider, as it was when it was opened, with the changes that were made through it.
type Shelf interface {
	// Look returns the state of a release in the place, compared with the release in a mirror. The error matches
	// [sources.ErrNotFound] if the place does not have it. The other methods rely on its results.
	Look(ctx context.Context, r Release) (State, error)

	// Upload stores the archive of a package, unless it is there. Sent is called with the bytes that are done; a negative
	// number is sent again.
	Upload(ctx context.Context, p Package, archive io.ReaderAt, sent func(bytes int64)) error

	// Put stores packages whose archives are there, in place of others for the same platforms, and the evidence, unless
	// that is nil. Readers see the old release or the new one.
	Put(ctx context.Context, r Release) error

	// Finish lists what Put has stored.
	Finish(ctx context.Context) error

	// Present returns the versions that the place has.
	Present(ctx context.Context) ([]sources.Version, error)

	// HasRests reports whether interrupted or replaced pushes have left something, after Look was called for all versions.
	HasRests() bool

	// Remove removes packages, and what pushes have left.
	Remove(ctx context.Context, packages []sources.PackageID) error
}

// Options configure [Push]. The zero Options are ready to use.
type Options struct {
	Replace bool // replace archives that differ
	DryRun  bool

	// Prune reports whether a package of one of the providers may be removed, because the mirror doesn't have it. It is
	// only called for packages that are not to be stored. Nil removes none. After an error about a provider, nothing of it
	// is removed.
	Prune func(sources.PackageID) bool

	Judge  trust.Judge          // decides which evidence is better
	Jobs   int                  // how many releases are compared and stored concurrently; 0 means 8
	Report func(done, of int64) // called with the bytes of archives, one call at a time; may be nil

	Holder string                                  // of leases, for other pushers; see [Hold]
	Wait   func(p sources.Provider, holder string) // called when a push waits for the holder of a lease; may be nil
}

// A Change is a package that was stored in a place, kept there or removed from it, or would be.
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
	Changes []Change // sorted by package, with those that are kept
	Differ  int      // packages that the place has with other contents, and keeps
	Signed  int      // releases that the place had, and whose evidence was stored or replaced
}

// A plan is what to change about one release.
type plan struct {
	put    Release             // what to store
	list   bool                // whether the place has to list it
	drop   []sources.PackageID // what to remove after that
	differ int                 // packages that the place has with other contents
	err    error               // why some packages can't be stored

	changes []Change // what storing it changes, with the packages that are there already
	signed  bool     // whether the place has the release with other evidence or none, and gets the evidence in put
	stored  bool
}

// stores reports whether there is something to store.
func (one plan) stores() bool { return len(one.put.Packages) > 0 || one.put.Signed != nil }

// A job is what to do about a provider.
type job struct {
	provider sources.Provider
	releases []Release // of the mirror
	plans    []plan
	rests    bool // whether the place has something that no version needs
	removed  bool // what the plans drop
	err      error
}

// totals are what the plans of a job say together.
type totals struct {
	err     error // the errors so far
	stores  bool  // whether there is something to store
	removes bool  // whether there is something to remove; after an error, there is nothing
	drops   []sources.PackageID
	bytes   int64 // of the archives to store
}

func (j *job) totals() (all totals) {
	errs := []error{j.err}
	for _, one := range j.plans {
		errs, all.drops = append(errs, one.err), append(all.drops, one.drop...)
		all.stores = all.stores || one.stores() || one.list
		for _, pkg := range one.put.Packages {
			all.bytes += pkg.Size
		}
	}
	all.err = errors.Join(errs...)
	all.removes = all.err == nil && (j.rests || len(all.drops) > 0)
	return all
}

// Push stores the packages and the evidence of a mirror that a target lacks. If some packages fail, it stores the
// others and returns all errors. An interrupted Push leaves a valid target, and the next one continues.
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
	each(p, ctx, all, func(i int) { p.plan(ctx, all[i]) })
	if !opts.DryRun {
		each(p, ctx, all, func(i int) { p.run(ctx, all[i]) })
	}
	var result Result
	errs := []error{}
	for _, j := range all {
		result.add(j, opts.DryRun)
		errs = append(errs, j.totals().err)
	}
	slices.SortFunc(result.Changes, func(a, b Change) int { return a.ID.Compare(b.ID) })
	return result, errors.Join(append(errs, ctx.Err())...)
}

// add adds what a job has done, or would do.
func (r *Result) add(j *job, dry bool) {
	for _, one := range j.plans {
		r.Differ += one.differ
		for _, c := range one.changes {
			if c.Did == Kept || dry || one.stored {
				r.Changes = append(r.Changes, c)
			}
		}
		if one.signed && (dry || one.stored) {
			r.Signed++
		}
		for _, id := range one.drop {
			if dry || j.removed {
				r.Changes = append(r.Changes, Change{ID: id, Did: Removed})
			}
		}
	}
}

// A pusher is the state of a Push.
type pusher struct {
	to    Target
	opts  Options
	slots chan struct{} // one for each release that is being compared or stored, and each archive that is being uploaded

	mu         sync.Mutex
	done, size int64
}

// slot waits for a slot, and returns a function that frees it.
func (p *pusher) slot() (free func()) {
	p.slots <- struct{}{}
	return func() { <-p.slots }
}

// each calls f for the index of each item, as many at the same time as the options permit.
func each[T any](p *pusher, ctx context.Context, items []T, f func(int)) {
	var group errgroup.Group
	group.SetLimit(p.opts.Jobs)
	for i := range items {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			f(i)
			return nil
		})
	}
	_ = group.Wait()
}

// plan compares the releases of a provider with the target, and those that the mirror doesn't have if they may be
// removed.
func (p *pusher) plan(ctx context.Context, j *job) (in Shelf) {
	before := j.totals().bytes
	all := slices.Clone(j.releases)
	j.plans, j.rests = nil, false
	if in, j.err = p.to.Open(ctx, j.provider); j.err != nil {
		return nil
	}
	if p.opts.Prune != nil {
		var versions []sources.Version
		if versions, j.err = in.Present(ctx); errors.Is(j.err, sources.ErrNotFound) {
			j.err = nil
		}
		for _, v := range versions {
			if !slices.ContainsFunc(j.releases, func(r Release) bool { return r.Version == v }) {
				all = append(all, Release{Release: sources.Release{Provider: j.provider, Version: v}})
			}
		}
	}
	j.plans = make([]plan, len(all))
	each(p, ctx, all, func(i int) { j.plans[i] = p.compare(ctx, in, all[i]) })
	j.rests = p.opts.Prune != nil && in.HasRests()
	p.sent(0, j.totals().bytes-before)
	return in
}

// compare looks at a release in the target, and returns what to change.
func (p *pusher) compare(ctx context.Context, in Shelf, r Release) (one plan) {
	defer p.slot()()
	one.put.Release = r.Release
	there, err := in.Look(ctx, r)
	if err != nil && !errors.Is(err, sources.ErrNotFound) {
		if len(r.Packages) > 0 || !errors.Is(err, oci.ErrForeign) { // which is not a package, so it stays
			one.err = err
		}
		return one
	}
	one.list = there.Unlisted && len(r.Packages) > 0
	for _, pkg := range r.Packages {
		did := Added
		switch hash, ok := there.Archives[pkg.ID.Platform]; {
		case !ok:
		case hash == pkg.ZH:
			did = Kept
		case p.opts.Replace:
			did = Replaced
		default:
			err := fmt.Errorf("%s has a different archive, %s; the mirror has %s", p.to, hash, pkg.ZH)
			err = &sources.PackageError{ID: pkg.ID, Err: err}
			one.err = errors.Join(one.err, sources.WithHint(err, hintDiffers))
			one.differ++
			continue
		}
		one.changes = append(one.changes, Change{pkg.ID, pkg.Size, did})
		if did != Kept {
			one.put.Packages = append(one.put.Packages, pkg)
		}
	}
	if len(one.changes) > 0 {
		one.put.Signed = p.evidence(ctx, r, there, one)
		one.signed = one.put.Signed != nil && len(there.Archives) > 0 && !equal(one.put.Signed, there.Signed)
	}
	for platform := range there.Archives {
		id := sources.PackageID{Provider: r.Provider, Version: r.Version, Platform: platform}
		stays := slices.ContainsFunc(r.Packages, func(pkg Package) bool { return pkg.ID.Platform == platform })
		if !stays && p.opts.Prune != nil && p.opts.Prune(id) {
			one.drop = append(one.drop, id)
		}
	}
	return one
}

// run does a job while it holds the lease of the provider. It plans again, because another pusher may have had the
// lease.
func (p *pusher) run(ctx context.Context, j *job) {
	if all := j.totals(); !all.stores && !all.removes {
		return
	}
	wait := func(holder string) {
		if p.opts.Wait != nil {
			p.opts.Wait(j.provider, holder)
		}
	}
	err := Hold(ctx, p.to.Slot(j.provider), p.opts.Holder, wait, func(ctx context.Context) error {
		in := p.plan(ctx, j)
		if j.totals().stores {
			each(p, ctx, j.plans, func(i int) { p.put(ctx, in, &j.plans[i]) })
			if err := in.Finish(ctx); err != nil {
				return err
			}
		}
		if all := j.totals(); all.removes && ctx.Err() == nil {
			if err := in.Remove(ctx, all.drops); err != nil {
				return err
			}
			j.removed = true
		}
		return nil
	})
	j.err = errors.Join(j.err, err)
}

// put stores the packages and the evidence of a release.
func (p *pusher) put(ctx context.Context, in Shelf, one *plan) {
	if !one.stores() {
		return
	}
	var uploads errgroup.Group // after an error, the others continue, as the next push needs them too
	for _, pkg := range one.put.Packages {
		uploads.Go(func() error { return sources.InPackage(pkg.ID, p.upload(ctx, in, pkg)) })
	}
	err := uploads.Wait()
	defer p.slot()()
	if err == nil {
		err = in.Put(ctx, one.put)
	}
	one.stored = err == nil
	one.err = errors.Join(one.err, err)
}

// upload stores the archive of a package. The place refuses one with another checksum.
func (p *pusher) upload(ctx context.Context, in Shelf, pkg Package) error {
	defer p.slot()()
	archive, info, err := disk.OpenFile(pkg.Path)
	if err != nil {
		return err
	}
	defer archive.Close()
	if info.Size() != pkg.Size {
		return sources.WithHint(errors.New("not uploaded: the archive has changed since the mirror was read"), "push again")
	}
	return in.Upload(ctx, pkg, archive, func(bytes int64) { p.sent(bytes, 0) })
}

const hintDiffers = "find out which one is right; " +
	"--replace replaces the archive there, which breaks lock files that have the hash of that one"

// sent reports progress: bytes that were sent, and bytes that are still to be sent.
func (p *pusher) sent(bytes, more int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.size = p.done+bytes, p.size+more
	if p.opts.Report != nil && !p.opts.DryRun {
		p.opts.Report(p.done, p.size)
	}
}
