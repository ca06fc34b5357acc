package installer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// A Locker determines the hashes of packages for all platforms, and completes lock
// files with them. It examines each package once for all root modules, which may be
// locked sequentially or concurrently.
type Locker struct {
	*Installer
	Keep []sources.Platform // platforms for which the store keeps fetched packages

	// Strict also reports an h1: hash as unknown if only a package for a platform that was
	// not requested could have it, and the store has recorded none.
	Strict bool

	facts sources.Memo[factKey, fact]
	kept  sources.Memo[sources.Release, trust.Sums]
}

// A factKey identifies the package of a fact.
type factKey struct {
	sources.PackageID
	locked string // the locked hashes; the package must match one of them, if there are any
}

// A fact holds a package's data for the lock file.
type fact struct {
	outcome Outcome
	hashes  []sources.Hash
	others  []sources.Hash // hashes that its source states for other platforms
	signed  trust.Sums     // empty if the package has no signed checksums
}

// fact returns the fact for the package of a job, whose data it has learned.
func (j *job) fact(o Outcome) fact {
	o.Package.Trim()
	return fact{o, sources.SortHashes(j.learned), j.others, j.sums}
}

// The origins of a package's hashes, besides fetching it.
const (
	Remembered How = "known"                  // recorded earlier
	Stated     How = "stated by the registry" // the registry is the only origin
)

// Lock completes the lock file of root with the hashes of every package for every
// platform. It keeps all hashes of a version that stays locked. Providers fail separately,
// as in [Installer.Install]. The Result has their unknown hashes in any case, and in a dry
// run the changes for the others.
func (l *Locker) Lock(ctx context.Context, root Root) (*Result, error) {
	workdir := l.cache.Workdir(root.Dir, filepath.Join(root.DataDir, "providers"))
	defer func() { _ = workdir.Close() }() // nothing is linked
	jobs, result, err := l.runAll(ctx, root, workdir, func(j *job, ctx context.Context) error {
		err := l.run(j, ctx)
		j.failed = err != nil
		return err
	})
	for i := range jobs {
		result.Unknown = append(result.Unknown, jobs[i].unknown...)
	}
	if err == nil || root.DryRun {
		jobs = slices.DeleteFunc(jobs, func(j job) bool { return j.failed }) // their entries stay
		result.Lock.Entries = l.entries(root, jobs)
		result.Lock.Text, result.Lock.Change = root.Lock.Complete(result.Lock.Entries, l.engine)
		err = cmp.Or(err, writeLock(root, result))
	}
	return result, err
}

// entries keeps unknown hashes, and the entries of providers that are no longer required:
// only an installation removes those.
func (l *Locker) entries(root Root, jobs []job) []lockfile.Entry {
	all := entries(root, jobs) // those of the jobs are first
	for i, j := range jobs {
		if j.locked.Version == j.version {
			all[i].Hashes = append(all[i].Hashes, j.locked.Hashes...)
		}
	}
	required := map[sources.Provider]bool{}
	for _, e := range all {
		required[e.Provider] = true
	}
	known := func(e lockfile.Entry) bool { return required[e.Provider] }
	return append(all, slices.DeleteFunc(root.Lock.Entries(), known)...)
}

func (l *Locker) run(j *job, ctx context.Context) error {
	j.toLock = true
	if err := j.choose(ctx); err != nil {
		return j.missing(err)
	}
	j.changed = true
	kept := l.keptPlatforms(ctx, j)
	platforms := slices.Concat(j.opts.Platforms, kept)
	facts := make([]fact, len(platforms))
	errs := concurrently(manyAtOnce, platforms, func(i int, platform sources.Platform) (err error) {
		facts[i], err = l.about(ctx, j, platform)
		return err
	})
	for i, platform := range platforms {
		if slices.Contains(kept, platform) && j.losesPlatform(platform, errs[i]) {
			errs[i] = nil
			continue
		}
		if errs[i] == nil {
			errs[i] = l.checkLocked(ctx, j, facts[i], facts)
		}
		if acquire.IsOther(errs[i]) {
			var other fact
			other, errs[i] = l.lockedFact(ctx, j, j.id(platform), errs[i])
			if same := other.outcome.Package.H1 == facts[i].outcome.Package.H1; errs[i] == nil && !same {
				facts[i] = other // the other fact about the same package has more data
			}
		}
		if errs[i] == nil {
			j.learned = append(j.learned, facts[i].hashes...)
			j.outcomes = append(j.outcomes, facts[i].outcome)
		}
	}
	err := errors.Join(errs...)
	if errors.Is(err, sources.ErrNotFound) && j.locked.Version == j.version {
		if listing, listErr := j.versions(ctx); listErr == nil && !slices.Contains(listing.Versions, j.version) {
			err = j.gone(ctx, listing)
		}
	}
	if err == nil {
		j.warnUnsigned()
	}
	l.examine(ctx, j, facts, err != nil)
	return err
}

