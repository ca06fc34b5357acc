package bundle

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/evidence"
)

const (
	format = 1

	// MaxManifest limits the size of a manifest in bytes. A package takes about 500.
	MaxManifest = 32 << 20

	maxFiles = 100_000 // in the payloads of a bundle
	maxPage  = 64 << 20
	maxName  = 4096 // bytes in the path of a file
)

// A Manifest describes the contents of a bundle or of a mirror.
type Manifest struct {
	Set      []File     `json:"set,omitempty"`     // of a signed set, in the order of [evidence.SetFiles]
	Packages []Package  `json:"packages"`          // sorted
	Evidence []Evidence `json:"evidence"`          // sorted
	Page     *File      `json:"page,omitempty"`    // for people; nil if the sender's mirror has none
	Base     []Package  `json:"base,omitempty"`    // packages that the receiver must have, sorted; only ID and ZH are set
	Removed  []Package  `json:"removed,omitempty"` // packages that the import removes, sorted; only ID and ZH are set
	Payload  []Payload  `json:"payload,omitempty"` // sorted by their directories in the bundle
}

// A Package is a package in a bundle.
type Package struct {
	ID    sources.PackageID `json:"-"`
	Size  int64             `json:"size,omitempty"` // of the archive, in bytes
	ZH    sources.Hash      `json:"zh"`             // of the archive
	H1    sources.Hash      `json:"h1,omitempty"`
	ZipH1 sources.Hash      `json:"zip_h1,omitempty"` // empty if it equals H1; see [sources.Contents]

	source

	approvals []sources.Signer // see [sources.Proof]
}

// Evidence describes the evidence for a release.
type Evidence struct {
	Release sources.Release `json:"-"`
	Path    string          `json:"path"`  // see [evidence.Path]; determines the release
	Files   []File          `json:"files"` // in the order of [evidence.Names]

	signed *sources.Signed // nil in a bundle whose evidence was not read
}

