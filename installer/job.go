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

// A job is what is done about one provider for one root module.
type job struct {
	*Installer
	root    Root
	workdir sources.Workdir // of root; nil if nothing is installed
	req     sources.Requirement
	locked  lockfile.Entry // its zero value if the lock file has none, or if it does not count
	by      acquire.Authority

	version  sources.Version
	looked   map[sources.Platform]look
	learned  []sources.Hash // that the lock file must hold too
	others   []sources.Hash // that the source states for other platforms; a Locker's
	sums     trust.Sums     // signed, that came with the package; empty if none did
	changed  bool           // whether the lock file's entry may have to change
	outcomes []Outcome

	unknown  []UnknownHash // see Locker.examine
	examined []Outcome
}

func (in *Installer) newJob(root Root, req sources.Requirement, workdir sources.Workdir) job {
	j := job{Installer: in, root: root, req: req, workdir: workdir, by: acquire.TheLockFile, looked: map[sources.Platform]look{}}
	j.locked, _ = root.Lock.Entry(req.Provider)
	return j
}

// id is the package of the chosen version for a platform.
func (j *job) id(platform sources.Platform) sources.PackageID {
	return sources.PackageID{Provider: j.req.Provider, Version: j.version, Platform: platform}
}

func (j *job) request(id sources.PackageID, slot *acquire.Slot) acquire.Request {
	return acquire.Request{ID: id, Locked: j.lockedHashes(), By: j.by, DryRun: j.root.DryRun, Slot: slot}
}

// run installs the provider. The error of one that needs the network under --offline
// names each package that is missing.
func (j *job) run(ctx context.Context) error { return j.missing(j.tryRun(ctx)) }

// tryRun chooses a version and installs its packages, one for each platform. The
// error joins what went wrong for each.
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

// choose settles the version: the locked one while it holds, else the newest
// that is acceptable.
func (j *job) choose(ctx context.Context) error {
	if j.keepsLocked() {
		return j.chooseLocked(ctx)
	}
	return j.chooseNewest(ctx)
}

func (j *job) chooseNewest(ctx context.Context) error {
	listing, err := j.versions(ctx)
	if err != nil {
		return err
	}
	newest, ok := j.req.Constraints.Newest(listing.Versions)
	if !ok {
		return j.noneAllowed(listing)
	}
	j.version = newest
	return nil
}

func (j *job) keepsLocked() bool {
	return j.locked.Version != (sources.Version{}) && !j.opts.Upgrade
}

