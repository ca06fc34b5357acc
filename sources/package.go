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

// ParsePackageID parses the names of a package that engines install, which must be
// written as they are in [PackageID.Path].
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
		return id, errors.New("not written as in the path of a package")
	}
	return id, nil
}

// Release is the version that the package is of.
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

// Filename is the name of a package's archive, in signed checksums and in mirrors.
func (id PackageID) Filename() string {
	return FilePrefix + id.Provider.Type + "_" + id.Version.String() + "_" + id.Platform.String() + ".zip"
}

// ParseFilename parses a name that [PackageID.Filename] returns for a package of
// version v of p.
func ParseFilename(name string, p Provider, v Version) (PackageID, bool) {
	text, _ := strings.CutPrefix(strings.TrimSuffix(name, ".zip"), FilePrefix+p.Type+"_"+v.String()+"_")
	platform, err := ParsePlatform(text)
	id := PackageID{p, v, platform}
	return id, err == nil && name == id.Filename()
}

// NamesExecutable reports whether engines run a file of this name as a provider
// of type typ.
func NamesExecutable(name, typ string) bool {
	rest, ok := strings.CutPrefix(name, FilePrefix+typ)
	return ok && (rest == "" || rest[0] == '_' || rest[0] == '.')
}

// Path is where a package lies below a cache, an install directory or an
// unpacked mirror: HOST/NAMESPACE/TYPE/VERSION/OS_ARCH, with forward slashes.
func (id PackageID) Path() string {
	return id.Provider.String() + "/" + id.Version.String() + "/" + id.Platform.String()
}

// Compare orders packages by provider, version and platform, the oldest version
// first.
func (id PackageID) Compare(other PackageID) int {
	return cmp.Or(
		id.Provider.Compare(other.Provider),
		id.Version.Compare(other.Version),
		cmp.Compare(id.Platform.String(), other.Platform.String()),
	)
}

// A Package is what a source knows of a package, as plain data. It passes
// through wrappers unharmed.
type Package struct {
	ID       PackageID
	Location Location
	Filename string  // of the archive, as SHA256SUMS and messages name it
	Size     int64   // of the archive in bytes; 0 if the source does not say
	Hashes   []Hash  // any one of them suffices; empty if the source has none
	Signed   *Signed // the publisher's signed checksums; nil if the source has none
	Offered  []Hash  // hashes of all platforms, vouched for by the registry alone
	Stated   Hash    // the h1: hash among them that is this package's; empty if there is none
	Others   []Hash  // that the source states for packages of the version for other platforms
	Source   string  // the source, as messages name it
	Kind     Kind
	Warnings []string

	// Tries is how often in a row a download may bring nothing; 0 means as often
	// as usual.
	Tries int

	from Source // that offers it, for Again; nil if it came straight from there
}

// Again asks the source that offers the package for it once more, as it may be elsewhere
// by now.
func (p Package) Again(ctx context.Context) (Package, error) {
	if p.from == nil {
		return Package{}, &PackageError{ID: p.ID, Err: ErrNotFound}
	}
	return p.from.Package(ctx, p.ID)
}

// A Kind says what sort of source a package comes from, as trust depends on it.
type Kind string

// The kinds of source.
const (
	FromRegistry   Kind = "registry"
	FromNetwork    Kind = "network mirror"
	FromFilesystem Kind = "filesystem mirror"
)

// A Location is where a package is. Exactly one field is set.
type Location struct {
	URL     string // of a zip archive
	Archive string // path of a zip archive on this machine
	Dir     string // path of an unpacked package on this machine
}

// Signed is the evidence for a version: its publisher's checksums, the detached
// signature over them, and the keys that may have made it.
type Signed struct {
	Sums      []byte // SHA256SUMS, as it came
	Signature []byte // OpenPGP, detached, binary; one signature packet or several
	Keys      []Key
	Origin    string // the URL of SHA256SUMS
}

// A Key is a publisher's public key.
type Key struct {
	Armor          string // ASCII-armoured
	TrustSignature string // a partner's: HashiCorp's signature over the key

	// listed can't be read from any file, so no mirror, bundle or export can set it.
	listed bool
}

// Listed reports whether a registry listed the key for the provider. Anyone can add
// the other keys, which come with the packages.
func (k Key) Listed() bool { return k.listed }

// AsListed returns the key as one that a registry listed, or didn't. Only those call
// it who got the key from the registry, or have an authenticated record of that.
func (k Key) AsListed(listed bool) Key {
	k.listed = listed
	return k
}

// Contents are what a package consists of, found by hashing all of it.
type Contents struct {
	H1    Hash   // of the files, as they lie in a directory
	ZipH1 Hash   // of the archive's entries, directories included; equal to H1 if it has none, or for a directory
	Files []File // sorted by path
	Size  int64  // of all files, in bytes
}

// A File is one file in a package.
type File struct {
	Path   string // relative, with forward slashes
	Size   int64
	SHA256 [32]byte
}

// A Stored package lies in a store, and its contents are known. Or it has lain
// there, or passed, and they are remembered.
type Stored struct {
	ID       PackageID
	Dir      string // empty if it is remembered only
	H1       Hash
	ZipH1    Hash    // see Contents; empty if unknown
	ZH       Hash    // of the archive it came from; empty if unknown
	Filename string  // of that archive; empty if unknown
	Verdict  Verdict // reached when it was stored
	Origin   string  // whence it came: a URL or a path
	Signed   *Signed // evidence kept with it; nil if there is none

	Since time.Time // when its hashes were first known; zero if that was not noted

	// Differs is the h1: hash that was verified before, if these contents have
	// another one: the package is damaged, or another build. Empty otherwise.
	Differs Hash

	Imported bool // known only from an import, whose claims prove nothing
	Seen     Seen // what the store saw of the files when it hashed or recognised them; may be nil
}

// Trim drops what is large and only needed until the package is linked: its evidence and
// what the store saw of its files.
func (s *Stored) Trim() { s.Signed, s.Seen = nil, nil }

// Seen is what a store saw of a package's files. The store's own [Workdir.Link] knows more
// of it.
type Seen interface {
	// CopyOf reports whether the package is known to be a copy of the archive or
	// directory at path, as it is now. It reads no file.
	CopyOf(path string) bool
}
