package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// A job is the work on one provider for one root module.
type job struct {
	*Installer
	root    Root
	workdir sources.Workdir // of root; nil if nothing is installed there
	req     sources.Requirement
	locked  lockfile.Entry // zero if the lock file has no entry, or if it is ignored

	version  sources.Version
	looked   map[sources.Platform]look
	learned  []sources.Hash // hashes to add to the lock file
	others   []sources.Hash // hashes that the source states for other platforms; for a Locker
	sums     trust.Sums     // signed checksums of the package; empty if there are none
	changed  bool           // whether the lock file's entry may have to change
	outcomes []Outcome

	offline bool        // the version was chosen because it is on this machine
	behind  bool        // a source lists a newer release
	toLock  bool        // for a Locker: recorded hashes of other platforms are as good as packages
	unfit   []unfit     // versions on this machine that were not chosen, the newest first
	passed  []Candidate // versions that only the policy excludes, the newest first

	failed  bool          // for a Locker
	unknown []UnknownHash // see Locker.examine
}

func (in *Installer) newJob(root Root, req sources.Requirement, workdir sources.Workdir) job {
	j := job{Installer: in, root: root, req: req, looked: map[sources.Platform]look{}}
	j.locked, _ = root.Lock.Entry(req.Provider)
	if !root.Elsewhere {
		j.workdir = workdir
	}
	return j
}

// id returns the package ID of the chosen version for a platform.
func (j *job) id(platform sources.Platform) sources.PackageID {
	return sources.PackageID{Provider: j.req.Provider, Version: j.version, Platform: platform}
}

func (j *job) request(id sources.PackageID, slot *acquire.Slot) acquire.Request {
	return acquire.Request{ID: id, Locked: j.lockedHashes(), By: acquire.TheLockFile, DryRun: j.root.DryRun, Slot: slot}
}

// run installs the provider. If it requires the network under --offline, the error
// names each missing package.
func (j *job) run(ctx context.Context) error { return j.missing(j.tryRun(ctx)) }

