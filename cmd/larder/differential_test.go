package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// TestAgreesWithTheEngines runs Larder in situations in which it is on record what an engine did. Both must return
// the same exit status, lock file and installed packages, except for docs/deviations.md.
//
// The test prints the complete situation of each difference.
func TestAgreesWithTheEngines(t *testing.T) {
	t.Parallel()
	onlyRecorded(t)
	withEachProgram(t, "install", 500, 200, func(t *testing.T, p engineRelease, kind string, seed uint64) {
		s := generate(seed, p.Engine)
		c := &comparison{judge: newJudge(t, p, kind, fmt.Sprint(seed), s), scene: newScene(t, s)}
		c.compare()
	})
}

// A situationTest runs both programs in the situation that a seed makes.
type situationTest func(t *testing.T, p engineRelease, kind string, seed uint64)

// withEachProgram runs a test with each release of an engine in its situations: so many of a release whose records are
// complete, and so many of the others. With the flag -situations, it runs the engines on PATH in those.
func withEachProgram(t *testing.T, kind string, complete, some int, test situationTest) {
	programs, seeds := engineReleases, requested(t)
	if len(seeds) > 0 {
		kind = "" // these are not on record
	}
	if len(seeds) > 0 || records.on {
		programs = releasesOnPath()
		sourcetest.Require(t, len(programs) > 0, "no engine on PATH to record or to compare with")
	}
	for _, p := range programs {
		t.Run(p.String(), func(t *testing.T) {
			number := complete
			if !p.complete() {
				number = some
			}
			seeds := seeds
			for seed := uint64(1); *situations == "" && len(seeds) < number; seed++ {
				seeds = append(seeds, seed)
			}
			for _, seed := range seeds {
				name := fmt.Sprint(seed)
				if testing.Short() && (seed+sourcetest.Seed())%20 != 0 {
					continue // the race detector takes most of the time
				}
				if kind != "" && sameAs(t, p, kind, name) {
					continue
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, p, kind, seed)
				})
			}
		})
	}
}

var situations = flag.String("situations", "",
	"compare larder with the engines on PATH in so many situations, from a seed: NUMBER@SEED")

// requested returns the seeds of the flag -situations.
func requested(t *testing.T) (seeds []uint64) {
	t.Helper()
	if *situations == "" {
		return nil
	}
	var number int
	var first uint64
	_, err := fmt.Sscanf(*situations, "%d@%d", &number, &first)
	sourcetest.Require(t, err == nil, "-situations: %v", err)
	for i := range number {
		seeds = append(seeds, first+uint64(i))
	}
	return seeds
}

// An outcome is the result of a program in a situation.
type outcome struct {
	program  engineRelease // the engine; the zero Program is Larder
	status   int
	output   string
	before   string // output of an earlier run; empty if there was none
	lock     string // empty if there is none
	tree     packages
	cache    packages
	requests []sourcetest.Request
}

// packages are files by path in the package, by HOST/NAMESPACE/TYPE/VERSION/OS_ARCH.
type packages map[string]map[string]string

// A comparison is a run of both programs in one situation.
type comparison struct {
	*scene
	judge  *judge
	before string // Larder's output of an earlier run

	engineStart, larderStart string // the saved state that each program finds
}

func (c *comparison) compare() {
	c.prepare()
	c.restore(c.engineStart)
	c.spoil()
	want := c.result(c.engine(false))
	want.program = c.judge.engineRelease
	c.resume(c.larderStart)
	c.spoil()
	got := c.result(c.ours(c.larderArgs()...))
	got.before = c.before
	differences := c.differences(want, got)
	if len(differences) == 0 && got.status == 0 && !c.ReadOnly {
		differences = c.followUp(got)
	}
	settle(c.t, differences, excusesFor(c.situation, want, got), want, got, c.situation)
}

// prepare saves the initial state for each program.
func (c *comparison) prepare() {
	c.keep("pristine")
	if c.Prior == "" && len(c.Forgot) == 0 {
		c.engineStart, c.larderStart = "pristine", "pristine"
		c.publishAll(true)
		return
	}
	c.engineStart, c.larderStart = "engine", "larder"
	for _, program := range []string{"engine", "larder"} {
		c.restore("pristine")
		switch {
		case c.Prior == "":
		case c.Prior == "itself" && program == "larder":
			c.before, _ = c.ours(c.larderArgs()...)
		default:
			c.engine(false)
		}
		for _, gone := range c.Forgot {
			c.remove(filepath.Join(c.dir, gone))
		}
		c.keep(program)
	}
	c.publishAll(true)
}

