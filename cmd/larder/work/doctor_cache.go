package work

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// cacheChecks are the checks of doctor for this area.
var cacheChecks = []check{
	checkCacheUsable, checkCacheExposed, checkCacheLinks, checkCachePlace, checkUnverifiedCache,
	checkRecordKey, checkCacheContents,
}

// cacheSummary describes what was examined.
func cacheSummary(_ context.Context, c *checkup) string {
	switch root := c.cacheRoot(); {
	case c.flags.NoCache:
		return "not used: --no-cache"
	case !exists(root):
		return c.brief(root) + ", created by the first install"
	default:
		return fmt.Sprintf("%s, writable, %s", c.brief(root), c.linking(root).text)
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

// checkCacheUsable examines whether packages can be added to the plugin caches.
func checkCacheUsable(_ context.Context, c *checkup) (found []report.Diagnosis) {
	if len(c.cacheDirs()) == 0 && !c.flags.NoCache {
		return []report.Diagnosis{{
			Severity: report.Risky, Trap: "cache-unknown",
			Text: "no directory for a plugin cache is known",
			Why:  "every root module gets its own copy of each package",
			Fix:  "set HOME, or name a directory with --cache or LARDER_CACHE",
		}}
	}
	for _, dir := range c.cacheDirs() {
		if d := c.relativeCache(dir); d != nil {
			found = append(found, *d)
		} else if d := c.unwritableCache(dir); d != nil {
			found = append(found, *d)
		} else if dir == c.config.PluginCacheDir && !exists(dir) {
			found = append(found, report.Diagnosis{
				Severity: report.Broken, Trap: "cache-missing", Path: dir,
				Text: fmt.Sprintf("the configured plugin cache %s doesn't exist", c.brief(dir)),
				Why:  "terraform and tofu fail without it; Larder creates it at the next install",
				Fix:  "mkdir -p " + shellQuoted(dir),
			})
		}
	}
	return found
}

// relativeCache returns the trap of a configured plugin cache whose place depends on the root module, or nil.
func (c *checkup) relativeCache(dir string) *report.Diagnosis {
	s, ok := c.config.Setting("plugin_cache_dir")
	if !ok || dir != c.config.PluginCacheDir || filepath.IsAbs(s.Value) {
		return nil
	}
	d := &report.Diagnosis{
		Severity: report.Risky, Trap: "relative-cache", Path: s.From.File, Line: s.From.Line,
		Text: fmt.Sprintf("the path %q of the plugin cache starts from the working directory", s.Value),
		Why:  "terraform and tofu fail in directories that don't have this path, and the others don't share their packages",
	}
	to := filepath.Join(c.config.Home(), ".terraform.d", "plugin-cache")
	d.Fix = fmt.Sprintf("write plugin_cache_dir = %q, and run: mkdir -p %s", to, shellQuoted(to))
	if s.From.By != "" {
		d.Fix = fmt.Sprintf("mkdir -p %[1]s && export %s=%[1]s", shellQuoted(to), s.From.By)
	}
	return d
}

// unwritableCache returns why no file can be created in a plugin cache, or nil.
func (c *checkup) unwritableCache(dir string) *report.Diagnosis {
	at := disk.Existing(dir)
	d := report.Diagnosis{
		Severity: report.Broken, Trap: "cache-unwritable", Path: at,
		Why: "Larder stores new packages in each root module instead, and downloads them again for the next one",
	}
	did := "written"
	if at != dir {
		did = "created"
	}
	because := func(reason string) *report.Diagnosis {
		d.Text = fmt.Sprintf("the plugin cache %s can't be %s: %s", c.brief(dir), did, reason)
		return &d
	}
	if info, err := os.Stat(at); err == nil && !info.IsDir() {
		d.Fix = fmt.Sprintf("mv %s %s", shellQuoted(at), shellQuoted(at+".old"))
		return because(c.brief(at) + " is a file")
	}
	if err := disk.Dangling(dir); err != nil {
		d.Fix = sources.Hints(err)[0]
		return because(err.Error())
	}
	if disk.FileSystemOf(dir).ReadOnly {
		d.Fix = c.otherCache(dir, "a directory on another file system")
		return because("its file system is mounted read-only")
	}
	for _, name := range []string{"", ".larder", ".larder/tmp", ".larder/lock"} {
		path := filepath.Join(at, name)
		if reason, fix := c.refusal(dir, path); reason != "" {
			d.Path, d.Fix = path, fix
			return because(reason)
		}
	}
	return nil
}

// refusal returns why this user can't create files in a directory, which is dir, above it or in it, and what makes
// dir writable, or nothing.
func (c *checkup) refusal(dir, path string) (reason, fix string) {
	err := c.unwritable(path)
	switch owner, hints := disk.Owner(path), sources.Hints(err); {
	case err == nil:
		return "", ""
	case len(hints) > 0:
		return err.Error(), hints[0]
	case owner != "" && exists(dir):
		return fmt.Sprintf("%s belongs to %s", c.brief(path), owner), `sudo chown -R "$(id -un)" ` + shellQuoted(dir)
	case owner != "":
		return fmt.Sprintf("%s belongs to %s", c.brief(path), owner), fmt.Sprintf(`sudo mkdir -p %[1]s && sudo chown "$(id -un)" %[1]s`, shellQuoted(dir))
	}
	return fmt.Sprintf("%s: %v", c.brief(path), disk.Cause(err)), "chmod u+rwx " + shellQuoted(path)
}

// unwritable returns why no file can be created in an existing directory, or nil. Windows has no way to
// find out without creating one.
func (c *checkup) unwritable(path string) error {
	if c.machine.GOOS == "windows" {
		return nil
	}
	in, err := disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return disk.Dangling(path)
	}
	if err == nil {
		defer in.Close()
		err = in.Writable()
	}
	return err
}

// checkCacheExposed examines whether other users can put packages into the plugin caches.
func checkCacheExposed(_ context.Context, c *checkup) (found []report.Diagnosis) {
	for _, dir := range c.cacheDirs() {
		if !exists(dir) {
			continue
		}
		for at, above := resolve(dir), ""; at != above; at, above = filepath.Dir(at), at {
			if d := c.exposed(dir, at); d != nil {
				found = append(found, *d)
			}
		}
	}
	return found
}

// withoutModes are file systems whose files have no permissions of their own.
var withoutModes = []string{"FAT", "exFAT", "9p", "SMB"}

// exposed returns how other users can put packages into a plugin cache by means of a directory, which is the
// cache or above it, or nil.
func (c *checkup) exposed(dir, at string) *report.Diagnosis {
	info, err := os.Stat(at)
	if err != nil {
		return nil
	}
	d := &report.Diagnosis{
		Severity: report.Risky, Path: at, Text: "the plugin cache " + c.brief(dir),
		Why: "the packages in it are programs that you run, so another user who can replace them acts with your rights",
	}
	writable, exchangeable := disk.WritableByAll(info)
	if at != resolve(dir) {
		writable = exchangeable
		d.Text = fmt.Sprintf("%s, which contains %s", c.brief(at), d.Text)
	}
	kind := disk.FileSystemOf(at).Kind
	switch {
	case writable && slices.Contains(withoutModes, kind):
		d.Trap, d.Text = "cache-world-writable", fmt.Sprintf("all users can write to %s: %s has no permissions", d.Text, kind)
		d.Fix = c.otherCache(dir, "a directory on another file system")
	case writable:
		d.Trap, d.Text = "cache-world-writable", "all users can write to "+d.Text
		d.Fix = asOwner(at, "chmod o-w "+shellQuoted(at))
	case disk.OfOther(info) && (at == resolve(dir) || !disk.Unmapped(info)):
		d.Trap, d.Text = "cache-of-other-user", fmt.Sprintf("%s owns %s", disk.Owner(at), d.Text)
		d.Fix = c.otherCache(dir, "a directory of your own")
	default:
		return nil
	}
	return d
}

// A linking is how packages get from a plugin cache into the working directory.
type linking struct {
	mode sources.LinkMode // that --link auto uses
	text string           // in words
}

// linking returns how packages get from a plugin cache into the working directory, as far as the file
// systems tell.
func (c *checkup) linking(dir string) linking {
	from, to := disk.FileSystemOf(dir), disk.FileSystemOf(c.config.DataDir)
	switch {
	case from.Clones && from.Same(to):
		return linking{sources.LinkReflink, "reflinks or hardlinks"}
	case to.NoLinks:
		return linking{sources.LinkCopy, "copies"}
	case !from.Links(to) && Unbound():
		return linking{sources.LinkCopy, "copies of packages up to 64 MB, and symlinks to others"}
	case !from.Links(to):
		return linking{sources.LinkSymlink, "symlinks"}
	case Unbound():
		return linking{sources.LinkHard, "copies of packages up to 64 MB, and hardlinks to others"}
	}
	return linking{sources.LinkHard, "hardlinks"}
}

// checkCacheLinks examines how packages get from the plugin cache into the working directory, and whether
// they run there.
func checkCacheLinks(_ context.Context, c *checkup) (found []report.Diagnosis) {
	to := disk.FileSystemOf(c.config.DataDir)
	if to.NoExec {
		found = append(found, report.Diagnosis{
			Severity: report.Broken, Trap: "no-exec", Path: to.Mount,
			Text: fmt.Sprintf("the file system of the working directory, %s, is mounted without execute permission", to.Mount),
			Why:  "engines can't start providers there, so Larder refuses to copy or hardlink them to it",
			Fix:  asOwner("/", "mount -o remount,exec "+shellQuoted(to.Mount)),
		})
	}
	root := c.cacheRoot()
	if c.flags.NoCache || root == "" {
		return found
	}
	from, link := disk.FileSystemOf(root), c.linking(root)
	if from.NoExec && from.Mount != to.Mount {
		found = append(found, report.Diagnosis{
			Severity: report.Broken, Trap: "no-exec", Path: from.Mount,
			Text: fmt.Sprintf("the file system of the plugin cache, %s, is mounted without execute permission", from.Mount),
			Why:  "engines can't start providers that are linked from there",
			Fix:  asOwner("/", "mount -o remount,exec "+shellQuoted(from.Mount)),
		})
	}
	d := report.Diagnosis{Severity: report.Risky, Path: root, Why: "Larder uses " + link.text}
	switch {
	case to.NoLinks || from.NoLinks && from.Same(to):
		d.Trap = "no-links"
		d.Text = fmt.Sprintf("the file system of the working directory, %s, has no links", to.Kind)
		d.Why += ", so each root module needs time and space for its own packages"
		d.Fix = "move the root modules and the plugin cache to a file system with links"
	case !from.Links(to) && link.mode != sources.LinkReflink:
		d.Trap = "cache-other-file-system"
		d.Text = fmt.Sprintf("the plugin cache %s is on another file system than the working directory, so hardlinks are impossible", c.brief(root))
		d.Fix = c.otherCache(root, "a directory on the file system of "+to.Mount)
		if link.mode == sources.LinkSymlink {
			d.Why += ", which lead nowhere in a container with the working directory alone"
		} else {
			d.Why += ": each root module needs time and space for its own packages"
		}
		if c.flags.Link == sources.LinkHard {
			d.Severity, d.Why = report.Broken, "--link hardlink fails"
			d.Fix += ", or use --link auto"
		}
	default:
		return found
	}
	return append(found, d)
}

// checkCachePlace examines whether a plugin cache is in a directory that is removed or shared with the root
// modules.
func checkCachePlace(_ context.Context, c *checkup) (found []report.Diagnosis) {
	for _, dir := range c.cacheDirs() {
		d := report.Diagnosis{
			Severity: report.Risky, Path: dir,
			Text: "the plugin cache " + c.brief(dir) + " is in ",
			Fix:  c.otherCache(dir, "a directory elsewhere"),
		}
		top := c.repository(resolve(disk.Existing(dir)))
		switch {
		case within(dir, c.config.DataDir):
			d.Trap, d.Text = "cache-in-data-dir", d.Text+"the data directory "+c.brief(c.config.DataDir)
			d.Why = "users and CI jobs delete that directory, and other root modules can't share the cache"
		case slices.Contains(strings.Split(filepath.ToSlash(dir), "/"), sources.DataDir):
			d.Trap, d.Text = "cache-in-data-dir", d.Text+"the data directory of a root module"
			d.Why = "users and CI jobs delete such directories"
		case top != "" && c.config.Tilde(top+"/.git") != "~/.git" && !within(c.machine.Home, top):
			d.Trap, d.Text = "cache-in-checkout", d.Text+"the repository "+c.brief(top)
			d.Why = "git may add the packages, git clean removes them, and others may put packages there with a commit"
		default:
			continue
		}
		found = append(found, d)
	}
	return found
}

// checkUnverifiedCache examines whether unverified packages of the plugin cache are used.
func checkUnverifiedCache(_ context.Context, c *checkup) []report.Diagnosis {
	const name = "plugin_cache_may_break_dependency_lock_file"
	setting, ok := c.config.Setting(name)
	if !ok || setting.From.By != "" && c.config.MeansTrue() != "" { // then another check reports the variable
		return nil
	}
	d := report.Diagnosis{
		Severity: report.Risky, Trap: "unverified-cache", Path: setting.From.File, Line: setting.From.Line,
		Text: name + " is set",
		Why:  "engines use cached packages that nothing verifies, and write lock files that lack the hashes of other platforms; with Larder, the setting isn't necessary",
		Fix:  fmt.Sprintf("remove line %d of %s", setting.From.Line, c.brief(setting.From.File)),
	}
	if setting.From.By != "" {
		d.Fix = "unset " + setting.From.By
	}
	return []report.Diagnosis{d}
}
