// Package publish publishes what a mirror has in a place that other machines reach: an OCI registry, or a bucket with a
// static network mirror.
//
// It compares by checksums, and reads only archives that it uploads. It writes nothing on this machine.
package publish

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/trust"
)

// A Release is what a mirror has of a version.
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

// A Place has providers in archives.
type Place interface {
	String() string

	// Look returns what the place has of a release, and compares it with the release in a mirror. The error matches
	// [sources.ErrNotFound] if it has nothing.
	Look(ctx context.Context, r Release) (State, error)
}

// A State is what a place has of a release.
type State struct {
	Archives map[sources.Platform]sources.Hash
	Signed   *sources.Signed // its evidence; nil if it has none that can be read, or the mirror has none
}

// A Target is a place that can be changed.
type Target interface {
	Place

	// Check returns an error if the target can't distinguish some of the releases.
	Check(releases []Release) error

	// Put stores packages, in place of others for the same platforms, and the evidence, unless that is nil. Readers see the
	// old release or the new one. Sent is called with the bytes of archives that are done; a negative number is sent again.
	Put(ctx context.Context, r Release, sent func(bytes int64)) error

	// Finish returns when all changes last.
	Finish(ctx context.Context) error
}

// A Lister is a Target that can list what it has, and remove it.
type Lister interface {
	Versions(ctx context.Context, p sources.Provider) ([]sources.Version, error)
	Remove(ctx context.Context, r sources.Release, platforms []sources.Platform) error
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
	return fmt.Sprintf("%s has another archive, with the hash %s, and the mirror has %s", e.Place, e.Theirs, e.Ours)
}

// A plan is what to change about one release.
type plan struct {
	put    Release // what to store
	change []Change
	signed bool               // whether the place has the release with other evidence or none, and gets the evidence in put
	drop   []sources.Platform // what to remove after that
}

// removed returns the removals.
func (one plan) removed() (all []Change) {
	for _, platform := range one.drop {
		all = append(all, Change{ID: sources.PackageID{Provider: one.put.Provider, Version: one.put.Version, Platform: platform}, Did: Removed})
	}
	return all
}

