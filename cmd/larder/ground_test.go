package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A ground is a directory in which a test runs programs, and the servers that these may ask. Names of files are
// relative to the directory.
type ground struct {
	t     testing.TB
	world *sourcetest.World
	base  string
}

// groundFor returns one with an empty directory and nothing published.
func groundFor(t testing.TB) ground {
	t.Helper()
	return ground{t, sourcetest.New(t), t.TempDir()}
}

func (g *ground) must(err error) {
	g.t.Helper()
	sourcetest.Check(g.t, err)
}

// path returns the path of a file.
func (g *ground) path(elements ...string) string {
	name := filepath.FromSlash(filepath.Join(elements...))
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(g.base, name)
}

func (g *ground) mkdir(name string) { g.t.Helper(); g.must(os.MkdirAll(g.path(name), 0o755)) }

func (g *ground) remove(name string) { g.t.Helper(); g.must(os.RemoveAll(g.path(name))) }

func (g *ground) chmod(name string, mode fs.FileMode) {
	g.t.Helper()
	g.must(os.Chmod(g.path(name), mode))
}

func (g *ground) write(name, text string) {
	g.t.Helper()
	g.mkdir(filepath.Dir(g.path(name)))
	g.must(os.WriteFile(g.path(name), []byte(text), 0o644))
}

// read returns the contents of a file, or nothing if there is none.
func (g *ground) read(name string) string {
	g.t.Helper()
	text, err := os.ReadFile(g.path(name))
	if !errors.Is(err, fs.ErrNotExist) {
		g.must(err)
	}
	return string(text)
}

// larder runs larder in the directory, which is also the home directory.
func (g *ground) larder(env []string, args ...string) (output string, status int) {
	g.t.Helper()
	env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.base, "TF_REGISTRY_DISCOVERY_RETRY=1"}, env...)
	return workBoth(g.t, g.base, env, args...)
}

// requiringWidget returns a ground that is a root module, which requires the only provider that is published.
func requiringWidget(t testing.TB, r sourcetest.Release) *ground {
	t.Helper()
	g := groundFor(t)
	r.Platforms = []string{ownPlatform}
	g.world.Add(widgetDir, "1.0.0", r)
	g.write("main.tf", requiring("widget"))
	return &g
}

// An origin is a source to lock from: as an installation method, and as flags of providers lock.
type origin struct {
	method string
	flags  []string
}

// place makes a source ready. The directory is that of a filesystem mirror.
func (g *ground) place(kind, dir string) origin {
	_, err := os.Stat(dir)
	switch at := g.world.Mirror.MirrorURL(); {
	case kind == "network":
		return origin{`network_mirror { url = "` + at + `" }`, []string{"-net-mirror=" + at}}
	case kind == "packed" && err != nil:
		g.world.WritePacked(dir)
	case kind == "unpacked" && err != nil:
		g.world.WriteUnpacked(dir)
	case kind == "packed", kind == "unpacked": // it is ready
	default:
		return origin{method: "direct {}"}
	}
	return origin{`filesystem_mirror { path = "` + dir + `" }`, []string{"-fs-mirror=" + dir}}
}

// publish publishes a release under an address.
func (g *ground) publish(provider string, platforms []string, r published) {
	sign := signings[r.Signing]()
	d := sourcetest.Release{
		Protocols: r.Protocols, Packages: r.Stated, Signer: sign.signer, Keys: sign.keys,
		EditSums: r.editSums, EditDownload: r.editDownload,
	}
	if r.Signing == "broken" {
		d.EditSignature = func(b []byte) []byte { return b[:len(b)/2] }
	}
	if r.Warning != "" {
		d.Warnings = []string{r.Warning}
	}
	for _, platform := range platforms {
		d.Platforms, d.Archive = []string{platform}, r.archive(platform)
		g.world.Add(provider, r.Version, d)
	}
}

// hashes returns the hashes of a kind for a release under an address: those of this machine's package, unless the kind
// names another one.
func (g *ground) hashes(provider string, platforms []string, r published, kind string) (all []string) {
	for _, platform := range platforms {
		zh, zipH1 := g.world.Hashes(provider + "/" + r.Version + "/" + platform)
		own, other := platform == ownPlatform, platform == "darwin_arm64"
		switch {
		case kind == "h1" && own, kind == "other h1" && other:
			all = append(all, r.h1(platform))
		case kind == "zh" && own, kind == "others" && !own, kind == "other zh" && other, kind == "all zh":
			all = append(all, zh)
		case kind == "h1 of zip" && own && zipH1 != "":
			all = append(all, zipH1)
		}
	}
	return all
}