// tryRun chooses a version and installs its packages, one for each platform. The
// error joins the errors of all platforms.
func (j *job) tryRun(ctx context.Context) error {
	if err := j.choose(ctx); err != nil {
		return err
	}
	var errs []error
	for _, platform := range j.opts.Platforms {
		id := j.id(platform)
		j.acquirer.Report(acquire.Event{Step: acquire.Chosen, Package: id})
		outcome, err := j.install(ctx, id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		outcome.Package.Trim()
		j.outcomes = append(j.outcomes, outcome)
		j.acquirer.Report(acquire.Event{Step: acquire.Installed, Package: id, Source: outcome.Source})
	}
	return errors.Join(errs...)
}

// choose chooses the version: the locked one if the constraints allow it, else the
// newest acceptable one.
func (j *job) choose(ctx context.Context) error {
	if err := j.checkProvider(); err != nil {
		return err
	}
	if j.locked.Version == (sources.Version{}) || j.opts.Upgrade && !j.req.Fixed() {
		return j.chooseNewest(ctx)
	}
	j.version = j.locked.Version
	if !j.req.AllowsLocked(j.version) {
		return j.lockConflict(LockConflictError{})
	}
	if err := j.checkLockedVersion(ctx); err != nil || j.toLock { // to lock, even if no source has it any more
		return err
	}
	return j.checkOffered(ctx)
}

func (j *job) chooseNewest(ctx context.Context) error {
	listing, err := j.versions(ctx)
	if errors.Is(err, sources.ErrOffline) {
		return j.chooseHere(ctx, listing, err)
	}
	if err != nil {
		return err
	}
	newest, err := j.newest(ctx, listing, 1)
	if err != nil {
		return err
	}
	j.version = newest[0]
	j.compare(listing)
	j.reportPassed()
	return j.keepLocked()
}

// compare notes whether a listing has a newer release than the chosen version that was not skipped.
func (j *job) compare(listing sources.Listing) {
	j.behind = len(j.passed) == 0 && slices.ContainsFunc(listing.Versions, func(v sources.Version) bool {
		return !v.Prerelease() && v.Compare(j.version) > 0
	})
}

// newest returns the newest versions of a listing that constraints and policy allow, at most n.
func (j *job) newest(ctx context.Context, listing sources.Listing, n int) ([]sources.Version, error) {
	allowed, excluded, err := j.rules().Admitted(ctx, listing)
	switch {
	case err != nil:
		return nil, err
	case len(allowed) == 0 && len(excluded) > 0:
		return nil, j.ofProvider(&ExcludedError{Version: excluded[0].Version, Err: excluded[0].Excluded.With()})
	case len(allowed) == 0:
		return nil, j.noneAllowed(listing)
	}
	allowed = allowed[:min(len(allowed), n)]
	for _, c := range excluded {
		if c.Version.Compare(allowed[len(allowed)-1]) > 0 {
			j.passed = append(j.passed, c)
		}
	}
	return allowed, nil
}

// checkOffered checks that the sources have the locked version, as engines require. It
// queries them only if one of the packages is missing, or if nothing else may deliver it.
func (j *job) checkOffered(ctx context.Context) error {
	atHand := true
	for _, platform := range j.opts.Platforms {
		l, err := j.look(ctx, platform)
		if err != nil {
			return err
		}
		atHand = atHand && l.suffices()
	}
	if atHand && !j.opts.Confined {
		return nil
	}
	listing, err := j.versions(ctx)
	offered := slices.Contains(listing.Versions, j.version)
	switch {
	case offered && (err == nil || errors.Is(err, sources.ErrOffline)):
		j.compare(listing)
		return nil
	case err != nil:
		return err
	}
	if _, err := j.from.Package(ctx, j.id(j.opts.Platforms[0])); errors.Is(err, sources.ErrRefused) {
		return err
	}
	return j.gone(ctx, listing)
}

func (j *job) versions(ctx context.Context) (sources.Listing, error) {
	of := sources.PackageID{Provider: j.req.Provider}
	j.acquirer.Report(acquire.Event{Step: acquire.Querying, Package: of, Source: j.from.String()})
	listing, err := j.from.Versions(ctx, j.req.Provider)
	j.acquirer.Warn(of, listing.Warnings...)
	return listing, j.required(err)
}

// A look describes the copies of a locked package on this machine.
type look struct {
	installed bool           // held is where the root module needs it, and nothing remains to be done
	stored    bool           // held is in the store, and the lock file accepts it
	held      sources.Stored // without H1 if there is none
}

func (l look) suffices() bool { return l.installed || l.stored }

// look searches for a locked package, once: in the working directory and then in the
// store. Engines require the h1: hash of an installed package, so if none is locked,
// the installed package is not hashed. Without locked hashes, no local copy is
// sufficient.
func (j *job) look(ctx context.Context, platform sources.Platform) (look, error) {
	locked := j.lockedHashes()
	l, ok := j.looked[platform]
	if ok || len(locked) == 0 {
		return l, nil
	}
	id := j.id(platform)
	var slot acquire.Slot
	defer slot.Leave()
	req := j.request(id, &slot)
	if err := j.acquirer.Enter(ctx, req); err != nil {
		return l, err
	}
	if sources.AnyOf(sources.H1, locked) && j.workdir != nil {
		held, err := j.workdir.Get(ctx, id)
		if err == nil && sources.MatchesAny(locked, held.H1) && j.acquirer.Proven(held) {
			l = look{installed: true, held: j.acquirer.AcceptLocked(req, j.preferred(ctx, held))}
		}
	}
	if !l.installed {
		held := j.stored(ctx, id)
		l = look{stored: j.acquirer.Satisfies(req, held), held: held}
		l.installed = j.root.Elsewhere && l.stored && sources.MatchesAny(locked, held.H1)
	}
	j.looked[platform] = l
	return l, nil
}

// preferred returns an installed package, or the same package in the store, if that is
// preferred and the store has it.
func (j *job) preferred(ctx context.Context, installed sources.Stored) sources.Stored {
	if j.opts.PreferStore {
		if s := j.stored(ctx, installed.ID); s.H1 == installed.H1 && s.Differs == "" {
			return s
		}
	}
	return installed
}

// lockedHashes returns the lock file's hashes for the chosen version.
func (j *job) lockedHashes() []sources.Hash {
	if j.locked.Version != j.version {
		return nil
	}
	var usable []sources.Hash
	for _, h := range j.locked.Hashes {
		if h.Usable() {
			usable = append(usable, h)
		}
	}
	return usable
}

// entry returns the provider's entry for the lock file. If nothing was installed, the
// entry is unchanged, as engines leave it, including hashes with unknown schemes.
// Out-of-date constraints are unchanged too, but OpenTofu updates them if it rewrites
// the file.
func (j *job) entry() lockfile.Entry {
	if !j.changed {
		kept := j.locked
		if j.engine == sources.OpenTofu {
			kept.Constraints = j.req.Constraints
		}
		return kept
	}
	return lockfile.Entry{
		Provider:    j.req.Provider,
		Version:     j.version,
		Constraints: j.req.Constraints,
		Hashes:      append(j.lockedHashes(), j.learned...),
	}
}

// install installs one package into the working directory. If another process changes
// the package between verification and linking, install acquires it again, several
// times, with increasing pauses: Terraform unpacks over packages in a cache without a
// lock, and several Terraform processes take longer.
func (j *job) install(ctx context.Context, id sources.PackageID) (outcome Outcome, err error) {
	l, err := j.look(ctx, id.Platform)
	if err != nil {
		return Outcome{}, err
	}
	if l.installed {
		if j.offline {
			j.changed = true
			j.learnKnown(l.held)
		}
		return Outcome{Package: l.held, How: WasInstalled, Offline: j.offline}, nil
	}
	var slot acquire.Slot
	defer slot.Leave()
	req := j.request(id, &slot)
	if l.stored && j.opts.Confined && !j.opts.EngineCache {
		if _, err := j.acquirer.Ask(ctx, req); err != nil {
			return Outcome{}, err
		}
	}
	for try := 0; ; try++ {
		res, err := j.acquire(ctx, req, l.held)
		if err != nil {
			return Outcome{}, err
		}
		outcome = j.outcome(res)
		if j.root.DryRun && !j.root.Elsewhere {
			if err := j.workdir.Unwritable(res.Package); err != nil {
				return Outcome{}, sources.InPackage(id, err)
			}
		}
		if outcome.How == Planned || j.root.DryRun || j.root.Elsewhere {
			return outcome, nil
		}
		if err := j.acquirer.Enter(ctx, req); err != nil {
			return outcome, err
		}
		outcome.Link, err = j.workdir.Link(ctx, res.Package)
		if err == nil && res.Package.Temporary {
			outcome.Package, err = j.workdir.Get(ctx, id)
		}
		switch {
		case err == nil || !errors.Is(err, sources.ErrSwapped):
			return outcome, err
		case try == maxSwapped:
			return outcome, sources.WithHint(err, "another program is writing to the plugin cache; "+
				"if it is terraform init, wait until it has finished")
		}
		select {
		case <-ctx.Done():
			return outcome, ctx.Err()
		case <-time.After(100 * time.Millisecond << try):
		}
		l.held = j.stored(ctx, id)
	}
}

// maxSwapped is how often a changed package is acquired again. The pauses add up to
// 25 seconds.
const maxSwapped = 8

// acquire ensures that the store has the package. If no source delivers an unlocked
// package, it accepts a package in the store that its signed checksums verify, or any
// package if that is allowed. A package that was chosen because it is on this machine
// is queried nowhere.
func (j *job) acquire(ctx context.Context, req acquire.Request, held sources.Stored) (acquire.Result, error) {
	if j.offline && j.fault(held) == "" {
		return acquire.Result{Package: held}, nil
	}
	res, err := j.acquirer.Acquire(ctx, req, held)
	confined := j.opts.Confined && !j.opts.EngineCache
	if err == nil || len(req.Locked) > 0 || confined || ctx.Err() != nil || !acquire.Undelivered(err) {
		return res, err
	}
	held = j.stored(ctx, req.ID)
	if held.H1 == "" || held.Differs != "" || !j.acquirer.Proven(held) {
		return res, err
	}
	why := "which its signed checksums cover"
	if held.Signed == nil || held.Report.Verdict < sources.SelfSigned { // anyone may have created a mirror's evidence
		if !j.opts.UnverifiedCache {
			return res, err
		}
		why = "which cannot be verified: plugin_cache_may_break_dependency_lock_file allows it"
	}
	j.acquirer.Warn(req.ID, fmt.Sprintf("%s %s: %s; using the package in the plugin cache, %s",
		req.ID.Version, req.ID.Platform, sources.Reason(err), why))
	return acquire.Result{Package: held}, nil
}

// outcome returns the result for an acquired package, and learns its hashes. An
// engine that finds a locked package in its own cache does not add hashes to an entry
// that the contents already match. OpenTofu then leaves the entry as it is.
func (j *job) outcome(res acquire.Result) Outcome {
	o := Outcome{Package: res.Package, How: FromStore, Source: res.Offer.Source, Size: res.Size, Offline: j.offline}
	if res.Fetched {
		o.How = Fetched
	}
	asked := res.Offer.ID != (sources.PackageID{}) // a source
	cached := !asked && j.opts.EngineCache && sources.MatchesAny(j.lockedHashes(), res.Package.H1)
	j.changed = j.changed || !cached || j.engine != sources.OpenTofu
	switch {
	case res.Planned:
		o.How = Planned
	case asked:
		j.learn(res)
	case !cached:
		j.learnKnown(res.Package)
	}
	return o
}

// Fetch ensures that the store has one package, without a root module. If hashes of
// the package are known from before, it must match one of them. Otherwise the error
// is an [acquire.HashMismatchError]. The error matches [sources.ErrNotFound] if no
// source has the package.
func (in *Installer) Fetch(ctx context.Context, id sources.PackageID, before []sources.Hash) (Outcome, error) {
	j := in.jobFor(id, before)
	req := j.request(id, nil)
	req.By = acquire.TheOneBefore
	res, err := in.acquirer.Acquire(ctx, req, sources.Stored{}) // a store may have it without its evidence
	if err != nil {
		return Outcome{}, err
	}
	outcome := j.outcome(res)
	outcome.Package.Trim()
	return outcome, nil
}

// jobFor returns a job for one package without a root module. It is locked to the
// hashes, if there are any.
func (in *Installer) jobFor(id sources.PackageID, locked []sources.Hash) *job {
	return &job{
		Installer: in, req: sources.Requirement{Provider: id.Provider}, version: id.Version,
		locked: lockfile.Entry{Provider: id.Provider, Version: id.Version, Hashes: locked},
	}
}