// chooseLocked keeps the locked version. Sources are asked only if one of its
// packages is missing: it must then be among what they have, as engines demand.
func (j *job) chooseLocked(ctx context.Context) error {
	j.version = j.locked.Version
	if !j.req.Constraints.Allow(j.version) {
		return j.lockedRefused()
	}
	atHand := true
	for _, platform := range j.opts.Platforms {
		l, err := j.look(ctx, platform)
		if err != nil {
			return err
		}
		atHand = atHand && l.suffices()
	}
	if atHand {
		return nil
	}
	listing, err := j.versions(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(listing.Versions, j.version) {
		return j.lockedGone()
	}
	return nil
}

func (j *job) versions(ctx context.Context) (sources.Listing, error) {
	j.acquirer.Report(acquire.Event{Step: acquire.Querying, Package: sources.PackageID{Provider: j.req.Provider}, Source: j.from.String()})
	listing, err := j.from.Versions(ctx, j.req.Provider)
	j.acquirer.Warn(sources.PackageID{Provider: j.req.Provider}, listing.Warnings...)
	return listing, j.required(err)
}

// A look is what is on this machine of a package that is locked.
type look struct {
	installed bool           // held is in the working directory, and nothing is left to do
	stored    bool           // held is in the store, and the lock file accepts it
	held      sources.Stored // without H1 if there is none
}

func (l look) suffices() bool { return l.installed || l.stored }

// look looks for a locked package, once: in the working directory and then in the store.
// Engines insist on the h1: hash of what is installed, so without one that isn't hashed.
// Without locked hashes, nothing on this machine suffices.
func (j *job) look(ctx context.Context, platform sources.Platform) (look, error) {
	if l, ok := j.looked[platform]; ok {
		return l, nil
	}
	var l look
	id, locked := j.id(platform), j.lockedHashes()
	var slot acquire.Slot
	defer slot.Leave()
	req := j.request(id, &slot)
	if len(locked) > 0 {
		if err := j.acquirer.Enter(ctx, req); err != nil {
			return l, err
		}
	}
	if sources.AnyOf(sources.H1, locked) && j.workdir != nil {
		held, err := j.workdir.Get(ctx, id)
		if err == nil && sources.MatchesAny(locked, held.H1) && j.acquirer.Proven(held) {
			l = look{installed: true, held: j.acquirer.AcceptLocked(req, held)}
		}
	}
	if len(locked) > 0 && !l.installed {
		held, err := j.into.Get(ctx, id)
		if err == nil {
			l = look{stored: j.acquirer.Satisfies(req, held), held: held}
		}
	}
	j.looked[platform] = l
	return l, nil
}

// lockedHashes are the hashes that the lock file has for the chosen version.
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

// entry is what the lock file must contain about the provider. If nothing was
// installed it stays as it is, as engines leave it, hashes of foreign schemes included.
// Out-of-date constraints stay too, but OpenTofu refreshes them if it rewrites the file.
func (j *job) entry() lockfile.Entry {
	if !j.changed {
		kept := j.locked
		if j.opts.Engine == sources.OpenTofu {
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

// install installs one package into the working directory. A package that another process
// changes between its verification and its linking is acquired again, a few times, with
// growing pauses: Terraform unpacks over packages in a cache without a lock, and the more
// that do, the longer it takes.
func (j *job) install(ctx context.Context, id sources.PackageID) (outcome Outcome, err error) {
	l, err := j.look(ctx, id.Platform)
	if err != nil {
		return Outcome{}, err
	}
	if l.installed {
		return Outcome{Package: l.held, How: WasInstalled}, nil
	}
	var slot acquire.Slot
	defer slot.Leave()
	req := j.request(id, &slot)
	for try := 0; ; try++ {
		res, err := j.acquire(ctx, req, l.held)
		if err != nil {
			return Outcome{}, err
		}
		outcome = j.outcome(res)
		if outcome.How == Planned || j.root.DryRun {
			return outcome, nil
		}
		if err := j.acquirer.Enter(ctx, req); err != nil {
			return outcome, err
		}
		outcome.Link, err = j.workdir.Link(ctx, res.Package)
		switch {
		case err == nil || !errors.Is(err, sources.ErrSwapped):
			return outcome, err
		case try == maxSwapped:
			return outcome, sources.WithHint(err, "another program is writing to the plugin cache; if it is terraform init, wait until it has finished")
		}
		select {
		case <-ctx.Done():
			return outcome, ctx.Err()
		case <-time.After(100 * time.Millisecond << try):
		}
		if l.held, err = j.into.Get(ctx, id); err != nil {
			l.held = sources.Stored{}
		}
	}
}

// maxSwapped is how often a package that was changed is acquired again, which is 25
// seconds of pauses.
const maxSwapped = 8

// acquire sees to it that the store has the package. If no source delivers one that is
// not locked, a package in the store will do that its signed checksums prove, or any
// package if that is allowed.
func (j *job) acquire(ctx context.Context, req acquire.Request, held sources.Stored) (acquire.Result, error) {
	res, err := j.acquirer.Acquire(ctx, req, held)
	if err == nil || len(req.Locked) > 0 || ctx.Err() != nil || !acquire.Undelivered(err) {
		return res, err
	}
	held, getErr := j.into.Get(ctx, req.ID)
	if getErr != nil || held.Differs != "" || !j.acquirer.Proven(held) {
		return res, err
	}
	why := "which its signed checksums cover"
	if held.Signed == nil || held.Verdict < sources.SelfSigned { // anyone can have made what a mirror carries
		if !j.opts.UnverifiedCache {
			return res, err
		}
		why = "which cannot be verified: plugin_cache_may_break_dependency_lock_file allows it"
	}
	j.acquirer.Warn(req.ID, fmt.Sprintf("%s %s: %s; using the package in the plugin cache, %s",
		req.ID.Version, req.ID.Platform, sources.Reason(err), why))
	return acquire.Result{Package: held}, nil
}

// outcome is what came of a package that was acquired, whose hashes it learns. An engine
// that finds a locked package in its own cache adds nothing to an entry that its contents
// already match.
func (j *job) outcome(res acquire.Result) Outcome {
	o := Outcome{Package: res.Package, How: FromStore, KeyID: res.Report.KeyID, Source: res.Offer.Source}
	j.changed = true
	switch {
	case res.Planned:
		o.How = Planned
		return o
	case res.Fetched:
		o.How, o.Size = Fetched, res.Size
	}
	switch {
	case res.Offer.ID != (sources.PackageID{}): // a source was asked
		j.learn(res)
	case !j.opts.EngineCache || !sources.MatchesAny(j.lockedHashes(), res.Package.H1):
		j.learnKnown(res.Package)
	}
	return o
}

// Fetch sees to it that the store has one package, for no root module. If there
// are hashes of the package as it was before, it must match one of them, else
// the error is a [acquire.HashMismatchError]. The error matches [sources.ErrNotFound] if
// no source has the package.
func (in *Installer) Fetch(ctx context.Context, id sources.PackageID, before []sources.Hash) (Outcome, error) {
	var held sources.Stored
	if len(before) > 0 {
		held, _ = in.into.Get(ctx, id) // without one, the package is fetched
	}
	j := in.jobFor(id, before)
	j.by = acquire.TheOneBefore
	res, err := in.acquirer.Acquire(ctx, j.request(id, nil), held)
	if err != nil {
		return Outcome{}, err
	}
	outcome := j.outcome(res)
	outcome.Package.Trim()
	return outcome, nil
}

// jobFor is a job about one package, for no root module, locked to hashes if there are any.
func (in *Installer) jobFor(id sources.PackageID, locked []sources.Hash) *job {
	return &job{
		Installer: in, req: sources.Requirement{Provider: id.Provider}, version: id.Version, by: acquire.TheLockFile,
		locked: lockfile.Entry{Provider: id.Provider, Version: id.Version, Hashes: locked},
	}
}
