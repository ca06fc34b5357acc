package bundle

import (
	"bytes"
	"cmp"
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
)

// A Manifest describes the contents of a bundle or of a mirror.
type Manifest struct {
	Packages []Package  `json:"packages"`          // sorted
	Evidence []Evidence `json:"evidence"`          // sorted
	Base     []Package  `json:"base,omitempty"`    // packages that the receiver must have, sorted; only ID and ZH are set
	Removed  []Package  `json:"removed,omitempty"` // packages that the import removes, sorted; only ID and ZH are set
	Payload  []Payload  `json:"payload,omitempty"` // sorted by their directories in the bundle
}

// A Package is a package in a bundle.
type Package struct {
	ID    sources.PackageID
	Size  int64        // of the archive or of all files, in bytes
	ZH    sources.Hash // of the archive; for an unpacked package a claim, or empty
	H1    sources.Hash
	ZipH1 sources.Hash // empty if it equals H1; see [sources.Contents]

	Files []PayloadFile // of an unpacked package, sorted by name; empty for an archive

	source // of an archive; zero in a bundle that was read
}

// Unpacked reports whether the bundle has the files of the package, and not its archive.
func (p Package) Unpacked() bool { return len(p.Files) > 0 }

// Path returns the path of the archive, or of the directory of an unpacked package, in a
// bundle and in a mirror, with forward slashes.
func (p Package) Path() string {
	if p.Unpacked() {
		return p.ID.Path()
	}
	return p.ID.Provider.String() + "/" + p.ID.Filename()
}

// hashes returns the hashes that identify the package, without mere claims.
func (p Package) hashes() []sources.Hash {
	if p.Unpacked() {
		return []sources.Hash{p.H1}
	}
	return []sources.Hash{p.ZH, p.H1}
}

// Evidence describes the evidence for a release.
type Evidence struct {
	sources.Release
	Files [len(evidence.Names)]File // in the order of [evidence.Names]

	signed *sources.Signed // nil in a bundle that was read
	data   evidence.Files  // empty in a bundle that was read
}

// A File is a file in a bundle.
type File struct {
	Name   string `json:"name"` // with forward slashes
	Size   int64  `json:"size"`
	SHA256 Digest `json:"sha256"`
}

// A Digest is a SHA-256, in JSON in lower-case hexadecimal.
type Digest [sha256.Size]byte

// MarshalText implements [encoding.TextMarshaler].
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText accepts what MarshalText returns.
func (d *Digest) UnmarshalText(text []byte) error {
	sum, err := hex.DecodeString(string(text))
	if err != nil || len(sum) != len(d) || !bytes.Equal(text, bytes.ToLower(text)) {
		return fmt.Errorf("checksum %.99q is malformed", text)
	}
	*d = Digest(sum)
	return nil
}

// check returns an error if the file has more than max bytes.
func (f File) check(max int64) error {
	if f.Size < 0 || f.Size > max {
		return fmt.Errorf("invalid size %d", f.Size)
	}
	return nil
}

// The JSON forms of a manifest, a package and evidence. Others are encoded as they are.
type (
	document struct {
		Format int `json:"format"`
		Manifest
	}
	packageDocument struct {
		Provider string        `json:"provider"`
		Version  string        `json:"version"`
		Platform string        `json:"platform"`
		Path     string        `json:"path,omitempty"` // none in the base, which is not in the bundle
		Size     int64         `json:"size,omitempty"`
		ZH       sources.Hash  `json:"zh,omitempty"`
		H1       sources.Hash  `json:"h1,omitempty"`
		ZipH1    sources.Hash  `json:"zip_h1,omitempty"`
		Files    []PayloadFile `json:"files,omitempty"`
	}
	evidenceDocument struct {
		Provider string `json:"provider"`
		Version  string `json:"version"`
		Files    []File `json:"files"`
	}
)

