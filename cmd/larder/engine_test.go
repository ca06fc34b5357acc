package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// What Larder has installed, engines accept as it is: they download nothing and change nothing. That is
// on record.

// A workplace is a root module on a machine of its own, and the programs that run there.
type workplace struct {
	ground
	judge *judge // what the engine does on record
	dir   string // the root module's
	env   []string
}

// newWorkplace makes an empty one for an engine whose runs are on record, under the name of the situation.
func newWorkplace(t *testing.T, p engineRelease, kind, name string) *workplace {
	t.Helper()
	w := &workplace{ground: groundFor(t), judge: newJudge(t, p, kind, name, nil)}
	w.dir = w.path("root")
	return w
}

// newJudged makes a workplace with a provider. The methods are lines of a provider_installation block.
func newJudged(t *testing.T, p engineRelease, name string, methods ...string) *workplace {
	t.Helper()
	w := newWorkplace(t, p, "accept", name)
	w.world.Add(widgetDir, "1.2.0", sourcetest.Release{
		Platforms: []string{ownPlatform},
		Protocols: []string{"6.0"},
		Files:     map[string]string{"terraform-provider-widget_v1.2.0": "runs\n", "LICENSE": "yes\n"},
	})
	w.world.Add(widgetDir, "2.0.0-beta1")
	w.write("root/main.tf", `
terraform {
  required_providers {
    widget = {
      source  = "example.test/acme/widget"
      version = "~> 1.0"
    }
  }
}
data "widget_thing" "a" {
  text = "seen"
}
resource "widget_thing" "b" {
  text = data.widget_thing.a.id
}
`)
	w.configure(methods...)
	return w
}

// configure sets the variables, and lines of a provider_installation block.
func (w *workplace) configure(methods ...string) {
	w.env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.path("home")}, w.world.Env(methods...)...)
}

// ours runs a command of larder for the engine.
func (w *workplace) ours(env []string, command string, args ...string) (output string, status int) {
	w.t.Helper()
	args = append([]string{command, "--engine", string(w.judge.Engine)}, args...)
	return workBoth(w.t, w.dir, append(slices.Clone(w.env), env...), args...)
}

// theirs returns what is on record of the engine.
func (w *workplace) theirs(env []string, args ...string) (output string, status int) {
	w.t.Helper()
	env = append(slices.Clone(w.env), env...)
	return w.judge.run(engineRun{Base: w.base, Dir: w.dir, Env: env, Args: args, World: w.world})
}

// tf runs the engine in the root module and returns its output. It must succeed.
func (w *workplace) tf(env []string, args ...string) string {
	w.t.Helper()
	out, status := w.theirs(env, args...)
	sourcetest.Require(w.t, status == 0, "%s %s: exit status %d\n%s", w.judge, args, status, out)
	return out
}

func (w *workplace) install(env []string, args ...string) string {
	w.t.Helper()
	out, status := w.ours(env, "install", append(args, "--verbose")...)
	sourcetest.Require(w.t, status == 0, "larder install %s: exit status %d\n%s", args, status, out)
	return out
}

func (w *workplace) init(env []string, args ...string) string {
	w.t.Helper()
	return w.tf(env, append([]string{"init", "-input=false", "-no-color"}, args...)...)
}

// downloaded returns the requests since the last call, except those for missing files.
func (w *workplace) downloaded() []sourcetest.Request {
	made := append(w.world.Registry.Requests(), w.world.Mirror.Requests()...)
	w.world.Registry.Forget()
	w.world.Mirror.Forget()
	return slices.DeleteFunc(made, func(r sourcetest.Request) bool {
		switch r.Kind {
		case sourcetest.Discovery, sourcetest.Versions, sourcetest.Index:
			return true
		default:
			return false
		}
	})
}