func (c *comparison) engineArgs(again bool) []string {
	var args []string
	if c.Chdir {
		args = append(args, "-chdir=work")
	}
	args = append(args, "init", "-input=false", "-no-color")
	if c.Upgrade && !again {
		args = append(args, "-upgrade")
	}
	if c.ReadOnly {
		args = append(args, "-lockfile=readonly")
	}
	for _, dir := range c.PluginDirs {
		args = append(args, "-plugin-dir="+c.fill(dir))
	}
	return args
}

func (c *comparison) larderArgs() []string {
	args := []string{"install", "--verbose", "--engine", string(c.Engine)}
	if c.Chdir {
		args = append(args, "--chdir", "work")
	}
	if c.Upgrade {
		args = append(args, "--upgrade")
	}
	if c.ReadOnly {
		args = append(args, "--lockfile", "readonly")
	}
	for _, dir := range c.PluginDirs {
		args = append(args, "--plugin-dir", c.fill(dir))
	}
	return args
}

// result reads the result of a run.
func (c *comparison) result(output string, status int) outcome {
	o := outcome{output: output, status: status, lock: c.read(filepath.Join(c.dir, "work", ".terraform.lock.hcl"))}
	o.tree = c.look(filepath.Join(c.dir, c.DataDir, "providers"))
	if c.CacheDir != "" {
		o.cache = c.look(filepath.Join(c.dir, c.CacheDir))
	}
	o.requests = append(c.world.Registry.Requests(), c.world.Mirror.Requests()...)
	if c.usesOCI() {
		o.requests = append(o.requests, c.world.OCI().Requests()...)
	}
	return o
}

// surroundings returns the directory in which programs run, and the variables.
func (c *comparison) surroundings() (dir string, env []string) {
	dir, env = filepath.Join(c.dir, "work"), []string{"PATH=" + os.Getenv("PATH")}
	if c.Chdir {
		dir = c.dir
	}
	env = append(env, c.world.Network()...)
	for _, variable := range c.Env {
		env = append(env, c.fill(variable))
	}
	return dir, env
}

// engine runs init, for the first time or again.
func (c *comparison) engine(again bool) (output string, status int) {
	dir, env := c.surroundings()
	return c.judge.run(engineRun{Base: c.dir, Dir: dir, Env: env, Args: c.engineArgs(again), World: c.world})
}

// ours runs Larder.
func (c *comparison) ours(args ...string) (output string, status int) {
	dir, env := c.surroundings()
	return workBoth(c.t, dir, append(env, asForUsers+"=1"), args...)
}

// look finds the packages below dir, following what leads to packages.
func (c *comparison) look(dir string) packages {
	found := packages{}
	names, err := filepath.Glob(filepath.Join(dir, "*", "*", "*", "*", "*"))
	c.must(err)
	for _, name := range names {
		id, err := filepath.Rel(dir, name)
		c.must(err)
		if strings.HasPrefix(id, ".") {
			continue // Larder's own
		}
		real, err := filepath.EvalSymlinks(name)
		if err != nil {
			continue // leads nowhere, as before
		}
		files := map[string]string{}
		c.must(filepath.WalkDir(real, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(name)
			relative, _ := filepath.Rel(real, name)
			files[relative] = fmt.Sprintf("%x", sha256.Sum256(content))
			return err
		}))
		if len(files) > 0 {
			found[filepath.ToSlash(id)] = files
		}
	}
	return found
}