// MarshalJSON implements [json.Marshaler].
func (p Package) MarshalJSON() ([]byte, error) {
	path := ""
	if p.Size != 0 {
		path = p.Path()
	}
	return json.Marshal(packageDocument{
		p.ID.Provider.String(), p.ID.Version.String(), p.ID.Platform.String(), path, p.Size, p.ZH, p.H1, p.ZipH1, p.Files,
	})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Package) UnmarshalJSON(data []byte) error {
	var d packageDocument
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	id, err := sources.ParsePackageID(d.Provider, d.Version, d.Platform)
	*p = Package{ID: id, Size: d.Size, ZH: d.ZH, H1: d.H1, ZipH1: d.ZipH1, Files: d.Files}
	if err == nil && (p.ZH != "" || !p.Unpacked()) {
		_, err = p.ZH.Sum(sources.ZH)
	}
	if err == nil && d.Path != p.Path() && (d.Path != "" || d.Size != 0) {
		err = fmt.Errorf("path is %.255q, but should be %q", d.Path, p.Path())
	}
	if err != nil {
		return fmt.Errorf("%.99q %.99q %.99q: %w", d.Provider, d.Version, d.Platform, err)
	}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (e Evidence) MarshalJSON() ([]byte, error) {
	return json.Marshal(evidenceDocument{e.Provider.String(), e.Version.String(), e.Files[:]})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (e *Evidence) UnmarshalJSON(data []byte) error {
	var d evidenceDocument
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	id, err := sources.ParsePackageID(d.Provider, d.Version, "any_any")
	if err == nil && len(d.Files) != len(e.Files) {
		err = fmt.Errorf("%d files instead of %d", len(d.Files), len(e.Files))
	}
	for i, f := range d.Files {
		if err == nil && f.Name != evidence.Names[i] {
			err = fmt.Errorf("the file %.99q should be named %q", f.Name, evidence.Names[i])
		}
		err = cmp.Or(err, f.check(evidence.Max))
	}
	if err != nil {
		return fmt.Errorf("evidence for %.99q %.99q: %w", d.Provider, d.Version, err)
	}
	*e = Evidence{Release: id.Release(), Files: [len(evidence.Names)]File(d.Files)}
	return nil
}

// Text returns the manifest as JSON. Equal manifests have equal text.
func (m Manifest) Text() []byte {
	m.Packages, m.Evidence = append([]Package{}, m.Packages...), append([]Evidence{}, m.Evidence...) // not null
	text, err := sources.JSON(document{format, m})
	if err != nil {
		panic(err) // cannot happen: these are strings and numbers
	}
	return text
}

// ID returns the ID of the bundle.
func (m Manifest) ID() string {
	sum := sha256.Sum256(m.Text())
	return hex.EncodeToString(sum[:])
}

// Unpacked reports whether the packages are unpacked. They are alike.
func (m Manifest) Unpacked() bool { return len(m.Packages) > 0 && m.Packages[0].Unpacked() }

// Empty reports whether an import of the bundle would change nothing.
func (m Manifest) Empty() bool { return len(m.Packages)+len(m.Payload)+len(m.Removed) == 0 }

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

// releasesOf returns the set of the packages' releases.
func releasesOf(packages []Package) map[sources.Release]bool {
	all := map[sources.Release]bool{}
	for _, p := range packages {
		all[p.ID.Release()] = true
	}
	return all
}

// Evidenced reports whether there is evidence for a release.
func (m Manifest) Evidenced(r sources.Release) bool {
	_, ok := slices.BinarySearchFunc(m.Evidence, r, func(e Evidence, r sources.Release) int { return e.Compare(r) })
	return ok
}

// find returns the index of a package among sorted ones.
func find(packages []Package, id sources.PackageID) (int, bool) {
	return slices.BinarySearchFunc(packages, id, func(p Package, id sources.PackageID) int { return p.ID.Compare(id) })
}

// ParseManifest parses the output of [Manifest.Text], with any spacing.
func ParseManifest(data []byte) (Manifest, error) {
	if len(data) > MaxManifest {
		return Manifest{}, fmt.Errorf("manifest has more than %d bytes", MaxManifest)
	}
	var doc document
	err := json.Unmarshal(data, &doc)
	if doc.Format > format || err == nil && doc.Format != format {
		err = fmt.Errorf("manifest has the unknown format %d", doc.Format)
		return Manifest{}, sources.WithHint(err, "a newer version of larder may have written it: upgrade larder")
	}
	if err == nil {
		err = doc.check()
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("manifest: %w", err)
	}
	return doc.Manifest, nil
}

// check returns an error unless every file system can store the bundle, and the manifest
// contradicts itself nowhere.
func (m Manifest) check() error {
	for _, p := range m.Packages {
		err := p.check()
		if err == nil && p.Unpacked() != m.Unpacked() {
			err = errors.New("the bundle has both archives and unpacked packages")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.ID, err)
		}
	}
	if err := m.checkPayload(); err != nil {
		return err
	}
	byID := func(a, b Package) int { return a.ID.Compare(b.ID) }
	err := cmp.Or(
		inOrder(m.Packages, byID), inOrder(m.Base, byID), inOrder(m.Removed, byID),
		inOrder(m.Evidence, func(a, b Evidence) int { return a.Compare(b.Release) }),
	)
	if err != nil {
		return err
	}
	for _, p := range m.Base {
		if _, listed := find(m.Packages, p.ID); listed {
			return fmt.Errorf("%s: listed both as in the bundle and as received earlier", p.ID)
		}
	}
	for _, p := range m.Removed {
		if _, _, listed := m.find(p.ID); listed {
			return fmt.Errorf("%s: listed both as removed and as in the receiver's mirror", p.ID)
		}
	}
	releases := releasesOf(m.Packages)
	for _, e := range m.Evidence {
		if !releases[e.Release] {
			return fmt.Errorf("%s: the manifest lists no package of this version", e)
		}
	}
	names := archive.Names{}
	for _, e := range m.members() {
		if err := names.Add(e.Name); err != nil {
			return fmt.Errorf("%.255q: %w", e.Name, err)
		}
	}
	return nil
}

// inOrder returns an error unless each element occurs once, and is greater than the one before.
func inOrder[T fmt.Stringer](all []T, compare func(a, b T) int) error {
	for i := 1; i < len(all); i++ {
		if compare(all[i-1], all[i]) >= 0 {
			return fmt.Errorf("%s: listed twice, or out of order", all[i])
		}
	}
	return nil
}

func (p Package) String() string { return p.ID.String() }

func (e Evidence) String() string { return "evidence for " + e.Release.String() }

// check checks the members that packages of the base do not have.
func (p Package) check() error {
	if p.Size < 1 || p.Size > maxArchive {
		return fmt.Errorf("invalid size %d", p.Size)
	}
	if p.Unpacked() {
		return p.checkUnpacked()
	}
	if _, err := p.H1.Sum(sources.H1); err != nil || p.ZipH1 == "" {
		return err
	}
	if p.ZipH1 == p.H1 {
		return errors.New("the hash of the contents is listed twice")
	}
	_, err := p.ZipH1.Sum(sources.H1)
	return err
}
