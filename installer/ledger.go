package installer

import (
	"context"
	"errors"
	"slices"

	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

// A Ledger knows what packages hash to, whichever platform they are for, and
// completes lock files with it. It finds out about each package once, for all
// the root modules that it is used for.
type Ledger struct {
	*Installer
	Keep bool // whether the store keeps what had to be fetched for other platforms than ours

	facts sources.Memo[sources.PackageID, fact]
}

// A fact is what a lock file shall say of a package.
type fact struct {
	outcome Outcome
	hashes  []sources.Hash
}

// The ways to know what a package hashes to, besides fetching it.
const (
	Remembered How = "known"                  // from an earlier time
	Stated     How = "stated by the registry" // which alone vouches for it
)

// Lock makes the lock file of root hold the hashes of every package for every
// platform. Nothing is taken out of it, but for a provider whose version is
// chosen anew. Providers fail one by one, as with [Installer.Install].
func (l *Ledger) Lock(ctx context.Context, root Root) (*Result, error) {
	jobs, result, err := l.runAll(ctx, root, l.run)
	if err != nil {
		return result, err
	}
	return result, l.writeLock(root, l.entries(root, jobs), result)
}

// entries keeps those of providers that are not required any more: whether they
// are is for an installation to say.
func (l *Ledger) entries(root Root, jobs []job) []lockfile.Entry {
	all := entries(root, jobs)
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
	var errs []error
	for _, platform := range j.opts.Platforms {
		id := sources.PackageID{Provider: j.req.Provider, Version: j.version, Platform: platform}
		f, err := l.fact(ctx, id)
		if err == nil {
			err = j.checkLocked(id, f)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		j.learned = append(j.learned, f.hashes...)
		j.outcomes = append(j.outcomes, f.outcome)
	}
	return errors.Join(errs...)
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

// checkLocked refuses a package of a version of which other archives are locked.
func (j *job) checkLocked(id sources.PackageID, f fact) error {
	isArchive := func(h sources.Hash) bool { return h.Scheme() == "zh" }
	locked := slices.DeleteFunc(j.lockedHashes(), func(h sources.Hash) bool { return !isArchive(h) })
	if len(locked) == 0 || !slices.ContainsFunc(f.hashes, isArchive) || matchesAny(locked, f.hashes...) {
		return nil
	}
	err := theLockFile.broken(&HashMismatchError{By: theLockFile.by, Want: locked, Got: f.hashes})
	return j.fail(id, f.outcome.Source, err)
}

func (l *Ledger) fact(ctx context.Context, id sources.PackageID) (fact, error) {
	return l.facts.Get(ctx, id, func() (fact, error) {
		j := &job{Installer: l.Installer, req: sources.Requirement{Provider: id.Provider}, version: id.Version}
		outcome, err := l.learn(ctx, j, id)
		outcome.Package.Signed = nil // evidence is large, and has done its work
		return fact{outcome, slices.Compact(slices.Sorted(slices.Values(j.learned)))}, err
	})
}

// learn finds out what a package hashes to: from what is remembered with its
// evidence, else from what a source says of it, else from the package itself.
func (l *Ledger) learn(ctx context.Context, j *job, id sources.PackageID) (Outcome, error) {
	known, err := l.to.Recall(id)
	if err == nil && known.Signed != nil && j.signedEnough(known.Verdict) {
		j.learnKnown(known)
		return Outcome{Package: known, How: Remembered}, nil
	}
	pkg, err := l.from.Package(ctx, id)
	j.warn(id, pkg.Warnings)
	if err != nil {
		return Outcome{}, j.fail(id, "", err)
	}
	report, err := j.vouch(pkg)
	if err == nil {
		err = j.checkPublished(pkg, report)
	}
	if err != nil {
		return Outcome{}, j.fail(id, pkg.Source, err)
	}
	d := j.newDelivery(pkg, report)
	outcome := Outcome{Package: known, How: Remembered, KeyID: report.KeyID, Source: pkg.Source}
	switch {
	case known.H1 != "" && d.accept(ctx, known):
	case pkg.Stated != "" && j.trustOptions().KeysOptional():
		outcome.Package = sources.Stored{ID: id, H1: pkg.Stated, ZH: pkg.Hashes[0], Verdict: report.Verdict}
		outcome.How = Stated
	default:
		return l.measure(ctx, d, outcome)
	}
	j.learn(outcome.Package, d)
	return outcome, nil
}

// measure fetches a package. The store keeps those that this machine can run.
func (l *Ledger) measure(ctx context.Context, d *delivery, outcome Outcome) (Outcome, error) {
	d.measure = !l.Keep && d.pkg.ID.Platform != sources.CurrentPlatform()
	var s sources.Stored
	err := d.inSlot(ctx, d.pkg.ID, func() (err error) {
		s, err = d.putOrAgain(ctx)
		return err
	})
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
