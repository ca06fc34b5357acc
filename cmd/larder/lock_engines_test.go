package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Four platforms. Some providers support fewer.
var (
	fourPlatforms = []string{"darwin_arm64", "linux_amd64", "linux_arm64", "windows_amd64"}
	onFour        = sourcetest.Release{Platforms: fourPlatforms}
)

// A lockCase is a root module whose lock file larder and an engine complete.
type lockCase struct {
	name      string
	method    string   // of installation: packed, unpacked or network; direct if empty
	platforms []string // this machine's if empty
	args      []string // of both
	needs     []string // providers with constraints; both widget and gadget if empty
	files     map[string]string
	lock      string // the lock file as it was; none if empty
	fails     bool   // both fail
	refused   bool   // larder fails, and the engine does not
	noInit    bool   // the engine's own init would change the result
	empty     bool   // the engine writes a lock file that locks nothing
	more      bool   // larder also locks providers that init requires, and the engine does not
}

const (
	widgetIsNewest = "provider \"example.test/acme/widget\" {\n  version = \"1.2.0\"\n"
	widgetIsOlder  = "provider \"example.test/acme/widget\" {\n  version     = \"1.1.0\"\n  constraints = \"< 1.2.0\"\n"
	otherArchive   = "  hashes = [\n    \"zh:0000000000000000000000000000000000000000000000000000000000000000\",\n  ]\n}\n"
	noHashes       = "}\n"
)

var (
	onlyWidget   = []string{"widget"}
	otherWidget  = widgetIsNewest + otherArchive
	modulesBelow = `{"Modules":[{"Key":"","Source":"","Dir":"."},{"Key":%q,"Source":%q,"Dir":%q}]}`
)

var lockCases = []lockCase{
	{name: "this machine's platform"},
	{name: "four platforms", platforms: fourPlatforms},
	{name: "a platform is missing", platforms: []string{"linux_amd64", "plan9_386"}, fails: true},
	{name: "one provider lacks a platform", needs: []string{"widget", "rare"}, platforms: fourPlatforms, fails: true},
	{name: "constraints", needs: []string{`widget ~> 1.1, != 1.1.5`, `gadget >= 0.1`}, platforms: fourPlatforms},
	{name: "a provider that is named", args: []string{"example.test/acme/gadget"}, platforms: fourPlatforms, noInit: true},
	{name: "a provider that is not required", args: []string{"example.test/acme/rare"}, fails: true},
	{name: "no such provider", needs: []string{"nothing"}, fails: true},
	{name: "no such version", needs: []string{"widget > 9"}, fails: true},
	{name: "archives with entries for directories", needs: []string{"roomy"}, platforms: fourPlatforms},
	{name: "nothing required", needs: []string{}, files: map[string]string{"main.tf": "locals {}\n"}, empty: true},

	{name: "locked without hashes", lock: widgetIsNewest + noHashes, platforms: fourPlatforms},
	{name: "an older version is locked", lock: widgetIsOlder + noHashes, platforms: fourPlatforms},
	{name: "the locked version is refused", needs: []string{"widget >= 1.2"}, lock: widgetIsOlder + noHashes, fails: true},
	{
		name: "the constraints were others", needs: []string{"widget ~> 1.0"}, lock: widgetIsOlder + noHashes,
		platforms: fourPlatforms,
	},
	{name: "another archive is locked", needs: onlyWidget, lock: otherWidget, refused: true},
	{name: "other contents are locked", needs: onlyWidget, lock: strings.Replace(otherWidget, "zh:", "h1:", 1)},
	{
		name: "hashes of a foreign scheme", needs: onlyWidget, lock: strings.Replace(otherWidget, "zh:", "h9:", 1),
		noInit: true,
	},
	{name: "a provider that is required no more", lock: strings.ReplaceAll(otherWidget, "widget", "former"), noInit: true},

	{name: "required by modules", needs: onlyWidget, platforms: fourPlatforms, files: map[string]string{
		"modules.tf":                      "module \"inner\" {\n  source = \"./inner\"\n}\n",
		"inner/main.tf":                   requiring("gadget > 0.1", "widget < 1.2.0"),
		".terraform/modules/modules.json": fmt.Sprintf(modulesBelow, "inner", "./inner", "inner"),
	}},
	{name: "required by tests", needs: onlyWidget, platforms: fourPlatforms, more: true, files: map[string]string{
		"some.tftest.hcl":                 "run \"a\" {\n  module {\n    source = \"./tested\"\n  }\n}\n",
		"tested/main.tf":                  requiring("roomy"),
		".terraform/modules/modules.json": fmt.Sprintf(modulesBelow, "test.some.a", "./tested", "tested"),
	}},
	{name: "required by a state", needs: onlyWidget, platforms: fourPlatforms, more: true, files: map[string]string{
		"terraform.tfstate": `{"version":4,"terraform_version":"1.11.4","serial":1,"lineage":"a","outputs":{},"resources":[
			{"mode":"managed","type":"gadget_thing","name":"a",` +
			`"provider":"provider[\"example.test/acme/gadget\"]","instances":[]}]}`,
	}},

	{name: "packed mirror", method: "packed", platforms: fourPlatforms},
	{name: "unpacked mirror", method: "unpacked", platforms: fourPlatforms},
	{name: "network mirror", method: "network", platforms: fourPlatforms},
	{
		name: "packed mirror, directories", method: "packed", needs: []string{"roomy"}, platforms: fourPlatforms,
		noInit: true,
	},
	{name: "unpacked mirror, another archive is locked", method: "unpacked", needs: onlyWidget, lock: otherWidget},
	{
		name: "network mirror, another archive is locked", method: "network", needs: onlyWidget, lock: otherWidget,
		refused: true,
	},
	{
		name: "network mirror lacks a platform", method: "network", needs: []string{"rare"}, platforms: fourPlatforms,
		fails: true,
	},
}

