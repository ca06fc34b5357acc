package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
)

// A Kind is a kind of problem. Kinds are members of JSON, so they are permanent.
type Kind string

// The kinds of problems that every store can have. A store adds those of its layout.
const (
	Changed     Kind = "changed package" // differs from the stored package
	Broken      Kind = "broken package"  // no engine can install or run it
	Missing     Kind = "missing package" // the store should have it
	BadEvidence Kind = "broken evidence" // does not verify the package
	Unreadable  Kind = "unreadable"      // the file system failed to read it
)

// A Finding is a problem in a store, in a bundle or in a root module. It is an error that names what is wrong.
type Finding struct {
	Kind    Kind
	Path    string             // relative to the store, with forward slashes; or that of the bundle
	Package *sources.PackageID // nil if no package is affected
	Err     error              // what is wrong; never nil

	Sound    bool // the contents of the changed package are the stored ones
	InBundle bool // Path is that of a bundle, which has other packages too
}

// Text returns what is wrong, without the subject.
func (f *Finding) Text() string { return sources.Text(f.Err) }

func (f *Finding) Error() string {
	switch {
	case !f.InBundle:
		return fmt.Sprintf("%s: %s: %v", f.Path, f.Kind, f.Err)
	case f.Package != nil:
		return fmt.Sprintf("%s: %s: %v", f.Path, f.Package, f.Err)
	}
	return fmt.Sprintf("%s: %v", f.Path, f.Err)
}

// Unwrap returns what is wrong.
func (f *Finding) Unwrap() error { return f.Err }

// A Subject is a package that [Evidence.Verify] verifies. Its functions are called in this order, unless there is a
// problem.
type Subject struct {
	ID   sources.PackageID
	Path string // in findings
	Dir  string // the package on this machine
	Size int64  // in bytes

	// Read hashes the package. The error is [ErrGone] if it was removed meanwhile.
	Read func(context.Context) (Facts, error)

	// Recorded returns what is recorded about the package with these contents, the best record first. Other contents
	// than recorded are a problem.
	Recorded func(now Facts) ([]Facts, error)

	// Start returns an error if engines could not start the provider. It may be nil.
	Start func() error

	// Done is called with the result, concurrently for several packages. The evidence for the package is still in memory.
	Done func(Verified)
}

// ErrGone is the error of reading a package that was removed meanwhile.
var ErrGone = errors.New("removed meanwhile")

// Verified is the result for a subject.
type Verified struct {
	Now      Facts         // the contents; zero if they could not be read
	Was      Facts         // the record that was compared; zero if there is none
	Proof    sources.Proof // what is proved about the package
	Findings []*Finding
	Gone     bool // the package was removed meanwhile
}

// Sound reports whether the package has no problem.
func (v Verified) Sound() bool { return len(v.Findings) == 0 && !v.Gone }

// Has reports whether there is a finding of a kind.
func (v Verified) Has(kind Kind) bool {
	return slices.ContainsFunc(v.Findings, func(f *Finding) bool { return f.Kind == kind })
}

// Verify reads packages concurrently, and compares them with what is recorded about them and with their evidence.
// Report, which may be nil, is called with the number of bytes read so far, one call at a time. The error is that of
// ctx.
func (e *Evidence) Verify(ctx context.Context, all []Subject, report func(done, of int64)) error {
	var done, total int64
	for _, s := range all {
		total += s.Size
	}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, s := range all {
		g.Go(func() error {
			v := Verified{}
			e.verify(ctx, s, &v)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.Done(v)
			mu.Lock()
			defer mu.Unlock()
			if done += s.Size; report != nil {
				report(done, total)
			}
			return nil
		})
	}
	return g.Wait()
}

// verify verifies one package.
func (e *Evidence) verify(ctx context.Context, s Subject, v *Verified) {
	found := func(kind Kind, err error) {
		if disk.IsUnread(err) {
			kind = Unreadable
		}
		err = errors.New(strings.TrimPrefix(sources.Text(err), s.Dir+": "))
		v.Findings = append(v.Findings, &Finding{Kind: kind, Path: s.Path, Package: &s.ID, Err: err})
	}
	now, err := s.Read(ctx)
	switch {
	case errors.Is(err, ErrGone):
		v.Gone = true
		return
	case err != nil:
		found(Broken, err)
		return
	}
	v.Now = now
	recorded, err := s.Recorded(now)
	if disk.IsUnread(err) {
		found(Unreadable, err)
		return
	}
	for _, was := range recorded {
		if !was.Same(now) {
			v.Was = was
			found(Changed, now.Differ(was))
			return
		}
	}
	facts := now
	if len(recorded) > 0 {
		v.Was, facts = recorded[0], recorded[0]
	}
	if v.Proof, err = e.Check(ctx, s.ID, facts); err != nil {
		found(BadEvidence, err)
	}
	if s.Start == nil {
		return
	}
	if err := s.Start(); err != nil {
		found(Changed, err)
		v.Findings[len(v.Findings)-1].Sound = true
	}
}

// LetExecute restores the execute permission of the provider in dir, the package id, if it was lost, and warns about
// that. Engines would install the package, and fail to start the provider. The error is that of [archive.Startable].
func LetExecute(dir string, id sources.PackageID, warn func(error)) (restored bool, err error) {
	if err := archive.Startable(dir, id); !errors.Is(err, archive.ErrNotExecutable) {
		return false, err
	}
	name, err := archive.Executable(dir, id.Provider.Type)
	if err == nil {
		err = archive.LetExecute(strings.TrimSuffix(dir, filepath.FromSlash(id.Path())), name, id)
	}
	if err != nil {
		return false, err
	}
	warn(fmt.Errorf("%s: restored the execute permission of %s", id, name))
	return true, nil
}

// Same reports whether a package has the recorded hashes. An unpacked package lacks the checksum of its archive, and a
// signed archive may lack the hash of its contents.
func (f Facts) Same(now Facts) bool {
	same := sources.Stored{H1: f.H1, ZH: f.ZH}.Same(sources.Stored{H1: now.H1, ZH: now.ZH})
	return same && (now.ZH == "" || f.ZH == "" || f.ZH == now.ZH)
}

// With returns the facts with the hashes of the contents from others about the same package, if only they have them.
func (f Facts) With(other Facts) Facts {
	if f.H1 == "" {
		f.H1, f.ZipH1 = other.H1, other.ZipH1
	}
	return f
}

// Differ describes how contents differ from the recorded ones.
func (f Facts) Differ(was Facts) error {
	day := was.Since.Format(time.DateOnly)
	if text := f.Sums.Differ(was.Sums, " from what was verified on "+day); text != "" {
		return errors.New(text)
	}
	if f.ZH != "" && was.ZH != "" {
		return fmt.Errorf("its archive is %s; the one verified on %s was %s", f.ZH, day, was.ZH)
	}
	return fmt.Errorf("its contents are %s; those verified on %s were %s", f.H1, day, was.H1)
}
