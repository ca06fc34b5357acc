package work

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// cacheChecks are the checks of doctor for this area.
var cacheChecks = []check{openCaches, noExec, unverifiedCache, tryCacheVerify, lowSpace}

// cacheSummary describes what was examined.
func cacheSummary(_ context.Context, c *checkup) string {
	switch root := c.cacheRoot(); {
	case c.flags.NoCache:
		return "not used: --no-cache"
	case !exists(root):
		return c.brief(root) + ", created by the first install"
	default:
		return c.brief(root) + ", writable"
	}
}

// cacheDirs returns the plugin cache in force, and that of the engines if it is another one.
func (c *checkup) cacheDirs() (dirs []string) {
	if !c.flags.NoCache {
		dirs = append(dirs, c.cacheRoot())
	}
	dirs = append(dirs, c.config.PluginCacheDir)
	return slices.Compact(slices.DeleteFunc(dirs, func(dir string) bool { return dir == "" }))
}

// cacheCommand returns a command line for the plugin cache in force.
func (c *checkup) cacheCommand(words string) string {
	command := c.again("cache " + words)
	if c.flags.Cache != "" {
		command += " --cache " + shellQuoted(c.flags.Cache)
	}
	return command
}

// otherCache returns how to choose another directory instead of a plugin cache.
func (c *checkup) otherCache(dir, which string) string {
	if dir == c.config.PluginCacheDir && c.flags.Cache == "" {
		return "name " + which + " in plugin_cache_dir or TF_PLUGIN_CACHE_DIR"
	}
	return "name " + which + " with --cache or LARDER_CACHE"
}

// asOwner returns a command line that changes a file, with sudo if only its owner may do that.
func asOwner(path, command string) string {
	if disk.Owner(path) != "" && !Unbound() {
		return "sudo " + command
	}
	return command
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
		e := exposureOf(resolve(dir), ofOther)
		if e.at == "" || !exists(dir) {
			continue
		}
		d := report.Diagnosis{
			Trap: "cache-world-writable", Path: e.at, Text: e.who + "the plugin cache " + c.brief(dir), Fix: e.fix,
			Why: "the packages in it are programs that you run, so another user who can replace them acts with your rights",
		}
		if e.at != resolve(dir) {
			d.Text = fmt.Sprintf("%s%s, which contains the plugin cache %s", e.who, c.brief(e.at), c.brief(dir))
		}
		if e.fix == "" {
			d.Fix = c.otherCache(dir, "a directory of your own")
		}
		c.add(d)
	}
}

// An exposure is how other users can replace the file or directory at a path.
type exposure struct {
	at  string // the path or a directory above it; empty if they can't
	who string // "all users can write to ", or "user 5 owns "
	fix string // a command if there is one
}

// exposureOf returns how other users can replace a file, or a directory or what it contains. Foreign reports whether
// the owner of a file is one of them.
func exposureOf(path string, foreign func(fs.FileInfo) bool) exposure {
	for at, below := path, ""; at != below; at, below = filepath.Dir(at), at {
		info, err := os.Stat(at)
		if err != nil {
			continue
		}
		create, exchange := disk.WritableByAll(info)
		switch {
		case exchange || create && at == path:
			return exposure{at, "all users can write to ", asOwner(at, "chmod o-w "+shellQuoted(at))}
		case foreign(info):
			return exposure{at, disk.Owner(resolve(at)) + " owns ", ""}
		}
	}
	return exposure{}
}

// ofOther reports whether another user, who isn't root, owns a file.
func ofOther(info fs.FileInfo) bool { return disk.OfOther(info) && !disk.Unmapped(info) }

// noExec finds file systems from which engines can't start providers.
func noExec(_ context.Context, c *checkup) {
	for _, dir := range append(c.cacheDirs(), c.config.DataDir) {
		if disk.NoExec(disk.Existing(dir)) {
			mount := disk.Mount(dir)
			c.add(report.Diagnosis{
				Severity: report.Broken, Trap: "no-exec", Path: mount,
				Text: fmt.Sprintf("the file system of %s, %s, is mounted without execute permission", c.brief(dir), mount),
				Why:  "engines can't start providers there", Fix: asOwner("/", "mount -o remount,exec "+shellQuoted(mount)),
			})
		}
	}
}

// unverifiedCache examines whether unverified packages of the plugin cache are used.
func unverifiedCache(_ context.Context, c *checkup) {
	const name = "plugin_cache_may_break_dependency_lock_file"
	setting, ok := c.config.Setting(name)
	if !ok || !c.config.UnverifiedCache {
		return
	}
	d := report.Diagnosis{
		Trap: "unverified-cache", Path: setting.From.File, Line: setting.From.Line, Text: name + " is set",
		Why: "engines use cached packages that nothing verifies, and write lock files that lack the hashes of other platforms; with Larder, the setting isn't necessary",
		Fix: fmt.Sprintf("remove line %d of %s", setting.From.Line, c.brief(setting.From.File)),
	}
	if setting.From.By != "" {
		d.Fix = "unset " + setting.From.By
	}
	c.add(d)
}

// tryCacheVerify verifies the packages in the plugin cache, by their records where these are valid.
func tryCacheVerify(ctx context.Context, c *checkup) {
	root := c.cacheRoot()
	if c.flags.NoCache || root == "" {
		return
	}
	k, err := openCache(ctx, c.Session, false)
	v := &cachedir.Verification{Listing: &cachedir.Listing{}}
	if err == nil && k.cache != nil {
		v, err = k.cache.Verify(ctx, cachedir.VerifyOptions{Recorded: true})
	}
	if err != nil {
		c.output.Fail(ctx, err)
		return
	}
	for _, f := range v.Findings {
		c.add(report.Diagnosis{
			Severity: report.Broken, Trap: report.ErrorFinding, Path: filepath.Join(root, filepath.FromSlash(f.Path)),
			Text: f.String(), Fix: c.cacheCommand("repair"),
		})
	}
}

// leastSpace is the free space, in bytes, that a large provider needs while it is downloaded and unpacked.
const leastSpace = 1 << 30

// lowSpace examines the free space of the file systems that installing uses.
func lowSpace(_ context.Context, c *checkup) {
	type place struct{ dir, fix string }
	places := []place{
		{c.cacheRoot(), c.cacheCommand("prune")},
		{c.config.DataDir, "remove files there"},
		{os.TempDir(), "remove files there, or set TMPDIR to a directory on another file system"},
	}
	if c.flags.NoCache || c.cacheRoot() == "" {
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
