package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/trust"
)

// rootModuleChecks are the checks of doctor for the root module in the working directory. Outside of one, they find
// nothing.
var rootModuleChecks = []check{
	rootModuleProblems, dataDirectory, unwritableDataDir, otherEngine, notOffered, refusedLocks, missingLocks, lockedHashes, brokenLinks,
	installedVersions, untrackedLock,
}

// rootModuleSummary counts the providers.
func rootModuleSummary(_ context.Context, c *checkup) string {
	switch {
	case !c.isRoot():
		return "no root module here"
	case c.flags.Offline && len(c.required) > 0:
		return ui.Count(len(c.required), "provider") + " required; --offline queries no source for them"
	default:
		return ui.Count(len(c.required), "provider") + " required"
	}
}

// rootModuleProblems finds errors in the configuration and the lock file, and modules that are not installed.
func rootModuleProblems(_ context.Context, c *checkup) []report.Diagnosis {
	found := findingsOf("lock-file-problem", c.lockProblems, "engines refuse the lock file")
	found = append(found, findingsOf("module-problem", c.treeProblems, "engines refuse the configuration")...)
	if err := c.missing(c.tree.Missing); err != nil {
		var calls []string
		for _, call := range c.tree.Missing {
			calls = append(calls, fmt.Sprintf("%s:%d", c.brief(c.full(call.File)), call.Line))
		}
		text := "the module that is called here is not installed"
		if len(calls) > 1 {
			text = fmt.Sprintf("%d modules are not installed, called at %s", len(calls), someOf(calls))
		}
		found = append(found, report.Diagnosis{
			Severity: report.Risky, Trap: "missing-modules", Path: c.full(c.tree.Missing[0].File), Line: c.tree.Missing[0].Line,
			Text: text,
			Why:  "the providers that they require are unknown", Fix: commandIn(sources.Hints(err)),
		})
	}
	return found
}

// commandIn returns the command in quotes in a hint, or else the hints.
func commandIn(hints []string) string {
	text := strings.Join(hints, "; ")
	begin, end := strings.Index(text, `"`), strings.LastIndex(text, `"`) // names in the command may contain quotes
	if begin < end {
		return text[begin+1 : end]
	}
	return text
}

// dataDirectory finds a data directory that root modules share, and one that is not used.
func dataDirectory(_ context.Context, c *checkup) (found []report.Diagnosis) {
	value, shared := c.machine.DataDirVariable()
	if value == "" || !c.isRoot() || c.machine.CheckDataDir(c.dir) != nil {
		return nil
	}
	if shared {
		found = append(found, report.Diagnosis{
			Severity: report.Risky, Trap: "shared-data-directory", Path: value,
			Text: fmt.Sprintf("TF_DATA_DIR names %s for every root module", c.brief(value)),
			Why:  "root modules overwrite the modules and the backend settings of each other there", Fix: "unset TF_DATA_DIR",
		})
	}
	usual := filepath.Join(c.dir, sources.DataDir)
	if exists(filepath.Join(usual, "providers")) && !within(usual, c.config.DataDir) {
		found = append(found, report.Diagnosis{
			Severity: report.Risky, Trap: "unused-data-directory", Path: usual,
			Text: fmt.Sprintf("TF_DATA_DIR names %s, so engines don't use what is installed in %s", c.brief(c.config.DataDir), c.brief(usual)),
			Fix:  "unset TF_DATA_DIR",
		})
	}
	return found
}

// unwritableDataDir finds a data directory in which this user can't create files.
func unwritableDataDir(_ context.Context, c *checkup) []report.Diagnosis {
	dir := c.config.DataDir
	for _, name := range []string{"", "providers"} {
		path := filepath.Join(dir, name)
		if reason, fix := c.refusal(dir, path); c.isRoot() && reason != "" {
			return []report.Diagnosis{{
				Severity: report.Broken, Trap: "unwritable-data-directory", Path: path,
				Text: fmt.Sprintf("the data directory %s can't be written: %s", c.brief(dir), reason),
				Why:  "nothing can be installed; sudo or a container usually created it", Fix: fix,
			}}
		}
	}
	return nil
}

