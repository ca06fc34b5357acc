// Package sourcetest provides the world for tests: an origin registry and a
// network mirror over TLS, and filesystem mirrors on disk. All of them have the
// same signed packages, which a test describes in a few lines.
//
//	w := sourcetest.New(t)
//	w.Add("registry.terraform.io/acme/widget", "1.2.0")
//	w.Registry.Fault(sourcetest.Fault{Path: "*.zip", Cut: 100, Times: 1})
//	cmd.Env = append(os.Environ(), w.Env()...)
//
// Go code reaches the servers through [World.Client], and programs such as
// terraform reach them through [World.Env]. Archives are stored, not
// compressed, and all their data is fixed, including signatures: hashes and
// documents are the same in every run, except for the port in URLs.
//
// The servers do not check that what they serve is valid, so tests can make
// them serve broken documents. All files are below the test's temporary
// directories.
package sourcetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/dirhash"
)

// A World is a set of providers, and the servers that serve them. Its methods
// are safe for concurrent use. If a method fails, it ends the test.
type World struct {
	Registry *Server // the origin registry of every host
	Mirror   *Server // a network mirror
	CAFile   string  // path of the PEM file of the servers' certificate authority

	t   testing.TB
	dir string

	proxy func() string // its URL; started by the first call

	mu       sync.Mutex
	oci      *Server             // nil until it is started
	releases map[string]*release // by HOST/NAMESPACE/TYPE/VERSION
}

// New returns an empty world that lasts until the test ends.
func New(t testing.TB) *World {
	t.Helper()
	w := &World{t: t, dir: t.TempDir(), releases: map[string]*release{}}
	w.CAFile = filepath.Join(w.dir, "ca.pem")
	Check(w.t, os.WriteFile(w.CAFile, testCA().pem, 0o644))
	w.Registry = w.serve(registryHandler)
	w.Mirror = w.serve(mirrorHandler)
	w.proxy = sync.OnceValue(w.startProxy)
	return w
}

// A Release describes one version of a provider. The zero Release is signed,
// for linux_amd64 and the platform of the test, and has a small file as its
// executable.
type Release struct {
	Platforms []string          // OS_ARCH
	Files     map[string]string // contents by path; files named like a provider are executable
	Size      int64             // size of the generated executable in bytes; it compresses as executables do
	Deflate   bool              // compress the archive
	Archive   []byte            // the archive, which may be invalid, instead of one with the above
	Protocols []string          // 5.0 if empty
	Warnings  []string          // sent with the registry's list of versions
	Signer    *Key              // nil means Publisher
	Keys      []*Key            // keys that the registry lists; nil means the Signer, empty means none
	Packages  bool              // the registry lists the hashes of all platforms, as OpenTofu's does

	// Each of these changes a document before it is sent, to test invalid
	// documents.
	EditSums      func([]byte) []byte  // SHA256SUMS, before it is signed
	EditSignature func([]byte) []byte  // SHA256SUMS.sig
	EditDownload  func(map[string]any) // the registry's description of a package
}

// A release is a published Release. It does not change.
type release struct {
	Release
	provider, version string
	packages          []pkg // sorted by platform
}

// A pkg is the package of a release for one platform.
type pkg struct {
	platform string
	filename string
	file     string // path of the archive
	sha256   [32]byte
	size     int64
	h1       string
}

func (p pkg) zh() string { return fmt.Sprintf("zh:%x", p.sha256) }

// dir returns HOST/NAMESPACE/TYPE/VERSION, which begins all paths of the
// release.
func (r *release) dir() string { return r.provider + "/" + r.version }

func (r *release) providerType() string { return path.Base(r.provider) }

