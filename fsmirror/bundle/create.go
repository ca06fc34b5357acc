package bundle

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/seal"
)

// CreateOptions configure [Create].
type CreateOptions struct {
	// Check refuses a package for a reason that is not in the bundle. It may be nil.
	Check func(Verified) error

	// Accept is called with all packages before anything is written. Its error ends the
	// command. It may be nil.
	Accept func([]Verified) error

	Key     seal.Key             // authenticates records of the mirror
	Judge   sources.Judge        // by default one without settings
	Since   *Manifest            // manifest of the receiver, whose packages are left out; may be nil
	Base    []Package            // packages of the receiver that the mirror lacks, for the bundle's base; only ID and ZH are used
	MaxSize int64                // of each file, in bytes; 0 means no limit
	Payload []Payload            // from [Gather]
	DryRun  bool                 // write nothing
	Report  func(done, of int64) // called with the progress in bytes; may be nil
	Warn    func(error)          // called for each package that is left out; may be nil
}

// Created describes the files that [Create] has written.
type Created struct {
	Files    []string
	Sizes    []int64 // of the files, in bytes
	Manifest Manifest

	// Private is the path of something in the bundle that not all users can read, or
	// empty. Only this user may then read the files.
	Private string
}

// Create writes the packages of the mirror in dir, and the evidence for them, to
// file. If they exceed the maximum size, it writes several files with names derived
// from file. It replaces existing files with these names, once all new files have
// been written. The same packages and evidence produce the same bytes. Evidence that
// does not verify its packages is an error, because mirrors would refuse to import
// them. Unpacked packages that the receiver lacks are an [ArchivesError]: an archive made from the contents would have another checksum than the
// published one, which signatures and lock files refer to.
func Create(ctx context.Context, dir, file string, opts CreateOptions) (Created, error) {
	m, unpacked, readers, err := contentsOf(ctx, dir, opts.Key, opts.Warn)
	if err != nil {
		return Created{}, err
	}
	if err := opts.checkArchives(dir, unpacked); err != nil {
		return Created{}, err
	}
	if len(m.Packages)+len(opts.Base) == 0 {
		return Created{}, sources.WithHint(fmt.Errorf("%s has no packed packages", dir), "larder mirror sync fills a mirror")
	}
	if opts.Since != nil {
		m = m.Since(*opts.Since)
	}
	m = m.basedOn(opts.Base)
	m.Payload = opts.Payload
	if _, err := ParseManifest(m.Text()); err != nil { // too large, with many files
		return Created{}, err
	}
	if err := opts.prove(dir, m); err != nil {
		return Created{}, err
	}
	parts, err := m.Split(opts.MaxSize)
	if err != nil {
		return Created{}, err
	}
	c := Created{Files: names(file, len(parts)), Manifest: parts[0], Private: m.private(readers)}
	for _, part := range parts {
		_, size, err := part.layout()
		if err != nil {
			return Created{}, err
		}
		c.Sizes = append(c.Sizes, size)
	}
	if opts.DryRun {
		return c, nil
	}
	return c, writeAll(ctx, dir, c, parts, readers, opts.Report)
}

// An ArchivesError reports packages of a mirror that cannot be in a bundle, because
// only their contents are there.
type ArchivesError struct {
	Dir      string
	Packages []sources.PackageID
}

func (e *ArchivesError) Error() string {
	if len(e.Packages) == 1 {
		return fmt.Sprintf("%s has one package without its archive, which a bundle needs", e.Dir)
	}
	return fmt.Sprintf("%s has %d packages without their archives, which a bundle needs", e.Dir, len(e.Packages))
}

// Unwrap returns an error for each package.
func (e *ArchivesError) Unwrap() []error {
	var all []error
	for _, id := range e.Packages {
		all = append(all, &sources.PackageError{ID: id, Err: errUnpacked})
	}
	return all
}

var errUnpacked = errors.New("it is unpacked, and bundles contain archives only")

// checkArchives returns an error for the unpacked packages that the receiver lacks.
func (opts CreateOptions) checkArchives(dir string, unpacked []sources.PackageID) error {
	if opts.Since != nil {
		unpacked = slices.DeleteFunc(unpacked, func(id sources.PackageID) bool {
			_, _, has := opts.Since.Find(id)
			return has
		})
	}
	if len(unpacked) == 0 {
		return nil
	}
	return &ArchivesError{dir, unpacked}
}