// snapshot records installed packages, lock file and caches. When a directory was changed does not count, as the
// engines try whether they can write to one. Nor do the empty files that OpenTofu locks.
func (w *workplace) snapshot() diskState {
	w.t.Helper()
	all := diskStateOf(w.t, w.base)
	dirs := []string{w.path(w.dir, ".terraform/providers"), w.lockFile(), w.path("cache"), w.path("home/.cache")}
	maps.DeleteFunc(all, func(name, state string) bool {
		counts := func(dir string) bool { return atOrBelow(dir, w.path(name)) }
		locks := strings.HasSuffix(name, "/"+ownPlatform+".lock") && strings.Contains(state, " 0 bytes ")
		return locks || !slices.ContainsFunc(dirs, counts)
	})
	for name, state := range all {
		if kind, _, _ := strings.Cut(state, " "); kind[0] == 'd' {
			all[name] = kind
		}
	}
	return all
}

func (w *workplace) lockFile() string { return filepath.Join(w.dir, ".terraform.lock.hcl") }

// accepts lets the engine initialize what has been installed, and wants nothing
// to come of it.
func (w *workplace) accepts(env []string, args ...string) {
	w.t.Helper()
	before := w.snapshot()
	w.downloaded()
	out := w.init(env, args...)
	if made := w.downloaded(); len(made) > 0 {
		w.t.Errorf("init downloads %v\n%s", made, out)
	}
	if !strings.Contains(out, "Using previously-installed "+widgetDir+" v1.2.0") {
		w.t.Errorf("init finds something to do:\n%s", out)
	}
	changes := w.snapshot().since(before)
	sourcetest.Expect(w.t, len(changes) == 0, "init changes files: %q", changes)
}

// A method is a way to configure the source of packages.
type method struct {
	name   string
	block  []string // lines of provider_installation
	larder []string // flags
	engine []string // flags of init
}

var methods = []method{
	{name: "direct", block: []string{"direct {}"}},
	{name: "packed", block: []string{"filesystem_mirror {", `path = "../packed"`, "}"}},
	{name: "unpacked", block: []string{"filesystem_mirror {", `path = "../unpacked"`, "}"}},
	{name: "network mirror", block: []string{"network_mirror {", `url = "https://mirror.test/providers/"`, "}"}},
	{name: "implied direct"},
	{name: "implied"},
	{name: "plugin-dir", larder: []string{"--plugin-dir", "../packed"}, engine: []string{"-plugin-dir=../packed"}},
}

var links = [][]string{{"--link", "hardlink"}, {"--link", "symlink"}, {"--link", "copy"}, {"--no-cache"}}

// Every way to come by a package, put into place in every way, with the plugin
// cache configured for both programs, for one of them and for none. The engines share
// all this.
func TestEnginesAcceptWhatIsInstalled(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, p engineRelease) {
		for i, method := range methods {
			for j, link := range links {
				cached := (i + j) % 4 // so that each method meets each link and each cache
				name := fmt.Sprintf("%s, %s, cache %02b", method.name, strings.Join(link, " "), cached)
				if sameAs(t, p, "accept", name) {
					continue
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					w := newJudged(t, p, name, method.block...)
					w.acceptsInstalled(method, link, caches{larder: cached&1 > 0, engine: cached&2 > 0})
				})
			}
		}
	})
}

// Caches are the programs for which a plugin cache is configured.
type caches struct{ larder, engine bool }

func (w *workplace) acceptsInstalled(method method, link []string, cached caches) {
	w.t.Helper()
	switch method.name {
	case "packed", "plugin-dir":
		w.world.WritePacked(w.path("packed"))
	case "unpacked":
		w.world.WriteUnpacked(w.path("unpacked"))
	case "implied":
		w.world.WritePacked(filepath.Join(w.dir, "terraform.d", "plugins"))
	}
	w.must(os.Mkdir(w.path("cache"), 0o755))
	var larder, engine []string
	if cached.larder {
		larder = []string{"TF_PLUGIN_CACHE_DIR=" + w.path("cache")}
	}
	if cached.engine {
		engine = []string{"TF_PLUGIN_CACHE_DIR=" + w.path("cache")}
	}
	args := append(slices.Clone(link), method.larder...)
	out := w.install(larder, args...)
	if link[0] == "--link" && !strings.Contains(out, ", "+link[1]+"  ") {
		w.t.Errorf("larder says\n%s", out)
	}
	w.accepts(engine, method.engine...)
	w.downloaded()
	out = w.install(larder, args...)
	if made := w.downloaded(); len(made) > 0 || !strings.Contains(out, "already installed") {
		w.t.Errorf("larder finds something to do: %v\n%s", made, out)
	}
}