// differences returns the differences between the outcomes of both programs.
func (c *comparison) differences(want, got outcome) []string {
	var all []string
	if (want.status == 0) != (got.status == 0) {
		all = append(all, fmt.Sprintf("exit status %d, want %d", got.status, want.status))
	}
	if want.lock != got.lock {
		all = append(all, fmt.Sprintf("lock file:\n%s\nwant:\n%s", got.lock, want.lock))
	}
	crashed := crash.MatchString(want.output) // it doesn't say why it failed, and may not have come to a provider
	if !crashed {
		all = append(all, compareTrees("installed", want.tree, got.tree)...)
	}
	if want.status == 0 && got.status == 0 {
		all = append(all, c.cacheDifferences(want, got)...)
	}
	unreadable := badArchive.MatchString(unwrapped(want.output)) ||
		c.Engine == sources.OpenTofu && notListed.MatchString(got.output)
	if w, g := kinds(want, got); !unreadable && !crashed && want.status != 0 && got.status != 0 && !slices.Equal(w, g) {
		all = append(all, fmt.Sprintf("failed because of %q, want %q", g, w))
	}
	return all
}

// badArchive is said of an archive, which Larder fetches only once its signature is
// known to be good: it may have another complaint.
var badArchive = regexp.MustCompile(`zip: checksum error|empty archive|archive has incorrect checksum|` +
	`Error while installing \S+ \S+: \S+: bad response code: \d+|unsuccessful request to \S+: \d+`)

// notListed is what Larder says of a locked version that no source lists. If it is cached,
// OpenTofu, which lists no versions then, says that it has no package.
var notListed = regexp.MustCompile(`no installation method applies|is no longer available|: not found in `)

func compareTrees(what string, want, got packages) []string {
	var all []string
	for _, id := range slices.Sorted(maps.Keys(want)) {
		switch {
		case got[id] == nil && hasProgram(id, want[id]):
			all = append(all, fmt.Sprintf("not %s: %s", what, id))
		case got[id] != nil && !maps.Equal(want[id], got[id]):
			all = append(all, fmt.Sprintf("%s: %s has %v, want %v", what, id, got[id], want[id]))
		}
	}
	for id := range got {
		if want[id] == nil {
			all = append(all, fmt.Sprintf("%s besides: %s", what, id))
		}
	}
	return all
}

// hasProgram reports whether a package has an executable. Larder rejects a package without one and
// removes its files.
func hasProgram(id string, files map[string]string) bool {
	typ := strings.Split(id, "/")[2]
	program := regexp.MustCompile(`^terraform-provider-` + regexp.QuoteMeta(typ) + `([._][^/]*)?$`)
	return slices.ContainsFunc(slices.Collect(maps.Keys(files)), program.MatchString)
}

// cacheDifferences are packages that Terraform has put into its plugin cache and
// Larder has not.
func (c *comparison) cacheDifferences(want, got outcome) []string {
	all := compareTrees("cached", want.cache, got.cache)
	return slices.DeleteFunc(all, func(s string) bool { return strings.Contains(s, "besides") })
}

// followUp is what Terraform still does when Larder is done: it should be
// nothing.
func (c *comparison) followUp(before outcome) []string {
	unknown := func(block string) bool { return !strings.Contains(block, `"h1:`) }
	known := !slices.ContainsFunc(strings.Split(before.lock, "\nprovider ")[1:], unknown)
	bare := c.cached(before) && c.Seed%2 == 0 && known // Terraform doesn't use a cached package without that hash
	if bare {                                          // the cache alone must do
		c.remove(filepath.Join(c.dir, c.DataDir, "providers"))
	}
	c.world.Registry.Forget()
	c.world.Mirror.Forget()
	after := c.result(c.engine(true))
	var all []string
	if after.status != 0 {
		all = append(all, "init fails afterwards:\n"+after.output)
	}
	if after.lock != before.lock {
		all = append(all, fmt.Sprintf("init changes the lock file afterwards:\n%s", after.lock))
	}
	for _, r := range after.requests {
		forgotten := bare && slices.Contains(c.Forgot, "config.tfrc") // which may be what names the cache
		if r.Kind == sourcetest.Archive && r.Status == 200 && !forgotten {
			all = append(all, fmt.Sprintf("init fetches afterwards: %s", r))
		}
	}
	if bare {
		return all
	}
	return append(all, compareTrees("installed", before.tree, after.tree)...)
}

// cached reports whether the plugin cache contains all installed packages.
func (c *comparison) cached(o outcome) bool {
	for id, files := range o.tree {
		if !maps.Equal(files, o.cache[id]) {
			return false
		}
	}
	return true
}

