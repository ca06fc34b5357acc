package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/store"
)

// CreateOptions configure [Create].
type CreateOptions struct {
	// Accept is called with all packages before anything is written. Its error ends the
	// command. It may be nil.
	Accept func([]sources.Stored) error

	// Page returns the page for people, for a bundle that is not a delta. It may be nil.
	Page func([]Package) ([]byte, error)

	Records store.Records // of the mirror
	Judge   sources.Judge // decides what evidence is worth
	Sign    Sign          // signs the set of the bundle; nil means that of the mirror, if it has one
	Since   *Receiver     // its packages are left out; may be nil

	// Only are the packages to write, if it isn't nil. There may be none.
	Only map[sources.PackageID]bool

	Temporary bool                 // the mirror was filled for this bundle, so its directories don't make packages private
	Payload   []Payload            // from [Gather]
	DryRun    bool                 // write nothing
	Report    func(done, of int64) // called with the progress in bytes; may be nil
	Warn      func(error)          // called for each package that is left out
}

// Sign signs the manifest of a set.
type Sign func(manifest []byte) (*sources.Signed, error)

// A Created bundle has been written to a file.
type Created struct {
	Size     int64 // of the file, in bytes
	Manifest Manifest

	// Private is the path of something in the bundle that not all users can read, or
	// empty. Only this user may then read the file.
	Private string

	// Unchanged reports that the file was the same bundle already. It was kept.
	Unchanged bool
}

// Create writes the packages of the mirror in dir, and the evidence for them, to
// file, unless the receiver has all of them. It replaces an existing file once the new one has been written.
// The same packages and evidence produce the same bytes. Create fails if
// evidence does not verify its packages, because mirrors would refuse to import
// them, or if the receiver lacks unpacked packages: an archive made from
// the contents would not have the published checksum, which signatures and lock
// files refer to.
func Create(ctx context.Context, dir, file string, opts CreateOptions) (Created, error) {
	m, unpacked, err := contentsOf(ctx, dir, opts)
	if err != nil {
		return Created{}, err
	}
	if err := opts.checkArchives(dir, unpacked); err != nil {
		return Created{}, err
	}
	if len(m.Packages)+len(m.Removed)+opts.Since.Skipped() == 0 && opts.Only == nil {
		return Created{}, sources.WithHint(fmt.Errorf("%s has no packed packages", dir), "mirror sync fills a mirror")
	}
	all := m
	if opts.Since != nil {
		m = m.Since(opts.Since)
	}
	m.Payload = opts.Payload
	if opts.Page != nil && len(m.Base) == 0 && len(m.Packages) > 0 {
		text, err := opts.Page(m.Packages)
		if err != nil {
			return Created{}, err
		}
		page := newFile(fsmirror.Page, text)
		m.Page = &page
	}
	if err := opts.addSet(ctx, dir, all, &m); err != nil {
		return Created{}, err
	}
	if _, err := ParseManifest(m.Text()); err != nil { // too large, with many files
		return Created{}, err
	}
	if err := opts.prove(ctx, dir, m); err != nil {
		return Created{}, err
	}
	if opts.DryRun || m.Empty() && opts.Only == nil {
		l, err := m.layout()
		return Created{Size: l.size, Manifest: m, Private: m.private()}, err
	}
	return writeFile(ctx, file, m, opts.Report)
}

var errUnpacked = errors.New("it is unpacked, and bundles of mirrors contain archives only")

// checkArchives returns an error for each unpacked package that the receiver lacks.
func (opts CreateOptions) checkArchives(dir string, unpacked []sources.PackageID) error {
	var errs []error
	for _, id := range unpacked {
		if opts.Since != nil {
			if _, _, has := opts.Since.find(id); has {
				continue
			}
		}
		err := sources.WithHint(sources.InPackage(id, errUnpacked),
			"larder mirror sync %s %s@%s --platform %s fetches the archive", dir, id.Provider, id.Version, id.Platform)
		errs = append(errs, sources.WithLastHint(err, "without a network, copy the directory, which is a filesystem mirror"))
	}
	return errors.Join(errs...)
}

