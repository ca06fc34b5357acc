package cachedir

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// A Policy selects packages for removal: those that no known root module uses. If it
// has limits, only packages that exceed a limit are removed.
type Policy struct {
	ListOptions
	OlderThan time.Duration // remove packages unused for this long; 0 means no limit
	MaxSize   int64         // keep the cache within this many bytes, least recently used first; 0 means no limit
	KeepLast  int           // keep this many versions of each provider: the newest for each platform
	All       bool          // also remove packages that root modules use
}

// A Reason is why a package is removed.
type Reason string

// Reasons for removing a package.
const (
	NoUser     Reason = "used by no known root module"
	TooOld     Reason = "not used recently"
	TooMuch    Reason = "least recently used"
	Everything Reason = "--all"
)

// A Removal is a package to remove.
type Removal struct {
	Entry
	Reason Reason
}

// A Plan states what a cache contains and what a prune removes. Nothing has been removed
// yet.
type Plan struct {
	Removed
	Listing *Listing // the packages
	Usage   Usage    // contents of the cache besides packages
	Size    int64    // bytes of the packages
	Left    int64    // bytes of the packages that remain
	Used    int      // packages kept because root modules use them
	Kept    int      // packages kept because of [Dir.Keep]
	Recent  int      // packages kept because they are within the limits
	Others  int      // packages kept because only another user may remove them
	Stale   int      // registrations of root modules, and marks of packages, that no longer exist
	Blocked error    // why nothing is removed; nil if there is no reason

	policy Policy
	old    []item   // what is removed of the state
	gone   []string // the directories of records that are removed
}

// Removed is what a prune removes, or has removed.
type Removed struct {
	Packages []Removal // sorted by provider, version and platform
	Besides  Usage     // contents of the cache besides packages
	Freed    int64     // bytes of all that
}

// Empty reports whether nothing is removed.
func (r Removed) Empty() bool { return len(r.Packages) == 0 && r.Besides.Total().Count == 0 }

// PlanPrune determines what the cache contains and what a prune removes.
func (d *Dir) PlanPrune(ctx context.Context, policy Policy) (*Plan, error) {
	listing, err := d.List(ctx, policy.ListOptions)
	if err != nil {
		return nil, err
	}
	p := &Plan{Listing: listing, policy: policy, Stale: len(listing.stale)}
	d.choosePackages(p)
	if err := d.planBesides(ctx, p); err != nil {
		return nil, err
	}
	p.Freed += p.Besides.Total().Bytes
	if p.Blocked = d.unreadable(listing.Findings); !policy.All && len(listing.Unclear) > 0 {
		unclear := errors.Join(listing.Unclear...)
		p.Blocked = sources.WithHint(unclear, "fix this first: Larder can't tell which packages are in use")
	}
	return p, nil
}

// choosePackages determines which packages of the listing to remove: the least recently used first, as far as the
// limits require.
func (d *Dir) choosePackages(p *Plan) {
	listing, policy := p.Listing, p.policy
	var ids []sources.PackageID
	for _, e := range listing.Entries {
		ids = append(ids, e.ID)
		p.Size += e.Size
	}
	newest := sources.Newest(ids, policy.KeepLast)
	oldest := func(a, b Entry) int { return a.Used.Compare(b.Used) }
	p.Left = p.Size
	for _, e := range slices.SortedStableFunc(slices.Values(listing.Entries), oldest) {
		switch reason, ok := policy.reason(e, d.opts.Now(), p.Left); {
		case !policy.All && e.InUse():
			p.Used++
		case !policy.All && e.Kept:
			p.Kept++
		case newest[e.ID]:
			p.Recent++
		case d.shared && d.denies(d.replaceable(e.ID.Path())):
			p.Others++
		case !ok:
			p.Recent++
		default:
			p.Left -= e.Size
			p.Freed += e.Freed
			p.Packages = append(p.Packages, Removal{e, reason})
		}
	}
	slices.SortFunc(p.Packages, func(a, b Removal) int { return a.ID.Compare(b.ID) })
}

// unreadable returns an error if the cache cannot be read completely. A plan would
// then be wrong. In a cache of several users, it excludes files that other users own.
func (d *Dir) unreadable(findings []*store.Finding) error {
	var errs []error
	for _, f := range findings {
		if f.Kind == store.Unreadable && !(d.shared && disk.Owner(filepath.Join(d.root, f.Path)) != "") {
			errs = append(errs, f)
		}
	}
	return errors.Join(errs...)
}

// InUse reports whether a root module uses the package. Links to the package's files
// count, even if the root module is unknown.
func (e Entry) InUse() bool { return len(e.Roots) > 0 || e.Linked }

// Unused reports whether a prune may remove the package.
func (e Entry) Unused() bool { return !e.InUse() && !e.Kept }

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
	case !e.Unused():
		return Everything, true
	}
	return NoUser, true
}

// Prune removes the packages in the plan that the policy still selects. It waits
// until no install uses the cache, and blocks installs while it renames the packages.
// It deletes them after that. The error joins the errors of the packages.
func (d *Dir) Prune(ctx context.Context, plan *Plan) (*Removed, error) {
	if d.readOnly != nil {
		return nil, d.unwritable()
	}
	release, err := d.clean(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	now, err := d.PlanPrune(ctx, plan.policy)
	if err == nil {
		err = now.Blocked
	}
	if err != nil {
		return nil, err
	}
	d.removeLeftovers()
	bin, err := d.scratch()
	if err != nil {
		return nil, err
	}
	planned := map[sources.PackageID]bool{}
	for _, r := range plan.Packages {
		planned[r.ID] = true
	}
	pruned, errs := &Removed{Besides: now.Besides, Freed: now.Besides.Total().Bytes}, []error(nil)
	for i, r := range now.Packages {
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
		pruned.Packages = append(pruned.Packages, r)
		pruned.Freed += r.Freed
	}
	for _, key := range now.Listing.stale {
		d.roots.Remove(noProvider, key)
	}
	if err := d.roots.Write(ctx); !d.denies(err) {
		errs = append(errs, err)
	}
	errs = append(errs, d.ledger.WriteAll(ctx), d.removeOld(now))
	release()
	return pruned, errors.Join(append(errs, bin.Close())...)
}

// throw moves a package to bin and removes its records and the directories that this
// leaves empty. The caller holds the exclusive lock on the cache. The evidence stays, as the recorded hashes do.
func (d *Dir) throw(id sources.PackageID, bin *disk.Scratch, name string) error {
	home, release, err := d.hold(id)
	if err != nil {
		return err
	}
	defer release()
	if err := bin.Take(home, id.Platform.String(), name); err != nil {
		return err
	}
	d.ledger.Remove(id.Provider, store.KeyOf(id))
	d.roots.Remove(noProvider, id.Path())
	return d.tree.RemoveEmpty(path.Dir(id.Path()))
}
