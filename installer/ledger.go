package installer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

// A Ledger knows what packages hash to, whichever platform they are for, and
// completes lock files with it. It finds out about each package once, for all
// the root modules that it is used for, one after another or side by side.
type Ledger struct {
	*Installer
	Keep []sources.Platform // for which the store keeps what had to be fetched

	// Strict fetches packages of other platforms, as far as their signed checksums
	// list them, to identify every h1: hash in a lock file.
	Strict      bool
	DropUnknown bool // leave unknown hashes out of lock files, but for those that are only Maybe

	facts    sources.Memo[factKey, fact]
	kept     sources.Memo[versionKey, signedList]
	recalled sources.Memo[sources.PackageID, sources.Stored]
}

// A factKey tells apart the packages that facts are about.
type factKey struct {
	sources.PackageID
	locked string // the hashes that it must have one of; empty if any will do
}

// A fact is what a lock file shall say of a package.
type fact struct {
	outcome Outcome
	hashes  []sources.Hash
	signed  signedList // zero if the package came without signed checksums
}

// The ways to know what a package hashes to, besides fetching it.
const (
	Remembered How = "known"                  // from an earlier time
	Stated     How = "stated by the registry" // which alone vouches for it
)

// Lock makes the lock file of root hold the hashes of every package for every
// platform. It keeps every hash of a version that stays locked, unless DropUnknown
// is set. Providers fail one by one, as with [Installer.Install]; the Result has
// their unknown hashes in any case.
func (l *Ledger) Lock(ctx context.Context, root Root) (*Result, error) {
	jobs, result, err := l.runAll(ctx, root, l.run)
	for i := range jobs {
		result.Unknown = append(result.Unknown, jobs[i].unknown...)
		result.Examined = append(result.Examined, jobs[i].examined...)
	}
	if err == nil {
		result.Lock.Entries = l.entries(root, jobs)
		result.Lock.Text, result.Lock.Change = root.Lock.Complete(result.Lock.Entries, l.opts.Engine)
		err = writeLock(root, result)
	}
	for i := range result.Unknown {
		result.Unknown[i].Dropped = result.Unknown[i].Dropped && err == nil
	}
	return result, err
}

// entries keeps hashes that nothing is known of, and blocks of providers that are
// not required any more: whether they are is for an installation to say.
func (l *Ledger) entries(root Root, jobs []job) []lockfile.Entry {
	all := entries(root, jobs)
	for i, j := range jobs {
		if j.locked.Version == j.version {
			all[i].Hashes = append(all[i].Hashes, j.locked.Hashes...)
		}
	}
	drop(all, jobs)
	for _, old := range root.Lock.Entries() {
		same := func(e lockfile.Entry) bool { return e.Provider == old.Provider }
		if !slices.ContainsFunc(all, same) {
			all = append(all, old)
		}
	}
	return all
}

func (l *Ledger) run(j *job, ctx context.Context) error {
	if err := l.choose(ctx, j); err != nil {
		return j.missing(ctx, err)
	}
	j.changed = true
	facts, errs := l.findAll(ctx, j)
	for i, platform := range j.opts.Platforms {
		if errs[i] == nil {
			errs[i] = j.checkLocked(facts[i], facts)
		}
		if IsOther(errs[i]) {
			var other fact
			if other, errs[i] = l.lockedFact(ctx, j, j.id(platform), errs[i]); errs[i] == nil {
				facts[i] = other
			}
		}
		if errs[i] == nil {
			j.learned = append(j.learned, facts[i].hashes...)
			j.outcomes = append(j.outcomes, facts[i].outcome)
		}
	}
	err := errors.Join(errs...)
	return errors.Join(err, l.examine(ctx, j, facts, err))
}

// findAll finds out about the packages for all platforms, side by side.
func (l *Ledger) findAll(ctx context.Context, j *job) ([]fact, []error) {
	facts, errs := make([]fact, len(j.opts.Platforms)), make([]error, len(j.opts.Platforms))
	var wg sync.WaitGroup
	for i, platform := range j.opts.Platforms {
		wg.Go(func() { facts[i], errs[i] = l.find(ctx, j, platform) })
	}
	wg.Wait()
	return facts, errs
}

// choose keeps the locked version, whether or not any source has it still.
func (l *Ledger) choose(ctx context.Context, j *job) error {
	if !j.keepsLocked() {
		return j.chooseNewest(ctx)
	}
	j.version = j.locked.Version
	if !j.req.Constraints.Allow(j.version) {
		return j.lockedRefused()
	}
	return nil
}