// otherEngine finds a lock file that was written by, or for, another engine than the one in use.
func otherEngine(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	locked, ok := c.lock.Engine()
	if wanted := c.wantedEngine(ctx); ok && wanted.engine != "" && wanted.engine != locked {
		found = append(found, report.Diagnosis{
			Severity: report.Risky, Trap: "lock-of-other-engine", Path: c.lockPath, Line: 1,
			Text: fmt.Sprintf("%s wrote the lock file, but %s is used here: %s", engineNames[locked], engineNames[wanted.engine], wanted.because(c.brief)),
			Why:  "the engines have different registries, whose packages have different hashes", Fix: c.again("install --engine " + string(wanted.engine)),
		})
	}
	var foreign []sources.Provider
	for _, e := range c.lock.Entries() {
		own := e.Provider
		own.Host = c.config.Engine.DefaultHost()
		if e.Provider.Host.Default() && e.Provider != own && !slices.Contains(c.providers(), e.Provider) && slices.Contains(c.providers(), own) {
			if _, both := c.lock.Entry(own); !both {
				foreign = append(foreign, e.Provider)
			}
		}
	}
	if len(foreign) > 0 {
		found = append(found, report.Diagnosis{
			Severity: report.Risky, Trap: "lock-of-other-registry", Path: c.lockPath, Line: c.lock.Block(foreign[0]),
			Text: fmt.Sprintf("the lock file has %s, but %s requires the provider from %s", names(foreign), engineNames[c.config.Engine], c.config.Engine.DefaultHost()),
			Why:  "the versions that are locked there don't apply", Fix: c.again("install"),
		})
	}
	return found
}

// wantedEngine returns the engine that anything but the lock file names, and the reason.
func (c *checkup) wantedEngine(ctx context.Context) choice {
	files, _ := c.filesFor(c.dir) // an error is found with the configuration
	setting, version := nearestChoices(files)
	for _, wanted := range []choice{c.requested, setting, c.ownSetting(ctx), version, c.onlyOnPath()} {
		if wanted.engine != "" {
			return wanted
		}
	}
	return choice{}
}

// refusedLocks finds locked versions that the constraints no longer allow.
func refusedLocks(_ context.Context, c *checkup) (found []report.Diagnosis) {
	for _, r := range c.required {
		e, locked := c.lock.Entry(r.Provider)
		if !locked || r.Constraints.Allow(e.Version) || c.unavailable[r.Provider] {
			continue
		}
		d := report.Diagnosis{
			Severity: report.Broken, Trap: "locked-not-allowed", Path: c.lockPath, Line: c.lock.Block(r.Provider),
			Text: fmt.Sprintf("%s %s is locked, but the configuration requires %s", r.Provider, e.Version, r.Constraints),
			Why:  "engines refuse to use the lock file", Fix: c.again("install --upgrade"),
		}
		for _, from := range r.From {
			if own, err := sources.ParseConstraints(from.Constraint); err == nil && !own.Allow(e.Version) {
				d.Text = fmt.Sprintf("%s %s is locked, but %s:%d requires %s", r.Provider, e.Version, c.brief(from.File), from.Line, from.Constraint)
			}
		}
		found = append(found, d)
	}
	return found
}

// missingLocks finds required providers that the lock file doesn't have.
func missingLocks(_ context.Context, c *checkup) []report.Diagnosis {
	if c.tree.Partial || !c.lock.Exists && !exists(filepath.Join(c.config.DataDir, "providers")) {
		return nil
	}
	assumed, _ := lockfile.Read(c.lockPath)
	if assumed == nil {
		return nil
	}
	if c.config.Engine == sources.OpenTofu {
		assumed.Migrate()
	}
	var open []sources.Provider
	for _, p := range c.providers() {
		if _, locked := assumed.Entry(p); !locked && !c.unavailable[p] {
			open = append(open, p)
		}
	}
	if len(open) == 0 {
		return nil
	}
	d := report.Diagnosis{
		Severity: report.Risky, Trap: "not-locked", Path: c.lockPath, Text: "the lock file has no version for " + names(open),
		Why: "each run of init may choose another version, and -lockfile=readonly fails", Fix: c.again("install"),
	}
	if !c.lock.Exists {
		d.Text = "providers are installed, but there is no lock file"
	}
	return []report.Diagnosis{d}
}

