package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/policy"
)

// Traps of the machine: its file systems, its engines, and what other users can replace.

// noExec finds file systems from which engines can't start providers.
func noExec(_ context.Context, c *checkup) {
	for _, dir := range append(c.cacheDirs(), c.Config.DataDir) {
		if disk.NoExec(disk.Existing(dir)) {
			mount := disk.Mount(dir)
			c.caught("no-exec", report.At(mount, 0), site.AsOwner("/", "mount -o remount,exec "+site.ShellQuoted(mount)),
				"the file system of %s, %s, is mounted without execute permission", c.Shown(dir), mount)
		}
	}
}

// unwritableRecords returns why records can't be written in a state directory, which is empty if none is known.
func unwritableRecords(stateDir string) error {
	if stateDir == "" {
		return nil
	}
	dir, err := disk.Open(disk.Existing(filepath.Join(stateDir, "stores")))
	if err == nil {
		err = dir.Writable()
		dir.Close()
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("cannot write records in %s: %w", stateDir, disk.Cause(err))
	return sources.WithHint(err, "make the directory writable: without records, each run hashes the packages again")
}

// isDenied reports whether an error is that of a directory in which this user can't write.
func isDenied(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// unverifiedCache examines whether unverified packages of the plugin cache are used.
func unverifiedCache(_ context.Context, c *checkup) {
	const name = "plugin_cache_may_break_dependency_lock_file"
	if setting, ok := c.Config.Setting(name, ""); ok && c.Config.UnverifiedCache {
		hint := "remove the setting (" + setting.From.String() + ")"
		c.caught("unverified-cache", report.At(setting.From.File, setting.From.Line), hint, "%s is set", name)
	}
}

// tryEngine examines whether the policy allows the engine of the root module, as check and exec do. Nothing is known
// about the version of a program that doctor doesn't run.
func tryEngine(ctx context.Context, c *checkup) {
	if c.rootless || c.unset {
		return
	}
	var version func() (sources.Version, error)
	if p := c.FirstProgram(ctx, c.Config.Engine); p.Runs() {
		version = func() (sources.Version, error) { return p.Version, nil }
	}
	c.Output.Fail(ctx, c.AllowsEngine("the engine is "+string(c.Config.Engine), version))
}

// engines lists the engines on PATH. It finds those that can't use what Larder installs, that run without Larder
// although there is a shim, and that others can replace.
func engines(ctx context.Context, c *checkup) {
	var texts []string
	for _, p := range c.EnginePrograms(ctx) {
		texts = append(texts, c.programText(p))
		if p.Err != nil {
			c.Output.WarnOf(fmt.Errorf("%s: %w", p.Path, p.Err))
		}
		if p.Unsafe != "" {
			hint := cmp.Or(p.Safer, "remove "+c.Shown(filepath.Dir(p.Path))+" from PATH")
			c.caught("path-writable", report.At(p.Path, 0), hint, "%s is on PATH, but %s", c.Shown(p.Path), p.Unsafe)
		}
	}
	if len(texts) == 0 {
		c.left = append(c.left, "No engine is on PATH")
		return
	}
	c.add(report.Finding{Severity: report.Healthy, Text: "engines: " + strings.Join(texts, ", ")})
	for _, engine := range site.BothEngines {
		programs := site.ProgramsOf(c.EnginePrograms(ctx), engine)
		if i := slices.IndexFunc(programs, func(p site.EngineProgram) bool { return p.Shim }); i > 0 {
			c.bypassed(programs[0], programs[i].Path)
		}
		p, current := c.FirstProgram(ctx, engine), sources.CurrentPlatform().String()
		if p.Platform != "" && p.Platform != current && len(c.Flags.Platforms) == 0 {
			c.caught("engine-platform", report.At(p.Path, 0), c.Again("install")+" --platform "+site.ShellQuoted(p.Platform),
				"%s is a program for %s, but larder is one for %s", c.Shown(p.Path), p.Platform, current)
		}
	}
}

// programText names a program: "terraform 1.11.4 (/usr/bin)".
func (c *checkup) programText(p site.EngineProgram) string {
	text := string(p.Engine)
	where := c.Shown(filepath.Dir(p.Path))
	switch {
	case p.Shim:
		where = "larder's shim in " + where
	case p.Manager != "":
		where = p.Manager + " in " + where
	case p.Runs():
		text += " " + p.Version.String()
	}
	return fmt.Sprintf("%s (%s)", text, where)
}

// bypassed adds an engine that runs without Larder, because it comes before a shim on PATH.
func (c *checkup) bypassed(first site.EngineProgram, shim string) {
	fix := site.PutFirst(c.Machine, filepath.Dir(shim))
	if first.Manager != "" {
		fix += ", after the line that sets up " + first.Manager + " in your shell's configuration"
	}
	c.caught("shim-bypassed", report.At(shim, 0), fix,
		"%s comes before larder's shim %s on PATH", c.programText(first), c.Shown(shim))
}

// exposed finds what other users must not be able to replace, because it decides which programs run: plugin caches,
// packages of mirrors, the policy of the machine, and the directories on PATH before the engines.
func exposed(ctx context.Context, c *checkup) {
	for _, dir := range c.cacheDirs() {
		c.guard("cache-world-writable", dir, "the plugin cache "+c.Shown(dir), site.OfOther,
			"set plugin_cache_dir, TF_PLUGIN_CACHE_DIR, --cache or LARDER_CACHE to a directory of your own")
	}
	for _, dir := range c.Config.MirrorDirs() {
		packages, _ := c.Mirror(dir).Packages(ctx)
		for _, p := range packages {
			anyOwner := func(fs.FileInfo) bool { return false } // somebody else may own a mirror
			path := p.Location.Dir + p.Location.Archive
			c.guard("writable-mirror", path, "packages of the mirror "+c.Shown(dir), anyOwner, "")
		}
	}
	if i := slices.IndexFunc(c.Config.Policy, func(r policy.Rule) bool { return r.Layer == policy.Site }); i >= 0 {
		file := c.Config.Policy[i].File
		byUser := func(info fs.FileInfo) bool { return !site.OfRoot(info) }
		c.guard("exposed-policy", file, "the policy "+c.Shown(file), byUser, "chown root "+c.word(file))
	}
	const offPath = "remove it from PATH in your shell's configuration"
	for _, dir := range c.pathBeforeEngines(ctx) {
		if filepath.IsAbs(dir) {
			c.guard("path-writable", dir, c.Shown(dir)+", which is on PATH before the engines", site.OfOther, offPath)
		} else {
			c.caught("path-writable", report.At(dir, 0), offPath, "PATH has the relative directory %q before the engines", dir)
		}
	}
}

// guard adds a trap if other users can replace a file or a directory. Foreign reports whether the owner of a file is
// one of them, and fix is for what no command changes.
func (c *checkup) guard(trap, path, what string, foreign func(fs.FileInfo) bool, fix string) {
	e := site.ExposureOf(site.Resolve(path), foreign)
	if e.At == "" || !site.Exists(path) {
		return
	}
	if e.At != site.Resolve(path) {
		what = c.Shown(e.At) + ", which contains " + what
	}
	c.caught(trap, report.At(e.At, 0), cmp.Or(e.Fix, fix), "%s%s", e.Who, what)
}

// pathBeforeEngines returns the directories on PATH before that of the first engine.
func (c *checkup) pathBeforeEngines(ctx context.Context) []string {
	dirs := filepath.SplitList(c.Machine.Path())
	first := slices.IndexFunc(dirs, func(dir string) bool {
		isThere := func(p site.EngineProgram) bool { return filepath.Dir(p.Path) == filepath.Clean(dir) }
		return slices.ContainsFunc(c.EnginePrograms(ctx), isThere)
	})
	return dirs[:max(first, 0)]
}