// names returns the file names of a bundle with this many parts, such as usb-1of3.tar
// for usb.tar.
func names(file string, parts int) []string {
	if parts == 1 {
		return []string{file}
	}
	ext := filepath.Ext(file)
	width := len(fmt.Sprint(parts))
	var all []string
	for i := range parts {
		all = append(all, fmt.Sprintf("%s-%0*dof%d%s", strings.TrimSuffix(file, ext), width, i+1, parts, ext))
	}
	return all
}

// Describe returns the manifest of the mirror in dir. It reads packages without a
// record. Unpacked packages cannot be in bundles: warn is called for them. It may be
// nil.
func Describe(ctx context.Context, dir string, key seal.Key, warn func(error)) (Manifest, error) {
	m, unpacked, _, err := contentsOf(ctx, dir, key, warn)
	for _, id := range unpacked {
		if warn != nil {
			warn(&sources.PackageError{ID: id, Err: errUnpacked})
		}
	}
	return m, err
}

// readers describe who can read an archive.
type readers struct {
	private string // path of the archive, or the place that it came from, if not all users can read it
	public  bool   // it was downloaded, so the directories above it don't count
}

// private returns the path of something in the bundle that not all users can read. It returns ""
// if there is none.
func (m Manifest) private(packages map[sources.PackageID]readers) string {
	for _, p := range m.Packages {
		if path := packages[p.ID].private; path != "" {
			return path
		}
	}
	for _, p := range m.Payload {
		for _, f := range p.Files {
			if f.private != "" {
				return f.private
			}
		}
	}
	return ""
}

// contentsOf is Describe, and returns the unpacked packages. It also returns who can
// read the archives.
func contentsOf(ctx context.Context, dir string, key seal.Key, warn func(error)) (m Manifest, unpacked []sources.PackageID, access map[sources.PackageID]readers, err error) {
	access = map[sources.PackageID]readers{}
	mirror := fsmirror.New(dir, fsmirror.Options{})
	packages, err := mirror.Packages(ctx)
	if err != nil {
		return m, nil, nil, err
	}
	strays, err := mirror.Strays(ctx)
	if err != nil {
		return m, nil, nil, err
	}
	for _, s := range strays {
		if warn != nil {
			warn(fmt.Errorf("not in the bundle: %s", s))
		}
	}
	there, err := builder.Open(ctx, dir, builder.Options{Key: key, ReadOnly: true, Warn: warn})
	if err != nil {
		return m, nil, nil, err
	}
	defer there.Close()
	slices.SortStableFunc(packages, func(a, b fsmirror.Package) int { return cmp.Or(a.ID.Compare(b.ID), -cmp.Compare(packed(a), packed(b))) })
	for _, found := range slices.CompactFunc(packages, func(a, b fsmirror.Package) bool { return a.ID == b.ID }) {
		switch {
		case !carriable(found.ID):
			if warn != nil {
				warn(&sources.PackageError{ID: found.ID, Err: errors.New("not in the bundle: no module can require a provider with this address")})
			}
			continue
		case packed(found) == 0:
			unpacked = append(unpacked, found.ID)
			continue
		}
		p, by, err := examine(ctx, there, found)
		if err != nil {
			return m, nil, nil, err
		}
		access[p.ID] = by
		m.Packages = append(m.Packages, p)
	}
	if m.Evidence, err = findEvidence(dir, m.Packages); err != nil {
		return m, nil, nil, err
	}
	m, err = ParseManifest(m.Text())
	return m, unpacked, access, err
}

// packed is 1 for an archive and 0 for a directory.
func packed(p fsmirror.Package) int { return min(len(p.Location.Archive), 1) }

// examine describes an archive, and returns its path if not all users can read it, or that of
// the place that it came from.
func examine(ctx context.Context, there *builder.Builder, found fsmirror.Package) (p Package, by readers, err error) {
	s, err := there.Find(ctx, found)
	if err != nil {
		return p, by, err
	}
	if s.Differs != "" {
		err := &builder.ChangedError{Was: s.Differs, Is: s.ZH}
		return p, by, sources.WithHint(&sources.PackageError{ID: found.ID, Err: err}, "larder mirror verify shows the details; larder mirror sync replaces it")
	}
	info, err := os.Stat(found.Location.Archive)
	if err != nil {
		return p, by, err
	}
	by.public = s.Public()
	if disk.HiddenBy(info) != 0 {
		by.private = found.Location.Archive
	}
	if !by.public && disk.Hidden(found.Location.Archive) != 0 {
		by.private = cmp.Or(s.Origin, found.Location.Archive)
	}
	p = Package{ID: s.ID, Size: info.Size(), ZH: s.ZH, H1: s.H1, ZipH1: s.ZipH1}
	if p.ZipH1 == p.H1 {
		p.ZipH1 = ""
	}
	return p, by, nil
}