// Push stores in a target what it lacks of the releases of a mirror. If some packages fail, it stores the others and returns all
// errors. An interrupted Push leaves a valid target, and the next one continues.
func Push(ctx context.Context, to Target, releases []Release, opts Options) (Result, error) {
	if err := to.Check(releases); err != nil {
		return Result{}, err
	}
	p := &pusher{to: to, opts: opts}
	if p.opts.Jobs == 0 {
		p.opts.Jobs = 8
	}
	plans := p.plan(ctx, releases)
	if opts.Prune != nil && ctx.Err() == nil {
		plans = append(plans, p.stray(ctx, releases)...)
	}
	if opts.DryRun || ctx.Err() != nil {
		for _, one := range plans {
			p.result.Changes = append(p.result.Changes, one.change...)
			p.result.Changes = append(p.result.Changes, one.removed()...)
			if one.signed {
				p.result.Signed++
			}
		}
	} else {
		p.run(ctx, plans)
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
	to   Target
	opts Options

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

// plan compares releases with the target.
func (p *pusher) plan(ctx context.Context, releases []Release) (plans []plan) {
	each(p, ctx, releases, func(r Release) {
		state, err := p.to.Look(ctx, r)
		if err != nil && !errors.Is(err, sources.ErrNotFound) {
			p.failed(err)
			return
		}
		one := p.compare(ctx, r, state)
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(one.put.Packages) > 0 || one.put.Evidence != nil || len(one.drop) > 0 {
			plans = append(plans, one)
		}
	})
	slices.SortFunc(plans, func(a, b plan) int { return a.put.Compare(b.put.Release) })
	return plans
}

// compare plans a release.
func (p *pusher) compare(ctx context.Context, r Release, there State) plan {
	one := plan{put: Release{Release: r.Release}}
	var same []Change
	for _, pkg := range r.Packages {
		hash, ok := there.Archives[pkg.ID.Platform]
		switch {
		case !ok:
			one.change = append(one.change, Change{pkg.ID, pkg.Size, Added})
		case hash == pkg.ZH:
			same = append(same, Change{pkg.ID, pkg.Size, Kept})
			continue
		case p.opts.Replace:
			one.change = append(one.change, Change{pkg.ID, pkg.Size, Replaced})
		default:
			err := &sources.PackageError{ID: pkg.ID, Err: &DifferError{p.to.String(), hash, pkg.ZH}}
			p.failed(sources.WithHint(err, hintDiffers))
			p.mu.Lock()
			p.result.Differ++
			p.mu.Unlock()
			continue
		}
		one.put.Packages = append(one.put.Packages, pkg)
	}
	p.mu.Lock()
	p.result.Same = append(p.result.Same, same...)
	p.mu.Unlock()
	if len(one.put.Packages) > 0 || len(same) > 0 {
		one.put.Evidence = p.evidence(ctx, r, there, one)
		one.signed = one.put.Evidence != nil && len(there.Archives) > 0 && !sameFiles(one.put.Evidence, there.Signed)
	}
	p.prune(&one, r, there)
	return one
}

// prune plans the removal of the packages that a place has of a release, and the mirror doesn't have.
func (p *pusher) prune(one *plan, r Release, there State) {
	for platform := range there.Archives {
		id := sources.PackageID{Provider: r.Provider, Version: r.Version, Platform: platform}
		stays := slices.ContainsFunc(r.Packages, func(pkg Package) bool { return pkg.ID.Platform == platform })
		if !stays && p.opts.Prune != nil && p.opts.Prune(id) {
			one.drop = append(one.drop, platform)
		}
	}
}

// stray plans the removal of versions that the mirror doesn't have.
func (p *pusher) stray(ctx context.Context, releases []Release) (plans []plan) {
	lister, ok := p.to.(Lister)
	if !ok {
		return nil
	}
	has := map[sources.Release]bool{}
	var providers []sources.Provider
	for _, r := range releases {
		has[r.Release] = true
		providers = append(providers, r.Provider)
	}
	slices.SortFunc(providers, sources.Provider.Compare)
	each(p, ctx, slices.Compact(providers), func(provider sources.Provider) {
		versions, err := lister.Versions(ctx, provider)
		if err != nil {
			if !errors.Is(err, sources.ErrNotFound) {
				p.failed(err)
			}
			return
		}
		for _, v := range versions {
			r := sources.Release{Provider: provider, Version: v}
			if has[r] {
				continue
			}
			state, err := p.to.Look(ctx, Release{Release: r})
			if errors.Is(err, ErrForeign) {
				continue // not a package, so it stays
			}
			if err != nil {
				if !errors.Is(err, sources.ErrNotFound) { // otherwise another program has removed it
					p.failed(err)
				}
				continue
			}
			one := plan{put: Release{Release: r}}
			p.prune(&one, one.put, state)
			p.mu.Lock()
			plans = append(plans, one)
			p.mu.Unlock()
		}
	})
	slices.SortFunc(plans, func(a, b plan) int { return a.put.Compare(b.put.Release) })
	return plans
}

// run carries out the plans.
func (p *pusher) run(ctx context.Context, plans []plan) {
	for _, one := range plans {
		for _, pkg := range one.put.Packages {
			p.size += pkg.Size
		}
	}
	p.sent(0)
	each(p, ctx, plans, func(one plan) {
		if len(one.put.Packages) > 0 || one.put.Evidence != nil {
			p.did(one, one.change, p.to.Put(ctx, one.put, p.sent))
		}
	})
	each(p, ctx, plans, func(one plan) {
		if len(one.drop) > 0 && !p.hasFailed() {
			p.did(plan{}, one.removed(), p.to.(Lister).Remove(ctx, one.put.Release, one.drop))
		}
	})
	p.lost(p.to.Finish(ctx))
}

// lost records the errors of packages that were to be stored. Other programs have stored some of them with other contents meanwhile.
func (p *pusher) lost(err error) {
	for _, e := range sources.Errors(err) {
		about, ok := errors.AsType[*sources.PackageError](e)
		if _, differs := errors.AsType[*DifferError](e); !ok || !differs {
			p.failed(e)
			continue
		}
		p.failed(sources.WithHint(e, hintDiffers))
		p.mu.Lock()
		p.result.Differ++
		p.result.Changes = slices.DeleteFunc(p.result.Changes, func(c Change) bool { return c.ID == about.ID })
		p.mu.Unlock()
	}
}

// did records changes of a plan, unless there was an error.
func (p *pusher) did(one plan, changes []Change, err error) {
	if err != nil {
		p.lost(err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result.Changes = append(p.result.Changes, changes...)
	if one.signed {
		p.result.Signed++
	}
	if p.opts.Done != nil {
		for _, c := range changes {
			p.opts.Done(c)
		}
	}
}

func (p *pusher) hasFailed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.errs) > 0
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