// checkLocked refuses a package of whose version other archives are locked. It
// may be locked for other platforms alone, if those are among all.
func (j *job) checkLocked(f fact, all []fact) error {
	var locked, accounted []sources.Hash
	for _, h := range j.lockedHashes() {
		if h.Scheme() == sources.ZH {
			locked = append(locked, h)
		}
	}
	for _, other := range all {
		accounted = append(accounted, other.outcome.Package.ZH)
	}
	stranger := func(h sources.Hash) bool { return !slices.Contains(accounted, h) }
	if f.outcome.Package.ZH == "" || matchesAny(locked, f.hashes...) || !slices.ContainsFunc(locked, stranger) {
		return nil
	}
	err := theLockFile.broken(&HashMismatchError{By: theLockFile.by, Want: locked, Got: []sources.Hash{f.outcome.Package.ZH}})
	return j.fail(f.outcome.Package.ID, f.outcome.Source, err)
}

// lockedFact is about the package that the lock file has hashes of, if that is not
// the one that is remembered: then somebody has made up his mind.
func (l *Ledger) lockedFact(ctx context.Context, root *job, id sources.PackageID, refused error) (fact, error) {
	locked := root.lockedHashes()
	if republished, ok := errors.AsType[*RepublishedError](refused); len(locked) == 0 || ok && !matchesAny(locked, republished.Now.Hashes...) {
		return fact{}, refused
	}
	key := factKey{id, fmt.Sprint(slices.Sorted(slices.Values(locked)))}
	return l.fact(ctx, key, func(ctx context.Context, j *job, id sources.PackageID) (Outcome, error) {
		j.locked, j.lockedBy = root.locked, theLockFile
		pkg, report, err := j.ask(ctx, id)
		if err != nil || usable(pkg.Hashes) && !matchesAny(locked, pkg.Hashes...) {
			return Outcome{}, cmp.Or(ctx.Err(), refused)
		}
		return l.learnFrom(ctx, j.newDelivery(pkg, report))
	})
}

// fact finds out about a package, unless that was done before.
func (l *Ledger) fact(ctx context.Context, key factKey, learn func(context.Context, *job, sources.PackageID) (Outcome, error)) (fact, error) {
	return l.facts.Get(ctx, key, func() (fact, error) {
		id := key.PackageID
		j := &job{Installer: l.Installer, req: sources.Requirement{Provider: id.Provider}, version: id.Version}
		l.tell.event(Event{Step: Chosen, Package: id})
		outcome, err := learn(ctx, j, id)
		if err != nil {
			return fact{}, err
		}
		l.tell.event(Event{Step: Settled, Package: id, Source: outcome.Source})
		outcome.Package.Signed = nil // evidence is large, and has done its work
		hashes := sources.SortHashes(j.learned)
		return fact{outcome, hashes, newSignedList(j.sums, id.Provider, id.Version)}, nil
	})
}

// learn finds out what a package hashes to: from what is remembered with its
// evidence, else from what a source says of it, else from the package itself.
func (l *Ledger) learn(ctx context.Context, j *job, id sources.PackageID) (Outcome, error) {
	known, err := l.to.Recall(id)
	if err == nil && vouched(known) && j.proven(known) {
		j.learnKnown(known)
		return Outcome{Package: known, How: Remembered}, nil
	}
	pkg, report, err := j.ask(ctx, id)
	if err != nil {
		return Outcome{}, err
	}
	return l.learnFrom(ctx, j.newDelivery(pkg, report))
}

// learnFrom finds out about a package of which a source has told what it could.
func (l *Ledger) learnFrom(ctx context.Context, d *delivery) (outcome Outcome, err error) {
	err = d.inSlot(ctx, d.pkg.ID, func() error {
		outcome, err = l.prove(ctx, d)
		return err
	})
	return outcome, err
}

// prove proves what the package hashes to. That a registry states it is no reason
// to pass over what is remembered.
func (l *Ledger) prove(ctx context.Context, d *delivery) (Outcome, error) {
	known, err := l.to.Recall(d.pkg.ID)
	outcome := Outcome{Package: known, How: Remembered, KeyID: d.report.KeyID, Source: d.pkg.Source}
	switch {
	case unlessNotFound(err) != nil:
		return outcome, err
	case err == nil && d.accept(ctx, known):
	case err != nil && d.pkg.Stated != "" && d.trustOptions().KeysOptional() && d.signedEnough(d.report.Verdict):
		outcome.Package = sources.Stored{ID: d.pkg.ID, H1: d.pkg.Stated, ZH: d.pkg.Hashes[0], Verdict: d.report.Verdict}
		outcome.How = Stated
	default:
		return l.measure(ctx, d, outcome)
	}
	d.job.learn(outcome.Package, d)
	return outcome, nil
}

// measure fetches a package, unless the store has it after all.
func (l *Ledger) measure(ctx context.Context, d *delivery, outcome Outcome) (Outcome, error) {
	d.measure = !slices.Contains(l.Keep, d.pkg.ID.Platform)
	s, err := d.putOrAgain(ctx)
	if err != nil {
		return outcome, d.fail(d.pkg.ID, d.pkg.Source, err)
	}
	if d.fetched {
		outcome.How = Fetched
		d.tell.event(Event{Step: Stored, Package: d.pkg.ID, Source: d.pkg.Source})
	}
	outcome.Package, outcome.KeyID = s, d.report.KeyID
	d.job.learn(s, d)
	return outcome, nil
}
