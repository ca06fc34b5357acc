// Package ask contains the jobs that answer a question and change nothing: explain, versions, outdated, doctor and
// config.
package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

// A checkup is the machine that doctor examines, as the root module in the working directory uses it. Its
// configuration may have errors: they are findings, and the rest is examined.
type checkup struct {
	*site.Root
	required []sources.Requirement // by the root module, without those that dev_overrides replaces
	rootless bool                  // there is no root module in the working directory

	all   []report.Finding // what was found
	area  string           // the current one
	fails bool             // a finding ends other commands
	unset bool             // the configuration has errors, so settings and rules are unknown
	left  []string         // what was not examined
}

// checks are what doctor does, in this order, each with its area. A check runs the code of other commands, whose errors
// and warnings are findings, or adds traps that no command reports. It changes nothing.
var checks = []struct {
	area string
	run  func(ctx context.Context, c *checkup)
}{
	{"configuration", read},
	{"mirrors", readMirrors},
	{"root module", tryInstall},
	{"mirrors", querySources},
	{"root module", tryVerify},
	{"plugin cache", tryCache},
	{"configuration", unreadInputs},
	{"configuration", fallbackWins},
	{"mirrors", unsearchedDirs},
	{"mirrors", hiddenVersions},
	{"mirrors", cacheInMirror},
	{"root module", lockedHashes},
	{"plugin cache", noExec},
	{"plugin cache", unverifiedCache},
	{"engines", tryEngine},
	{"engines", engines},
	{"other users", exposed},
}

