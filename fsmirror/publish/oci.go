package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/oci"
)

// ErrForeign matches the error of a place for something that isn't a release of a provider, although it has the name of one.
var ErrForeign = oci.ErrForeign

// OCI is a [Target] in OCI registries.
type OCI struct {
	*oci.Mirror
	Template oci.Template
	URL      string // as messages name it
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
	release, err := o.Mirror.Look(ctx, r.Provider, r.Version, added(r), r.Evidence)
	s := State{Archives: map[sources.Platform]sources.Hash{}, Signed: release.Signed}
	for platform, a := range release.Archives {
		s.Archives[platform] = a.Hash
	}
	return s, err
}

// added returns the packages of a release, without their contents.
func added(r Release) (all []oci.Added) {
	for _, p := range r.Packages {
		all = append(all, oci.Added{Platform: p.ID.Platform, Size: p.Size, Hash: p.ZH, Filename: p.ID.Filename()})
	}
	return all
}

// Put implements [Target].
func (o *OCI) Put(ctx context.Context, r Release, sent func(int64)) (err error) {
	packages := added(r)
	for i, p := range r.Packages {
		archive, err := p.open()
		if err != nil {
			return sources.InPackage(p.ID, err)
		}
		defer archive.Close()
		packages[i].Archive = unchanged{archive, p.Size}
	}
	return o.Mirror.Put(ctx, r.Provider, r.Version, oci.Change{Add: packages, Signed: r.Evidence, Sent: sent})
}

// unchanged is an archive, as long as it has its size.
type unchanged struct {
	*os.File
	size int64
}

func (u unchanged) ReadAt(p []byte, at int64) (int, error) {
	n, err := u.File.ReadAt(p, at)
	if errors.Is(err, io.EOF) && at+int64(n) < u.size {
		return n, fmt.Errorf("%s became shorter while it was read", u.Name())
	}
	return n, err
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

// A tagSlot is a tag.
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

// Write implements [Slot]. Registries can't write on a condition, so it reads the tag before and after that.
func (s *tagSlot) Write(ctx context.Context, text string) error {
	if last := s.last; !s.read {
		if now, err := s.Read(ctx); err != nil || now != last {
			return cmp.Or(err, fmt.Errorf("%s: %w", s.of, ErrTaken))
		}
	}
	err := s.in.SetLease(ctx, s.of, text)
	switch {
	case errors.Is(err, oci.ErrMoved):
		return fmt.Errorf("%w: %w", ErrTaken, err)
	case err == nil:
		s.last, s.read = text, false
	}
	return err
}

// Finish implements [Target].
func (o *OCI) Finish(context.Context, sources.Provider) error { return nil }
