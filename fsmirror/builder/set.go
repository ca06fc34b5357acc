package builder

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/store"
	"github.com/larder-cli/larder/sources/trust"
)

// The kinds of problems with the signed set of a mirror.
const (
	BadSet   store.Kind = "broken set" // its signature is wrong, or a file is missing
	Wanting  store.Kind = "missing package of the set"
	NotInSet store.Kind = "not in the set" // the signed set doesn't list the package, or with another checksum
)

// Set returns the signed set of the mirror. The error matches [sources.ErrNotFound] if there is none.
func (b *Builder) Set() (*trust.Set, error) { return b.set() }

// readSet reads the signed set of the mirror.
func (b *Builder) readSet() (*trust.Set, error) {
	if b.dir == nil {
		return nil, sources.ErrNotFound
	}
	return trust.SetOf(context.Background(), b.dir) // it takes less than a second
}

// approvals returns the keys that approved a package. Only the set counts, if the mirror has one.
func (b *Builder) approvals(at fsmirror.Package, f store.Facts) []sources.Signer {
	set, err := b.Set()
	switch {
	case errors.Is(err, sources.ErrNotFound):
		return f.Proof.Approvals
	case err != nil || f.ZH == "" || at.Unpacked():
		return nil
	}
	return set.Approvals(at.ID, f.ZH)
}

// Approve makes a set count instead of that of the mirror, as if PutSet had put it there. It must not be called while
// other methods run.
func (b *Builder) Approve(set *trust.Set) { b.set = func() (*trust.Set, error) { return set, nil } }

// PutSet makes a set that of the mirror.
func (b *Builder) PutSet(ctx context.Context, set *trust.Set) error {
	release, err := b.exclude(ctx)
	if err != nil {
		return err
	}
	defer release()
	b.Approve(set)
	return disk.Explain(evidence.WriteSet(b.own, b.work.Dir, set.Signed), b.opts.Place)
}

// Deviation returns how the mirror differs from a set, as findings, and the packages that the set doesn't list.
func (b *Builder) Deviation(ctx context.Context, set *trust.Set) (found []*store.Finding, more []Entry, err error) {
	entries, err := b.List(ctx, ListOptions{Hash: true, Again: true})
	if err != nil {
		return nil, nil, err
	}
	left := maps.Clone(set.Packages)
	for _, e := range entries {
		zh, listed := set.Packages[e.ID]
		delete(left, e.ID)
		if listed && zh == e.Stored.ZH && !e.Unpacked {
			continue
		}
		err := errors.New("the signed set doesn't list it")
		if listed {
			err = fmt.Errorf("the signed set lists it as %s", zh)
		}
		found, more = append(found, &store.Finding{Kind: NotInSet, Path: e.Path, Package: &e.ID, Err: err}), append(more, e)
	}
	for _, id := range slices.SortedFunc(maps.Keys(left), sources.PackageID.Compare) {
		err := errors.New("the signed set lists it, and the mirror doesn't have it")
		path := b.relative(b.place(id, false).Path())
		found = append(found, &store.Finding{Kind: Wanting, Path: path, Package: &id, Err: err})
	}
	return found, more, nil
}

// checkSet finds how the mirror differs from its signed set, if it has one.
func (v *verifier) checkSet(ctx context.Context) error {
	set, err := v.Set()
	if errors.Is(err, sources.ErrNotFound) {
		return nil
	}
	if err != nil {
		v.found(BadSet, evidence.SetPath, nil, "%s", strings.TrimPrefix(err.Error(), v.dir.Path(evidence.SetPath)+": "))
		return nil
	}
	found, _, err := v.Deviation(ctx, set)
	for _, f := range found {
		if !v.broken[f.Path] {
			v.add(f)
		}
		v.Sound = slices.DeleteFunc(v.Sound, func(s sources.Stored) bool { return v.relative(s.Dir) == f.Path })
	}
	return err
}