// findEvidence describes the mirror's evidence for packages.
func findEvidence(dir string, packages []Package) ([]Evidence, error) {
	var all []Evidence
	for i, p := range packages {
		if i > 0 && packages[i-1].ID.Release() == p.ID.Release() {
			continue
		}
		files, err := readEvidence(dir, p.ID.Release())
		if errors.Is(err, sources.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		e := Evidence{Release: p.ID.Release()}
		for i, data := range files {
			e.Files[i] = File{int64(len(data)), sha256.Sum256(data)}
		}
		all = append(all, e)
	}
	return all, nil
}

// readEvidence reads the mirror's evidence for a release.
func readEvidence(dir string, r sources.Release) (evidence.Files, error) {
	signed, err := readSigned(dir, r)
	if err != nil {
		return evidence.Files{}, err
	}
	return evidence.Pack(signed)
}

func readSigned(dir string, r sources.Release) (*sources.Signed, error) {
	return evidence.Of(dir, r.Provider, r.Version)
}

// prove returns an error unless the evidence in a mirror verifies its packages, and the
// caller accepts them.
func (opts CreateOptions) prove(dir string, m Manifest) error {
	evidenced, by := m.Evidenced(), judgeOr(opts.Judge)
	var all []Verified
	var errs []error
	for _, p := range m.Packages {
		v, err := Verified{Package: p, Proof: sources.Proof{Matched: true}}, error(nil)
		if evidenced[p.ID.Release()] {
			var signed *sources.Signed
			if signed, err = readSigned(dir, p.ID.Release()); err == nil {
				v.Proof, err = by.Prove(p.ID.Provider, signed, p.ZH)
			}
		}
		if err != nil {
			err = &sources.PackageError{ID: p.ID, Err: fmt.Errorf("checking the mirror's signed checksums: %w", err)}
			err = sources.WithHint(err, "larder mirror verify %s lists every problem", dir)
		}
		v.Report = by.Report(p.ID.Provider, v.Proof)
		all = append(all, v)
		if opts.Check != nil {
			err = errors.Join(err, opts.Check(v))
		}
		errs = append(errs, err)
	}
	if errors.Join(errs...) == nil && opts.Accept != nil {
		errs = append(errs, opts.Accept(all))
	}
	return errors.Join(errs...)
}

// Since returns m without the packages in the manifest of the receiver. Packages for
// which only m has evidence are not left out.
func (m Manifest) Since(receiver Manifest) Manifest {
	ours, theirs := m.Evidenced(), receiver.Evidenced()
	has := map[sources.PackageID]sources.Hash{}
	for _, p := range receiver.Packages {
		if theirs[p.ID.Release()] || !ours[p.ID.Release()] {
			has[p.ID] = p.ZH
		}
	}
	for _, p := range receiver.Base { // of a bundle that it has imported
		has[p.ID] = p.ZH
	}
	delta := Manifest{}
	for _, p := range m.Packages {
		if has[p.ID] == p.ZH {
			delta.Base = append(delta.Base, Package{ID: p.ID, ZH: p.ZH})
			continue
		}
		delta.Packages = append(delta.Packages, p)
	}
	delta.Evidence = m.Evidence
	delta.Evidence = delta.evidenceHere()
	return delta
}

// basedOn returns m with packages added to its base, unless m has them.
func (m Manifest) basedOn(base []Package) Manifest {
	known := map[sources.PackageID]bool{}
	for _, p := range slices.Concat(m.Packages, m.Base) {
		known[p.ID] = true
	}
	m.Base = slices.Clone(m.Base)
	for _, p := range base {
		if !known[p.ID] {
			known[p.ID] = true
			m.Base = append(m.Base, Package{ID: p.ID, ZH: p.ZH})
		}
	}
	slices.SortFunc(m.Base, func(a, b Package) int { return a.ID.Compare(b.ID) })
	return m
}

// Find returns the package that a receiver with this manifest has, and whether it has
// evidence for the package, or needs none. A package of the base has only ID and ZH.
func (m Manifest) Find(id sources.PackageID) (p Package, evidenced, ok bool) {
	byID := func(p Package, id sources.PackageID) int { return p.ID.Compare(id) }
	if i, ok := slices.BinarySearchFunc(m.Base, id, byID); ok {
		return m.Base[i], true, true
	}
	i, ok := slices.BinarySearchFunc(m.Packages, id, byID)
	if !ok {
		return p, false, false
	}
	_, evidenced = slices.BinarySearchFunc(m.Evidence, id.Release(), func(e Evidence, r sources.Release) int { return e.Compare(r) })
	return m.Packages[i], evidenced, true
}

// Split returns the manifests of the parts of m, so that no part makes a file of more
// than max bytes. A max of 0 means no limit.
func (m Manifest) Split(max int64) ([]Manifest, error) {
	_, size, err := m.layout()
	if err != nil || max == 0 || size <= max {
		return []Manifest{m}, err
	}
	whole, err := m.assign(max)
	if err != nil {
		return nil, err
	}
	var parts []Manifest
	for i := range whole.Parts {
		part := whole
		part.Part = i + 1
		parts = append(parts, part)
	}
	return parts, nil
}

// assign assigns each package to a part. A part is full when the next package does
// not fit.
func (m Manifest) assign(max int64) (Manifest, error) {
	m.Packages, m.Payload = slices.Clone(m.Packages), slices.Clone(m.Payload)
	costs, err := m.costs()
	if err != nil {
		return m, err
	}
	fixed := costs.manifest + trailer
	left, last := int64(-1), sources.Release{}
	for i, p := range m.Packages {
		need := costs.packages[i]
		if p.ID.Release() != last {
			need += costs.evidence[p.ID.Release()]
		}
		if need > left {
			m.Parts++
			need = costs.packages[i] + costs.evidence[p.ID.Release()]
			left = max - fixed
		}
		if need > left {
			return m, sources.WithHint(&sources.PackageError{ID: p.ID, Err: tooLarge(need+fixed, max)}, "archives cannot be split: allow larger files")
		}
		left -= need
		last = p.ID.Release()
		m.Packages[i].Part = m.Parts
	}
	for i, p := range m.Payload {
		need := costs.payload[p.dir()]
		if need > left {
			m.Parts++
			left = max - fixed
		}
		if need > left {
			return m, sources.WithHint(fmt.Errorf("%s: %w", p, tooLarge(need+fixed, max)), "neither an engine nor the modules of a root module can be split: allow larger files")
		}
		left -= need
		m.Payload[i].Part = m.Parts
	}
	switch {
	case m.Parts > maxParts:
		return m, fmt.Errorf("more than %d parts", maxParts)
	case m.Parts == 0:
		return m, fmt.Errorf("the manifest takes %d bytes, more than the limit of %d", fixed, max)
	}
	return m, nil
}

func tooLarge(size, max int64) error {
	return fmt.Errorf("it takes %d bytes, more than the limit of %d", size, max)
}

// costs holds the sizes in bytes that members take in a file.
type costs struct {
	manifest int64 // maximum of all parts
	packages []int64
	evidence map[sources.Release]int64
	payload  map[string]int64 // by directory
}

func (m Manifest) costs() (costs, error) {
	all := m
	all.Packages, all.Payload = slices.Clone(m.Packages), slices.Clone(m.Payload)
	for i := range all.Packages {
		all.Packages[i].Part = maxParts
	}
	for i := range all.Payload {
		all.Payload[i].Part = maxParts
	}
	all.Part, all.Parts = maxParts, maxParts
	members, _, err := all.layout()
	c := costs{evidence: map[sources.Release]int64{}, payload: map[string]int64{}}
	for _, e := range members {
		size := int64(len(e.header)) + e.size + padding(e.size)
		switch {
		case e.pkg != nil:
			c.packages = append(c.packages, size)
		case e.payload != nil:
			c.payload[e.payload.dir()] += size
		case e.path == manifestPath:
			c.manifest = size
		default:
			c.evidence[e.release] += size
		}
	}
	return c, err
}

// An origin is the mirror from which a bundle is created.
type origin struct {
	dir      string
	archives map[sources.PackageID]string // paths of the archives
	readers  map[sources.PackageID]readers
	private  bool // only this user may read the bundle
	progress *progress
}

// writeAll writes the parts of a bundle. It syncs all of them before it renames the
// first.
func writeAll(ctx context.Context, dir string, c Created, parts []Manifest, access map[sources.PackageID]readers, report func(done, of int64)) error {
	archives, err := findArchives(ctx, dir)
	if err != nil {
		return err
	}
	o := origin{dir, archives, access, c.Private != "", &progress{of: parts[0].Size() + parts[0].PayloadSize(), report: report}}
	in, err := disk.Open(filepath.Dir(c.Files[0]))
	if err != nil {
		return err
	}
	defer in.Close()
	var made []*disk.Temp
	for i, part := range parts {
		t, err := in.NewTemp(filepath.Base(c.Files[i]))
		if err != nil {
			return explain(err)
		}
		if c.Private != "" {
			t.Hidden = 0o077
		}
		defer t.Discard()
		made = append(made, t)
		if err := errors.Join(o.write(ctx, t, part), t.Sync()); err != nil {
			return explain(err)
		}
	}
	for i, t := range made {
		if err := t.Commit(filepath.Base(c.Files[i])); err != nil {
			return explain(err)
		}
	}
	return nil
}

// explain adds a hint to an error of writing a bundle.
func explain(err error) error {
	if disk.IsTooLarge(err) {
		return sources.WithHint(err, "the file system cannot hold files of this size (FAT stops at 4 GiB): split the bundle with --max-size 4G")
	}
	return disk.Explain(err, "the bundle")
}

// findArchives returns the paths of a mirror's archives.
func findArchives(ctx context.Context, dir string) (map[sources.PackageID]string, error) {
	packages, err := fsmirror.New(dir, fsmirror.Options{}).Packages(ctx)
	where := map[sources.PackageID]string{}
	for _, p := range packages {
		if where[p.ID] == "" {
			where[p.ID] = p.Location.Archive
		}
	}
	return where, err
}

func (o origin) write(ctx context.Context, w io.Writer, part Manifest) error {
	members, _, err := part.layout()
	if err != nil {
		return err
	}
	for _, e := range members {
		if _, err := w.Write(e.header); err != nil {
			return err
		}
		if err := o.writeMember(ctx, w, part, e); err != nil {
			return err
		}
		if _, err := w.Write(make([]byte, padding(e.size))); err != nil {
			return err
		}
	}
	_, err = w.Write(make([]byte, trailer))
	return err
}

func (o origin) writeMember(ctx context.Context, w io.Writer, part Manifest, e member) error {
	switch {
	case e.pkg != nil:
		return o.writeArchive(ctx, w, *e.pkg)
	case e.payload != nil:
		return e.writePayload(ctx, w, o.progress)
	case e.path == manifestPath:
		_, err := w.Write(part.Text())
		return err
	}
	files, err := readEvidence(o.dir, e.release)
	if err != nil {
		return err
	}
	data := files[e.file]
	if sha256.Sum256(data) != e.sum {
		return fmt.Errorf("evidence for %s: changed while it was read", e.release)
	}
	_, err = w.Write(data)
	return err
}

// writeArchive copies an archive. It returns an error if the archive does not match
// pkg.
func (o origin) writeArchive(ctx context.Context, w io.Writer, pkg Package) error {
	f, info, err := disk.OpenFile(o.archives[pkg.ID])
	if err != nil {
		return &sources.PackageError{ID: pkg.ID, Err: err}
	}
	defer f.Close()
	hidden := disk.HiddenBy(info)
	if !o.readers[pkg.ID].public {
		hidden = disk.HiddenFile(f)
	}
	if hidden != 0 && !o.private { // another user may exchange links in a mirror
		return &sources.PackageError{ID: pkg.ID, Err: fmt.Errorf("%s %w", f.Name(), disk.ErrChanged)}
	}
	sum, n, err := disk.Hash(ctx, io.TeeReader(io.LimitReader(f, pkg.Size), io.MultiWriter(w, o.progress)), pkg.Size)
	if err != nil {
		return err
	}
	if zh := sources.ZipHash(sum); n != pkg.Size || zh != pkg.ZH {
		err := fmt.Errorf("the archive is %s, but was %s when it was last checked", zh, pkg.ZH)
		return sources.WithHint(&sources.PackageError{ID: pkg.ID, Err: err}, "larder mirror verify lists every problem")
	}
	return nil
}
