package cachedir

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
)

// A Policy selects packages for removal: those that no known root module uses. If it
// has limits, only packages that exceed a limit are removed.
type Policy struct {
	ListOptions
	OlderThan time.Duration // remove packages unused for this long; 0 means no limit
	MaxSize   int64         // keep the cache within this many bytes, least recently used first; 0 means no limit
	KeepLast  int           // keep this many versions of each provider: the newest for each platform
	All       bool          // also remove packages that root modules use
	Aside     bool          // also remove files that repairs moved aside
}

// A Reason is why a package is removed.
type Reason string

// Reasons for removing a package.
const (
	NoUser     Reason = "used by no known root module"
	TooOld     Reason = "not used for long"
	TooMuch    Reason = "least recently used"
	Everything Reason = "all are to go"
)

// A Removal is a package to remove.
type Removal struct {
	Entry
	Reason Reason
}

// A Plan lists the packages to remove. Nothing has been removed yet.
type Plan struct {
	Remove  []Removal // sorted by provider, version and platform
	Freed   int64     // bytes that the plan frees
	Size    int64     // bytes that the cache takes now
	Used    int       // packages kept because root modules use them
	Running int       // packages kept because programs run them
	Recent  int       // packages kept because they are within the limits
	Others  int       // packages kept because only another user may remove them
	Roots   int       // known root modules
	Usage   Usage     // contents of the cache besides packages
	Stale   int       // records of root modules and packages that no longer exist
	Notes   []string  // information that could not be determined

	policy Policy
	stale  []string // paths of the stale records
}

// PlanPrune returns a plan of the packages to remove.
func (d *Dir) PlanPrune(ctx context.Context, policy Policy) (*Plan, error) {
	listing, err := d.List(ctx, policy.ListOptions)
	if err != nil {
		return nil, err
	}
	return d.PlanFor(ctx, listing, policy)
}

// PlanFor is [Dir.PlanPrune] for a listing made with the same [ListOptions].
func (d *Dir) PlanFor(ctx context.Context, listing *Listing, policy Policy) (*Plan, error) {
	if !policy.All && len(listing.Unclear) > 0 {
		return nil, sources.WithHint(errors.Join(listing.Unclear...), "mend that first, as nothing that is used may go")
	}
	if err := d.unreadable(listing.Findings); err != nil {
		return nil, err
	}
	orphans, err := d.orphans(listing.Entries)
	if err != nil {
		return nil, err
	}
	stale := slices.Concat(listing.stale, orphans)
	p := &Plan{policy: policy, Roots: len(listing.Roots), Stale: len(stale), stale: stale}
	if p.Usage, err = d.Usage(ctx); err != nil {
		return nil, err
	}
	programs, note := findRunning()
	if note != "" {
		p.Notes = append(p.Notes, note)
	}
	var ids []sources.PackageID
	for _, e := range listing.Entries {
		ids = append(ids, e.ID)
	}
	newest := sources.Newest(ids, policy.KeepLast)
	var candidates []Entry
	for _, e := range listing.Entries {
		p.Size += e.Size
		switch {
		case programs.has(e):
			p.Running++
		case !policy.All && e.InUse():
			p.Used++
		case newest[e.ID]:
			p.Recent++
		case d.shared && d.denies(d.replaceable(e.ID.Path())):
			p.Others++
		default:
			candidates = append(candidates, e)
		}
	}
	p.choose(candidates, d.opts.Now())
	return p, nil
}

// orphans returns the records of packages that are not in the cache. Such records
// remain if removing one fails after its package was removed.
func (d *Dir) orphans(entries []Entry) (orphans []string, err error) {
	if d.state == nil {
		return nil, nil
	}
	recorded := map[string]bool{}
	for _, e := range entries {
		recorded[recordPath(e.ID)] = true
	}
	packages, err := d.state.Sub("package")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer packages.Close()
	versions, err := packages.ReadDir()
	for _, e := range versions {
		version := e.Name()
		names, err := namesIn(packages, version)
		var stray *disk.StrayError
		if err != nil && !errors.As(err, &stray) {
			return nil, err
		}
		for _, name := range names {
			if at := "package/" + version + "/" + name; strings.HasSuffix(name, ".json") && !recorded[at] {
				orphans = append(orphans, at)
			}
		}
	}
	return orphans, err
}

// unreadable returns an error if the cache cannot be read completely. A plan would
// then be wrong. In a cache of several users, it excludes files that other users own.
func (d *Dir) unreadable(findings []Finding) error {
	var errs []error
	for _, f := range findings {
		if f.Kind == Unreadable && !(d.shared && disk.Owner(filepath.Join(d.root, f.Path)) != "") {
			errs = append(errs, errors.New(f.String()))
		}
	}
	return errors.Join(errs...)
}

// InUse reports whether a root module uses the package. Links to the package's files
// count, even if the root module is unknown.
func (e Entry) InUse() bool { return len(e.Roots) > 0 || e.Linked }

