package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/evidence"
)

const (
	format = 1

	// MaxManifest limits the size of a manifest in bytes. A package takes about 500.
	MaxManifest = 32 << 20

	maxArchive = archive.MaxPacked // in bytes
	maxParts   = 9999
)

// A Manifest describes the contents of a bundle or of a mirror.
type Manifest struct {
	Part, Parts int        // both 0 unless the bundle is split
	Packages    []Package  // sorted
	Evidence    []Evidence // sorted
	Base        []Package  // packages that the receiver must have, sorted; only ID and ZH are set
	Payload     []Payload  // sorted by their directories in the bundle
}

// A Package is a package in a bundle.
type Package struct {
	ID    sources.PackageID
	Size  int64 // of the archive, in bytes
	ZH    sources.Hash
	H1    sources.Hash
	ZipH1 sources.Hash // empty if it equals H1; see [sources.Contents]
	Part  int          // the part that contains it; 0 unless the bundle is split
}

// Path returns the path of the archive in a bundle and in a mirror, with forward
// slashes.
func (p Package) Path() string { return p.ID.Provider.String() + "/" + p.ID.Filename() }

// Evidence describes the evidence for a release.
type Evidence struct {
	sources.Release
	Files [len(evidence.Names)]File // in the order of [evidence.Names]
}

// A File is a file in a bundle.
type File struct {
	Size   int64
	SHA256 [32]byte
}

// The JSON form of the manifest.
type (
	document struct {
		Format   int                `json:"format"`
		Part     int                `json:"part,omitempty"`
		Parts    int                `json:"parts,omitempty"`
		Packages []packageDocument  `json:"packages"`
		Evidence []evidenceDocument `json:"evidence"`
		Base     []packageDocument  `json:"base,omitempty"`
		Payload  []payloadDocument  `json:"payload,omitempty"`
	}
	packageDocument struct {
		Provider string       `json:"provider"`
		Version  string       `json:"version"`
		Platform string       `json:"platform"`
		Path     string       `json:"path,omitempty"`
		Size     int64        `json:"size,omitempty"`
		ZH       sources.Hash `json:"zh"`
		H1       sources.Hash `json:"h1,omitempty"`
		ZipH1    sources.Hash `json:"zip_h1,omitempty"`
		Part     int          `json:"part,omitempty"`
	}
	evidenceDocument struct {
		Provider string         `json:"provider"`
		Version  string         `json:"version"`
		Files    []fileDocument `json:"files"`
	}
	fileDocument struct {
		Name   string `json:"name"`
		Size   int64  `json:"size"`
		SHA256 string `json:"sha256"`
	}
)

// Text returns the manifest as JSON. Equal manifests have equal text.
func (m Manifest) Text() []byte {
	doc := document{Format: format, Part: m.Part, Parts: m.Parts, Packages: []packageDocument{}, Evidence: []evidenceDocument{}}
	for _, p := range m.Packages {
		d := p.document()
		d.Path = p.Path()
		doc.Packages = append(doc.Packages, d)
	}
	for _, p := range m.Base {
		doc.Base = append(doc.Base, p.document())
	}
	for _, e := range m.Evidence {
		d := evidenceDocument{Provider: e.Provider.String(), Version: e.Version.String()}
		for i, f := range e.Files {
			d.Files = append(d.Files, fileDocument{evidence.Names[i], f.Size, hex.EncodeToString(f.SHA256[:])})
		}
		doc.Evidence = append(doc.Evidence, d)
	}
	for _, p := range m.Payload {
		doc.Payload = append(doc.Payload, p.document())
	}
	text, err := sources.JSON(doc)
	if err != nil {
		panic(err) // cannot happen: these are strings and numbers
	}
	return text
}

func (p Package) document() packageDocument {
	return packageDocument{
		Provider: p.ID.Provider.String(), Version: p.ID.Version.String(), Platform: p.ID.Platform.String(),
		Size: p.Size, ZH: p.ZH, H1: p.H1, ZipH1: p.ZipH1, Part: p.Part,
	}
}

// ID returns the ID of the whole bundle. All its parts have the same ID.
func (m Manifest) ID() string {
	m.Part = 0
	sum := sha256.Sum256(m.Text())
	return hex.EncodeToString(sum[:])
}

