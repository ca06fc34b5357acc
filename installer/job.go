package installer

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// A job is the installation of one provider for one root module.
type job struct {
	*Installer
	root     Root
	req      sources.Requirement
	locked   lockfile.Entry // its zero value if the lock file has none, or if it does not count
	lockedBy promise        // who has the hashes in locked

	version  sources.Version
	learned  []sources.Hash // that the lock file shall hold too
	sums     trust.Sums     // signed, that came with the package; empty if none did
	changed  bool           // whether any package was installed anew
	outcomes []Outcome

	unknown  []UnknownHash // see Ledger.examine
	examined []Outcome
}

func (in *Installer) newJob(root Root, req sources.Requirement) job {
	j := job{Installer: in, root: root, req: req, lockedBy: theLockFile}
	j.locked, _ = root.Lock.Entry(req.Provider)
	return j
}

// id is the package of the chosen version for a platform.
func (j *job) id(platform sources.Platform) sources.PackageID {
	return sources.PackageID{Provider: j.req.Provider, Version: j.version, Platform: platform}
}

// inSlot does for a package what keeps the machine busy, once there is a slot
// for it. Questions need none: servers may be far away, and answers are small.
func (j *job) inSlot(ctx context.Context, id sources.PackageID, do func() error) error {
	select {
	case j.opts.Slots <- struct{}{}:
	default:
		j.tell.event(Event{Step: Queued, Package: id})
		select {
		case j.opts.Slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { <-j.opts.Slots }()
	return do()
}

// run installs the provider, or says why not.
func (j *job) run(ctx context.Context) error { return j.missing(ctx, j.tryRun(ctx)) }

// tryRun chooses a version and installs its packages, one for each platform. The
// error joins what went wrong for each.
func (j *job) tryRun(ctx context.Context) error {
	if err := j.choose(ctx); err != nil {
		return err
	}
	var errs []error
	for _, platform := range j.opts.Platforms {
		id := j.id(platform)
		j.tell.event(Event{Step: Chosen, Package: id})
		outcome, err := j.install(ctx, id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		outcome.Package.Signed = nil // evidence is large, and has done its work
		j.outcomes = append(j.outcomes, outcome)
		j.tell.event(Event{Step: Installed, Package: id, Source: outcome.Source})
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
	newest, ok := j.req.Constraints.Newest(listing)
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
	if j.allAtHand(ctx) {
		return nil
	}
	listing, err := j.versions(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(listing, j.version) {
		return j.lockedGone()
	}
	return nil
}

// allAtHand reports whether no source need be asked for the locked version.
func (j *job) allAtHand(ctx context.Context) bool {
	for _, platform := range j.opts.Platforms {
		if !j.atHand(ctx, j.id(platform)) {
			return false
		}
	}
	return true
}

func (j *job) versions(ctx context.Context) ([]sources.Version, error) {
	j.tell.event(Event{Step: Querying, Package: sources.PackageID{Provider: j.req.Provider}, Source: j.from.String()})
	listing, err := j.from.Versions(ctx, j.req.Provider)
	j.warn(sources.PackageID{Provider: j.req.Provider}, listing.Warnings)
	return listing.Versions, j.required(err)
}

func (j *job) warn(id sources.PackageID, warnings []string) {
	for _, w := range warnings {
		j.tell.event(Event{Step: Warned, Package: id, Text: w})
	}
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

// entry is what the lock file shall say about the provider. Where nothing was
// installed it stays as it is, as engines leave it, out-of-date constraints and
// hashes of foreign schemes included.
func (j *job) entry() lockfile.Entry {
	if !j.changed {
		return j.locked
	}
	return lockfile.Entry{
		Provider:    j.req.Provider,
		Version:     j.version,
		Constraints: j.req.Constraints,
		Hashes:      append(j.lockedHashes(), j.learned...),
	}
}

// target is where the working directory has the package.
func (j *job) target(id sources.PackageID) string {
	return filepath.Join(j.root.DataDir, "providers", filepath.FromSlash(id.Path()))
}

func (j *job) fail(id sources.PackageID, source string, err error) error {
	var named *sources.PackageError
	var ours *fs.PathError // it names the file, which is here and not with the source
	switch {
	case errors.As(err, &named):
		return err
	case errors.As(err, &ours):
		source = ""
	}
	return &sources.PackageError{ID: id, Source: source, Err: err}
}

// install brings one package into the working directory.
func (j *job) install(ctx context.Context, id sources.PackageID) (outcome Outcome, err error) {
	if s, ok := j.installed(ctx, id); ok {
		return Outcome{Package: s, How: WasInstalled}, nil
	}
	obtain, err := j.find(ctx, id)
	j.changed = true
	if err != nil {
		return Outcome{}, err
	}
	err = j.inSlot(ctx, id, func() error {
		outcome, err = obtain()
		if err != nil || outcome.How == Planned || j.root.DryRun {
			return err
		}
		outcome, err = j.link(ctx, outcome)
		return err
	})
	return outcome, err
}

// link makes the package appear in the working directory. One that another process has
// changed since it was judged is obtained and judged again, a few times.
func (j *job) link(ctx context.Context, outcome Outcome) (_ Outcome, err error) {
	for try := 0; ; try++ {
		outcome.Link, err = j.cache.Link(ctx, outcome.Package, j.target(outcome.Package.ID))
		if !errors.Is(err, sources.ErrSwapped) || try == 5 {
			break
		}
		select {
		case <-ctx.Done():
			return outcome, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
		again, err := j.find(ctx, outcome.Package.ID)
		if err != nil {
			return outcome, err
		}
		if outcome, err = again(); err != nil {
			return outcome, err
		}
	}
	if err != nil {
		return outcome, j.fail(outcome.Package.ID, "", err)
	}
	return outcome, nil
}
