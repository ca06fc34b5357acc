package ask

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/fetch"
)

// Traps in the configuration, the mirrors and the lock file, which silently change an installation.

// traps are what doctor finds besides the errors and warnings of other commands, by their permanent names: how bad each
// is, a warning by default, and why it matters, if its text doesn't say that.
var traps = map[string]struct {
	severity report.Severity
	why      string
}{
	"cache-in-mirror": {report.Broken, "engines install from their own cache instead of the registry, " +
		"and overwrite or lose packages"},
	"cache-world-writable": {why: "the packages in it are programs that you run, " +
		"so another user who can replace them acts with your rights"},
	"engine-platform": {report.Broken, "Larder installs providers for its own platform, and the engine can't use them"},
	"exposed-policy":  {why: "users other than root can change the policy"},
	"fallback-wins": {why: "the newest version of all methods is installed, whatever their order: " +
		"the registry bypasses the mirror as soon as it has a newer one"},
	"hidden-versions":      {why: "engines query no registry for the providers in this directory"},
	"ignored-file":         {},
	"ignored-variable":     {},
	"missing-cache":        {why: "terraform and tofu fail before they install anything; larder install creates it"},
	"no-exec":              {report.Broken, "engines can't start providers there"},
	"no-hash-for-platform": {report.Broken, "engines refuse the packages for this platform"},
	"not-executable":       {report.Broken, "engines link the package, and then fail to start the provider"},
	"path-writable": {why: "others can choose programs that run instead of terraform and tofu; " +
		"doctor doesn't run these"},
	"shim-bypassed":        {why: "the engine runs without larder"},
	"unread-configuration": {},
	"unsearched-directory": {},
	"unverified-cache": {why: "engines use cached packages that nothing verifies, and write lock files that lack " +
		"the hashes of other platforms; with Larder, the setting isn't necessary"},
	"writable-mirror": {why: "engines run the programs in a mirror without verifying a signature"},
}

// caught adds a trap.
func (c *checkup) caught(kind string, at report.Subject, hint, format string, args ...any) {
	t := traps[kind]
	c.add(report.Finding{
		Kind: kind, Severity: t.severity, Subject: at, Text: fmt.Sprintf(format, args...), Why: t.why, Hints: []string{hint},
	})
}

// unreadInputs finds configuration files and variables that engines don't read.
func unreadInputs(_ context.Context, c *checkup) {
	for _, f := range c.Config.UnreadFiles() {
		hint, why := "unset "+f.By+", or copy the settings that you need", ", because "+f.By+" names another file"
		if f.By == "" { // no command moves a file that may belong to someone else
			hint = "move the settings that you want to " + c.Shown(f.RenameTo) + ", where they apply everywhere"
			why = ": engines expect this file at " + c.Shown(f.RenameTo)
		}
		c.caught("unread-configuration", report.At(f.Path, 0), hint, "%s is not read%s", c.Shown(f.Path), why)
	}
	for _, v := range c.Config.IgnoredVariables() {
		hint := "unset " + site.ShellQuoted(v.Name)
		if v.Meant != "" {
			hint = "rename it to " + v.Meant
		}
		c.caught("ignored-variable", report.Subject{}, hint, "engines don't read the variable %s", v.Name)
	}
}

// fallbackWins finds registries that are meant as a fallback for a mirror, but whose newer versions win.
func fallbackWins(ctx context.Context, c *checkup) {
	for _, direct := range c.Config.Methods {
		for _, m := range c.Config.Methods {
			if direct.Kind != cliconfig.Direct || m.Kind == cliconfig.Direct {
				continue
			}
			var both []sources.Provider
			for _, r := range c.required {
				has := m.Path == "" || c.hasAny(ctx, m.Path, r.Provider)
				if has && site.Applies(m, r.Provider) && site.Applies(direct, r.Provider) {
					both = append(both, r.Provider)
				}
			}
			if len(both) == 0 {
				continue
			}
			place := m.Path + fetch.Redact(m.URL) + m.Template.String()
			hint := `in direct, write exclude = ["` + strings.Join(sources.Texts(both), `", "`) + `"]`
			c.caught("fallback-wins", report.At(direct.File, direct.Line), hint,
				"both direct and %s %s are used for %s", m.Kind, place, names(both))
		}
	}
}

// hasAny reports whether the mirror in a directory has packages of a provider.
func (c *checkup) hasAny(ctx context.Context, dir string, p sources.Provider) bool {
	all, _ := c.Mirror(dir).Providers(ctx) // an error is one of the installation
	return slices.Contains(all, p)
}

