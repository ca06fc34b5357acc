package sources

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// A PackageID names one build of one version of one provider.
type PackageID struct {
	Provider Provider
	Version  Version
	Platform Platform
}

func (id PackageID) String() string {
	return id.Provider.String() + " " + id.Version.String() + " " + id.Platform.String()
}

// ParsePackageID parses the three parts of [PackageID.Path]. It returns an
// error for a package that engines would not install, and for parts that are
// not in canonical form.
func ParsePackageID(provider, version, platform string) (id PackageID, err error) {
	if id.Provider, err = ParseProvider(provider, Terraform); err != nil {
		return id, err
	}
	if id.Version, err = ParseVersion(version); err != nil {
		return id, err
	}
	if id.Platform, err = ParsePlatform(platform); err != nil {
		return id, err
	}
	if id.Path() != provider+"/"+version+"/"+platform || id.Provider.BuiltIn() || id.Provider.Legacy() {
		return id, errors.New("not in the form that paths of packages have")
	}
	return id, nil
}

// Release returns the provider and version of the package.
func (id PackageID) Release() Release { return Release{id.Provider, id.Version} }

// A Release is one version of a provider, for all platforms.
type Release struct {
	Provider Provider
	Version  Version
}

func (r Release) String() string { return r.Provider.String() + " " + r.Version.String() }

// Compare orders releases by provider and version, the oldest version first.
func (r Release) Compare(s Release) int {
	return cmp.Or(r.Provider.Compare(s.Provider), r.Version.Compare(s.Version))
}

// Newest returns the packages of the n newest versions of each provider and platform.
func Newest(ids []PackageID, n int) map[PackageID]bool {
	type kind struct {
		Provider
		Platform
	}
	count, newest := map[kind]int{}, map[PackageID]bool{}
	for _, id := range slices.Backward(slices.Compact(slices.SortedFunc(slices.Values(ids), PackageID.Compare))) {
		k := kind{id.Provider, id.Platform}
		if count[k]++; count[k] <= n {
			newest[id] = true
		}
	}
	return newest
}

// FilePrefix begins the names of archives and executables. The provider's type
// follows it.
const FilePrefix = "terraform-provider-"

// Filename returns the name of the package's archive, as in signed checksums
// and mirrors.
func (id PackageID) Filename() string {
	return FilePrefix + id.Provider.Type + "_" + id.Version.String() + "_" + id.Platform.String() + ".zip"
}

// ParseFilename parses the name of an archive for version v of p. It returns
// false for a name that [PackageID.Filename] would not return.
func ParseFilename(name string, p Provider, v Version) (PackageID, bool) {
	text, _ := strings.CutPrefix(strings.TrimSuffix(name, ".zip"), FilePrefix+p.Type+"_"+v.String()+"_")
	platform, err := ParsePlatform(text)
	id := PackageID{p, v, platform}
	return id, err == nil && name == id.Filename()
}

// NamesExecutable reports whether engines would run a file of this name as a
// provider of type typ.
func NamesExecutable(name, typ string) bool {
	rest, ok := strings.CutPrefix(name, FilePrefix+typ)
	return ok && (rest == "" || rest[0] == '_' || rest[0] == '.')
}

// Path returns the package's path below a plugin cache, an install directory or
// an unpacked mirror: HOST/NAMESPACE/TYPE/VERSION/OS_ARCH, with forward
// slashes.
func (id PackageID) Path() string {
	return id.Provider.String() + "/" + id.Version.String() + "/" + id.Platform.String()
}

// Compare orders packages by provider, version and platform, the oldest version
// first.
func (id PackageID) Compare(other PackageID) int {
	if c := id.Provider.Compare(other.Provider); c != 0 {
		return c
	}
	if c := id.Version.Compare(other.Version); c != 0 {
		return c
	}
	return id.Platform.Compare(other.Platform)
}

// A Package is a source's description of a package. It is plain data, so
// wrapping a source loses nothing.
type Package struct {
	ID       PackageID
	Location Location
	Filename string  // of the archive, as in SHA256SUMS and messages
	Size     int64   // of the archive in bytes; 0 if unknown
	Hashes   []Hash  // a match with any one of them suffices; empty if the source has none
	Signed   *Signed // the publisher's signed checksums; nil if the source has none
	Offered  []Hash  // unsigned hashes for all platforms, from the registry or a trusted network mirror
	Stated   Hash    // the h1: hash in Offered that belongs to this package; empty if there is none
	Others   []Hash  // hashes that the source has for other platforms of the version
	Source   string  // the source's name for messages
	Kind     Kind
	Warnings []string

	// CheckedOut reports that the package is in the checkout of the root module, like
	// the lock file: one proves nothing about the other.
	CheckedOut bool

	// Tries is the number of consecutive download attempts without progress
	// before the download fails; 0 means the usual number.
	Tries int

	from Source // the source for Again and Approvals; nil if no wrapper set it
}

// size returns about how many bytes of memory the description takes.
func (p Package) size() int {
	return 1<<10 + p.Signed.Size() + 100*(len(p.Hashes)+len(p.Offered)+len(p.Others))
}

// Again queries the package's source once more, because the package's URL may have
// changed.
func (p Package) Again(ctx context.Context) (Package, error) {
	if p.from == nil {
		return Package{}, &PackageError{ID: p.ID, Err: ErrNotFound}
	}
	return p.from.Package(ctx, p.ID)
}

// Approvals returns the keys that signed the set of the package's source, see [Approver].
func (p Package) Approvals(ctx context.Context, zh Hash) ([]Signer, error) {
	if from, ok := p.from.(Approver); ok {
		return from.Approvals(ctx, p.ID, zh)
	}
	return nil, nil
}