// failures are the kinds of failure, each with the messages of engines and of Larder.
var failures = []struct{ name, engine, larder string }{
	{
		"nothing to choose",
		`no available releases match|version \S+ is no longer available|does not have a provider named|` +
			`was not found in any of the search locations|is not a valid provider version`,
		`no versions? (are available|match)|only pre-releases|is no longer available|: not found in |no installation method`,
	},
	{"locked out", `locked provider \S+ \S+ does not match`, `lock file selects \S+, which does not match`},
	{"no platform", `does not have a package available for your current platform`, `no package for (this|the) platform`},
	{"other package", `doesn't match any of the checksums previously recorded`, `the dependency lock file has`},
	{"no executable", `could not find executable`, `no provider executable|no files in the archive`},
	{"read-only", `lock file is read-only`, `lock file is out of date`},
	{"no directory", `cannot search`, `cannot search|there is no directory`},
	{"unknown key", `signature from unknown issuer`, `signed by the unknown key|no signing keys`},
}

// kinds returns the kinds of failure in the outcomes of both programs.
func kinds(engine, larder outcome) (want, got []string) {
	for _, f := range failures {
		if regexp.MustCompile(f.engine).MatchString(unwrapped(engine.output)) {
			want = append(want, f.name)
		}
		if regexp.MustCompile(f.larder).MatchString(unwrapped(larder.output)) {
			got = append(got, f.name)
		}
	}
	return want, got
}

// A deviation is an intended difference. docs/deviations.md explains it under its heading.
type deviation struct {
	heading string
	applies func(s *situation, want, got outcome) bool
}

var deviations = []deviation{
	{"Network mirrors for hosts with ports", said(
		`failed to query provider mirror \S+ for \S+:\d+/\S+: (parse|the|request failed)`,
	)},
	{"No queries if the packages are on disk", sufficed},
	{"Packages are replaced as a whole", replaced},
	{"Unusual names in archives", func(s *situation, want, got outcome) bool {
		other := strings.Contains(unwrapped(want.output), "doesn't match any of the checksums previously recorded")
		return other && contains(s, "directories", "dots")
	}},
	{"Packages must contain an executable", func(s *situation, want, _ outcome) bool {
		incomplete := slices.ContainsFunc(s.Cached, func(p placed) bool { return p.How == "incomplete" })
		return noProgram.MatchString(unwrapped(want.output)) &&
			(incomplete || contains(s, "no program", "program below", "empty"))
	}},
	{"Errors in the configuration come first", func(_ *situation, want, got outcome) bool {
		return want.status != 0 && strings.Contains(got.output, "--plugin-dir: there is no directory")
	}},
	{"Errors in the configuration come first", said(
		`Invalid dependency on built-in provider|Invalid legacy provider address`,
	)},
	{"Credentials go to their own host", func(s *situation, want, got outcome) bool {
		return s.Token != "" && strings.Contains(want.output+got.output, "credentials")
	}},
	{"Underscores in namespaces", said(`Invalid provider namespace`)},
	{"Installed packages are links to files", func(s *situation, _, _ outcome) bool {
		return s.Prior == "itself" && s.CacheDir != "" && slices.Contains(s.Forgot, s.CacheDir)
	}},
	{"A failed install changes nothing", said(
		`entry contains '\.\.'|Error while installing \S+ \S+: zip: checksum error`,
	)},
	{"Empty URLs", func(_ *situation, _, got outcome) bool { return strings.Contains(got.output, "empty URL") }},
	{"Hostile archives", func(s *situation, _, got outcome) bool {
		return contains(s, "symbolic link", "twice") && hostile.MatchString(got.before+got.output)
	}},
	{"Republished releases", func(s *situation, _, got outcome) bool {
		return s.Prior == "itself" && republishedText.MatchString(got.output)
	}},
	{"Comments in lock files stay", func(s *situation, _, got outcome) bool {
		return regexp.MustCompile(`  # a comment\n|# ours\n|// the end\n`).MatchString(got.lock)
	}},
	{"`plugin_cache_may_break_dependency_lock_file` as a last resort", func(s *situation, want, _ outcome) bool {
		return slices.Contains(s.Env, "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE=1") &&
			regexp.MustCompile(`from the shared cache directory|provider from shared cache`).MatchString(want.output)
	}},
	{"Read-only lock files that OpenTofu would rewrite", func(s *situation, want, _ outcome) bool {
		kept := strings.Contains(want.lock, `"registry.terraform.io/hashicorp/`)
		return s.Engine == sources.OpenTofu && kept && strings.Contains(want.output, "Provider dependency changes detected")
	}},
	{"Links out of a checkout", func(_ *situation, _, got outcome) bool {
		return leadsOut.MatchString(got.output)
	}},
	{"Providers under development", said(`Provider development overrides are in effect`)},
	{"Broken CLI configurations", func(_ *situation, _, got outcome) bool { return brokenConfig.MatchString(got.output) }},
	{"Signed hashes from the cache", func(s *situation, want, got outcome) bool {
		return s.Prior == "itself" && more(want.lock, got.lock)
	}},
	{"Errors that don't affect providers", func(_ *situation, want, got outcome) bool {
		return want.status != 0 && got.status != 0 &&
			strings.Contains(want.output, "configuration must be valid before initialization")
	}},
	{"Locked versions that no registry lists", func(s *situation, want, got outcome) bool {
		return s.Engine == sources.OpenTofu && want.status == 0 && notListed.MatchString(got.output)
	}},
	{"Older releases", func(_ *situation, want, got outcome) bool {
		return older(want.program, want.output, want.lock, got.lock)
	}},
	{"Configuration of newer releases", func(s *situation, want, _ outcome) bool {
		newer := unknownBlock.MatchString(want.output) || strings.Contains(want.output, "chosen.tf line")
		return want.status != 0 && newer
	}},
	{"Binary markers in SHA256SUMS", func(s *situation, _, _ outcome) bool {
		return hasRelease(s, func(r published) bool { return r.Sums == "starred" })
	}},
	{"Versions that a network mirror lacks", said(`provider mirror does not have archive index`)},
	{"Rules without a host", func(s *situation, _, _ outcome) bool {
		other := sources.Terraform
		if s.Engine == other {
			other = sources.OpenTofu
		}
		rule := func(text string) bool { return ruleWithoutHost.MatchString(text) }
		return slices.ContainsFunc(slices.Collect(maps.Values(s.Files)), rule) &&
			strings.Contains(s.String(), string(other.DefaultHost()))
	}},
	{"Blank lines in SHA256SUMS", func(s *situation, want, got outcome) bool {
		crashed := strings.Contains(want.output, "TERRAFORM CRASH") || strings.Contains(want.output, "panic: ")
		return crashed && hasRelease(s, func(r published) bool { return r.Sums == "blank line" })
	}},
}

