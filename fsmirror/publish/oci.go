package publish

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/oci"
)

// ErrForeign matches the error of a place for something that isn't a release of a provider, although it has the name of one.
var ErrForeign = oci.ErrForeign

// OCI is a [Target] in OCI registries.
type OCI struct {
	*oci.Mirror
	URL string // as messages name it
}

func (o *OCI) String() string { return o.URL }

// Check implements [Target]: a template may map two providers to the same repository.
func (o *OCI) Check(releases []Release) error {
	first := map[oci.Repository]sources.Provider{}
	for _, r := range releases {
		at, err := o.Template.Repository(r.Provider)
		if err != nil {
			continue // Put returns the error
		}
		if other, ok := first[at]; ok && other != r.Provider {
			return sources.WithHint(fmt.Errorf("%s and %s would both be in %s", other, r.Provider, at), "add ${hostname}, ${namespace} or ${type} to the template")
		}
		first[at] = r.Provider
	}
	return nil
}

// Look implements [Target].
func (o *OCI) Look(ctx context.Context, r Release) (State, error) {
	release, err := o.Mirror.Look(ctx, r.Provider, r.Version, added(r.Packages...))
	s := State{Archives: map[sources.Platform]sources.Hash{}, Signed: release.Signed}
	for platform, a := range release.Archives {
		s.Archives[platform] = a.Hashes[0]
	}
	return s, err
}

// added returns the packages of a release as package oci takes them.
func added(packages ...Package) (all []oci.Added) {
	for _, p := range packages {
		all = append(all, oci.Added{Platform: p.ID.Platform, Size: p.Size, Hash: p.ZH, Filename: p.ID.Filename()})
	}
	return all
}

// Upload implements [Target].
func (o *OCI) Upload(ctx context.Context, p Package, archive io.ReaderAt, sent func(int64)) error {
	return o.Mirror.Upload(ctx, p.ID.Provider, added(p)[0], archive, sent)
}

// Put implements [Target].
func (o *OCI) Put(ctx context.Context, r Release) error {
	return o.Mirror.Put(ctx, r.Provider, r.Version, oci.Change{Add: added(r.Packages...), Signed: r.Evidence})
}

// Present implements [Target].
func (o *OCI) Present(ctx context.Context, p sources.Provider) ([]sources.Version, bool, error) {
	listing, err := o.Versions(ctx, p)
	return listing.Versions, false, err
}

// Remove implements [Target].
func (o *OCI) Remove(ctx context.Context, p sources.Provider, packages []sources.PackageID) error {
	drop := map[sources.Version][]sources.Platform{}
	for _, id := range packages {
		drop[id.Version] = append(drop[id.Version], id.Platform)
	}
	for v, platforms := range drop {
		if err := o.Mirror.Put(ctx, p, v, oci.Change{Remove: platforms}); err != nil {
			return err
		}
	}
	return nil
}

// Forget implements [Target].
func (o *OCI) Forget(sources.Provider) {}

// Slot implements [Target].
func (o *OCI) Slot(p sources.Provider) Slot { return &tagSlot{in: o.Mirror, of: p} }

// How long to wait until a tag is read again: a multiple of the time that writing it took, within limits.
const (
	settlingTimes = 5
	leastSettling = 100 * time.Millisecond
	mostSettling  = 5 * time.Second
)

// A tagSlot is a tag. Registries can't write on a condition, so it reads the tag before and after that.
type tagSlot struct {
	in   *oci.Mirror
	of   sources.Provider
	last string // as it was read or written
	read bool   // and not written since
}

// Read implements [Slot].
func (s *tagSlot) Read(ctx context.Context) (text string, err error) {
	s.last, err = s.in.Lease(ctx, s.of)
	s.read = true
	return s.last, err
}

// Write implements [Slot].
func (s *tagSlot) Write(ctx context.Context, text string) error {
	if !s.read {
		if err := s.check(ctx, s.last); err != nil {
			return err
		}
	}
	began := time.Now()
	s.read = false
	if err := s.in.SetLease(ctx, s.of, text); err != nil || text == "" {
		return err
	}
	// Another program that has read the tag before should have written it by then.
	if err := sleep(ctx, min(max(leastSettling, settlingTimes*time.Since(began)), mostSettling)); err != nil {
		return err
	}
	err := s.check(ctx, text)
	s.read = err != nil
	return err
}

// check returns an error unless the tag has the text.
func (s *tagSlot) check(ctx context.Context, text string) error {
	now, err := s.Read(ctx)
	if err == nil && now != text {
		err = fmt.Errorf("%s: %w", s.of, ErrTaken)
	}
	return err
}

// Finish implements [Target].
func (o *OCI) Finish(context.Context, sources.Provider) error { return nil }