// Size returns the total size of the packages in bytes.
func (m Manifest) Size() int64 {
	sum := int64(0)
	for _, p := range m.Packages {
		sum += p.Size
	}
	return sum
}

// PayloadSize returns the total size of the payloads in bytes.
func (m Manifest) PayloadSize() int64 {
	sum := int64(0)
	for _, p := range m.Payload {
		sum += p.Size()
	}
	return sum
}

// here returns the packages of the part.
func (m Manifest) here() []Package {
	return slices.DeleteFunc(slices.Clone(m.Packages), func(p Package) bool { return p.Part != m.Part })
}

// payloadHere returns the payloads of the part.
func (m Manifest) payloadHere() []Payload {
	return slices.DeleteFunc(slices.Clone(m.Payload), func(p Payload) bool { return p.Part != m.Part })
}

// evidenceHere returns the evidence for the packages of the part.
func (m Manifest) evidenceHere() []Evidence {
	releases := releasesOf(m.here())
	return slices.DeleteFunc(slices.Clone(m.Evidence), func(e Evidence) bool { return !releases[e.Release] })
}

// releasesOf returns the set of the packages' releases.
func releasesOf(packages []Package) map[sources.Release]bool {
	all := map[sources.Release]bool{}
	for _, p := range packages {
		all[p.ID.Release()] = true
	}
	return all
}

// Evidenced returns the set of releases with evidence.
func (m Manifest) Evidenced() map[sources.Release]bool {
	all := map[sources.Release]bool{}
	for _, e := range m.Evidence {
		all[e.Release] = true
	}
	return all
}

// ParseManifest parses the output of [Manifest.Text], with any spacing.
func ParseManifest(data []byte) (Manifest, error) {
	if len(data) > MaxManifest {
		return Manifest{}, fmt.Errorf("manifest has more than %d bytes", MaxManifest)
	}
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil {
		return Manifest{}, fmt.Errorf("manifest: %w", err)
	}
	if doc.Format != format {
		return Manifest{}, sources.WithHint(fmt.Errorf("manifest is of format %d, which is not known", doc.Format), "it may be from a newer larder")
	}
	m, err := doc.manifest()
	if err != nil {
		return Manifest{}, fmt.Errorf("manifest: %w", err)
	}
	return m, nil
}

func (d document) manifest() (m Manifest, err error) {
	m.Part, m.Parts = d.Part, d.Parts
	if m.Packages, err = parsePackages(d.Packages, packageDocument.packed); err != nil {
		return m, err
	}
	if m.Base, err = parsePackages(d.Base, packageDocument.based); err != nil {
		return m, fmt.Errorf("base: %w", err)
	}
	if m.Evidence, err = parseEvidence(d.Evidence); err != nil {
		return m, err
	}
	if m.Payload, err = parsePayload(d.Payload); err != nil {
		return m, err
	}
	return m, errors.Join(m.checkParts(), m.checkEvidence(), m.checkBase())
}

// parsePackages parses sorted packages. It refuses two packages whose paths are equal
// on a case-insensitive file system.
func parsePackages(docs []packageDocument, parse func(packageDocument) (Package, error)) ([]Package, error) {
	var all []Package
	paths := map[string]bool{}
	for _, d := range docs {
		p, err := parse(d)
		if err != nil {
			return nil, fmt.Errorf("%.99q %.99q %.99q: %w", d.Provider, d.Version, d.Platform, err)
		}
		if n := len(all); n > 0 && all[n-1].ID.Compare(p.ID) >= 0 {
			return nil, fmt.Errorf("%s: listed twice, or out of order", p.ID)
		}
		key := folded(p.Path())
		if paths[key] {
			return nil, fmt.Errorf("%s: differs from another in case only", p.ID)
		}
		paths[key] = true
		all = append(all, p)
	}
	return all, nil
}

