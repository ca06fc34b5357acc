package installer

import (
	"context"
	"fmt"

	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// atHand reports whether a locked package can be had without asking a source.
func (j *job) atHand(ctx context.Context, id sources.PackageID) bool {
	if _, ok := j.installed(ctx, id); ok {
		return true
	}
	_, ok := j.inStore(ctx, id)
	return ok
}

// installed is the package in the working directory, if nothing need be done
// about it. Engines insist on its h1: hash, so nothing else is worth hashing.
func (j *job) installed(ctx context.Context, id sources.PackageID) (sources.Stored, bool) {
	locked := j.lockedHashes()
	if !hasContentHash(locked) {
		return sources.Stored{}, false
	}
	s, err := j.stored(ctx, id, func() (sources.Stored, error) { return j.cache.Known(ctx, id, j.target(id)) })
	if err != nil || !matchesAny(locked, s.H1) || !j.proven(s) {
		return s, false
	}
	j.warnOther(s)
	s.Verdict = max(s.Verdict, sources.HashOnly) // that of the lock file
	return s, true
}

// inStore is the package in the store, if the lock file proves it.
func (j *job) inStore(ctx context.Context, id sources.PackageID) (sources.Stored, bool) {
	locked := j.lockedHashes()
	if len(locked) == 0 {
		return sources.Stored{}, false
	}
	s, err := j.stored(ctx, id, func() (sources.Stored, error) { return j.to.Get(ctx, id) })
	if err != nil || !j.satisfies(locked, s) {
		return s, false
	}
	j.warnOther(s)
	s.Verdict = max(s.Verdict, sources.HashOnly) // that of the lock file
	return s, true
}

// warnOther warns of a package that is not the one that was verified here before, and
// that only the lock file accounts for.
func (j *job) warnOther(s sources.Stored) {
	if s.Differs != "" {
		j.warn(s.ID, []string{fmt.Sprintf("its contents are %s, as the lock file has it; those verified here before were %s", s.H1, s.Differs)})
	}
}

// stored is what the store answers, which may have to hash for it.
func (j *job) stored(ctx context.Context, id sources.PackageID, ask func() (sources.Stored, error)) (s sources.Stored, err error) {
	err = j.inSlot(ctx, id, func() error {
		s, err = ask()
		return err
	})
	return s, err
}

// satisfies reports whether a stored package may be used given the hashes that
// the lock file has for it.
func (j *job) satisfies(locked []sources.Hash, s sources.Stored) bool {
	return matchesAny(locked, s.H1, s.ZipH1, s.ZH) && j.proven(s)
}

// proven reports whether a stored package meets the rules for a fetched one: if a
// signature is required, that signed checksums kept with it list its archive under its
// own name. What was concluded when it was stored is not enough: then no signature may
// have been required, and other keys may have been trusted.
func (j *job) proven(s sources.Stored) bool {
	if !j.opts.RequireSigned {
		return true
	}
	if s.Signed == nil || s.ZH == "" {
		return false
	}
	report, err := trust.VerifyArchive(s.Signed, s.ZH, j.trustOptions())
	return err == nil && j.signedEnough(report.Verdict) && report.Signed == s.ID.Filename()
}

func (j *job) signedEnough(v sources.Verdict) bool {
	return !j.opts.RequireSigned || v >= sources.SelfSigned
}

// Fetch sees to it that the store has one package, for no root module. If there
// are hashes of the package as it was before, it must match one of them, else
// the error is a [HashMismatchError]. The error matches [sources.ErrNotFound] if
// no source has the package.
func (in *Installer) Fetch(ctx context.Context, id sources.PackageID, before []sources.Hash) (Outcome, error) {
	j := job{Installer: in, req: sources.Requirement{Provider: id.Provider}, version: id.Version, lockedBy: theOneBefore}
	j.locked = lockfile.Entry{Provider: id.Provider, Version: id.Version, Hashes: before}
	obtain, err := j.find(ctx, id)
	if err != nil {
		return Outcome{}, err
	}
	outcome, err := obtain()
	outcome.Package.Signed = nil // as for those of a root module
	return outcome, err
}

// find finds out where the package is, in the store or else by asking, and
// returns what sees to it that the store has it.
func (j *job) find(ctx context.Context, id sources.PackageID) (obtain func() (Outcome, error), err error) {
	if s, ok := j.inStore(ctx, id); ok {
		j.learnFromCache(s)
		return func() (Outcome, error) { return Outcome{Package: s, How: FromStore}, nil }, nil
	}
	pkg, report, err := j.ask(ctx, id)
	if err != nil {
		return nil, err
	}
	return func() (Outcome, error) { return j.deliver(ctx, pkg, report) }, nil
}

// ask asks where the package is, and checks all that can be checked by then.
func (j *job) ask(ctx context.Context, id sources.PackageID) (sources.Package, trust.Report, error) {
	pkg, err := j.from.Package(ctx, id)
	j.warn(id, pkg.Warnings)
	if err != nil {
		return pkg, trust.Report{}, j.fail(id, "", err)
	}
	report, err := j.vouch(pkg)
	if err == nil {
		err = j.checkPublished(pkg, report)
	}
	if err != nil {
		err = j.fail(id, pkg.Source, err)
	}
	return pkg, report, err
}

// vouch checks the signed checksums of a package before any of it is fetched, as far
// as the source states the archive's checksum: registries do, and most network
// mirrors. What a mirror states only ever refuses a package: its evidence counts once
// the archive is here, see [delivery.checkEvidence].
func (j *job) vouch(pkg sources.Package) (trust.Report, error) {
	switch {
	case pkg.Signed == nil:
		return trust.Report{}, nil
	case pkg.Kind == sources.FromRegistry:
		return trust.Verify(pkg.Signed, pkg.Filename, pkg.Hashes[0], j.trustOptions())
	default:
		_, err := j.vouchStated(pkg)
		return trust.Report{}, err
	}
}

// vouchStated checks a mirror's evidence for the archive that the mirror states: for any
// of them, if it states several. If it states none, the report is empty.
func (j *job) vouchStated(pkg sources.Package) (trust.Report, error) {
	var refused error
	for _, h := range pkg.Hashes {
		if h.Scheme() != sources.ZH {
			continue
		}
		report, err := trust.VerifyCarried(pkg.Signed, h, j.trustOptions())
		if err == nil {
			return report, nil
		}
		refused = fmt.Errorf("checking the evidence that the mirror carries: %w", err)
	}
	return trust.Report{}, refused
}

func (j *job) trustOptions() trust.Options {
	return j.opts.Trust.For(j.opts.Engine, j.req.Provider)
}

// deliver puts the package into the store, unless it has come there meanwhile.
func (j *job) deliver(ctx context.Context, pkg sources.Package, report trust.Report) (Outcome, error) {
	d := j.newDelivery(pkg, report)
	outcome := Outcome{KeyID: report.KeyID, Source: pkg.Source, How: FromStore}
	if j.root.DryRun {
		return d.plan(ctx, outcome)
	}
	s, err := d.putOrAgain(ctx)
	if err != nil {
		return outcome, j.fail(pkg.ID, pkg.Source, err)
	}
	if d.fetched {
		outcome.How, outcome.Size = Fetched, d.size
		j.tell.event(Event{Step: Stored, Package: pkg.ID, Source: pkg.Source})
	}
	outcome.Package, outcome.KeyID = s, d.report.KeyID
	j.learn(s, d)
	return outcome, nil
}
