package ask

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// cacheChecks are the checks of doctor for this area.
var cacheChecks = []check{openCaches, noExec, unverifiedCache, tryCacheVerify, lowSpace}

// cacheSummary describes what was examined.
func cacheSummary(_ context.Context, c *checkup) string {
	switch root := c.CacheRoot(); {
	case c.Flags.NoCache:
		return "not used: --no-cache"
	case !site.Exists(root):
		return c.Brief(root) + ", created by the first install"
	default:
		return c.Brief(root) + ", writable"
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

// cacheCommand returns a command line for the plugin cache in force.
func (c *checkup) cacheCommand(words string) string {
	command := c.Again("cache " + words)
	if c.Flags.Cache != "" {
		command += " --cache " + site.ShellQuoted(c.Flags.Cache)
	}
	return command
}

// otherCache returns how to choose another directory instead of a plugin cache.
func (c *checkup) otherCache(dir, which string) string {
	if dir == c.Config.PluginCacheDir && c.Flags.Cache == "" {
		return "name " + which + " in plugin_cache_dir or TF_PLUGIN_CACHE_DIR"
	}
	return "name " + which + " with --cache or LARDER_CACHE"
}

// openCaches examines whether packages can be added to the plugin caches, and whether other users can add them too.
func openCaches(_ context.Context, c *checkup) {
	for _, dir := range c.cacheDirs() {
		if err := cachedir.Unwritable(dir, false); err != nil {
			c.add(report.Diagnosis{
				Severity: report.Broken, Trap: "cache-unwritable", Path: dir, Text: sources.Text(err), Fix: sources.Hints(err)[0],
				Why: "Larder stores new packages in each root module instead, and downloads them again for the next one",
			})
		}
		e := site.ExposureOf(site.Resolve(dir), site.OfOther)
		if e.At == "" || !site.Exists(dir) {
			continue
		}
		d := report.Diagnosis{
			Trap: "cache-world-writable", Path: e.At, Text: e.Who + "the plugin cache " + c.Brief(dir), Fix: e.Fix,
			Why: "the packages in it are programs that you run, so another user who can replace them acts with your rights",
		}
		if e.At != site.Resolve(dir) {
			d.Text = fmt.Sprintf("%s%s, which contains the plugin cache %s", e.Who, c.Brief(e.At), c.Brief(dir))
		}
		if e.Fix == "" {
			d.Fix = c.otherCache(dir, "a directory of your own")
		}
		c.add(d)
	}
}

// noExec finds file systems from which engines can't start providers.
func noExec(_ context.Context, c *checkup) {
	for _, dir := range append(c.cacheDirs(), c.Config.DataDir) {
		if disk.NoExec(disk.Existing(dir)) {
			mount := disk.Mount(dir)
			c.add(report.Diagnosis{
				Severity: report.Broken, Trap: "no-exec", Path: mount,
				Text: fmt.Sprintf("the file system of %s, %s, is mounted without execute permission", c.Brief(dir), mount),
				Why:  "engines can't start providers there", Fix: site.AsOwner("/", "mount -o remount,exec "+site.ShellQuoted(mount)),
			})
		}
	}
}

// unverifiedCache examines whether unverified packages of the plugin cache are used.
func unverifiedCache(_ context.Context, c *checkup) {
	const name = "plugin_cache_may_break_dependency_lock_file"
	setting, ok := c.Config.Setting(name)
	if !ok || !c.Config.UnverifiedCache {
		return
	}
	d := report.Diagnosis{
		Trap: "unverified-cache", Path: setting.From.File, Line: setting.From.Line, Text: name + " is set",
		Why: "engines use cached packages that nothing verifies, and write lock files that lack the hashes of other platforms; with Larder, the setting isn't necessary",
		Fix: fmt.Sprintf("remove line %d of %s", setting.From.Line, c.Brief(setting.From.File)),
	}
	if setting.From.By != "" {
		d.Fix = "unset " + setting.From.By
	}
	c.add(d)
}

// tryCacheVerify verifies the packages in the plugin cache, by their records where these are valid.
func tryCacheVerify(ctx context.Context, c *checkup) {
	root := c.CacheRoot()
	if c.Flags.NoCache || root == "" {
		return
	}
	k, err := job.OpenCache(ctx, c.Site, false)
	v := &cachedir.Verification{Listing: &cachedir.Listing{}}
	if err == nil && k.Cache != nil {
		v, err = k.Cache.Verify(ctx, cachedir.VerifyOptions{Recorded: true})
	}
	if err != nil {
		c.Output.Fail(ctx, err)
		return
	}
	for _, f := range v.Findings {
		c.add(report.Diagnosis{
			Severity: report.Broken, Trap: report.ErrorFinding, Path: filepath.Join(root, filepath.FromSlash(f.Path)),
			Text: f.Error(), Fix: c.cacheCommand("repair"),
		})
	}
}

// leastSpace is the free space, in bytes, that a large provider needs while it is downloaded and unpacked.
const leastSpace = 1 << 30

// lowSpace examines the free space of the file systems that installing uses.
func lowSpace(_ context.Context, c *checkup) {
	type place struct{ dir, fix string }
	places := []place{
		{c.CacheRoot(), c.cacheCommand("prune")},
		{c.Config.DataDir, "remove files there"},
		{os.TempDir(), "remove files there, or set TMPDIR to a directory on another file system"},
	}
	if c.Flags.NoCache || c.CacheRoot() == "" {
		places = places[1:]
	}
	for _, p := range places {
		at := disk.Mount(p.dir)
		if free, known := disk.FreeSpace(disk.Existing(p.dir)); known && free < leastSpace {
			c.add(report.Diagnosis{
				Trap: "low-space", Path: at, Text: fmt.Sprintf("only %s free on the file system %s", ui.Size(free), at), Fix: p.fix,
				Why: fmt.Sprintf("downloading and unpacking a large provider needs up to %s", ui.Size(leastSpace)),
			})
		}
	}
}