// ExamineMachine reports what would make an installation here fail, and traps that would silently change it.
func ExamineMachine(ctx context.Context, s *site.Site) error {
	s.Ask()
	s.Reading.Empty, s.Flags.DryRun = true, true
	c, out := &checkup{}, s.Output
	s.Output = out.Overheard(c.add)
	c.Root = &site.Root{Site: s}
	for _, check := range checks {
		if c.area = check.area; ctx.Err() == nil {
			check.run(ctx, c)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	slices.SortStableFunc(c.all, func(a, b report.Finding) int { return cmp.Compare(gravity(a), gravity(b)) })
	s.Output = out
	sum := out.Diagnosed(c.all)
	unread := []string{c.Again("verify"), c.Again("cache verify")}
	for _, dir := range c.mirrorDirs() {
		unread = append(unread, "larder mirror verify "+c.word(dir))
	}
	if c.rootless && c.hasBelow(ctx) {
		c.left = append(c.left, "Root modules below not examined: "+c.Again("check -R"))
	}
	c.left = append(c.left, "Contents of unchanged files not hashed: "+strings.Join(unread, ", "))
	out.Conclude("%s", strings.Join(c.left, ". "))
	if sum == (report.Diagnosed{}) {
		found := "No problem found in configuration, mirrors, root module, plugin cache and engines"
		if c.rootless {
			found = "No problem found in configuration, mirrors, plugin cache and engines; there is no root module here"
		}
		out.Say("%s", found)
		return nil
	}
	return report.FoundError{Err: errors.New(sum.Text())}
}

// hasBelow reports whether there are root modules below the working directory, for other commands with -R.
func (c *checkup) hasBelow(ctx context.Context) bool {
	c.Flags.Recursive = true
	defer func() { c.Flags.Recursive = false }()
	below, err := c.RootsAt(ctx, c.WorkDir)
	return len(below) > 0 || err != nil
}

// gravity sorts findings: what fails comes first.
func gravity(d report.Finding) int {
	return slices.Index([]report.Severity{report.Broken, report.Risky, report.Healthy}, d.Severity)
}

// add adds a finding, by default a warning. It skips one that is equal to an earlier one, or that contains the text of
// an earlier error.
func (c *checkup) add(d report.Finding) {
	d.Area, d.Severity = c.area, cmp.Or(d.Severity, report.Risky)
	known := slices.ContainsFunc(c.all, func(e report.Finding) bool {
		return e.Text == d.Text && e.Place() == d.Place() ||
			e.Kind == report.ErrorFinding && d.Line == 0 && strings.Contains(d.Text, e.Text)
	})
	if !known {
		c.all = append(c.all, d)
		c.fails = c.fails || d.Kind == report.ErrorFinding
	}
}

// read reads the configuration of this machine and the root module in the working directory, also where they
// have errors.
func read(ctx context.Context, c *checkup) {
	m, problems, err := c.Look(ctx, c.WorkDir)
	if c.Root = m; m.Lock == nil {
		m.Lock = &lockfile.File{}
	}
	m.Output.Fail(ctx, errors.Join(err, m.Output.Warnings(problems)))
	c.unset = c.fails
	tree, _ := readTree(ctx, m) // the installation reports the errors
	if tree == nil {
		return
	}
	c.rootless = tree.Empty && !m.Lock.Exists
	for _, r := range tree.Requirements {
		if m.Config.DevOverrides[r.Provider] == "" && !slices.Contains(m.Config.Unmanaged, r.Provider) {
			c.required = append(c.required, r)
		}
	}
}

// tryInstall is a dry run of an installation. It queries all sources, unless --offline is set.
func tryInstall(ctx context.Context, c *checkup) {
	if c.fails {
		c.left = append(c.left, "Installation not tried because of these failures")
		return
	}
	in := &job.Installation{Site: c.Site}
	_, err := in.At(ctx, c.Dir, c.Output)
	all := sources.Errors(err)
	errs := slices.DeleteFunc(slices.Clone(all), func(err error) bool { return errors.Is(err, sources.ErrOffline) })
	if len(errs) < len(all) { // a package that isn't on this machine has to be written, too
		errs = append(errs, cachedir.Unwritable(filepath.Join(c.Config.DataDir, "providers"), true))
	}
	c.Output.Fail(ctx, errors.Join(errs...))
	if c.Flags.Offline {
		c.left = append(c.left, "No source queried: --offline")
	}
}

// querySources asks the sources for the versions of each required provider, also of those that are installed or cached:
// an installation here works without an answer, but the next one may not.
func querySources(ctx context.Context, c *checkup) {
	if c.fails || c.Flags.Offline || len(c.required) == 0 {
		return
	}
	source, err := c.Source(ctx)
	if err != nil {
		return // the dry run has reported it
	}
	errs := make([]error, len(c.required))
	var wg sync.WaitGroup
	for i, r := range c.required {
		wg.Go(func() { _, errs[i] = listed(ctx, c.Root, source, r.Provider) })
	}
	wg.Wait()
	c.Output.WarnAll(sources.Errors(c.Explain(errors.Join(errs...))))
}

// tryVerify verifies the installed packages, by their records where these are valid.
func tryVerify(ctx context.Context, c *checkup) {
	if c.fails || !c.Lock.Exists || !site.Exists(filepath.Join(c.Config.DataDir, "providers")) {
		return
	}
	v := &job.Verifying{Site: c.Site, Refused: map[string]error{}}
	all, err := v.Check(ctx, c.Root)
	c.Output.Fail(ctx, err)
	for _, f := range all {
		f.Hints = []string{v.Hint()}
		c.Output.Findings(f)
	}
}

// tryCache examines whether packages can be added to the plugin caches, and verifies the packages in the one in force,
// by their records where these are valid.
func tryCache(ctx context.Context, c *checkup) {
	for _, dir := range c.cacheDirs() {
		err := cachedir.Unwritable(dir, false)
		if isDenied(err) && dir != c.Config.PluginCacheDir { // an installation continues without it, and engines don't use it
			c.Output.WarnOf(err)
		} else {
			c.Output.Fail(ctx, err)
		}
	}
	c.Output.WarnAll(sources.Errors(unwritableRecords(c.Config.StateDir)))
	if dir := c.Config.PluginCacheDir; dir != "" && !site.Exists(dir) {
		const text = "plugin_cache_dir doesn't exist: %s"
		c.caught("missing-cache", report.At(dir, 0), "mkdir -p "+c.word(dir), text, c.Shown(dir))
	}
	root := c.CacheRoot()
	if c.Flags.NoCache || root == "" {
		return
	}
	k, err := job.OpenCache(ctx, c.Site, false)
	v := &cachedir.Verification{Listing: &cachedir.Listing{}}
	if err == nil && k.Cache != nil {
		v, err = k.Cache.Verify(ctx, cachedir.VerifyOptions{Recorded: true})
	}
	c.Output.Fail(ctx, err)
	if err != nil {
		return
	}
	for _, f := range report.FindingsOf(v.Findings) {
		f.File, f.Hints = filepath.Join(root, filepath.FromSlash(f.File)), []string{c.Again("cache repair")}
		c.Output.Findings(f)
	}
}

// cacheDirs returns the plugin cache in force, and that of the engines if it is another one.
func (c *checkup) cacheDirs() (dirs []string) {
	if !c.Flags.NoCache {
		dirs = append(dirs, c.CacheRoot())
	}
	dirs = append(dirs, c.Config.PluginCacheDir)
	return slices.Compact(slices.DeleteFunc(dirs, func(dir string) bool { return dir == "" }))
}

// mirrorDirs returns the first few mirrors that engines search.
func (c *checkup) mirrorDirs() []string {
	dirs := slices.DeleteFunc(report.Unique(c.Config.MirrorDirs()), func(dir string) bool { return !site.Exists(dir) })
	return dirs[:min(len(dirs), 3)]
}

// word returns a path as a word of a command line: short if nothing in it must be quoted.
func (c *checkup) word(path string) string {
	return site.ShellQuoted(c.Shown(path))
}

// names returns the first of many names, and the number of the others.
func names[T fmt.Stringer](all []T) string { return ui.Some(sources.Texts(all), 3) }
