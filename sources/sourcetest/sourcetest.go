// Package sourcetest makes a world for tests from a few lines of description: an origin
// registry and a network mirror with TLS, and filesystem mirrors on disk, all with the
// same signed packages.
//
//	w := sourcetest.New(t)
//	w.Add("registry.terraform.io/acme/widget", "1.2.0")
//	w.Registry.Fault(sourcetest.Fault{Path: "*.zip", Cut: 100, Times: 1})
//	cmd.Env = append(os.Environ(), w.Env()...)
//
// Go code reaches the servers through [World.Client], programs such as terraform
// through [World.Env]. Archives are stored, not compressed, and everything in
// them and about them is fixed, signatures included: hashes and documents are
// the same in every run, except for the port in a URL.
//
// It is not a model of correct registries: it serves whatever the test describes, however
// broken. It leaves files only below the test's own temporary directories.
package sourcetest

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/dirhash"
)

// A TB is what a World needs of a test. A *testing.T is one.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
	TempDir() string
}

// A World is what there is to be found, and the servers to find it on. Its
// methods are safe for concurrent use, and end the test if they cannot do what
// they are asked.
type World struct {
	Registry *Server // the origin registry of every host
	Mirror   *Server // a network mirror
	CAFile   string  // PEM of the authority that signed the servers' certificates

	t   TB
	dir string

	proxy func() string // its URL; started when first asked for

	mu       sync.Mutex
	releases map[string]*release // by HOST/NAMESPACE/TYPE/VERSION
}

// New makes an empty world that lasts as long as the test.
func New(t TB) *World {
	t.Helper()
	w := &World{t: t, dir: t.TempDir(), releases: map[string]*release{}}
	w.CAFile = filepath.Join(w.dir, "ca.pem")
	w.must(os.WriteFile(w.CAFile, testCA().pem, 0o644))
	w.Registry = w.serve(registryHandler)
	w.Mirror = w.serve(mirrorHandler)
	w.proxy = sync.OnceValue(w.startProxy)
	return w
}

// A Release describes one version of a provider. The zero Release is a signed
// one for linux_amd64 and the platform the test runs on, with a small file as
// its executable.
type Release struct {
	Platforms []string          // OS_ARCH
	Files     map[string]string // by path; those that look like a provider's are executable
	Size      int64             // of the executable in bytes; it is generated, and compresses as executables do
	Deflate   bool              // compress the archive
	Archive   []byte            // the archive itself, whatever it holds, instead of one made from the above
	Protocols []string          // 5.0 if empty
	Warnings  []string          // told by the registry when asked for versions
	Signer    *Key              // Publisher if nil
	Keys      []*Key            // those the registry lists; the Signer if nil, none if empty
	Packages  bool              // the registry states the hashes of all platforms, as OpenTofu's does

	// Each of these changes a document on its way out, so that tests need not
	// wait for somebody to publish a broken one.
	EditSums      func([]byte) []byte  // SHA256SUMS, before it is signed
	EditSignature func([]byte) []byte  // SHA256SUMS.sig
	EditDownload  func(map[string]any) // the registry's description of a package
}

// A release is a Release that is out, and does not change any more.
type release struct {
	Release
	provider, version string
	packages          []pkg // sorted by platform
}

// A pkg is one build of a release.
type pkg struct {
	platform string
	filename string
	file     string // path of the archive
	sha256   [32]byte
	size     int64
	h1       string
}

func (p pkg) zh() string { return fmt.Sprintf("zh:%x", p.sha256) }

// dir is HOST/NAMESPACE/TYPE/VERSION, and what hangs below it everywhere.
func (r *release) dir() string { return r.provider + "/" + r.version }

func (r *release) providerType() string { return path.Base(r.provider) }

// Add publishes a version of a provider, such as registry.terraform.io/acme/widget.
// Adding to a version that is out replaces the packages of the platforms that it names,
// and leaves the others.
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

// defaultPlatforms are linux_amd64, which expectations can name on any machine,
// and the one that works on this machine.
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
	dir, err := os.MkdirTemp(w.dir, "archive") // what is served now stays as it is
	w.must(err)
	p.file = filepath.Join(dir, p.filename)
	w.must(r.writeArchive(p.file, platform))

	f, err := os.Open(p.file)
	w.must(err)
	defer f.Close()
	sum := sha256.New()
	p.size, err = f.WriteTo(sum)
	w.must(err)
	sum.Sum(p.sha256[:0])
	// What is no archive has no contents to hash.
	p.h1, _ = dirhash.HashZip(p.file, dirhash.Hash1)
	return p
}

// packageFile is HOST/NAMESPACE/TYPE/VERSION/, OS_ARCH/ unless the file is for
// all platforms, and a path in the package.
var packageFile = regexp.MustCompile(`^([^/]+/[^/]+/[^/]+)/([^/]+)/(?:([a-z0-9]+_[a-z0-9]+)/)?(.+)$`)

// AddFS publishes the packages that lie unpacked in fsys, such as a txtar
// archive's: HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/FILE, or without OS_ARCH what
// is for the default platforms.
func (w *World) AddFS(fsys fs.FS) {
	w.t.Helper()
	found := map[[3]string]map[string]string{} // provider, version, platform: contents by path
	w.must(fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		m := packageFile.FindStringSubmatch(name)
		if m == nil {
			return fmt.Errorf("%s: not in HOST/NAMESPACE/TYPE/VERSION", name)
		}
		key := [3]string(m[1:4])
		if found[key] == nil {
			found[key] = map[string]string{}
		}
		content, err := fs.ReadFile(fsys, name)
		found[key][m[4]] = string(content)
		return err
	}))
	for key, files := range found {
		r := Release{Files: files}
		if key[2] != "" {
			r.Platforms = []string{key[2]}
		}
		w.Add(key[0], key[1], r)
	}
}

// Hashes are the zh: and h1: of a package, named HOST/NAMESPACE/TYPE/VERSION/OS_ARCH.
func (w *World) Hashes(id string) (zh, h1 string) {
	w.t.Helper()
	for _, r := range w.pick(func(candidate string) bool { return candidate == id }) {
		return r.packages[0].zh(), r.packages[0].h1
	}
	w.t.Fatalf("no package %s", id)
	return "", ""
}

// pick is the part of the world that keep wants, sorted. It is asked for
// each package by HOST/NAMESPACE/TYPE/VERSION/OS_ARCH.
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

// glob reports whether s matches pattern, where each * stands for any text,
// slashes included. An empty pattern matches everything.
func glob(pattern, s string) bool {
	if pattern == "" {
		return true
	}
	expr := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`)
	return regexp.MustCompile(`(?s)^` + expr + `$`).MatchString(s)
}

func globAny(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return glob(pattern, s) })
}

func (w *World) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("test world: %v", err)
	}
}