// prove returns an error unless the evidence in a mirror verifies its packages, and the
// caller accepts them.
func (opts CreateOptions) prove(ctx context.Context, dir string, m Manifest) error {
	var all []sources.Stored
	var errs []error
	for _, p := range m.Packages {
		v, err := p.verified(ctx, opts.Judge, m.Signed(p.ID.Release()))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			err = &sources.PackageError{ID: p.ID, Err: fmt.Errorf("checking the mirror's signed checksums: %w", err)}
			err = sources.WithHint(err, "larder mirror verify %s lists every problem", dir)
		}
		all, errs = append(all, v), append(errs, err)
	}
	if errors.Join(errs...) == nil && opts.Accept != nil {
		return opts.Accept(all)
	}
	return errors.Join(errs...)
}

// Describe returns the manifest of the mirror in dir. It reads packages without a
// record. Unpacked packages cannot be in bundles: warn is called for them.
func Describe(ctx context.Context, dir string, records store.Records, warn func(error)) (Manifest, error) {
	m, unpacked, err := contentsOf(ctx, dir, CreateOptions{Records: records, Warn: warn})
	for _, id := range unpacked {
		warn(&sources.PackageError{ID: id, Err: errUnpacked})
	}
	return m, err
}

// contentsOf is Describe, and returns the unpacked packages. Removed are those that the receiver has.
func contentsOf(
	ctx context.Context, dir string, opts CreateOptions,
) (m Manifest, unpacked []sources.PackageID, err error) {
	mirror := fsmirror.New(dir, fsmirror.Options{})
	packages, err := mirror.Packages(ctx)
	if err != nil {
		return m, nil, err
	}
	strays, err := mirror.Strays(ctx)
	if err != nil {
		return m, nil, err
	}
	for _, s := range strays {
		opts.Warn(fmt.Errorf("not in the bundle: %s", s))
	}
	there, err := builder.Open(ctx, dir, builder.Options{Records: opts.Records, ReadOnly: true, Warn: opts.Warn})
	if err != nil {
		return m, nil, err
	}
	defer there.Close()
	m.Removed = opts.Since.removedFrom(there, packages)
	packed := func(p fsmirror.Package) int { return min(len(p.Location.Archive), 1) } // archives first
	slices.SortStableFunc(packages, func(a, b fsmirror.Package) int {
		return cmp.Or(a.ID.Compare(b.ID), packed(b)-packed(a))
	})
	var archives []sources.Stored
	for _, found := range slices.CompactFunc(packages, func(a, b fsmirror.Package) bool { return a.ID == b.ID }) {
		switch {
		case opts.Only != nil && !opts.Only[found.ID]:
			continue
		case found.ID.Provider.BuiltIn(), found.ID.Provider.Legacy(): // engines install none from a mirror
			err := errors.New("not in the bundle: no module can require a provider with this address")
			opts.Warn(&sources.PackageError{ID: found.ID, Err: err})
			continue
		case found.Unpacked():
			unpacked = append(unpacked, found.ID)
			continue
		}
		s, err := there.Find(ctx, found)
		if err == nil {
			s, err = there.Read(ctx, s)
		}
		if err == nil && s.Differs != "" {
			err = sources.InPackage(found.ID, &builder.ChangedError{Was: s.Differs, Is: s.ZH})
			err = sources.WithHint(err, "larder mirror verify %s lists every problem", dir)
		}
		if err != nil {
			return m, nil, err
		}
		archives = append(archives, s)
	}
	return m, unpacked, m.add(dir, archives, opts.Temporary)
}