// A hashFault is what is wrong with the locked hashes of a provider.
type hashFault struct {
	trap string
	line int
}

// lockedHashes finds lock entries without a hash for this platform, with hashes for one platform only, and with hashes
// that the signed checksums don't have. It queries the sources of packages whose hashes are not recorded, unless
// --offline is set.
func lockedHashes(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	faults := make([][]hashFault, len(c.required))
	memory := c.records()
	from, err := c.source(ctx)
	if c.flags.Offline || err != nil {
		from = nil
	}
	var wait sync.WaitGroup
	for i, r := range c.required {
		if e, locked := c.lock.Entry(r.Provider); locked {
			wait.Go(func() { faults[i] = c.hashFaults(ctx, e, c.knownHashes(ctx, e, memory, from)) })
		}
	}
	wait.Wait()
	byTrap := map[string][]sources.Provider{}
	lines := map[string]int{}
	for i, all := range faults {
		for _, f := range all {
			if len(byTrap[f.trap]) == 0 {
				lines[f.trap] = f.line
			}
			byTrap[f.trap] = append(byTrap[f.trap], c.required[i].Provider)
		}
	}
	here := sources.CurrentPlatform()
	for _, d := range []report.Diagnosis{
		{Severity: report.Broken, Trap: "no-hash-for-platform", Text: "no hash of %s is for " + here.String(), Why: "engines refuse the packages for this platform", Fix: c.again("lock", here)},
		{Severity: report.Risky, Trap: "no-hashes", Text: "no hashes are locked for %s", Why: "engines accept any package of the version", Fix: c.again("lock", here)},
		{
			Severity: report.Risky, Trap: "unknown-hash", Text: "the publisher's signed checksums don't contain some locked hashes of %s",
			Why: "someone may have added the hash of another package", Fix: c.again("lock --check --strict"),
		},
		{
			Severity: report.Risky, Trap: "one-platform", Text: "only hashes for one platform are locked for %s",
			Why: "engines on other platforms refuse the packages", Fix: c.again("lock", commonPlatforms(here)...),
		},
	} {
		if providers := byTrap[d.Trap]; len(providers) > 0 {
			d.Path, d.Line, d.Text = c.lockPath, lines[d.Trap], fmt.Sprintf(d.Text, names(providers))
			found = append(found, d)
		}
	}
	return found
}

// records returns the hash records of this user, or nil. What is wrong with them is found with the cache.
func (c *checkup) records() acquire.Memory {
	root := c.cacheRoot()
	if root == "" || c.flags.NoCache {
		return nil
	}
	if dir := c.config.StateDir; dir != "" {
		_, _ = c.keys.get(dir, func() (seal.Key, error) { return seal.UserKey(dir), nil }) // without the warning of recordKey
	}
	cache, err := c.openCache(root, func(o *cachedir.Options) { o.Warn = nil })
	if err != nil {
		return nil
	}
	return cache
}

// commonPlatforms returns this platform and those that most teams use.
func commonPlatforms(here sources.Platform) []sources.Platform {
	all := []sources.Platform{here}
	for _, p := range []sources.Platform{{OS: "linux", Arch: "amd64"}, {OS: "darwin", Arch: "arm64"}} {
		if p != here {
			all = append(all, p)
		}
	}
	return all
}

// A knownHashes holds the hashes of a package for this platform, and all archives in its signed checksums, as far as known.
type knownHashes struct {
	own    []sources.Hash
	signed []sources.Hash
}