// A File is a file in a bundle, or in something that the bundle contains.
type File struct {
	Name       string `json:"name"` // with forward slashes
	Size       int64  `json:"size"`
	SHA256     Digest `json:"sha256"`
	Executable bool   `json:"executable,omitempty"`

	source
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

// The JSON forms. Others are encoded as they are.
type (
	document struct {
		Format int `json:"format"`
		Manifest
	}
	plainPackage    Package
	packageDocument struct {
		Provider string `json:"provider"`
		Version  string `json:"version"`
		Platform string `json:"platform"`
		Path     string `json:"path,omitempty"` // none in the base, which is not in the bundle
		plainPackage
	}
)

// MarshalJSON implements [json.Marshaler].
func (p Package) MarshalJSON() ([]byte, error) {
	path := ""
	if p.Size != 0 {
		path = p.Path()
	}
	provider, version, platform := p.ID.Provider.String(), p.ID.Version.String(), p.ID.Platform.String()
	return json.Marshal(packageDocument{provider, version, platform, path, plainPackage(p)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Package) UnmarshalJSON(data []byte) error {
	var d packageDocument
	err := json.Unmarshal(data, &d)
	if err != nil {
		return err
	}
	*p = Package(d.plainPackage)
	p.ID, err = sources.ParsePackageID(d.Provider, d.Version, d.Platform)
	if err == nil {
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

// Text returns the manifest as JSON. Equal manifests have equal text.
func (m Manifest) Text() []byte {
	m.Packages, m.Evidence = append([]Package{}, m.Packages...), append([]Evidence{}, m.Evidence...) // not null
	text, err := sources.JSON(document{format, m})
	if err != nil {
		panic(err) // cannot happen: these are strings and numbers
	}
	return text
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
		err = cmp.Or(doc.findReleases(), doc.check())
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("manifest: %w", err)
	}
	return doc.Manifest, nil
}

// ID returns the ID of the bundle.
func (m Manifest) ID() string {
	sum := sha256.Sum256(m.Text())
	return hex.EncodeToString(sum[:])
}

// Empty reports whether an import of the bundle would change nothing.
func (m Manifest) Empty() bool { return len(m.Packages)+len(m.Payload)+len(m.Removed) == 0 }

// Size returns the total size of the packages in bytes.
func (m Manifest) Size() (sum int64) {
	for _, p := range m.Packages {
		sum += p.Size
	}
	return sum
}

// PayloadSize returns the total size of the payloads in bytes.
func (m Manifest) PayloadSize() (sum int64) {
	for _, p := range m.Payload {
		sum += p.Size()
	}
	return sum
}

// Evidenced reports whether there is evidence for a release.
func (m Manifest) Evidenced(r sources.Release) bool { return m.evidence(r).Path != "" }

// Signed returns the evidence for a release, or nil if there is none, or if it was not read or is broken.
func (m Manifest) Signed(r sources.Release) *sources.Signed { return m.evidence(r).signed }

func (m Manifest) evidence(r sources.Release) (e Evidence) {
	i, ok := slices.BinarySearchFunc(m.Evidence, r, func(e Evidence, r sources.Release) int {
		return e.Release.Compare(r)
	})
	if ok {
		e = m.Evidence[i]
	}
	return e
}

// find returns the package that a receiver with this manifest has, and whether it has evidence
// for the package, or needs none. A package of the base has only ID and ZH.
func (m Manifest) find(id sources.PackageID) (p Package, evidenced, ok bool) {
	if i, ok := find(m.Base, id); ok {
		return m.Base[i], true, true
	}
	if i, ok := find(m.Packages, id); ok {
		return m.Packages[i], m.Evidenced(id.Release()), true
	}
	return p, false, false
}

// find returns the index of a package among sorted ones.
func find(packages []Package, id sources.PackageID) (int, bool) {
	return slices.BinarySearchFunc(packages, id, func(p Package, id sources.PackageID) int { return p.ID.Compare(id) })
}

func byID(a, b Package) int { return a.ID.Compare(b.ID) }

// releasesOf returns the set of the packages' releases.
func releasesOf(packages []Package) map[sources.Release]bool {
	all := map[sources.Release]bool{}
	for _, p := range packages {
		all[p.ID.Release()] = true
	}
	return all
}

// findReleases sets the release of each evidence, and checks its files.
func (m Manifest) findReleases() error {
	releases := map[string]sources.Release{}
	for r := range releasesOf(m.Packages) {
		releases[evidence.Path(r.Provider, r.Version)] = r
	}
	for i := range m.Evidence {
		e, ok := &m.Evidence[i], false
		if e.Release, ok = releases[e.Path]; !ok {
			return fmt.Errorf("%.255q: the manifest lists no package of this version", e.Path)
		}
		if len(e.Files) != len(evidence.Names) {
			return fmt.Errorf("%s: %d files instead of %d", e, len(e.Files), len(evidence.Names))
		}
		for i, f := range e.Files {
			if f.Name != evidence.Names[i] || f.Executable {
				return fmt.Errorf("%s: the file %.99q should be named %q, and not be executable", e, f.Name, evidence.Names[i])
			}
			if err := f.check(evidence.Max); err != nil {
				return fmt.Errorf("%s: %w", e, err)
			}
		}
	}
	return nil
}

// check returns an error unless every file system can store the bundle, and the manifest
// contradicts itself nowhere.
func (m Manifest) check() error {
	for _, p := range m.Packages {
		if err := p.check(); err != nil {
			return fmt.Errorf("%s: %w", p.ID, err)
		}
	}
	for _, p := range m.Payload {
		if err := p.check(); err != nil {
			return err
		}
	}
	if p := m.Page; p != nil && (p.Name != fsmirror.Page || p.Executable || p.check(maxPage) != nil) {
		return fmt.Errorf("the page %.99q should be named %q, with at most %d bytes", p.Name, fsmirror.Page, maxPage)
	}
	if err := checkSet(m.Set); err != nil {
		return err
	}
	mentioned := slices.Concat(m.Packages, m.Base, m.Removed)
	slices.SortStableFunc(mentioned, byID)
	err := cmp.Or(
		inOrder(m.Packages, byID), inOrder(m.Base, byID), inOrder(m.Removed, byID), inOrder(mentioned, byID),
		inOrder(m.Evidence, func(a, b Evidence) int { return a.Release.Compare(b.Release) }),
		inOrder(m.Payload, func(a, b Payload) int { return cmp.Compare(a.dir(), b.dir()) }),
	)
	if err != nil {
		return err
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

// Path returns the path of the archive in a bundle and in a mirror, with forward slashes.
func (p Package) Path() string { return p.ID.Provider.String() + "/" + p.ID.Filename() }

// check checks the members that packages of the base do not have.
func (p Package) check() error {
	if p.Size < 1 || p.Size > archive.MaxPacked {
		return fmt.Errorf("invalid size %d", p.Size)
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

// h1Of returns the hash of a directory with files.
func h1Of(files []File) sources.Hash {
	var all []sources.File
	for _, f := range files {
		all = append(all, sources.File{Path: f.Name, SHA256: f.SHA256})
	}
	return archive.H1(all)
}

// sizeOf returns the total size of files in bytes.
func sizeOf(files []File) (sum int64) {
	for _, f := range files {
		sum += f.Size
	}
	return sum
}

// check returns an error if the file has more than max bytes.
func (f File) check(max int64) error {
	if f.Size < 0 || f.Size > max {
		return fmt.Errorf("invalid size %d", f.Size)
	}
	return nil
}

// checkFiles checks the names, the sizes and the order of the files in a directory.
func checkFiles(files []File, checkName func(string) error) error {
	for i, f := range files {
		err := cmp.Or(checkName(f.Name), f.check(archive.MaxPacked))
		if err == nil && (f.Name == "." || i > 0 && files[i-1].Name >= f.Name) {
			err = errors.New("listed twice, or out of order")
		}
		if err != nil {
			return fmt.Errorf("%.255q: %w", f.Name, err)
		}
	}
	return nil
}

// checkName refuses paths that lead elsewhere, that only some file systems can store, or
// that git would read as a repository with hooks and settings.
func checkName(name string) error {
	odd := func(r rune) bool { return unicode.IsControl(r) || r == '\\' || r == unicode.ReplacementChar }
	switch {
	case !fs.ValidPath(name) || len(name) > maxName:
		return errors.New("not a path inside a directory")
	case strings.ContainsFunc(name, odd):
		return errors.New("contains a character that some file systems cannot store")
	case slices.ContainsFunc(strings.Split(name, "/"), isRepository):
		return errors.New("part of a git repository")
	}
	return nil
}

// isRepository reports whether git takes a file or directory of this name for a repository.
func isRepository(name string) bool { return strings.EqualFold(name, ".git") }
