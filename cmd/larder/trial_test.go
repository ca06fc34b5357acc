package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A trial is what a program finds that works for several platforms, as providers lock and
// providers mirror do: what is published, required and locked. It is plain data, drawn
// from a seed, so that it can be printed and made as often as needed.
type trial struct {
	Seed     uint64
	Engine   sources.Engine
	Releases []stocked
	Required []string // "ADDRESS" or "ADDRESS CONSTRAINT"

	Platforms []string // named by flags; this machine's if there are none
	Lock      []locked
	LockForm  string // unsorted, commented, or empty
	LockedBy  string // source that the engine locked some platforms from before; empty if it did not
	Before    []string
}

// A stocked is a release in a registry that may state the hashes of all platforms, as
// OpenTofu's does.
type stocked struct {
	published
	Packages bool
}

// stockedPlatforms are those that releases may have packages for.
var stockedPlatforms = slices.Compact([]string{ownPlatform, "darwin_arm64", "linux_arm64", "windows_amd64"})

// drawTrial draws what is published, required and locked.
func drawTrial(g *generator, e sources.Engine) trial {
	t := trial{Seed: g.Seed, Engine: e}
	addresses := []string{
		string(e.DefaultHost()) + "/hashicorp/alpha", string(e.DefaultHost()) + "/acme/widget",
		"example.test/acme/gadget", "испытание.test/acme/gizmo",
	}
	for _, i := range g.Perm(len(addresses))[:one(g, 1, 1, 2, 2, 3)] {
		t.drawProvider(g, addresses[i])
	}
	if g.in(2) {
		t.Platforms = some(g, stockedPlatforms, len(stockedPlatforms))
	}
	if g.in(8) {
		t.LockForm = one(g, "unsorted", "commented")
	}
	if g.in(4) {
		t.LockedBy, t.Before = one(g, "registry", "network", "packed", "unpacked"), some(g, stockedPlatforms, 2)
		t.Lock = nil
	}
	return t
}

// drawProvider draws the releases of a provider, a requirement and a block in the lock file.
func (t *trial) drawProvider(g *generator, address string) {
	versions := append(some(g, []string{"1.0.0", "1.1.0"}, 2), "1.2.0")
	platforms := stockedPlatforms
	if g.in(10) {
		platforms = []string{ownPlatform}
	}
	for _, version := range versions {
		r := stocked{Packages: g.in(2)}
		r.published = published{Provider: address, Version: version, Platforms: platforms, Protocols: []string{"5.0"}}
		if g.in(6) {
			r.Contents = one(g, "nested", "deflated", "bare name", "directories")
		}
		if g.in(12) {
			r.Signing = one(g, "unknown key", "no keys", "second key", "no key", "expired key", "revoked key")
		}
		t.Releases = append(t.Releases, r)
	}
	constraint, version := one(g, "", "", " ~> 1.0", " >= 1.0.0", " 1.2.0"), "1.2.0"
	if len(versions) > 1 && g.in(3) {
		constraint, version = one(g, " < 1.2.0, >= 1.0", " != 1.2.0", ""), one(g, versions[:len(versions)-1]...)
	}
	if g.in(20) {
		version = one(g, versions...)
	}
	t.Required = append(t.Required, address+constraint)
	if g.in(4) {
		return
	}
	l := locked{Provider: address, Version: version, Constraints: one(g, "", "~> 1.0", ">= 0.1.0")}
	switch g.IntN(8) {
	case 0, 1:
		l.Hashes = []string{"h1", "all zh"}
	case 2:
		l.Hashes = []string{"h1"}
	case 3:
		l.Hashes = []string{"zh"}
	case 4:
		l.Hashes = []string{"other h1", "other zh"}
	case 5:
		l.Hashes = []string{one(g, "other h1", "other zh")}
	case 6:
		l.Hashes = some(g, []string{"h1", "zh", "all zh", "other h1", "other zh", "wrong h1", "wrong zh", "unknown"}, 3)
	}
	t.Lock = append(t.Lock, l)
}

// inFull is a trial in full, but for what is as usual.
func inFull(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return usual.ReplaceAllString(b.String(), "")
}

var usual = regexp.MustCompile(`,"\w+":(""|null|false)`)

