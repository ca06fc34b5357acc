package ask

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
)

// mirrorChecks are the checks of doctor for directories with providers on this machine.
var mirrorChecks = []check{readMirrors, unsearchedDirs, hiddenVersions, cacheAndMirror}

// mirrorsSummary names the directories.
func mirrorsSummary(_ context.Context, c *checkup) string {
	var short []string
	for _, dir := range c.mirrorDirs() {
		short = append(short, c.Brief(dir))
	}
	return cmp.Or(ui.Some(short, 3), "no directory here has providers")
}

// mirrorDirs returns the directories that engines search, those that a configuration names first.
func (c *checkup) mirrorDirs() (all []string) {
	for _, m := range c.Config.Methods {
		if m.Kind == cliconfig.FilesystemMirror {
			all = append(all, m.Path)
		}
	}
	return append(all, c.impliedDirs()...)
}

// impliedDirs returns the directories that engines search because no configuration has installation methods.
func (c *checkup) impliedDirs() []string {
	if !c.Config.Implied {
		return nil
	}
	return c.Config.ImpliedDirs()
}

// readMirrors reads the mirrors. It finds files that engines silently ignore, packages that they can't start, and
// directories in which others can put packages.
func readMirrors(ctx context.Context, c *checkup) {
	for _, dir := range c.mirrorDirs() {
		mirror := c.Mirror(dir)
		strays, err := mirror.Strays(ctx)
		if err != nil {
			c.Output.Fail(ctx, err)
			continue
		}
		for _, s := range strays {
			d := report.Diagnosis{Trap: "ignored-file", Path: s.Path, Text: s.String(), Fix: "move or rename it, so that its path is HOST/NAMESPACE/TYPE/VERSION/OS_ARCH"}
			if strings.Contains(s.Reason, "0.12") {
				d.Fix = fmt.Sprintf("larder import %s --to %s --namespace terraform.local/local", c.word(dir), c.word(dir+"-imported"))
			}
			if !s.Leaves { // the installation warns about the others
				c.add(d)
			}
		}
		packages, _ := mirror.Packages(ctx)
		exposed := site.Exposure{}
		for _, p := range packages {
			at := p.Location.Dir + p.Location.Archive
			if exposed.At == "" {
				exposed = site.ExposureOf(at, func(fs.FileInfo) bool { return false }) // somebody else may own a mirror
			}
			if p.Location.Dir == "" || p.ID.Platform != sources.CurrentPlatform() {
				continue
			}
			if err := archive.Startable(at, p.ID); err != nil {
				c.add(report.Diagnosis{
					Severity: report.Broken, Trap: "not-executable", Path: at, Text: fmt.Sprintf("%s: %v", c.Brief(at), err),
					Why: "engines link the package, and then fail to start the provider", Fix: "larder mirror verify " + c.word(dir),
				})
			}
		}
		if exposed.At != "" {
			c.add(report.Diagnosis{
				Trap: "writable-mirror", Path: exposed.At, Text: exposed.Who + c.Brief(exposed.At), Fix: exposed.Fix,
				Why: "engines run the programs in a mirror without verifying a signature",
			})
		}
	}
}

// unsearchedDirs finds directories with packages that engines don't search.
func unsearchedDirs(ctx context.Context, c *checkup) {
	has := func(dir string) int {
		all, _ := fsmirror.New(dir, fsmirror.Options{Engine: c.Config.Engine}).Packages(ctx)
		return len(all)
	}
	if !c.Config.Implied {
		place, _ := c.Config.Setting("provider_installation")
		for _, dir := range c.Config.ImpliedDirs() {
			named := slices.ContainsFunc(c.mirrorDirs(), func(other string) bool { return site.Resolve(other) == site.Resolve(dir) })
			if n := has(dir); n > 0 && !named {
				d := report.Diagnosis{
					Trap: "unsearched-directory", Path: place.From.File, Line: place.From.Line,
					Text: fmt.Sprintf("engines ignore %s in %s: provider_installation replaces the implied directories", ui.Count(n, "package"), c.Brief(dir)),
					Fix:  fmt.Sprintf("add filesystem_mirror { path = %s } to the block", job.QuotedPath(dir)),
				}
				if c.CheckedOut(dir) { // otherwise all root modules would use the packages of this checkout
					d.Fix = "to use them in this root module only: " + c.Again("install") + " --plugin-dir " + c.word(dir)
				}
				c.add(d)
			}
		}
	}
	for _, pair := range c.Config.UnsearchedDirs() {
		if n := has(pair[0]); n > 0 {
			c.add(report.Diagnosis{
				Trap: "unsearched-directory", Path: pair[0],
				Text: fmt.Sprintf("engines don't search %s, which has %s", c.Brief(pair[0]), ui.Count(n, "package")),
				Fix:  fmt.Sprintf("mkdir -p %s && mv %s/* %[1]s/", c.word(pair[1]), c.word(pair[0])),
			})
		}
	}
}

