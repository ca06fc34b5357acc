package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// An airGap is a workplace without a network, and a place outside with one.
type airGap struct {
	*workplace
	config string // the CLI configuration inside
}

// outside runs larder with a network.
func (g *airGap) outside(args ...string) string {
	g.t.Helper()
	out, err := g.run(nil, "larder", append([]string{"--engine", string(g.engine)}, args...)...)
	g.must(err)
	return out
}

// inside runs a program without a network.
func (g *airGap) inside(program string, args ...string) string {
	g.t.Helper()
	if program == "larder" {
		args = append([]string{"--engine", string(g.engine)}, args...)
	}
	out, err := g.run([]string{"TF_CLI_CONFIG_FILE=" + g.config}, "unshare", append([]string{"-rn", program}, args...)...)
	g.must(err)
	return out
}

// bundle creates a bundle of the root module's packages, outside.
func (g *airGap) bundle(name string, args ...string) {
	g.t.Helper()
	g.outside("mirror", "sync", "../outside", "--upgrade")
	g.outside(append([]string{"bundle", "create", filepath.Join("..", "stick", name), "--mirror", "../outside"}, args...)...)
}

// works verifies that the engine installs from the mirror and runs the provider.
func (g *airGap) works() {
	g.t.Helper()
	g.must(os.RemoveAll(g.path("root/.terraform")))
	g.inside(g.terraform, "init", "-input=false", "-no-color", "-lockfile=readonly")
	got := g.inside(g.terraform, "plan", "-input=false", "-no-color")
	sourcetest.Expect(g.t, strings.Contains(got, "1 to add"), "plan says\n%s", got)
}

// The whole way of providers to a place without a network: a bundle is made
// outside and carried in, and there Larder and an engine install from it, with the
// publisher's signature proved. The next bundle carries only what is new.
func TestThroughAnAirGap(t *testing.T) {
	if exec.Command("unshare", "-rn", "true").Run() != nil {
		t.Skip("no network namespaces can be made here")
	}
	sourcetest.EachEngine(t, func(t *testing.T, engine sources.Engine) {
		g := &airGap{workplace: newWorkplace(t, engine, "direct {}")}
		g.config = g.path("site/cli.tfrc")
		g.must(os.MkdirAll(g.path("stick"), 0o755))
		g.must(os.MkdirAll(g.path("site"), 0o755))

		g.bundle("first")
		g.inside("larder", "bundle", "verify", "../stick/first")
		g.inside("larder", "bundle", "import", "../stick/first", "../site/mirror", "--write-config", g.config)
		g.inside("larder", "mirror", "verify", "../site/mirror")
		got := g.inside("larder", "install", "--offline", "-R", "--dry-run")
		sourcetest.Expect(t, strings.Contains(got, testProvider+"  1.2.0"), "a dry run says\n%s", got)
		got = g.inside("larder", "install")
		sourcetest.Expect(t, strings.Contains(got, "signed, key "), "the signature is not proved:\n%s", got)
		g.works()

		executable, err := os.ReadFile(sourcetest.Provider(t))
		g.must(err)
		g.world.Add(testProvider, "1.3.0", sourcetest.Release{
			Platforms: []string{runtime.GOOS + "_" + runtime.GOARCH},
			Protocols: []string{"6.0"},
			Files:     map[string]string{"terraform-provider-widget_v1.3.0": string(executable)},
		})
		g.write("stick/manifest", g.inside("larder", "bundle", "manifest", "../site/mirror"))
		g.bundle("second", "--since", "../stick/manifest")
		if got := g.inside("larder", "bundle", "show", "../stick/second"); !strings.Contains(got, "1.3.0") || strings.Contains(got, testProvider+" 1.2.0") {
			t.Errorf("the second bundle holds\n%s", got)
		}
		g.inside("larder", "bundle", "import", "../stick/second", "../site/mirror")
		got = g.inside("larder", "install", "--upgrade")
		sourcetest.Expect(t, strings.Contains(got, "→ 1.3.0"), "upgraded to\n%s", got)
		g.works()
	})
}