// larder lock writes the same lock file as providers lock of each engine, byte for byte, and
// init changes nothing for any of the platforms.
func TestLocksAsEitherEngine(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, p engineRelease) {
		for _, c := range lockCases {
			if sameAs(t, p, "lock-cases", c.name) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.locks(t, p)
			})
		}
	})
}

func (c lockCase) locks(t *testing.T, p engineRelease) {
	w, flags := newLockWorkplace(t, p, c)
	c.prepare(w)
	platforms := flagsFor("-platform=", c.platforms)
	args := slices.Concat([]string{"providers", "lock"}, platforms, flags, []string{"-no-color"}, c.args)
	_, theirStatus := w.theirs(nil, args...)
	theirs := w.read(w.lockFile())
	c.prepare(w)
	out, ourStatus := w.ours(nil, "lock", append(flagsFor("--platform=", c.platforms), c.args...)...)
	ours := w.read(w.lockFile())
	switch {
	case (theirStatus != 0) != c.fails:
		t.Fatalf("%s: exit status %d", p, theirStatus)
	case (ourStatus != 0) != (c.fails || c.refused):
		t.Fatalf("larder: exit status %d\n%s", ourStatus, out)
	case c.refused && ours != c.start(p.Engine):
		t.Errorf("the refused lock file is\n%s", ours)
	case c.empty && ours == "" && strings.Count(theirs, "\n") == 2:
	case c.more && strings.Contains(ours, strings.Split(theirs, "\n\n")[1]) && len(ours) > len(theirs):
	case !c.refused && ours != theirs:
		t.Errorf("larder locks\n%s\n%s locks\n%s", ours, p, theirs)
	}
	_, err := os.Stat(filepath.Join(w.dir, ".terraform", "providers"))
	sourcetest.Expect(t, err != nil, "something was installed")
	if c.fails || c.refused || c.noInit || c.empty {
		return
	}
	out = w.init(nil, "-lockfile=readonly")
	sourcetest.Expect(t, !strings.Contains(out, "not updated"), "init has something to add:\n%s", out)
}

// newLockWorkplace publishes the packages of the cases, and configures the method. It returns the flags of providers
// lock for this method.
func newLockWorkplace(t *testing.T, p engineRelease, c lockCase) (w *workplace, flags []string) {
	w = newWorkplace(t, p, "lock-cases", c.name)
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0", "2.0.0-beta1"} {
		w.world.Add("example.test/acme/widget", version, onFour)
	}
	w.world.Add("example.test/acme/gadget", "0.3.1", onFour)
	w.world.Add("example.test/acme/rare", "1.0.0", sourcetest.Release{Platforms: []string{"linux_amd64"}})
	w.world.Add("example.test/acme/roomy", "1.0.0", sourcetest.Release{Platforms: fourPlatforms, Files: map[string]string{
		"terraform-provider-roomy_v1.0.0": "runs\n", "docs/": "", "docs/README": "read me\n",
	}})
	from := w.place(c.method, w.path("mirror"))
	w.configure(from.method)
	return w, from.flags
}

// start returns the initial lock file.
func (c lockCase) start(engine sources.Engine) string {
	if c.lock == "" {
		return ""
	}
	return lockHeader(engine) + "\n" + c.lock
}

// prepare creates the root module again.
func (c lockCase) prepare(w *workplace) {
	w.remove(w.dir)
	needs := c.needs
	if needs == nil {
		needs = []string{"widget", "gadget"}
	}
	if len(needs) > 0 {
		w.write("root/main.tf", requiring(needs...))
	}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		w.write("root/"+name, c.files[name])
	}
	if c.lock != "" {
		w.write("root/.terraform.lock.hcl", c.start(w.judge.Engine))
	}
}

// requiring is the configuration of a module that requires providers, each
// with its constraints.
func requiring(providers ...string) string {
	return requiringEach("example.test/acme/", func(_ int, name string) string { return name }, providers)
}

// requiringAddresses is the same for addresses of providers.
func requiringAddresses(providers ...string) string {
	return requiringEach("", func(i int, _ string) string { return fmt.Sprint("p", i) }, providers)
}

func requiringEach(prefix string, local func(i int, name string) string, providers []string) string {
	text := "terraform {\n  required_providers {\n"
	for i, p := range providers {
		name, constraints, _ := strings.Cut(p, " ")
		text += fmt.Sprintf("    %s = {\n      source = %q\n", local(i, name), prefix+name)
		if constraints != "" {
			text += fmt.Sprintf("      version = %q\n", constraints)
		}
		text += "    }\n"
	}
	return text + "  }\n}\n"
}