// maxQueried limits how many providers of a directory a registry is queried for.
const maxQueried = 10

// hiddenVersions finds newer versions in the registry that implied directories hide. It queries the origin registries,
// unless --offline is set.
func hiddenVersions(ctx context.Context, c *checkup) {
	if c.Flags.Offline {
		return // the output ends with what was not queried
	}
	for _, dir := range c.impliedDirs() {
		packages, _ := c.Mirror(dir).Packages(ctx)
		here := map[sources.Provider][]sources.Version{}
		var providers []sources.Provider
		for _, p := range packages {
			if here[p.ID.Provider] == nil {
				providers = append(providers, p.ID.Provider)
			}
			here[p.ID.Provider] = append(here[p.ID.Provider], p.ID.Version)
		}
		slices.SortStableFunc(providers, func(a, b sources.Provider) int { // the required ones first
			required := c.providers()
			return strings.Compare(fmt.Sprint(!slices.Contains(required, a)), fmt.Sprint(!slices.Contains(required, b)))
		})
		providers = providers[:min(len(providers), maxQueried)]
		newest := make([]sources.Version, len(providers))
		var wait sync.WaitGroup
		for i, p := range providers {
			wait.Go(func() {
				if listing, err := c.Registry().Versions(ctx, p); err == nil {
					var allowed sources.Constraints
					for _, r := range c.required {
						if r.Provider == p {
							allowed = allowed.And(r.Constraints)
						}
					}
					newest[i], _ = allowed.Newest(listing.Versions)
				}
			})
		}
		wait.Wait()
		for i, p := range providers {
			if newest[i] != (sources.Version{}) && newest[i].Compare(newestOf(here[p])) > 0 {
				at := filepath.Join(dir, string(p.Host), p.Namespace, p.Type)
				c.add(report.Diagnosis{
					Trap: "hidden-versions", Path: dir, Why: "engines query no registry for the providers in this directory",
					Text: fmt.Sprintf("%s hides %s %s in the registry: it has only %s", c.Brief(dir), p, newest[i], newestOf(here[p])),
					Fix:  fmt.Sprintf("mv %s %s", c.word(at), c.word(filepath.Join(filepath.Dir(dir), p.Type))),
				})
			}
		}
	}
}

// cacheAndMirror finds plugin caches in mirrors, and mirrors in plugin caches.
func cacheAndMirror(_ context.Context, c *checkup) {
	for _, cache := range c.cacheDirs() {
		for _, dir := range c.mirrorDirs() {
			text := ""
			switch {
			case site.Within(cache, dir) && site.Within(dir, cache):
				text = "the plugin cache %s is a mirror too"
			case site.Within(cache, dir):
				text = "the plugin cache %s is inside the mirror " + c.Brief(dir)
			case site.Within(dir, cache):
				text = "the mirror " + c.Brief(dir) + " is inside the plugin cache %s"
			default:
				continue
			}
			c.add(report.Diagnosis{
				Severity: report.Broken, Trap: "cache-in-mirror", Path: cache, Text: fmt.Sprintf(text, c.Brief(cache)),
				Why: "engines install from their own cache instead of the registry, and overwrite or lose packages",
				Fix: c.otherCache(cache, "a directory elsewhere"),
			})
		}
	}
}