// A Kind is the kind of source that a package comes from. Trust depends on it.
type Kind string

// The kinds of source.
const (
	FromRegistry   Kind = "registry"
	FromNetwork    Kind = "network mirror"
	FromFilesystem Kind = "filesystem mirror"
	FromOCI        Kind = "OCI mirror" // whose hashes are those of archives
)

// A Location is where a package is. Exactly one field is set.
type Location struct {
	URL     string // of a zip archive
	Archive string // path of a zip archive on this machine
	Dir     string // path of an unpacked package on this machine
}

// Signed is the evidence for a version: the publisher's checksums, the detached
// signature over them, and the keys that may have signed them.
type Signed struct {
	Sums      []byte `json:"sums"`      // SHA256SUMS, unchanged
	Signature []byte `json:"signature"` // OpenPGP, detached, binary; one or more signature packets
	Keys      []Key  `json:"keys"`
	Origin    string `json:"origin"` // the URL of SHA256SUMS

	// Protocols are the versions of the plugin protocol in the manifest of an imported release. Only larder serve, as a
	// registry, uses them.
	Protocols []string `json:"protocols,omitempty"`
}

// Size returns about how many bytes of memory the evidence takes.
func (s *Signed) Size() int {
	if s == nil {
		return 0
	}
	n := 200 + len(s.Sums) + len(s.Signature)
	for _, k := range s.Keys {
		n += len(k.Armor) + len(k.TrustSignature)
	}
	return n
}

// A Key is a publisher's public key. In JSON, it has the member names of registries.
type Key struct {
	Armor          string `json:"ascii_armor"`
	TrustSignature string `json:"trust_signature"` // for a partner's key: HashiCorp's signature over it

	// listed is not part of any file, so no mirror, bundle or export can set
	// it.
	listed bool
}

// Listed reports whether a registry listed the key for the provider. The other
// keys come with the packages, where anyone can add one.
func (k Key) Listed() bool { return k.listed }

// AsListed returns the key with Listed set. A caller that sets it must have the
// key from the registry, or from an authenticated record of the registry's
// answer.
func (k Key) AsListed(listed bool) Key {
	k.listed = listed
	return k
}

// Contents describe the files of a package, after hashing all of them. Those of an archive that was only listed have
// no hashes.
type Contents struct {
	H1    Hash   // of the files as they are in a directory
	ZipH1 Hash   // of the archive's entries, directories included; equal to H1 for a directory, or without such entries
	Files []File // sorted by path
	Size  int64  // of all files, in bytes
}

// A File is one file in a package.
type File struct {
	Path   string // relative, with forward slashes
	Size   int64
	SHA256 [32]byte
}

// A Stored package is in a store, or its hashes are recorded there.
type Stored struct {
	ID       PackageID
	Dir      string  // empty if only its hashes are recorded
	H1       Hash    // empty if only its archive was hashed
	ZipH1    Hash    // see Contents; empty if unknown
	ZH       Hash    // of the archive it came from; empty if unknown
	Filename string  // of that archive; empty if unknown
	Origin   string  // where it came from: a URL or a path
	Signed   *Signed // evidence stored with it; nil if there is none
	Proof    Proof   // what was proved about it, when it was stored or since
	Report   Report  // what that is worth by the settings of this run

	Since time.Time         // when its hashes were first recorded; zero if unknown
	Sums  map[string]string // SHA-256 of its files in hexadecimal, by their paths; nil if they are not recorded

	// Differs is the h1: hash that was verified earlier, if the contents have a
	// different one now: the package is damaged, or is another build. It is
	// empty otherwise.
	Differs Hash
	Changes string // how the contents differ, in words

	// Temporary reports that the store removes Dir at the end of the run, because the
	// user may not add the package. It is copied to working directories until then.
	Temporary bool

	Seen Seen // the files' state when the store hashed or recognized them; may be nil
}

// Hashes returns the known hashes of the package.
func (s Stored) Hashes() []Hash {
	return slices.DeleteFunc([]Hash{s.H1, s.ZipH1, s.ZH}, func(h Hash) bool { return h == "" })
}

// Hashed reports whether any hash is known: otherwise, there is no package.
func (s Stored) Hashed() bool { return s.H1 != "" || s.ZH != "" }

// Same reports whether two packages have the same contents. If the contents of one weren't hashed, their archives
// must be the same.
func (s Stored) Same(other Stored) bool {
	if s.H1 == "" || other.H1 == "" {
		return s.ZH != "" && s.ZH == other.ZH
	}
	return s.H1 == other.H1
}

// AsLocked returns the proof about a package that a lock file has a hash of: the recorded one, as commands without a
// lock file show it, and without a record, that a hash matches.
func (s Stored) AsLocked() Proof {
	s.Proof.Matched = s.Proof.Matched || s.Since.IsZero()
	return s.Proof
}

// Public reports whether the package was downloaded. Directories that other users can't
// enter then don't make it private.
func (s Stored) Public() bool {
	return strings.HasPrefix(s.Origin, "https://") || strings.HasPrefix(s.Origin, "http://")
}

// Trim drops large data that is required only until the package is linked: its
// evidence, and the state and the checksums of its files.
func (s *Stored) Trim() { s.Signed, s.Seen, s.Sums = nil, nil, nil }

// Seen is a store's record of the state of a package's files. Only the store's
// own [Workdir.Link] reads more of it.
type Seen interface {
	// CopyOf reports whether the package is a copy of the current archive or
	// directory at path, according to recorded file fingerprints. It reads no
	// file.
	CopyOf(path string) bool
}