// knownHashes returns what is recorded about the locked package for this platform, or what a source has. From may be nil.
func (c *checkup) knownHashes(ctx context.Context, e lockfile.Entry, memory acquire.Memory, from sources.Source) (known knownHashes) {
	id := sources.PackageID{Provider: e.Provider, Version: e.Version, Platform: sources.CurrentPlatform()}
	var evidence *sources.Signed
	if memory != nil {
		if stored, err := memory.Recall(id); err == nil {
			known.own = stored.Hashes()
		}
		evidence, _ = memory.Evidence(e.Provider, e.Version)
	}
	if len(known.own) == 0 && from != nil {
		if pkg, err := from.Package(ctx, id); err == nil {
			known.own, evidence = pkg.Hashes, pkg.Signed
			if len(known.own) == 0 {
				known.own = hashesAt(ctx, pkg.Location)
			}
		}
	}
	if evidence == nil {
		return known
	}
	if sums, err := trust.ParseSums(evidence.Sums); err == nil {
		known.signed = sums.Listed()
		if zh := sums.Archives(e.Provider, e.Version)[id.Platform]; zh != "" {
			known.own = append(known.own, zh)
		}
	}
	return known
}

// hashesAt returns the hashes of a package on this machine, or nothing if it is elsewhere or can't be read.
func hashesAt(ctx context.Context, at sources.Location) []sources.Hash {
	switch {
	case at.Dir != "":
		if contents, err := archive.Hash(ctx, at.Dir); err == nil {
			return []sources.Hash{contents.H1}
		}
	case at.Archive != "":
		if contents, zh, err := archive.Read(ctx, at.Archive); err == nil {
			return []sources.Hash{contents.ZipH1, zh}
		}
	}
	return nil
}

// hashFaults returns what is wrong with the hashes of a lock entry.
func (c *checkup) hashFaults(ctx context.Context, e lockfile.Entry, known knownHashes) (faults []hashFault) {
	block := c.lock.Block(e.Provider)
	if len(e.Hashes) == 0 {
		return []hashFault{{"no-hashes", block}}
	}
	archives := sources.AnyOf(sources.ZH, e.Hashes)
	comparable := archives && sources.AnyOf(sources.ZH, known.own) || sources.AnyOf(sources.H1, known.own)
	if comparable && !sources.MatchesAny(e.Hashes, known.own...) {
		return []hashFault{{"no-hash-for-platform", block}}
	}
	for _, h := range e.Hashes {
		if h.Scheme() == sources.ZH && len(known.signed) > 0 && !slices.Contains(known.signed, h.Canonical()) {
			faults = append(faults, hashFault{"unknown-hash", c.lock.Line(e.Provider, h)})
			break
		}
	}
	if !archives && len(e.Hashes) == 1 && c.fromRegistry(ctx, e.Provider) {
		faults = append(faults, hashFault{"one-platform", block})
	}
	return faults
}

// fromRegistry reports whether packages of a provider come from its registry, which has the hashes of all platforms.
func (c *checkup) fromRegistry(ctx context.Context, p sources.Provider) bool {
	here := slices.ContainsFunc(c.readable(), func(d mirrorDir) bool {
		all, _ := d.Providers(ctx)
		return slices.Contains(all, p)
	})
	direct := func(m cliconfig.Method) bool { return m.Kind == cliconfig.Direct && applies(m, p) }
	return !here && (c.config.Implied || slices.ContainsFunc(c.config.Methods, direct))
}

// installed returns the installed packages of the root module.
func (c *checkup) installed() *fsmirror.Mirror {
	return fsmirror.New(filepath.Join(c.config.DataDir, "providers"), fsmirror.Options{Engine: c.config.Engine})
}

// brokenLinks finds links to packages that no longer exist.
func brokenLinks(ctx context.Context, c *checkup) []report.Diagnosis {
	strays, err := c.installed().Strays(ctx)
	if err != nil || !c.isRoot() {
		return nil
	}
	var broken []string
	target := ""
	for _, s := range strays {
		if to, err := os.Readlink(s.Path); err == nil && !canStat(s.Path) {
			broken = append(broken, strings.TrimPrefix(filepath.ToSlash(c.brief(filepath.Dir(s.Path))), filepath.ToSlash(c.brief(c.config.DataDir))+"/providers/"))
			target = to
		}
	}
	if len(broken) == 0 {
		return nil
	}
	return []report.Diagnosis{{
		Severity: report.Broken, Trap: "broken-link", Path: filepath.Join(c.config.DataDir, "providers"),
		Text: fmt.Sprintf("installed providers are links to packages that no longer exist: %s", someOf(broken)),
		Why:  fmt.Sprintf("engines can't start them; %s was removed or moved", c.brief(target)), Fix: c.again("install"),
	}}
}