// said is whether Terraform says what a regular expression matches.
func said(expr string) func(*situation, outcome, outcome) bool {
	re := regexp.MustCompile(expr)
	return func(_ *situation, want, _ outcome) bool { return re.MatchString(unwrapped(want.output)) }
}

var failed = regexp.MustCompile(`(?:Could not retrieve the list of available versions for provider |` +
	`given in provider source address "|Could not resolve provider |Error while installing |Provider "?)` +
	`([^ :"]+(?::\d+/[^ :"]+)?)[ :"]`)

// sufficed is whether an engine asks in vain for what Larder had no need to, or has
// got more hashes by fetching again.
func sufficed(_ *situation, want, got outcome) bool {
	if strings.Contains(got.output, "  from the cache") && more(got.lock, want.lock) {
		return true
	}
	for _, m := range failed.FindAllStringSubmatch(unwrapped(want.output), -1) {
		name := strings.TrimPrefix(strings.TrimPrefix(m[1], "registry.terraform.io/"), "registry.opentofu.org/")
		at := regexp.MustCompile(`(?m)^[ +~]+(?:registry.(?:terraform.io|opentofu.org)/)?` + regexp.QuoteMeta(name) +
			` .* (already installed|from the cache)`)
		if at.MatchString(got.output) {
			return true
		}
	}
	return false
}

var occupied = regexp.MustCompile(`mkdir \S+: (file exists|not a directory)|because it is a symlink|` +
	`does not match the content of the downloaded package|checksum for existing cached provider package`)