// packed parses a package that is in the bundle.
func (d packageDocument) packed() (Package, error) {
	p, err := d.based()
	p.Size, p.H1, p.ZipH1, p.Part = d.Size, d.H1, d.ZipH1, d.Part
	switch {
	case err != nil:
		return p, err
	case d.Path != p.Path():
		return p, fmt.Errorf("path is %.255q, and should be %q", d.Path, p.Path())
	case p.Size < 1 || p.Size > maxArchive:
		return p, fmt.Errorf("size is %d", p.Size)
	}
	if _, err := p.H1.Sum(sources.H1); err != nil || p.ZipH1 == "" {
		return p, err
	}
	if p.ZipH1 == p.H1 {
		return p, errors.New("hash of the contents listed twice")
	}
	_, err = p.ZipH1.Sum(sources.H1)
	return p, err
}

// based parses a package that the receiver has.
func (d packageDocument) based() (Package, error) {
	id, err := sources.ParsePackageID(d.Provider, d.Version, d.Platform)
	if err == nil {
		_, err = d.ZH.Sum(sources.ZH)
	}
	return Package{ID: id, ZH: d.ZH}, err
}

// carriable reports whether engines install such a package from a mirror.
func carriable(id sources.PackageID) bool { return !id.Provider.BuiltIn() && !id.Provider.Legacy() }

func parseEvidence(docs []evidenceDocument) ([]Evidence, error) {
	var all []Evidence
	for _, d := range docs {
		id, err := sources.ParsePackageID(d.Provider, d.Version, "any_any")
		e := Evidence{Release: id.Release()}
		if err == nil {
			e.Files, err = parseFiles(d.Files)
		}
		if err != nil {
			return nil, fmt.Errorf("evidence for %.99q %.99q: %w", d.Provider, d.Version, err)
		}
		if n := len(all); n > 0 && all[n-1].Compare(e.Release) >= 0 {
			return nil, fmt.Errorf("evidence for %s: listed twice, or out of order", e.Release)
		}
		all = append(all, e)
	}
	return all, nil
}

func parseFiles(docs []fileDocument) (files [len(evidence.Names)]File, err error) {
	if len(docs) != len(files) {
		return files, fmt.Errorf("%d files instead of %d", len(docs), len(files))
	}
	for i, d := range docs {
		files[i], err = d.parse(evidence.Max)
		if err != nil || d.Name != evidence.Names[i] {
			return files, fmt.Errorf("%.99q is not as it should be", d.Name)
		}
	}
	return files, nil
}

// parse parses a file of at most max bytes. Its caller checks the name.
func (d fileDocument) parse(max int64) (File, error) {
	sum, err := hex.DecodeString(d.SHA256)
	if err != nil || len(sum) != 32 || hex.EncodeToString(sum) != d.SHA256 || d.Size < 0 || d.Size > max {
		return File{}, fmt.Errorf("%.99q is not as it should be", d.Name)
	}
	return File{d.Size, [32]byte(sum)}, nil
}

func (m Manifest) checkParts() error {
	if m.Parts != 0 && (m.Parts < 2 || m.Parts > maxParts || m.Part < 1 || m.Part > m.Parts) || m.Parts == 0 && m.Part != 0 {
		return fmt.Errorf("part %d of %d", m.Part, m.Parts)
	}
	last := 0
	check := func(part int, of fmt.Stringer) error {
		if m.Parts == 0 && part != 0 || m.Parts > 0 && part != last && part != last+1 {
			return fmt.Errorf("%s: in part %d", of, part)
		}
		last = part
		return nil
	}
	for _, p := range m.Packages {
		if err := check(p.Part, p.ID); err != nil {
			return err
		}
	}
	for _, p := range m.Payload {
		if err := check(p.Part, p); err != nil {
			return err
		}
	}
	if last != m.Parts {
		return fmt.Errorf("nothing in part %d", last+1)
	}
	return nil
}

// checkEvidence refuses evidence for a release without packages.
func (m Manifest) checkEvidence() error {
	releases := releasesOf(m.Packages)
	for _, e := range m.Evidence {
		if !releases[e.Release] {
			return fmt.Errorf("evidence for %s, which has no package in the manifest", e.Release)
		}
	}
	return nil
}

func (m Manifest) checkBase() error {
	for _, p := range m.Base {
		if _, listed := slices.BinarySearchFunc(m.Packages, p, func(a, b Package) int { return a.ID.Compare(b.ID) }); listed {
			return fmt.Errorf("%s: both here and with the receiver", p.ID)
		}
	}
	return nil
}