// hasHash reports whether any block in the lock file has a hash of one of the kinds.
func (t trial) hasHash(kinds ...string) bool {
	return slices.ContainsFunc(t.Lock, func(l locked) bool {
		return slices.ContainsFunc(l.Hashes, func(kind string) bool { return slices.Contains(kinds, kind) })
	})
}

// signedBy reports whether any release is signed in one of these ways.
func (t trial) signedBy(signings ...string) bool {
	return slices.ContainsFunc(t.Releases, func(r stocked) bool { return slices.Contains(signings, r.Signing) })
}

// twofold reports whether any release has two h1: hashes: that of the archive and that of
// its contents.
func (t trial) twofold() bool {
	return slices.ContainsFunc(t.Releases, func(r stocked) bool { return r.Contents == "directories" })
}

// A court contains the files and servers of a trial, where an engine and Larder run.
type court struct {
	trial
	ground
	judge *judge
	lock  string // the lock file that programs find; empty if there is none
}

// holdTrials runs trials in which it is on record what the releases of engines did: so many of a release whose
// records are complete, and so many of the others. Draw draws the rest of a trial.
func holdTrials[T interface{ hold(c *court) }](
	t *testing.T, kind string, complete, some int, draw func(g *generator, t *trial) T,
) {
	onlyRecorded(t)
	withEachProgram(t, kind, complete, some, func(t *testing.T, p engineRelease, kind string, seed uint64) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 13)), situation: &situation{Seed: seed}}
		c := &court{trial: drawTrial(g, p.Engine), ground: ground{t, sourcetest.New(t), sourcetest.MemoryDir(t)}}
		drawn := draw(g, &c.trial)
		c.judge = newJudge(t, p, kind, fmt.Sprint(seed), drawn)
		c.publish(false)
		drawn.hold(c)
	})
}

// again reports whether the trial also runs Larder on what it has made itself, which no engine judges. A third of the
// trials of a sample do, of releases whose records are complete.
func (c *court) again() bool {
	return c.judge.complete() && (sourcetest.Thorough() || sourcetest.Draws(c.t, c.t.Name()+" again", 3))
}

// publish publishes the releases that are out at first, or later.
func (c *court) publish(later bool) {
	for _, r := range c.Releases {
		if r.Stated = r.Packages; r.Later == later {
			c.ground.publish(r.Provider, r.Platforms, r.published)
		}
	}
}

// lay makes the root module as programs find it, with a CLI configuration of one method.
func (c *court) lay(method string) {
	c.remove("work")
	c.write("work/main.tf", requiringAddresses(c.Required...))
	if c.lock != "" {
		c.write(c.lockFile(), c.lock)
	}
	c.configure(method)
}

// configure writes a CLI configuration with one installation method.
func (c *court) configure(method string) {
	c.write("config.tfrc", "provider_installation {\n  "+method+"\n}\n")
}

func (c *court) lockFile() string { return c.path("work", ".terraform.lock.hcl") }

// env returns the variables of programs.
func (c *court) env() []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + c.path("home"), "TF_REGISTRY_DISCOVERY_RETRY=1",
		"TF_CLI_CONFIG_FILE=" + c.path("config.tfrc"),
	}, c.world.Network()...)
}

// engine runs the engine in the root module.
func (c *court) engine(args ...string) (output string, status int) {
	r := engineRun{Base: c.base, Beside: []string{"cache", "cold"}, Dir: c.path("work"), Env: c.env(), Args: args}
	r.World = c.world
	return c.judge.run(r)
}

// run runs Larder in the root module.
func (c *court) run(args ...string) (output string, status int) {
	return workBoth(c.t, c.path("work"), append(c.env(), asForUsers+"=1"), args...)
}

// ourArgs are the arguments of Larder for the engine, with platforms.
func (c *court) ourArgs(args ...string) []string {
	return slices.Concat(args, []string{"--engine", string(c.Engine)}, flagsFor("--platform=", c.Platforms))
}

// flagsFor returns a flag for each platform.
func flagsFor(flag string, platforms []string) (flags []string) {
	for _, p := range platforms {
		flags = append(flags, flag+p)
	}
	return flags
}

// theirArgs are the arguments of the engine, with platforms.
func theirArgs(platforms []string, args ...string) []string {
	return slices.Concat(args, []string{"-no-color"}, flagsFor("-platform=", platforms))
}