// add adds the packages of the mirror in dir, which are sorted, and the evidence for their versions.
func (m *Manifest) add(dir string, all []sources.Stored, temporary bool) error {
	for _, s := range all {
		p := Package{ID: s.ID, ZH: s.ZH, H1: s.H1, approvals: s.Proof.Approvals}
		if err := p.locate(s, temporary); err != nil {
			return sources.InPackage(s.ID, err)
		}
		m.Packages = append(m.Packages, p)
		r := s.ID.Release()
		if n := len(m.Evidence); n > 0 && m.Evidence[n-1].Release == r {
			continue
		}
		by, err := evidence.Of(dir, r.Provider, r.Version)
		if err != nil && !errors.Is(err, sources.ErrNotFound) {
			return err
		}
		if by != nil {
			m.Evidence = append(m.Evidence, newEvidence(r, by))
		}
	}
	_, err := ParseManifest(m.Text())
	return err
}

// locate describes the archive of a package.
func (p *Package) locate(s sources.Stored, temporary bool) error {
	info, err := os.Stat(s.Dir)
	if err != nil {
		return err
	}
	p.Size, p.source = info.Size(), source{path: s.Dir, origin: s.Origin, public: s.Public()}
	if temporary { // the archive is a copy with the permissions of the original
		p.public, p.original = true, "the original of "+s.ID.String()
	}
	if s.ZipH1 != s.H1 {
		p.ZipH1 = s.ZipH1
	}
	return nil
}

// newEvidence describes the evidence for a release.
func newEvidence(r sources.Release, signed *sources.Signed) Evidence {
	e := Evidence{Release: r, Path: evidence.Path(r.Provider, r.Version), signed: signed}
	for i, data := range evidence.Pack(signed) {
		e.Files = append(e.Files, newFile(evidence.Names[i], data))
	}
	return e
}

// writeFile writes the bundle to a file. It replaces an existing file once the new one has been written. The function
// report is called with the progress in bytes. It may be nil.
func writeFile(ctx context.Context, file string, m Manifest, report func(done, of int64)) (c Created, err error) {
	l, err := m.layout()
	if err != nil {
		return c, err
	}
	c = Created{Size: l.size, Manifest: m, Private: m.private()}
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() { // a device must not be replaced
		err := fmt.Errorf("%s already exists, and is not a file", file)
		if info.IsDir() {
			err = fmt.Errorf("%s is a directory, not a file", file)
		}
		return c, sources.WithHint(err, "use the path of a file")
	}
	in, err := disk.Open(filepath.Dir(file))
	if err != nil {
		return c, err
	}
	defer in.Close()
	t, err := in.NewTemp(filepath.Base(file))
	if err != nil {
		return c, explain(fmt.Errorf("cannot write in %s: %w", filepath.Dir(file), disk.Cause(err)))
	}
	defer t.Discard()
	if c.Private != "" {
		t.Hidden = 0o077
	}
	if err := l.write(ctx, io.MultiWriter(t, &progress{of: c.Size, report: report}), c.Private != ""); err != nil {
		return c, explain(err)
	}
	if c.Unchanged = isAt(ctx, t, in, filepath.Base(file)); c.Unchanged {
		return c, nil
	}
	return c, explain(t.Commit(filepath.Base(file)))
}

// isAt reports whether the file of a name in a directory can stay instead of t: it has the same contents, no other user
// can write to it, and the users can read it who may read t.
func isAt(ctx context.Context, t *disk.Temp, in *disk.Dir, name string) bool {
	f, info, err := in.OpenFile(name)
	if err != nil {
		return false
	}
	defer f.Close()
	if !disk.Own(info) || disk.HiddenBy(info) != t.Hidden {
		return false
	}
	written, size, err := disk.Hash(ctx, io.NewSectionReader(t, 0, math.MaxInt64), math.MaxInt64-1)
	kept, keptSize, keptErr := disk.Hash(ctx, f, size)
	return err == nil && keptErr == nil && size == keptSize && kept == written
}

// explain adds a hint to an error of writing a bundle.
func explain(err error) error {
	if disk.IsTooLarge(err) {
		return sources.WithHint(err, "the file system cannot hold files of this size (FAT stops at 4 GiB): "+
			"write the bundle elsewhere, and cut it with split -b 4000M FILE; cat joins the pieces")
	}
	return disk.Explain(err, "the bundle")
}