// about determines the fact for one platform.
func (l *Locker) about(ctx context.Context, j *job, platform sources.Platform) (fact, error) {
	id := j.id(platform)
	if held := j.looked[platform]; j.offline && held.suffices() {
		here := l.jobFor(id, nil)
		here.learnKnown(held.held)
		return here.fact(Outcome{Package: held.held, How: Remembered, Offline: true}), nil
	}
	f, err := l.fact(ctx, id, nil, nil)
	if errors.Is(err, sources.ErrOffline) {
		_, unknown := l.into.Recall(id)
		missing := &MissingError{Requirement: j.req, Version: j.version, Platform: platform, Err: err}
		missing.Hashed = unknown == nil
		err = j.requiredBy(missing)
	}
	return f, err
}

// checkLocked refuses an unlocked package if the locked hashes are not those of packages for other platforms. Archives
// for other platforms are known by their zh: hashes. Without these, each unchecked platform may have an h1: hash.
func (l *Locker) checkLocked(ctx context.Context, j *job, f fact, all []fact) error {
	pkg, locked := f.outcome.Package, j.lockedHashes()
	if len(locked) == 0 || sources.MatchesAny(locked, append(pkg.Hashes(), f.hashes...)...) {
		return nil
	}
	known := slices.Clone(f.others)
	for _, other := range all {
		known = append(known, other.outcome.Package.Hashes()...)
	}
	archives := sources.HashesOf(sources.ZH, locked)
	by, got := acquire.TheLockFile, []sources.Hash{pkg.ZH}
	switch {
	case len(archives) == 0:
		rest := slices.Compact(sources.SortHashes(sources.Without(slices.Clone(locked), known...)))
		if others, ok := l.unchecked(ctx, j, all); !ok || len(rest) <= others || j.acquirer.OfOthers(pkg.ID, locked, known) {
			return nil
		}
		by, archives, got = acquire.TheCompleteLockFile, locked, []sources.Hash{pkg.H1}
	case pkg.ZH == "" || j.acquirer.OfOthers(pkg.ID, locked, known):
		return nil
	}
	err := l.acquirer.Refuse(by, pkg.ID, archives, got...)
	return &sources.PackageError{ID: pkg.ID, Source: f.outcome.Source, Err: err}
}

// unchecked returns how many platforms without a fact the version of the job has, if its only source lists them.
func (l *Locker) unchecked(ctx context.Context, j *job, facts []fact) (n int, ok bool) {
	listing, err := l.from.Versions(ctx, j.req.Provider)
	detail := listing.Details[j.version]
	if detailer, can := l.from.(sources.Detailer); err == nil && can && detail.Platforms == nil {
		detail, err = detailer.Detail(ctx, j.id(sources.Platform{}).Release())
	}
	for _, p := range detail.Platforms {
		if !slices.ContainsFunc(facts, func(f fact) bool { return f.outcome.Package.ID.Platform == p }) {
			n++
		}
	}
	return n, err == nil && detail.Platforms != nil && len(listing.From) == 1
}

// lockedFact returns the fact for the package that the lock file has hashes of, if it
// differs from the recorded one: then a user has decided to use it.
func (l *Locker) lockedFact(ctx context.Context, root *job, id sources.PackageID, refused error) (fact, error) {
	locked := root.lockedHashes()
	republished, ok := errors.AsType[*acquire.RepublishedError](refused)
	if len(locked) == 0 || ok && !sources.MatchesAny(locked, republished.Now.Hashes...) {
		return fact{}, refused
	}
	f, err := l.fact(ctx, id, locked, refused)
	if mismatch := (*acquire.HashMismatchError)(nil); errors.As(err, &mismatch) && errors.As(refused, &mismatch) {
		err = refused // its hint suits the lock file
	}
	return f, err
}

