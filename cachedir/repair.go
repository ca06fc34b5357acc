package cachedir

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// A Mending is a repair of a finding, planned or done.
type Mending struct {
	*store.Finding
	Do     Remedy
	Used   bool           // whether a root module uses the package
	Stored []sources.Hash // hashes of the moved package at the time it was stored; empty if unknown
	Err    error          // why the repair was not done
}

// Fetch reports whether the package must be fetched again, because the repair removes
// it.
func (m Mending) Fetch() bool { return m.Do == Quarantined && m.Package != nil && m.Err == nil }

// A Remedy is a way to repair a finding.
type Remedy string

// The ways to repair a finding.
const (
	Quarantined Remedy = "quarantined" // moved to .larder/quarantine
	Replaced    Remedy = "replaced"    // fetched again
	Restored    Remedy = "restored"    // the execute permission, the only thing that was lost
	Lowered     Remedy = "kept without evidence"
	Nothing     Remedy = "not repaired" // this user or process cannot repair it
)

func remedyOf(f *store.Finding) Remedy {
	switch {
	case f.Sound:
		return Restored
	case f.Kind == store.BadEvidence:
		return Lowered
	case f.Kind == store.Unreadable:
		return Nothing
	}
	return Quarantined
}

// Mendings returns the repairs planned for the findings.
func (v *Verification) Mendings() []Mending {
	var all []Mending
	for _, f := range v.Findings {
		used := f.Package != nil && len(v.users.of(*f.Package)) > 0
		all = append(all, Mending{Finding: f, Do: remedyOf(f), Used: used})
	}
	return all
}

// A Replacer fetches the original of a package that is wrong, or that a repair has set
// aside, into the cache.
type Replacer func(context.Context, Mending) error

// Repair fixes the findings of Verify. It replaces the packages that a source still has with the same contents. If it
// cannot replace a changed package, it keeps the package and returns an error. It moves everything else that is not an
// intact package to the quarantine, and then fetches these packages again. It waits until no install uses the cache,
// but it does not block installs while packages are being fetched.
func (d *Dir) Repair(ctx context.Context, v *Verification, replace Replacer) ([]Mending, error) {
	if d.readOnly != nil {
		return nil, d.unwritable()
	}
	if err := d.opts.Records.Key.Check(); disk.IsUnread(err) {
		return nil, err // verified packages cannot be distinguished from others
	}
	d.openToUsers()
	mended := v.Mendings()
	for i := range mended {
		d.tryReplacing(ctx, &mended[i], replace)
	}
	release, err := d.clean(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	d.removeLeftovers()
	for i := range mended {
		if m := &mended[i]; ctx.Err() == nil {
			if err := d.mend(ctx, v, m); err != nil {
				m.Do, m.Err = Nothing, errors.Join(m.Err, err)
			}
		}
	}
	release()
	for i := range mended {
		if ctx.Err() != nil {
			return mended[:i], ctx.Err()
		}
		d.fetchAgain(ctx, &mended[i], replace)
	}
	return mended, nil
}

// tryReplacing replaces a changed package if it can be fetched. Otherwise the package stays in place.
func (d *Dir) tryReplacing(ctx context.Context, m *Mending, replace Replacer) {
	if m.Do == Quarantined && d.shared {
		if err := d.replaceable(m.Path); d.denies(err) {
			m.Do, m.Err = Nothing, d.explainOwner(err)
		}
	}
	if !m.Fetch() {
		return
	}
	if all, _ := d.recorded(*m.Package, d.ledger); len(all) > 0 {
		m.Stored = all[0].Hashes()
	}
	if m.Kind != store.Changed {
		return
	}
	// The fingerprints in the record may match wrong contents. The hashes stay: without them nothing might show that.
	if r, ok := recordIn(d.ledger, *m.Package); ok {
		r.Files = nil
		d.keep(ctx, *m.Package, r)
	}
	before, _ := os.Lstat(d.entry(*m.Package))
	m.Err = replace(ctx, *m)
	after, _ := os.Lstat(d.entry(*m.Package))
	if m.Err == nil && after != nil && (before == nil || !os.SameFile(before, after)) {
		m.Do = Replaced
		return
	}
	m.Do, m.Err = Nothing, cmp.Or(m.Err, errSince)
}

// fetchAgain fetches a package that a repair has moved to the quarantine, once for all its findings.
func (d *Dir) fetchAgain(ctx context.Context, m *Mending, replace Replacer) {
	if !m.Fetch() {
		return
	}
	if _, err := d.tree.Lstat(m.Package.Path()); err != nil {
		m.Err = replace(ctx, *m)
	}
	if _, err := d.tree.Lstat(m.Package.Path()); err == nil {
		m.Do = Replaced
	}
}

var errSince = errors.New("it has changed since it was verified")

// mend carries out a repair that needs no source, while no install uses the cache.
func (d *Dir) mend(ctx context.Context, v *Verification, m *Mending) error {
	switch m.Do {
	case Quarantined:
		return d.isolate(ctx, v, m)
	case Restored:
		_, err := store.LetExecute(d.entry(*m.Package), *m.Package, func(error) {})
		return err
	case Lowered:
		return d.lower(ctx, m)
	}
	return nil // replaced, or it can't be repaired
}

// isolate moves the file or package of a finding to the quarantine. It moves a package as a whole, unless it was
// replaced since it was verified.
func (d *Dir) isolate(ctx context.Context, v *Verification, f *Mending) error {
	if f.Package == nil {
		return d.quarantine(d.tree, f.Path, f.Path, f.Kind)
	}
	id := *f.Package
	i := slices.IndexFunc(v.Entries, func(e Entry) bool { return e.ID == id && e.Target == "" })
	if marks, err := scan(d.entry(id)); err == nil && i >= 0 && !same(marks, v.Entries[i].marks) {
		return errSince
	}
	_, release, err := d.hold(id)
	if err != nil {
		return err
	}
	defer release()
	if err := d.quarantine(d.tree, id.Path(), id.Path(), f.Kind); err != nil {
		return err
	}
	return d.drop(ctx, id)
}

// lower moves the evidence for a version that does not verify one of its packages to the quarantine. The records keep
// what it proved before, without a reference to it.
func (d *Dir) lower(ctx context.Context, f *Mending) error {
	id := *f.Package
	if r, ok := recordIn(d.ledger, id); ok {
		r.Evidence = ""
		d.keep(ctx, id, r)
	}
	if f, err := d.known.Of(id); err == nil {
		f.Evidence = ""
		d.known.Set(id.Provider, store.KeyOf(id), f)
		d.warn(d.known.Write(ctx))
	}
	at := d.evidence.Path(id.Release())
	defer d.evidence.Forget(id.Release())
	return d.quarantine(d.state, at, f.Path, f.Kind)
}