// place makes a source ready.
func (c *court) place(kind string) origin { return c.ground.place(kind, c.path("mirrors", kind)) }

// arrangeLock makes the lock file that programs find.
func (c *court) arrangeLock() {
	if c.LockedBy != "" {
		p := c.place(c.LockedBy)
		c.lay(p.method)
		c.engine(append(theirArgs(c.Before, "providers", "lock"), p.flags...)...)
		c.lock = c.read(c.lockFile())
	} else if c.Lock != nil {
		c.lock = c.lockText()
	}
	switch c.LockForm {
	case "commented":
		c.lock += "# the end\n"
	case "unsorted":
		c.lock = reversedHashes(c.lock)
	}
}

var hashLines = regexp.MustCompile(`(?m)(^    ".*",\n)+`)

// reversedHashes is a lock file with the hashes of each block in reverse order.
func reversedHashes(lock string) string {
	return hashLines.ReplaceAllStringFunc(lock, func(lines string) string {
		all := slices.Collect(strings.Lines(lines))
		slices.Reverse(all)
		return strings.Join(all, "")
	})
}

// lockText is the text of the lock file in the trial.
func (c *court) lockText() string {
	text := lockHeader(c.Engine)
	blocks := slices.Clone(c.Lock)
	slices.SortFunc(blocks, func(a, b locked) int { return strings.Compare(a.Provider, b.Provider) })
	for _, l := range blocks {
		var hashes []string
		for _, kind := range l.Hashes {
			hashes = append(hashes, c.hashes(l, kind)...)
		}
		slices.Sort(hashes)
		text += l.text(slices.Compact(hashes))
	}
	return text
}

// hashes are those of a kind for a locked package.
func (c *court) hashes(l locked, kind string) []string {
	if wrong, ok := wrongHashes[kind]; ok {
		return wrong[:1]
	}
	for _, r := range slices.Backward(c.Releases) { // as it was published last
		if r.Provider == l.Provider && r.Version == l.Version {
			return c.ground.hashes(r.Provider, r.Platforms, r.published, kind)
		}
	}
	return nil
}

// An excuse is an intended difference, under a heading of docs/deviations.md.
type excuse struct {
	heading string
	applies func() bool
}

// excused returns the heading of the first excuse that applies, or "" if there is none.
func excused(t testing.TB, excuses []excuse) string {
	t.Helper()
	for _, e := range excuses {
		sourcetest.Require(t, slices.Contains(headings(), e.heading), "docs/deviations.md does not explain: %s", e.heading)
	}
	if i := slices.IndexFunc(excuses, func(e excuse) bool { return e.applies() }); i >= 0 {
		return excuses[i].heading
	}
	return ""
}

// settle fails the test if no excuse explains the differences, and logs what came of the situation.
func settle(t testing.TB, differences []string, excuses []excuse, want, got outcome, situation any) {
	t.Helper()
	heading := excused(t, excuses)
	programs := fmt.Sprintf("%s, %d:\n%s\nlarder, %d:\n%s", want.program, want.status, want.output, got.status, got.output)
	switch {
	case len(differences) == 0 && got.status == 0:
		t.Log("agreed: done")
	case len(differences) == 0:
		t.Logf("agreed: failed\n%s", programs)
	case heading != "":
		t.Logf("deviation: %s\n%s\n%s", heading, inFull(situation), programs)
	default:
		t.Errorf("%s\n%s\n%s", strings.Join(differences, "\n"), inFull(situation), programs)
	}
}

// settle settles a trial, in which older releases may differ too.
func (c *court) settle(differences []string, excuses []excuse, want, got outcome, situation any) {
	c.t.Helper()
	want.program = c.judge.engineRelease
	excuses = append(excuses, excuse{"Older releases", func() bool {
		return older(want.program, want.output+strings.Join(differences, "\n"), want.lock, got.lock)
	}})
	settle(c.t, differences, excuses, want, got, situation)
}

// headings are those of docs/deviations.md.
var headings = sync.OnceValue(func() (all []string) {
	text, _ := os.ReadFile("../../docs/deviations.md") // without it, no heading is there
	for line := range strings.Lines(string(text)) {
		if heading, ok := strings.CutPrefix(strings.TrimSpace(line), "### "); ok {
			all = append(all, heading)
		}
	}
	return all
})