// Add publishes a version of a provider, such as
// registry.terraform.io/acme/widget. If the version exists, Add replaces the
// packages for the given platforms and keeps the others.
func (w *World) Add(provider, version string, description ...Release) {
	w.t.Helper()
	r := &release{provider: provider, version: version}
	if len(description) > 0 {
		r.Release = description[0]
	}
	if len(r.Platforms) == 0 {
		r.Platforms = defaultPlatforms()
	}
	if len(r.Protocols) == 0 {
		r.Protocols = []string{"5.0"}
	}
	if r.Signer == nil {
		r.Signer = Publisher()
	}
	if r.Keys == nil {
		r.Keys = []*Key{r.Signer}
	}
	for _, platform := range r.Platforms {
		r.packages = append(r.packages, w.build(r, platform))
	}
	w.publish(r)
}

// defaultPlatforms returns linux_amd64, which expectations on any machine can
// name, and the platform of this machine.
func defaultPlatforms() []string {
	platforms := []string{"linux_amd64", runtime.GOOS + "_" + runtime.GOARCH}
	return slices.Compact(platforms)
}

func (w *World) publish(r *release) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old := w.releases[r.dir()]; old != nil {
		for _, p := range old.packages {
			if !slices.Contains(r.Platforms, p.platform) {
				r.packages = append(r.packages, p)
			}
		}
	}
	slices.SortFunc(r.packages, func(p, q pkg) int { return strings.Compare(p.platform, q.platform) })
	w.releases[r.dir()] = r
}

// build writes the archive of r for a platform.
func (w *World) build(r *release, platform string) pkg {
	w.t.Helper()
	p := pkg{platform: platform}
	p.filename = fmt.Sprintf("terraform-provider-%s_%s_%s.zip", r.providerType(), r.version, platform)
	dir, err := os.MkdirTemp(w.dir, "archive") // a new directory, so that archives being served do not change
	Check(w.t, err)
	p.file = filepath.Join(dir, p.filename)
	f, err := os.Create(p.file)
	Check(w.t, err)
	sum := sha256.New()
	Check(w.t, r.writeArchive(io.MultiWriter(f, sum), platform))
	p.size, err = f.Seek(0, io.SeekEnd)
	Check(w.t, errors.Join(err, f.Close()))
	sum.Sum(p.sha256[:0])
	// A file that is not an archive has no contents to hash.
	p.h1, _ = dirhash.HashZip(p.file, dirhash.Hash1)
	return p
}

// Hashes returns the zh: and h1: hashes of a package, named
// HOST/NAMESPACE/TYPE/VERSION/OS_ARCH.
func (w *World) Hashes(id string) (zh, h1 string) {
	w.t.Helper()
	for _, r := range w.pick(func(candidate string) bool { return candidate == id }) {
		return r.packages[0].zh(), r.packages[0].h1
	}
	w.t.Fatalf("no package %s", id)
	return "", ""
}

// AllHashes returns the zh: and h1: hashes of all packages, in the order of their names. What isn't an archive has no
// h1:.
func (w *World) AllHashes() (all [][2]string) {
	for _, r := range w.matching(nil) {
		for _, p := range r.packages {
			all = append(all, [2]string{p.zh(), p.h1})
		}
	}
	return all
}

// pick returns the releases with the packages for which keep returns true,
// sorted. Keep gets each package's HOST/NAMESPACE/TYPE/VERSION/OS_ARCH.
func (w *World) pick(keep func(id string) bool) []*release {
	w.mu.Lock()
	defer w.mu.Unlock()
	var kept []*release
	for _, r := range w.releases {
		some := *r
		some.packages = nil
		for _, p := range r.packages {
			if keep(r.dir() + "/" + p.platform) {
				some.packages = append(some.packages, p)
			}
		}
		if len(some.packages) > 0 {
			kept = append(kept, &some)
		}
	}
	slices.SortFunc(kept, func(r, s *release) int { return strings.Compare(r.dir(), s.dir()) })
	return kept
}

// glob reports whether s matches pattern, where * matches any text, including
// slashes. An empty pattern matches everything.
func glob(pattern, s string) bool {
	flat := strings.NewReplacer("/", " ")
	ok, err := path.Match(flat.Replace(pattern), flat.Replace(s))
	check(err)
	return ok || pattern == ""
}

func globAny(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return glob(pattern, s) })
}