// fact determines the fact for a package, unless that has been done before. If other
// packages were refused, one that the source doesn't state as locked is refused too.
func (l *Locker) fact(ctx context.Context, id sources.PackageID, locked []sources.Hash, refused error) (fact, error) {
	key := factKey{id, fmt.Sprint(slices.Sorted(slices.Values(locked)))}
	return l.facts.Get(ctx, key, func() (fact, error) {
		j := l.jobFor(id, locked)
		l.acquirer.Report(acquire.Event{Step: acquire.Chosen, Package: id})
		outcome, err := l.find(ctx, j, id, refused)
		if err != nil {
			return fact{}, err
		}
		l.acquirer.Report(acquire.Event{Step: acquire.Settled, Package: id, Source: outcome.Source})
		return j.fact(outcome), nil
	})
}

// find finds the hashes of a package. It uses the first of these that is available:
// the recorded hashes with evidence, unless a registry can be queried whose other
// hashes count too; the recorded hashes, if a source now offers them; the hashes that
// the registry states, where these are sufficient; the hashes of the package in the
// store, if a source offers it and none is kept; those of the package itself, which is
// fetched. Recorded hashes take precedence over those that a registry
// states.
func (l *Locker) find(ctx context.Context, j *job, id sources.PackageID, refused error) (Outcome, error) {
	known, err := l.into.Recall(id)
	if err := acquire.UnlessNotFound(err); err != nil {
		return Outcome{}, err
	}
	suffices := known.H1 != "" && len(j.locked.Hashes) == 0 && hasEvidence(known) && j.acquirer.Proven(known)
	fromRecord := func() (Outcome, error) {
		j.learnKnown(known)
		return Outcome{Package: known, How: Remembered}, nil
	}
	if suffices && !j.opts.Judge.KeysOptional(id.Provider) {
		return fromRecord()
	}
	var slot acquire.Slot
	defer slot.Leave()
	req := j.request(id, &slot)
	offer, err := l.acquirer.Ask(ctx, req)
	if suffices && err != nil && ctx.Err() == nil {
		return fromRecord()
	}
	locked := j.locked.Hashes
	if refused != nil && (err != nil || sources.AnyUsable(offer.Hashes) && !sources.MatchesAny(locked, offer.Hashes...)) {
		err = cmp.Or(ctx.Err(), refused)
	}
	if err != nil {
		return Outcome{}, err
	}
	j.others = acquire.StatedForOthers(offer.Package)
	if _, err := j.acquirer.CheckRelease(req, offer, known); err != nil {
		return Outcome{}, err
	}
	if err := j.acquirer.Enter(ctx, req); err != nil {
		return Outcome{}, err
	}
	return l.findOffered(ctx, j, req, offer, known)
}

// findOffered is find for a package that a source offers. known is its record, without H1 if there is none.
func (l *Locker) findOffered(
	ctx context.Context, j *job, req acquire.Request, offer acquire.Offer, known sources.Stored,
) (Outcome, error) {
	id, recorded := req.ID, known.H1 != ""
	res := acquire.Result{Offer: offer, Offered: offer.Verified.Proof}
	how := Remembered
	var held sources.Stored
	if !recorded && len(l.Keep) == 0 { // the cache may have an unverified package, whose hashes are not recorded
		held = l.stored(ctx, id)
	}
	var err error
	switch {
	case recorded && j.acquirer.Suffices(ctx, req, offer, known):
		res.Package = known
	case !recorded && offer.Stated != "" && j.opts.Judge.KeysOptional(id.Provider) &&
		l.opts.Judge.Check(id, offer.Verified.Report) == nil:
		by := offer.Verified
		res.Package = sources.Stored{ID: id, H1: offer.Stated, ZH: offer.Hashes[0], Proof: by.Proof, Report: by.Report}
		how = Stated
	case j.acquirer.Suffices(ctx, req, offer, held):
		res.Package = held
	default:
		if !slices.Contains(l.Keep, id.Platform) {
			req.Purpose = sources.ToHash
		}
		if res, err = l.acquirer.Take(ctx, req, offer); err != nil {
			return Outcome{}, err
		}
	}
	outcome := j.outcome(res)
	if !res.Fetched {
		outcome.How = how
	}
	return outcome, nil
}
