package ask

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// rootModuleChecks are the checks of doctor for the root module in the working directory. Outside of one, they find
// nothing.
var rootModuleChecks = []check{tryInstall, lockOfOtherRegistry, lockedHashes, tryVerify, untrackedLock}

// rootModuleSummary counts the providers.
func rootModuleSummary(_ context.Context, c *checkup) string {
	if c.tree.Empty && !c.Lock.Exists {
		return "no root module here"
	}
	return ui.Count(len(c.required), "provider") + " required"
}

// tryInstall installs the providers of the root module without changing anything, and opens the directories that an
// installation writes to. It queries all sources, unless --offline is set.
func tryInstall(ctx context.Context, c *checkup) {
	if c.fails {
		c.left = append(c.left, "Installation not tried because of these failures")
		return
	}
	if len(c.required) > 0 {
		c.Output.Fail(ctx, cachedir.Unwritable(filepath.Join(c.Config.DataDir, "providers"), true))
	}
	in := &job.Installation{Site: c.Site}
	_, err := in.At(ctx, c.Dir, c.Output)
	errs := slices.DeleteFunc(sources.Errors(err), func(err error) bool { return errors.Is(err, sources.ErrOffline) })
	c.Output.Fail(ctx, errors.Join(errs...))
	if c.Flags.Offline {
		c.left = append(c.left, "No source queried: --offline")
	}
}

// tryVerify verifies the installed packages, by their records where these are valid.
func tryVerify(ctx context.Context, c *checkup) {
	if c.fails || !c.Lock.Exists || !site.Exists(filepath.Join(c.Config.DataDir, "providers")) {
		return
	}
	v := &job.Verifying{Site: c.Site, Refused: map[string]error{}}
	found, err := v.Check(ctx, c.Root)
	c.Output.Fail(ctx, err)
	for _, f := range found {
		c.add(report.Diagnosis{Severity: report.Broken, Trap: report.ErrorFinding, Path: f.Path, Text: f.Text(c.Output), Fix: v.Hint()})
	}
}

// lockOfOtherRegistry finds a lock file whose providers are those of another engine's registry.
func lockOfOtherRegistry(_ context.Context, c *checkup) {
	var foreign []sources.Provider
	for _, e := range c.Lock.Entries() {
		own := e.Provider
		own.Host = c.Config.Engine.DefaultHost()
		_, both := c.Lock.Entry(own)
		if e.Provider.Host.Default() && !both && !slices.Contains(c.providers(), e.Provider) && slices.Contains(c.providers(), own) {
			foreign = append(foreign, e.Provider)
		}
	}
	if len(foreign) > 0 {
		c.add(report.Diagnosis{
			Trap: "lock-of-other-registry", Path: c.LockPath, Line: c.Lock.Block(foreign[0]),
			Text: fmt.Sprintf("the lock file has %s, but %s requires the provider from %s", names(foreign), engineNames[c.Config.Engine], c.Config.Engine.DefaultHost()),
			Why:  "the versions that are locked there don't apply", Fix: c.Again("install"),
		})
	}
}

// lockedHashes finds lock entries that have no hash of the recorded package for this platform, or hashes for one platform only.
func lockedHashes(ctx context.Context, c *checkup) {
	here, memory := sources.CurrentPlatform(), c.Memory()
	for _, r := range c.required {
		e, locked := c.Lock.Entry(r.Provider)
		var known sources.Stored
		if memory != nil {
			known, _ = memory.Recall(site.PackageOf(e))
		}
		d := report.Diagnosis{Path: c.LockPath, Line: c.Lock.Block(r.Provider)}
		switch {
		case !locked || len(e.Hashes) == 0:
			continue
		case !c.fails && known.H1 != "" && !sources.MatchesAny(e.Hashes, known.Hashes()...):
			d.Severity, d.Trap, d.Fix = report.Broken, "no-hash-for-platform", c.Again("lock", here)
			d.Text, d.Why = fmt.Sprintf("no hash of %s is for %s", r.Provider, here), "engines refuse the packages for this platform"
		case !sources.AnyOf(sources.ZH, e.Hashes) && len(e.Hashes) == 1 && c.fromRegistry(ctx, r.Provider):
			d.Trap, d.Fix = "one-platform", c.Again("lock")+" --platform OS_ARCH, for each platform that you use"
			d.Text, d.Why = fmt.Sprintf("only hashes for one platform are locked for %s", r.Provider), "engines on other platforms refuse the packages"
		default:
			continue
		}
		c.add(d)
	}
}

// fromRegistry reports whether packages of a provider come from its registry, which has the hashes of all platforms.
func (c *checkup) fromRegistry(ctx context.Context, p sources.Provider) bool {
	here := slices.ContainsFunc(c.mirrorDirs(), func(dir string) bool {
		all, _ := c.Mirror(dir).Providers(ctx)
		return slices.Contains(all, p)
	})
	direct := func(m cliconfig.Method) bool { return m.Kind == cliconfig.Direct && site.Applies(m, p) }
	return !here && (c.Config.Implied || slices.ContainsFunc(c.Config.Methods, direct))
}

// maxIgnoreFile and maxIndex limit the files of git that are read, in bytes.
const (
	maxIgnoreFile = 1 << 20
	maxIndex      = 64 << 20
)

// untrackedLock finds a .gitignore that keeps the lock file out of the repository.
func untrackedLock(_ context.Context, c *checkup) {
	dir := site.Resolve(c.Dir)
	top := c.Repository(dir)
	if top == "" || len(c.required) == 0 {
		return
	}
	file, line := ignoredBy(dir, top)
	relative, _ := filepath.Rel(top, filepath.Join(dir, lockfile.Name))
	index, _ := disk.ReadFile(filepath.Join(top, ".git", "index"), maxIndex)
	if file != "" && !strings.Contains(string(index), filepath.ToSlash(relative)) {
		c.add(report.Diagnosis{
			Trap: "ignored-lock-file", Path: file, Line: line, Text: "git ignores the lock file because of this line",
			Why: "on other machines, other versions are installed, and no hash protects them", Fix: "remove the line, and run: git add " + lockfile.Name,
		})
	}
}

// ignoredBy returns the file and line that make git ignore the lock file in dir. It understands patterns of one name,
// which are the usual ones.
func ignoredBy(dir, top string) (file string, line int) {
	for at := dir; ; at = filepath.Dir(at) {
		text, _ := disk.ReadFile(filepath.Join(at, ".gitignore"), maxIgnoreFile)
		n, last := 0, 0
		for row := range strings.Lines(string(text)) {
			n++
			pattern, negated := strings.CutPrefix(strings.TrimSpace(row), "!")
			pattern = strings.TrimPrefix(pattern, "**/")
			if rooted, ok := strings.CutPrefix(pattern, "/"); ok && at == dir {
				pattern = rooted
			}
			if matches, err := path.Match(pattern, lockfile.Name); err != nil || !matches {
				continue
			}
			if last = n; negated {
				last = -1
			}
		}
		switch {
		case last > 0:
			return filepath.Join(at, ".gitignore"), last
		case last < 0 || at == top || at == filepath.Dir(at):
			return "", 0
		}
	}
}
