package publish

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/oci"
)

// OCI is a place in OCI registries. It is a [Target] and a [Browser].
type OCI struct {
	*oci.Mirror
	URL  string       // as messages name it
	Host sources.Host // of the providers if the template doesn't contain it
}

func (o *OCI) String() string { return o.URL }

// Hostless implements [Browser].
func (o *OCI) Hostless() bool { return !o.Template.HasHost() }

// Providers implements [Browser].
func (o *OCI) Providers(ctx context.Context) ([]sources.Provider, error) {
	return o.Mirror.Providers(ctx, o.Host)
}

// Open implements [Target]. Nothing has to be read.
func (o *OCI) Open(_ context.Context, p sources.Provider) (Shelf, error) { return &ociShelf{o, p}, nil }

// An ociShelf is a repository.
type ociShelf struct {
	in *OCI
	of sources.Provider
}

// Check implements [Target]: a template may map two providers to the same repository.
func (o *OCI) Check(releases []Release) error {
	first := map[oci.Repository]sources.Provider{}
	for _, r := range releases {
		at, err := o.Template.Repository(r.Provider)
		if err != nil {
			continue // Put returns the error
		}
		if other, ok := first[at]; ok && other != r.Provider {
			return sources.WithHint(fmt.Errorf("%s and %s would both be in %s", other, r.Provider, at),
				"add ${hostname}, ${namespace} or ${type} to the template")
		}
		first[at] = r.Provider
	}
	return nil
}

// Look implements [Shelf].
func (s *ociShelf) Look(ctx context.Context, r Release) (State, error) {
	release, err := s.in.Look(ctx, s.of, r.Version, added(r.Packages...))
	is := State{Archives: map[sources.Platform]sources.Hash{}, Signed: release.Signed}
	for platform, a := range release.Archives {
		is.Archives[platform] = a.Hashes[0]
	}
	return is, err
}

// added returns the packages of a release as package oci takes them.
func added(packages ...Package) (all []oci.Added) {
	for _, p := range packages {
		all = append(all, oci.Added{Platform: p.ID.Platform, Size: p.Size, Hash: p.ZH, Filename: p.ID.Filename()})
	}
	return all
}

// Upload implements [Shelf].
func (s *ociShelf) Upload(ctx context.Context, p Package, archive io.ReaderAt, sent func(int64)) error {
	return s.in.Upload(ctx, s.of, added(p)[0], archive, sent)
}

// Put implements [Shelf].
func (s *ociShelf) Put(ctx context.Context, r Release) error {
	return s.in.Put(ctx, s.of, r.Version, oci.Change{Add: added(r.Packages...), Signed: r.Signed})
}

// Finish implements [Shelf].
func (s *ociShelf) Finish(context.Context) error { return nil }

// Present implements [Shelf].
func (s *ociShelf) Present(ctx context.Context) ([]sources.Version, error) {
	listing, err := s.in.Versions(ctx, s.of)
	return listing.Versions, err
}

// HasRests implements [Shelf].
func (s *ociShelf) HasRests() bool { return false }

// Remove implements [Shelf].
func (s *ociShelf) Remove(ctx context.Context, packages []sources.PackageID) error {
	drop := map[sources.Version][]sources.Platform{}
	for _, id := range packages {
		drop[id.Version] = append(drop[id.Version], id.Platform)
	}
	for v, platforms := range drop {
		if err := s.in.Put(ctx, s.of, v, oci.Change{Remove: platforms}); err != nil {
			return err
		}
	}
	return nil
}

// Slot implements [Target].
func (o *OCI) Slot(p sources.Provider) Slot { return &tagSlot{in: o.Mirror, of: p} }

// How long to wait until a tag that was taken is read again.
const (
	settlingTimes = 3 // the time since it was read first, within limits
	leastSettling = 100 * time.Millisecond
	mostSettling  = abandonedAfter / 2
)

// leaseTags are the leases in a registry, as [oci.Mirror] reads and writes them.
type leaseTags interface {
	Lease(ctx context.Context, p sources.Provider) (text string, err error)
	SetLease(ctx context.Context, p sources.Provider, text string) error
}

// A tagSlot is a tag. Registries can't write on a condition, so it reads the tag before and after that. A program whose
// write was slow may have replaced the lease of another one, which has begun to work. It waits several times as long as
// reading and writing took: by then the other one has looked at its lease again, see [lookAgain], and has stopped.
type tagSlot struct {
	in   leaseTags
	of   sources.Provider
	last string    // as it was read or written
	read time.Time // zero if it was written since
}

// Read implements [Slot].
func (s *tagSlot) Read(ctx context.Context) (text string, err error) {
	s.read = time.Now()
	s.last, err = s.in.Lease(ctx, s.of)
	return s.last, err
}

// Write implements [Slot].
func (s *tagSlot) Write(ctx context.Context, text string) error {
	began, taking := s.read, !s.read.IsZero()
	if !taking {
		if err := s.check(ctx, s.last); err != nil {
			return err
		}
	}
	s.read = time.Time{} // also if writing fails, which may have changed the tag
	if err := s.in.SetLease(ctx, s.of, text); err != nil {
		return err
	}
	if taking && text != "" {
		if err := fetch.Sleep(ctx, min(max(leastSettling, settlingTimes*time.Since(began)), mostSettling)); err != nil {
			return err
		}
		if err := s.check(ctx, text); err != nil {
			return err
		}
	}
	s.last, s.read = text, time.Time{}
	return nil
}

// check returns an error unless the tag has the text.
func (s *tagSlot) check(ctx context.Context, text string) error {
	now, err := s.Read(ctx)
	if err == nil && now != text {
		err = fmt.Errorf("%s: %w", s.of, ErrTaken)
	}
	return err
}