// canStat reports whether a path leads to something.
func canStat(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// installedVersions finds installed packages of other versions or platforms than the locked ones.
func installedVersions(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	all, err := c.installed().Packages(ctx)
	if err != nil || len(all) == 0 {
		return nil
	}
	for _, pkg := range all {
		if d := c.packageFault(pkg.ID, pkg.Location); d != nil {
			d.Fix = c.again("install")
			found = append(found, *d)
		}
	}
	var differ []string
	for _, p := range c.providers() {
		e, locked := c.lock.Entry(p)
		var instead []string
		fits := !locked
		for _, pkg := range all {
			if pkg.ID.Provider == p {
				fits = fits || pkg.ID.Version == e.Version && pkg.ID.Platform == sources.CurrentPlatform()
				instead = append(instead, fmt.Sprintf("%s %s", pkg.ID.Version, pkg.ID.Platform))
			}
		}
		switch {
		case fits:
		case len(instead) == 0:
			differ = append(differ, fmt.Sprintf("%s %s is not installed", p, e.Version))
		default:
			differ = append(differ, fmt.Sprintf("%s %s is locked, and %s installed", p, e.Version, ui.Some(instead, 1)))
		}
	}
	if len(differ) > 0 {
		found = append(found, report.Diagnosis{
			Severity: report.Risky, Trap: "installed-differs", Path: filepath.Join(c.config.DataDir, "providers"),
			Text: someOf(differ), Why: "plan and apply fail until the locked packages are installed", Fix: c.again("install"),
		})
	}
	return found
}

// notOffered finds required providers that no source has in an allowed version, and sources that fail. It queries all
// sources, unless --offline is set.
func notOffered(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	from, err := c.source(ctx)
	if c.flags.Offline || err != nil {
		return nil
	}
	all := make([]report.Diagnosis, len(c.required))
	causes := make([]string, len(c.required))
	var wait sync.WaitGroup
	for i, r := range c.required {
		if !c.config.Implied && !slices.ContainsFunc(c.config.Methods, func(m cliconfig.Method) bool { return applies(m, r.Provider) }) {
			continue // found with the configuration
		}
		wait.Go(func() { all[i], causes[i] = c.offerFault(ctx, from, r) })
	}
	wait.Wait()
	seen := map[string]int{}
	for i, d := range all {
		if d.Trap == "" {
			continue
		}
		c.unavailable[c.required[i].Provider] = true
		if at, again := seen[causes[i]]; again && causes[i] != "" {
			if !strings.Contains(found[at].Why, "also for") {
				found[at].Why += "; also for " + c.required[i].Provider.String()
			} else {
				found[at].Why += ", " + c.required[i].Provider.String()
			}
			continue
		}
		seen[causes[i]] = len(found)
		found = append(found, d)
	}
	return found
}

// offerFault returns why no allowed version of a provider is offered, or nothing. Findings with the same cause are one.
func (c *checkup) offerFault(ctx context.Context, from sources.Source, r sources.Requirement) (d report.Diagnosis, cause string) {
	listing, err := from.Versions(ctx, r.Provider)
	d = report.Diagnosis{Severity: report.Broken, Path: c.dir}
	if len(r.From) > 0 {
		d.Path, d.Line = r.From[0].File, r.From[0].Line
	}
	if err != nil {
		if slices.ContainsFunc(c.unusable, func(dir string) bool { return strings.Contains(err.Error(), dir) }) {
			return report.Diagnosis{}, "" // found with the mirrors
		}
		hints := sources.Hints(c.explain(err))
		d.Trap, d.Text, d.Why, d.Fix = "source-fails", sources.Text(err), "an engine fails if one of the sources doesn't answer", "larder doctor "+c.serverOf(r.Provider)
		cause = sources.Cause(err)
		if errors.Is(err, sources.ErrNotFound) {
			d.Trap, d.Why = "not-offered", "no configured source has the provider"
			missing, _ := errors.AsType[*sources.NotFoundError](err)
			switch {
			case len(hints) > 0:
				d.Fix = strings.Join(hints, "; ")
			case missing != nil && missing.Moved != (sources.Provider{}):
				d.Fix = fmt.Sprintf("write source = %q in required_providers of every module that uses it", missing.Moved)
			case r.Provider.Implied(c.config.Engine):
				d.Fix = fmt.Sprintf("if it is not HashiCorp's, write source = \"NAMESPACE/%s\" in required_providers of every module that uses it", r.Provider.Type)
			}
			return d, ""
		}
		d.Why = strings.Join(append([]string{d.Why}, hints...), "; ")
		return d, cause
	}
	newest, ok := r.Constraints.Newest(listing.Versions)
	switch {
	case c.hiding[r.Provider] != "":
		return report.Diagnosis{}, ""
	case ok:
		return c.platformFault(ctx, from, r, newest, listing, d), ""
	}
	d.Trap, d.Why = "no-version", "engines can't install the provider"
	d.Text = fmt.Sprintf("no version of %s matches %q", r.Provider, r.Constraints)
	d.Fix = "correct the constraint, or the source of the provider"
	if len(listing.Versions) > 0 {
		d.Text += fmt.Sprintf("; the newest is %s", newestOf(listing.Versions))
	}
	return d, ""
}

// platformFault returns d as the finding that the version to install has no package for this platform, or nothing.
func (c *checkup) platformFault(ctx context.Context, from sources.Source, r sources.Requirement, v sources.Version, l sources.Listing, d report.Diagnosis) report.Diagnosis {
	here := sources.CurrentPlatform()
	if e, locked := c.lock.Entry(r.Provider); locked && r.Constraints.Allow(e.Version) {
		v = e.Version
	}
	lacks := !l.Details[v].For(here)
	if l.Details[v].Platforms == nil {
		_, err := from.Package(ctx, sources.PackageID{Provider: r.Provider, Version: v, Platform: here})
		lacks = errors.Is(err, sources.ErrNoPlatform)
	}
	if !lacks {
		return report.Diagnosis{}
	}
	d.Trap, d.Text = "no-platform", fmt.Sprintf("%s %s has no package for %s", r.Provider, v, here)
	d.Why = "engines choose a version before they look for its packages, and then fail"
	d.Fix = fmt.Sprintf("larder versions %s shows the platforms of each version", r.Provider)
	others := slices.DeleteFunc(slices.Clone(l.Versions), func(v sources.Version) bool { return len(l.Details[v].Platforms) == 0 || !l.Details[v].For(here) })
	if other, ok := r.Constraints.Newest(others); ok {
		d.Fix = fmt.Sprintf("require version = %q, which has one", other)
	}
	return d
}

// serverOf returns the server that is queried first for a provider: a network mirror, or the origin registry.
func (c *checkup) serverOf(p sources.Provider) string {
	for _, m := range c.config.Methods {
		if m.Kind == cliconfig.NetworkMirror && applies(m, p) {
			return shellQuoted(fetch.Redact(m.URL))
		}
	}
	return string(p.Host)
}

// maxIgnoreFile and maxIndex limit the files of git that are read, in bytes.
const (
	maxIgnoreFile = 1 << 20
	maxIndex      = 64 << 20
)

// untrackedLock finds a .gitignore that keeps the lock file out of the repository.
func untrackedLock(_ context.Context, c *checkup) []report.Diagnosis {
	top := c.repository(resolve(c.dir))
	if top == "" || !c.isRoot() || len(c.required) == 0 {
		return nil
	}
	file, line := ignoredBy(resolve(c.dir), top)
	if file == "" {
		return nil
	}
	relative, _ := filepath.Rel(top, filepath.Join(resolve(c.dir), lockfile.Name))
	if index, err := disk.ReadFile(filepath.Join(top, ".git", "index"), maxIndex); err == nil && strings.Contains(string(index), filepath.ToSlash(relative)) {
		return nil
	}
	return []report.Diagnosis{{
		Severity: report.Risky, Trap: "ignored-lock-file", Path: file, Line: line, Text: "git ignores the lock file because of this line",
		Why: "on other machines, other versions are installed, and no hash protects them", Fix: "remove the line, and run: git add " + lockfile.Name,
	}}
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