// readMirrors reads the mirrors. It finds files that engines silently ignore, and packages that they can't start.
func readMirrors(ctx context.Context, c *checkup) {
	for _, dir := range c.Config.MirrorDirs() {
		mirror := c.Mirror(dir)
		strays, err := mirror.Strays(ctx)
		if err != nil {
			c.Output.Fail(ctx, err)
			continue
		}
		for _, s := range strays {
			hint := "move or rename it, so that its path is HOST/NAMESPACE/TYPE/VERSION/OS_ARCH"
			if strings.Contains(s.Reason, "0.12") {
				to := c.word(dir + "-imported")
				hint = fmt.Sprintf("larder import %s --to %s --namespace terraform.local/local", c.word(dir), to)
			}
			if !s.Leaves { // the installation warns about the others
				c.caught("ignored-file", report.At(s.Path, 0), hint, "%s", s)
			}
		}
		packages, _ := mirror.Packages(ctx)
		for _, p := range packages {
			if p.Location.Dir == "" || p.ID.Platform != sources.CurrentPlatform() {
				continue
			}
			if err := archive.Startable(p.Location.Dir, p.ID); err != nil {
				at, hint := report.At(p.Location.Dir, 0), "larder mirror verify "+c.word(dir)
				c.caught("not-executable", at, hint, "%s: %v", c.Shown(p.Location.Dir), err)
			}
		}
	}
}

// unsearchedDirs finds directories with packages that engines don't search.
func unsearchedDirs(ctx context.Context, c *checkup) {
	add := func(dir, why, fix string) {
		packages, _ := fsmirror.New(dir, fsmirror.Options{Engine: c.Config.Engine}).Packages(ctx)
		if len(packages) > 0 {
			c.caught("unsearched-directory", report.At(dir, 0), fix, "engines don't search %s, which has %s%s",
				c.Shown(dir), ui.Count(len(packages), "package"), why)
		}
	}
	for _, pair := range c.Config.UnsearchedDirs() {
		add(pair[0], "", "move the packages to "+c.Shown(pair[1]))
	}
	if c.Config.Implied {
		return
	}
	place, _ := c.Config.Setting("provider_installation", "")
	for _, dir := range c.Config.ImpliedDirs() {
		if job.Searches(c.Root, dir) {
			continue
		}
		fix := fmt.Sprintf("add filesystem_mirror { path = %s } to the block", job.QuotedPath(dir))
		if c.CheckedOut(dir) { // otherwise all root modules would use the packages of this checkout
			fix = "to use them in this root module only: " + c.Again("install") + " --plugin-dir " + c.word(dir)
		}
		add(dir, ", because of provider_installation at "+place.From.String(), fix)
	}
}

// hiddenVersions finds newer versions of required providers in the registry that implied directories hide. It queries
// the origin registries, unless --offline is set.
func hiddenVersions(ctx context.Context, c *checkup) {
	if _, err := c.Methods(ctx); err != nil || c.Flags.Offline { // the output ends with what was not queried
		return
	}
	for _, r := range c.required {
		dir := c.Hiding[r.Provider]
		if dir == "" {
			continue
		}
		listing, err := c.Registry().Versions(ctx, r.Provider)
		here, _ := c.Mirror(dir).Versions(ctx, r.Provider)
		newest, ok := r.Constraints.Newest(listing.Versions)
		if err == nil && ok && newest.Compare(newestOf(here.Versions)) > 0 {
			c.caught("hidden-versions", report.At(dir, 0), "move the packages of the provider out of the directory",
				"%s hides %s %s in the registry: it has only %s", c.Shown(dir), r.Provider, newest, newestOf(here.Versions))
		}
	}
}

// cacheInMirror finds plugin caches in mirrors, and mirrors in plugin caches.
func cacheInMirror(_ context.Context, c *checkup) {
	for _, cache := range c.cacheDirs() {
		for _, dir := range c.Config.MirrorDirs() {
			inside, outside := cache, dir
			if !site.Within(cache, dir) {
				inside, outside = dir, cache
			}
			if site.Within(inside, outside) {
				c.caught("cache-in-mirror", report.At(cache, 0),
					"set plugin_cache_dir, TF_PLUGIN_CACHE_DIR, --cache or LARDER_CACHE to a directory elsewhere",
					"the plugin cache %s and the mirror %s contain the same packages", c.Shown(cache), c.Shown(dir))
			}
		}
	}
}

// lockedHashes finds entries of the lock file without a hash of the package for this platform that this machine knows.
func lockedHashes(_ context.Context, c *checkup) {
	memory := c.Memory()
	for _, r := range c.required {
		e, ok := c.Lock.Entry(r.Provider)
		if !ok || len(e.Hashes) == 0 || memory == nil || c.fails {
			continue
		}
		if known, _ := memory.Recall(site.PackageOf(e)); known.H1 != "" && !sources.MatchesAny(e.Hashes, known.Hashes()...) {
			here := sources.CurrentPlatform()
			c.caught("no-hash-for-platform", report.At(c.LockPath, c.Lock.Block(r.Provider)), c.Again("lock", here),
				"no hash of %s is for %s", r.Provider, here)
		}
	}
}