// choose applies the limits to the candidates.
func (p *Plan) choose(candidates []Entry, now time.Time) {
	slices.SortStableFunc(candidates, func(a, b Entry) int { return a.Used.Compare(b.Used) })
	left := p.Size
	for _, e := range candidates {
		reason, ok := p.policy.reason(e, now, left)
		if !ok {
			p.Recent++
			continue
		}
		left -= e.Freed
		p.Freed += e.Freed
		p.Remove = append(p.Remove, Removal{e, reason})
	}
	slices.SortFunc(p.Remove, func(a, b Removal) int { return a.ID.Compare(b.ID) })
}

// reason reports whether to remove e, and why. left is the size in bytes of the
// packages that have not been removed so far.
func (p Policy) reason(e Entry, now time.Time, left int64) (Reason, bool) {
	switch {
	case p.OlderThan > 0 && now.Sub(e.Used) > p.OlderThan:
		return TooOld, true
	case p.MaxSize > 0 && left > p.MaxSize:
		return TooMuch, true
	case p.OlderThan > 0 || p.MaxSize > 0:
		return "", false
	case e.InUse():
		return Everything, true
	}
	return NoUser, true
}

// Extra returns the amount that the plan removes besides packages.
func (p *Plan) Extra() Amount {
	a := p.Usage.Abandoned
	a.add(p.Usage.Leftover.Count, p.Usage.Leftover.Bytes)
	a.add(p.Usage.Archives.Count, p.Usage.Archives.Bytes)
	if p.policy.Aside {
		a.add(p.Usage.Aside.Count, p.Usage.Aside.Bytes)
	}
	return a
}

// Pruned describes what was removed.
type Pruned struct {
	Removed []Removal
	Freed   int64  // bytes of packages
	Extra   Amount // removed besides packages
}

// Prune removes the packages in the plan that the policy still selects. It waits
// until no install uses the cache, and blocks installs while it renames the packages.
// It deletes them after that. The error joins the errors of the packages.
func (d *Dir) Prune(ctx context.Context, plan *Plan) (*Pruned, error) {
	if d.readOnly != nil {
		return nil, d.unwritable()
	}
	release, err := d.clean(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	d.removeLeftovers()
	now, err := d.PlanPrune(ctx, plan.policy)
	if err != nil {
		return nil, err
	}
	bin, err := d.scratch()
	if err != nil {
		return nil, err
	}
	planned := map[sources.PackageID]bool{}
	for _, r := range plan.Remove {
		planned[r.ID] = true
	}
	pruned, errs := &Pruned{}, []error(nil)
	for i, r := range now.Remove {
		if ctx.Err() != nil {
			errs = append(errs, ctx.Err())
			break
		}
		if !planned[r.ID] {
			continue
		}
		if err := d.throw(r.ID, bin, strconv.Itoa(i)); err != nil {
			errs = append(errs, sources.InPackage(r.ID, err))
			continue
		}
		pruned.Removed = append(pruned.Removed, r)
		pruned.Freed += r.Freed
	}
	for _, path := range now.stale {
		errs = append(errs, d.removeState(path))
	}
	errs = append(errs, d.removeArchives())
	if plan.policy.Aside {
		errs = append(errs, d.removeAside())
	}
	release()
	errs = append(errs, bin.Close())
	pruned.Extra = d.vanished(ctx, plan.Extra(), plan.policy)
	return pruned, errors.Join(errs...)
}

// vanished returns the part of an amount that no longer exists.
func (d *Dir) vanished(ctx context.Context, was Amount, policy Policy) Amount {
	u, err := d.Remains(ctx)
	if err != nil {
		return was
	}
	is := (&Plan{Usage: u, policy: policy}).Extra()
	return Amount{max(was.Count-is.Count, 0), max(was.Bytes-is.Bytes, 0)}
}

// throw moves a package to bin and removes its records and the directories that this
// leaves empty. The caller holds the exclusive lock on the cache.
func (d *Dir) throw(id sources.PackageID, bin *disk.Scratch, name string) error {
	home, err := d.home(id, false)
	if err != nil {
		return err
	}
	defer home.Close()
	unlock, err := d.holdTofu(home, id)
	if err != nil {
		return err
	}
	defer unlock()
	if err := home.CheckMounts(id.Platform.String()); err != nil && !isLink(home, id) {
		return err
	}
	if err := disk.Rename(home, id.Platform.String(), bin.Dir, name); err != nil {
		return err
	}
	return errors.Join(d.forgetEntry(id, home), d.tree.RemoveEmpty(path.Dir(id.Path())))
}

// isLink reports whether the entry for id in home is a symbolic link. Removing it
// removes only the link.
func isLink(home *disk.Dir, id sources.PackageID) bool {
	info, err := home.Lstat(id.Platform.String())
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// forgetEntry removes the record of a package. If it was the last package of its
// version in home and no hashes of the version are recorded, it removes the evidence
// too.
func (d *Dir) forgetEntry(id sources.PackageID, home *disk.Dir) error {
	if err := d.removeState(recordPath(id)); err != nil {
		return err
	}
	if known, err := namesIn(d.state, path.Dir(knownPath(id))); err != nil || len(known) > 0 {
		return err
	}
	others, err := home.ReadDir()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, other := range others {
		if !isTofuLock(other) {
			return nil
		}
	}
	return evidence.Remove(d.state, evidencePath(id.Provider, id.Version))
}