// replaced is whether something lay where an engine wanted to unpack a package:
// Terraform leaves what is of another package, and fails where it cannot unpack, since 1.15 also at a link.
// OpenTofu refuses to replace anything.
func replaced(s *situation, want, _ outcome) bool {
	for _, p := range append(slices.Clone(s.Installed), s.Cached...) {
		for id, files := range want.tree {
			_, stale := files["stale"]
			tampered := fmt.Sprintf("%x", sha256.Sum256([]byte("tampered\n")))
			changed := stale || slices.Contains(slices.Collect(maps.Values(files)), tampered)
			id = strings.ReplaceAll(id, ownPlatform, "{platform}")
			if matches("*"+p.ID[strings.IndexByte(p.ID, '/'):], id) && changed {
				return true
			}
		}
	}
	left := slices.ContainsFunc(s.Installed, func(p placed) bool { return p.How == "stale file" }) || publishedTwice(s)
	// It is locked, even if it is gone by now.
	return occupied.MatchString(unwrapped(want.output)) || s.Prior != "" && left
}

// publishedTwice reports whether a release replaces another one.
func publishedTwice(s *situation) bool {
	seen := map[string]bool{}
	return hasRelease(s, func(r published) bool {
		name := r.Provider + " " + r.Version
		before := seen[name]
		seen[name] = true
		return before && r.Later
	})
}

// contains reports whether any package has one of these variants.
func contains(s *situation, looks ...string) bool {
	return hasRelease(s, func(r published) bool { return slices.Contains(looks, r.Contents) })
}

// more reports whether a lock file contains all hashes of another one, and further hashes.
func more(than, lock string) bool {
	lines := strings.Split(lock, "\n")
	for line := range strings.SplitSeq(than, "\n") {
		if !slices.Contains(lines, line) {
			return false
		}
	}
	return strings.Count(lock, "\"zh:") > strings.Count(than, "\"zh:")
}

// older reports whether a release does what later releases of its engine don't: it can't read a key, crashes, takes two
// pre-releases for one, lacks a flag, or writes fewer hashes.
func older(p engineRelease, output, theirs, ours string) bool {
	if p.complete() {
		return false
	}
	lines := strings.Split(ours, "\n")
	other := func(l string) bool { return !slices.Contains(lines, l) }
	fewer := len(theirs) < len(ours) && !slices.ContainsFunc(strings.Split(theirs, "\n"), other)
	return olderDefect.MatchString(output) || p.Engine == sources.OpenTofu && theirs != "" && fewer
}

var (
	crash       = regexp.MustCompile(`(?m)^(panic|runtime error): `)
	olderDefect = regexp.MustCompile(`(?m)^(panic|runtime error): |public key type: 22|provided but not defined: -lock-file|` +
		`installation method "oci_mirror"|versions matching "\d\S*-\S+, \d\S*-\S+"`)
)

// unknownBlock is what a release says of what only later ones know.
var unknownBlock = regexp.MustCompile(`Blocks of type "(action|ephemeral|removed|check|lifecycle)" are not expected here`)

// noProgram is what Terraform says of an installed or a cached package without an executable.
var noProgram = regexp.MustCompile(`previously-installed|from the shared cache directory: provider binary not found`)

var leadsOut = regexp.MustCompile(`is a symlink out of the mirror, and the mirror is in a checkout|` +
	`the root module reaches it through a symbolic link`)

var hostile = regexp.MustCompile(`occurs twice|neither a file nor a directory`)

var republishedText = regexp.MustCompile(`larder: error: .*: the release was republished`)

var ruleWithoutHost = regexp.MustCompile(`(?:in|ex)clude = \[[^]]*"[^"/]+/[^"/]+"`)

var brokenConfig = regexp.MustCompile(`larder: error: \S*(config\.tfrc|\.terraformrc|\.tofurc|\.terraform\.d/\S+):\d+`)

func hasRelease(s *situation, is func(published) bool) bool {
	return slices.ContainsFunc(s.Releases, is)
}

// unwrapped returns Terraform's output without line breaks and frames.
func unwrapped(output string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(output, "│", " ")), " ")
}

// excusesFor returns the deviations as excuses in a situation.
func excusesFor(s *situation, want, got outcome) (all []excuse) {
	for _, d := range deviations {
		all = append(all, excuse{d.heading, func() bool { return d.applies(s, want, got) }})
	}
	return all
}