// A plugin cache that one program has filled is complete for the other program.
func TestSharesTheCacheWithEngines(t *testing.T) {
	eachRelease(t, func(t *testing.T, p engineRelease) {
		for _, larderFirst := range []bool{false, true} {
			name := fmt.Sprintf("shared cache, larder first %t", larderFirst)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newJudged(t, p, name, "direct {}")
				w.must(os.Mkdir(w.path("cache"), 0o755))
				env := []string{"TF_PLUGIN_CACHE_DIR=" + w.path("cache")}
				second := func() string { return w.install(env) }
				said := "from the cache"
				if larderFirst {
					w.install(env)
					second = func() string { return w.init(env) }
					said = "the shared cache directory"
				} else {
					w.init(env)
				}
				lock := w.read(w.lockFile())

				// Another clone of the same root module.
				w.must(os.RemoveAll(filepath.Join(w.dir, ".terraform")))
				w.downloaded()
				if out := second(); !strings.Contains(out, said) || len(w.downloaded()) > 0 {
					t.Errorf("the second finds something to do:\n%s", out)
				}
				if !larderFirst { // Larder has kept records if the engine's files were no longer new
					w.must(os.RemoveAll(w.path("home")))
				}
				w.accepts(env)
				now := w.read(w.lockFile())
				sourcetest.Expect(t, now == lock, "the lock file was\n%s\nand is now\n%s", lock, now)
			})
		}
	})
}

// Larder does not change packages that an engine has installed.
func TestAcceptsWhatEnginesInstalled(t *testing.T) {
	eachRelease(t, func(t *testing.T, p engineRelease) {
		t.Parallel()
		w := newJudged(t, p, "installed by the engine", "direct {}")
		w.init(nil)
		settled := func() diskState { return w.snapshot().without("home/.cache") } // it notes there what it has hashed
		before := settled()
		w.downloaded()
		if out := w.install(nil); !strings.Contains(out, "already installed") || len(w.downloaded()) > 0 {
			t.Errorf("larder finds something to do:\n%s", out)
		}
		changes := settled().since(before)
		sourcetest.Expect(t, len(changes) == 0, "larder changes files: %q", changes)
	})
}

// A working directory can be moved, or mounted elsewhere without the cache.
func TestEnginesAcceptMovedDirectory(t *testing.T) {
	eachRelease(t, func(t *testing.T, p engineRelease) {
		t.Parallel()
		w := newJudged(t, p, "moved", "direct {}")
		w.install(nil, "--link", "hardlink")
		w.must(os.RemoveAll(w.path("home")))
		moved := w.path("elsewhere/deeper")
		w.must(os.MkdirAll(filepath.Dir(moved), 0o755))
		w.must(os.Rename(w.dir, moved))
		w.dir = moved
		w.accepts(nil)
	})
}

// Engines select the locked versions, and do not change the lock file.
func TestEnginesAgreeWithTheLockFile(t *testing.T) {
	eachRelease(t, func(t *testing.T, p engineRelease) {
		t.Parallel()
		w := newJudged(t, p, "lock file", "direct {}")
		w.install(nil)
		lock := w.read(w.lockFile())
		out := w.tf(nil, "version", "-json")
		var version struct {
			Selections map[string]string `json:"provider_selections"`
		}
		w.must(json.Unmarshal([]byte(out), &version))
		want := map[string]string{widgetDir: "1.2.0"}
		sourcetest.Expect(t, maps.Equal(version.Selections, want), "version finds %v, want %v", version.Selections, want)
		w.tf(nil, "providers", "lock", "-platform="+ownPlatform)
		now := w.read(w.lockFile())
		sourcetest.Expect(t, now == lock, "providers lock makes\n%s\nof\n%s", now, lock)
	})
}
