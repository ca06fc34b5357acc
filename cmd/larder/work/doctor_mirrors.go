package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
)

// mirrorChecks are the checks of doctor for directories with providers on this machine.
var mirrorChecks = []check{
	missingMirrors, relativeMirrors, emptyMirrors, unsearchedDirs, ignoredFiles, ignoredNames, misplacedExecutables,
	brokenMirrorPackages,
	otherPlatforms, hiddenVersions, cacheAndMirror, writableMirrors,
}

// mirrorsSummary counts the directories.
func mirrorsSummary(_ context.Context, c *checkup) string {
	switch all := c.mirrorDirs(); len(all) {
	case 0:
		return "no directory here has providers"
	case 1:
		return c.brief(all[0].dir)
	default:
		return fmt.Sprintf("%d directories", len(all))
	}
}

// A mirrorDir is a directory that engines search for providers.
type mirrorDir struct {
	*fsmirror.Mirror
	dir    string
	method *cliconfig.Method // that names it; nil for an implied directory
}

// place returns the file and line that name the directory, or the directory itself.
func (d mirrorDir) place() (path string, line int) {
	if d.method == nil {
		return d.dir, 0
	}
	return d.method.File, d.method.Line
}

// mirrorDirs returns the directories that engines search, those that a configuration names first.
func (c *checkup) mirrorDirs() (all []mirrorDir) {
	for i, m := range c.config.Methods {
		if m.Kind == cliconfig.FilesystemMirror {
			all = append(all, mirrorDir{c.mirror(m.Path), m.Path, &c.config.Methods[i]})
		}
	}
	if c.config.Implied {
		for _, dir := range c.config.ImpliedDirs() {
			all = append(all, mirrorDir{c.mirror(dir), dir, nil})
		}
	}
	return all
}

// readable returns the directories of [checkup.mirrorDirs] that can be read.
func (c *checkup) readable() []mirrorDir {
	return slices.DeleteFunc(c.mirrorDirs(), func(d mirrorDir) bool { return slices.Contains(c.unusable, d.dir) })
}

// missingMirrors finds configured mirrors that don't exist or can't be read.
func missingMirrors(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	for _, d := range c.mirrorDirs() {
		_, err := d.Providers(ctx)
		if err == nil {
			continue
		}
		c.unusable = append(c.unusable, d.dir)
		path, line := d.place()
		f := report.Diagnosis{
			Severity: report.Broken, Trap: "unreadable-mirror", Path: path, Line: line, Text: sources.Text(err),
			Why: "engines can't install any provider of this mirror, not even from another method", Fix: "check it with: ls -ld " + c.word(d.dir),
		}
		if _, err := os.Lstat(d.dir); os.IsNotExist(err) {
			f.Text = fmt.Sprintf("the mirror %s does not exist", c.brief(d.dir))
			f.Fix = "mkdir -p " + c.word(d.dir)
			if near := c.nearestDir(d.dir); near != "" {
				f.Fix = "write path = " + quotedPath(near)
			}
		}
		found = append(found, f)
	}
	return found
}

// relativeMirrors finds mirrors whose place depends on the root module.
func relativeMirrors(_ context.Context, c *checkup) (found []report.Diagnosis) {
	for i, m := range c.config.Methods {
		written, relative := c.config.ConfiguredRelatively(i)
		if m.Kind != cliconfig.FilesystemMirror || !relative || slices.Contains(c.unusable, m.Path) {
			continue
		}
		found = append(found, report.Diagnosis{
			Severity: report.Risky, Trap: "relative-mirror", Path: m.File, Line: m.Line,
			Text: fmt.Sprintf("the path %q of a mirror starts from the directory of each root module", written),
			Why:  "in other directories, engines can't install any provider of this mirror", Fix: "write path = " + quotedPath(m.Path),
		})
	}
	return found
}

// emptyMirrors finds mirrors without a package, and where the packages are.
func emptyMirrors(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	for _, d := range c.readable() {
		if all, err := d.Packages(ctx); err != nil || len(all) > 0 {
			continue
		}
		path, line := d.place()
		f := report.Diagnosis{
			Severity: report.Risky, Trap: "empty-mirror", Path: path, Line: line,
			Text: fmt.Sprintf("%s contains no package that engines can use", c.brief(d.dir)),
			Fix:  fmt.Sprintf("larder mirror sync %s", c.word(d.dir)),
		}
		switch base := c.baseNear(ctx, d.dir); {
		case base != "" && d.method != nil:
			f.Severity = report.Broken
			f.Text = fmt.Sprintf("%s is not the top of a mirror, but %s is", c.brief(d.dir), c.brief(base))
			f.Why, f.Fix = "engines expect HOST/NAMESPACE/TYPE below the path, and ignore everything else", "write path = "+quotedPath(base)
		case base != "":
			f.Severity = report.Broken
			f.Text = fmt.Sprintf("the packages in %s are nested too deep: engines expect the hosts in %s", c.brief(base), c.brief(d.dir))
			f.Fix = fmt.Sprintf("mv %s/* %s/", c.word(base), c.word(d.dir))
		case d.method == nil:
			continue // many machines have such a directory
		case !c.hasStrays(ctx, d): // otherwise found below
			f.Why = "engines get nothing from this method"
			found = append(found, f)
			continue
		default:
			continue
		}
		found = append(found, f)
	}
	return found
}

// hasStrays reports whether a mirror has files that engines ignore.
func (c *checkup) hasStrays(ctx context.Context, d mirrorDir) bool {
	strays, err := d.Strays(ctx)
	return err == nil && len(strays) > 0
}

// maxTried limits how many directories are tried as the top of a mirror.
const maxTried = 200

// baseNear returns the top of the mirror that a directory is in or contains, or "" if there is none.
func (c *checkup) baseNear(ctx context.Context, dir string) string {
	tried := 0
	isBase := func(candidate string) bool {
		tried++
		all, err := fsmirror.New(candidate, fsmirror.Options{Engine: c.config.Engine}).Packages(ctx)
		return err == nil && slices.ContainsFunc(all, func(p fsmirror.Package) bool {
			at := p.Location.Dir + p.Location.Archive
			host, _, _ := strings.Cut(strings.TrimPrefix(at, candidate+string(filepath.Separator)), string(filepath.Separator))
			return strings.Contains(host, ".") && (isBelow(at, dir))
		})
	}
	for parent := filepath.Dir(dir); tried < 3 && parent != filepath.Dir(parent) && parent != c.config.Home(); parent = filepath.Dir(parent) {
		if entries, err := os.ReadDir(parent); err == nil && len(entries) < maxTried && isBase(parent) {
			return parent
		}
	}
	var below string
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		depth := strings.Count(strings.TrimPrefix(path, dir), string(filepath.Separator))
		switch {
		case err != nil || !e.IsDir() || depth > 3:
			return fs.SkipDir
		case ctx.Err() != nil || tried > maxTried:
			return fs.SkipAll
		case path != dir && isBase(path):
			below = path
			return fs.SkipAll
		}
		return nil
	})
	return below
}

// unsearchedDirs finds directories with packages that engines don't search.
func unsearchedDirs(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	has := func(dir string) int {
		all, err := fsmirror.New(dir, fsmirror.Options{Engine: c.config.Engine}).Packages(ctx)
		if err != nil {
			return 0
		}
		return len(all)
	}
	file, line := c.placeOf("provider_installation", "")
	if !c.config.Implied {
		for _, dir := range c.config.ImpliedDirs() {
			named := slices.ContainsFunc(c.config.Methods, func(m cliconfig.Method) bool { return m.Path != "" && resolve(m.Path) == resolve(dir) })
			if n := has(dir); n > 0 && !named {
				d := report.Diagnosis{
					Severity: report.Risky, Trap: "unsearched-directory", Path: file, Line: line,
					Text: fmt.Sprintf("engines ignore %s in %s: provider_installation replaces the implied directories", ui.Count(n, "package"), c.brief(dir)),
					Fix:  fmt.Sprintf("add filesystem_mirror { path = %s } to the block", quotedPath(dir)),
				}
				if c.checkedOut(dir) { // otherwise all root modules would use the packages of this checkout
					d.Fix = "to use them in this root module only: " + c.again("install") + " --plugin-dir " + c.word(dir)
				}
				found = append(found, d)
			}
		}
	}
	for _, pair := range c.config.UnsearchedDirs() {
		if n := has(pair[0]); n > 0 {
			d := report.Diagnosis{
				Severity: report.Risky, Trap: "unsearched-directory", Path: pair[0],
				Text: fmt.Sprintf("engines don't search %s, which has %s", c.brief(pair[0]), ui.Count(n, "package")),
				Fix:  fmt.Sprintf("mkdir -p %s && mv %s/* %[1]s/", c.word(pair[1]), c.word(pair[0])),
			}
			found = append(found, d)
		}
	}
	return found
}

// ignoredFiles finds files that engines silently ignore. Those of one kind are one finding, with the command that puts
// the first of them right.
func ignoredFiles(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	for _, d := range c.readable() {
		strays, err := d.Strays(ctx)
		if err != nil {
			continue
		}
		var kinds []string
		groups := map[string][]fsmirror.Stray{}
		fixes := map[string][]string{}
		for _, s := range strays {
			if s.Leaves {
				_, _ = c.warned.get(s.String(), func() (bool, error) { return true, nil }) // the finding replaces the warning
			}
			kind, fix := c.strayKind(ctx, d, s)
			if groups[kind] == nil {
				kinds = append(kinds, kind)
			}
			groups[kind] = append(groups[kind], s)
			taken := func(other string) bool { // or its destination is
				return other == fix || !strings.HasSuffix(fix, "/") && lastWord(other) == lastWord(fix)
			}
			if len(fixes[kind]) < mostNames && !slices.ContainsFunc(fixes[kind], taken) {
				fixes[kind] = append(fixes[kind], fix)
			}
		}
		for _, kind := range kinds {
			what, where := entriesOf(d.dir, groups[kind])
			text := fmt.Sprintf("%s %s", c.brief(groups[kind][0].Path), kind)
			if len(where) > 1 {
				text = fmt.Sprintf("%d %s in %s are ignored, because each %s: %s", len(where), what, c.brief(d.dir), kind, someOf(where))
			}
			f := report.Diagnosis{
				Severity: report.Risky, Trap: "ignored-file", Path: groups[kind][0].Path, Text: text,
				Why: "engines silently ignore files that are not in the layout of a mirror", Fix: strings.Join(fixes[kind], " && "),
			}
			if len(where) > mostNames && len(fixes[kind]) > 1 {
				f.Fix = fixes[kind][0]
				f.Why += "; move the others in the same way"
			}
			if strings.HasSuffix(f.Fix, anyNamespace) {
				f.Why += "; their names contain no namespace, so choose one"
			}
			found = append(found, f)
		}
	}
	return found
}

// lastWord returns what follows the last space in a command, such as the destination of mv.
func lastWord(command string) string { return command[strings.LastIndexByte(command, ' ')+1:] }

// entriesOf returns the files and directories that engines ignore, relative to a mirror, and what they are. It lists
// the files of a directory at the top: Terraform 0.12 had one for each platform.
func entriesOf(dir string, strays []fsmirror.Stray) (what string, where []string) {
	what = "files"
	for _, s := range strays {
		rel, _ := filepath.Rel(dir, s.Path)
		inside, err := os.ReadDir(s.Path)
		switch {
		case err != nil:
			where = append(where, filepath.ToSlash(rel))
		case filepath.Dir(rel) == ".":
			for _, e := range inside {
				where = append(where, filepath.ToSlash(filepath.Join(rel, e.Name())))
			}
		default:
			what = "files and directories"
			where = append(where, filepath.ToSlash(rel))
		}
	}
	return what, where
}

// strayKind returns what is wrong with a file in a mirror, to complete a sentence about it, and what fixes it.
func (c *checkup) strayKind(ctx context.Context, d mirrorDir, s fsmirror.Stray) (kind, fix string) {
	dir, name := filepath.Split(s.Path)
	rename := func(to string) string {
		if to = filepath.Join(dir, to); exists(to) {
			return fmt.Sprintf("compare it with %s, and remove one of them", c.brief(to))
		}
		return fmt.Sprintf("mv %s %s", c.word(s.Path), c.word(to))
	}
	top := filepath.Clean(dir) == filepath.Clean(d.dir)
	_, platformErr := sources.ParsePlatform(name)
	relative, _ := filepath.Rel(d.dir, s.Path)
	parts := strings.Split(filepath.ToSlash(relative), "/")
	lower := strings.ToLower(name)
	typ := filepath.Base(filepath.Clean(dir))
	switch info, _ := os.Lstat(s.Path); {
	case top && (strings.HasPrefix(name, sources.FilePrefix) || platformErr == nil):
		return "is in the layout of Terraform 0.12", c.importLine(d.dir)
	case s.Leaves:
		return "leads out of the mirror, which is part of the checkout", "replace the link with a copy of the package"
	case info != nil && disk.IsLink(info.Mode()):
		return "is a symlink, and engines follow only symlinks to packages", "replace the link with the directory that it leads to"
	case len(parts) == 3 && isVersion(parts[2]) && !strings.Contains(parts[0], "."):
		host := filepath.Join(d.dir, string(c.config.Engine.DefaultHost()))
		return "is at a path without a host", fmt.Sprintf("mkdir -p %s && mv %s %[1]s/", c.word(host), c.word(filepath.Join(d.dir, parts[0])))
	case len(parts) == 3 && strings.HasPrefix(name, sources.FilePrefix) && name != sources.FilePrefix:
		return "is not named after the provider alone", rename(strings.TrimPrefix(name, sources.FilePrefix))
	case strings.Contains(s.Reason, "directory of a version"):
		return "is in the directory of a version", fmt.Sprintf("mv %s %s/", c.word(s.Path), c.word(filepath.Dir(filepath.Clean(dir))))
	case len(name) > 1 && (name[0] == 'v' || name[0] == 'V') && isVersion(name[1:]):
		return "has a \"v\" before the version", rename(name[1:])
	case strings.HasPrefix(lower, sources.FilePrefix+typ+"_v") && strings.HasSuffix(lower, ".zip"):
		return "has a \"v\" before the version", rename(sources.FilePrefix + typ + "_" + lower[len(sources.FilePrefix+typ+"_v"):])
	case strings.HasSuffix(lower, ".zip") && (info == nil || info.Mode().IsRegular()):
		if other, v, platform, ok := fsmirror.ParseArchiveName(name); ok && other != typ {
			return "is not named after the provider", rename(fmt.Sprintf("%s%s_%s_%s.zip", sources.FilePrefix, typ, v, platform))
		}
		return "is not named " + sources.FilePrefix + typ + "_VERSION_OS_ARCH.zip", fmt.Sprintf("rename the file to %s%s_VERSION_OS_ARCH.zip", sources.FilePrefix, typ)
	case sources.NearestPlatform(name) != "":
		return "is not named after a platform", rename(sources.NearestPlatform(name))
	}
	return s.Reason, "move or rename it, so that its path is HOST/NAMESPACE/TYPE/VERSION/OS_ARCH"
}

func isVersion(text string) bool {
	_, err := sources.ParseVersion(text)
	return err == nil
}

// anyNamespace stands for the namespace of providers whose names contain none, and that nothing here requires.
const anyNamespace = "terraform.local/local"

// importLine returns the command that imports providers in the layout of Terraform 0.12 to a mirror.
func (c *checkup) importLine(dir string) string {
	line := fmt.Sprintf("larder import %s --to %s", c.word(dir), c.word(dir+"-imported"))
	return line + " --namespace " + anyNamespace
}

// ignoredNames finds packages for platforms that don't exist.
func ignoredNames(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	for _, d := range c.readable() {
		all, _ := d.Packages(ctx)
		for _, p := range all {
			near := sources.NearestPlatform(p.ID.Platform.String())
			if sources.KnownPlatform(p.ID.Platform) || near == "" || near == p.ID.Platform.String() {
				continue
			}
			path := p.Location.Dir + p.Location.Archive
			dir, name := filepath.Split(path)
			found = append(found, report.Diagnosis{
				Severity: report.Risky, Trap: "unknown-platform", Path: path,
				Text: fmt.Sprintf("%s is for %s, which is no platform", c.brief(path), p.ID.Platform), Why: "engines silently ignore it",
				Fix: fmt.Sprintf("mv %s %s", c.word(path), c.word(filepath.Join(dir, strings.ReplaceAll(name, p.ID.Platform.String(), near)))),
			})
		}
	}
	return found
}

// misplacedExecutables finds providers' executables that are not in a directory of a version and a platform.
func misplacedExecutables(_ context.Context, c *checkup) (found []report.Diagnosis) {
	for _, d := range c.readable() {
		for _, level := range []string{"*/*/*/", "*/*/*/*/"} {
			files, _ := fs.Glob(os.DirFS(d.dir), level+sources.FilePrefix+"*")
			for _, file := range files {
				path := filepath.Join(d.dir, filepath.FromSlash(file))
				dir, name := filepath.Split(path)
				info, err := os.Stat(path)
				if err != nil || info.IsDir() || strings.EqualFold(filepath.Ext(name), ".zip") {
					continue
				}
				to := filepath.Join(dir, sources.CurrentPlatform().String())
				if level == "*/*/*/" {
					_, version, _ := strings.Cut(name, "_v")
					version, _, _ = strings.Cut(version, "_")
					if !isVersion(version) {
						version = "VERSION"
					}
					to = filepath.Join(dir, version, sources.CurrentPlatform().String())
				}
				found = append(found, report.Diagnosis{
					Severity: report.Risky, Trap: "misplaced-executable", Path: path,
					Text: fmt.Sprintf("%s is not in a directory TYPE/VERSION/OS_ARCH", c.brief(path)), Why: "engines silently ignore it",
					Fix: fmt.Sprintf("mkdir -p %s && mv %s %[1]s/", c.word(to), c.word(path)),
				})
			}
		}
	}
	return found
}

// brokenMirrorPackages finds packages for this platform that engines can't unpack or start.
func brokenMirrorPackages(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	for _, d := range c.readable() {
		all, _ := d.Packages(ctx)
		for _, p := range all {
			if f := c.packageFault(p.ID, p.Location); f != nil {
				found = append(found, *f)
			}
		}
	}
	return found
}

// packageFault returns why engines can't unpack or start a package on this machine, or nil.
func (c *checkup) packageFault(id sources.PackageID, at sources.Location) *report.Diagnosis {
	if id.Platform != sources.CurrentPlatform() {
		return nil
	}
	d := &report.Diagnosis{Severity: report.Broken, Path: at.Dir, Why: "engines link the package, and then fail to start the provider"}
	if at.Archive != "" {
		err := archiveFault(at.Archive)
		if err == nil {
			return nil
		}
		d.Trap, d.Path, d.Text = "broken-archive", at.Archive, fmt.Sprintf("%s can't be unpacked: %v", c.brief(at.Archive), err)
		d.Why, d.Fix = "engines can't install the provider; an interrupted copy leaves such files", "download it again"
		return d
	}
	name, err := archive.Executable(at.Dir, id.Provider.Type)
	path := filepath.Join(at.Dir, name)
	info, statErr := os.Stat(path)
	switch {
	case errors.Is(err, archive.ErrNoExecutable):
		d.Trap, d.Text = "no-executable", fmt.Sprintf("%s has no executable %s%s", c.brief(at.Dir), sources.FilePrefix, id.Provider.Type)
		d.Fix = c.fillPackage(at.Dir, id.Provider.Type)
	case err != nil || statErr != nil:
		return nil
	case errors.Is(archive.CheckExecutable(at.Dir, name, id), archive.ErrNotExecutable):
		d.Trap, d.Text, d.Fix = "not-executable", c.brief(path)+" is not executable", "chmod +x "+c.word(path)
		d.Why = "engines fail to start it; backups and artifacts of CI systems often lose this permission"
	case info.Size() == 0:
		d.Trap, d.Text, d.Fix = "empty-executable", c.brief(path)+" is empty", c.fillPackage(at.Dir, id.Provider.Type)
		d.Why = "engines fail to start it; a full disk leaves such files"
	default:
		return nil
	}
	return d
}

// archiveFault returns why a file isn't a zip archive, or nil.
func archiveFault(path string) error {
	f, info, err := disk.OpenFile(path)
	if err != nil {
		return disk.Cause(err)
	}
	defer f.Close()
	_, err = archive.Files(f, info.Size(), archive.Limits{})
	return err
}

// fillPackage returns what puts the executable of a provider into a directory.
func (c *checkup) fillPackage(dir, typ string) string {
	entries, _ := os.ReadDir(dir)
	if deeper, _ := filepath.Glob(filepath.Join(dir, "*", sources.FilePrefix+typ+"*")); len(deeper) > 0 {
		return fmt.Sprintf("mv %s/* %s/", c.word(filepath.Dir(deeper[0])), c.word(dir))
	}
	if len(entries) == 1 && strings.EqualFold(filepath.Ext(entries[0].Name()), ".zip") {
		version := filepath.Dir(dir)
		archive := filepath.Join(dir, entries[0].Name())
		return fmt.Sprintf("mv %s %s/ && rmdir %s %s", c.word(archive), c.word(filepath.Dir(version)), c.word(dir), c.word(version))
	}
	return fmt.Sprintf("unpack the archive of the provider in %s", c.word(dir))
}

// A localProvider is what a directory has of a provider.
type localProvider struct {
	versions  []sources.Version // for this platform
	platforms []string          // of all versions
}

// localProviders returns the providers in a directory.
func localProviders(ctx context.Context, d mirrorDir) map[sources.Provider]localProvider {
	found := map[sources.Provider]localProvider{}
	all, _ := d.Packages(ctx)
	for _, pkg := range all {
		l := found[pkg.ID.Provider]
		if pkg.ID.Platform == sources.CurrentPlatform() {
			l.versions = append(l.versions, pkg.ID.Version)
		}
		if text := pkg.ID.Platform.String(); !slices.Contains(l.platforms, text) {
			l.platforms = append(l.platforms, text)
		}
		found[pkg.ID.Provider] = l
	}
	return found
}

// otherPlatforms finds providers that implied directories have only for other platforms.
func otherPlatforms(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	for _, d := range c.readable() {
		if d.method != nil {
			continue
		}
		providers, _ := d.Providers(ctx)
		local, required := localProviders(ctx, d), c.providers()
		for _, p := range providers {
			if len(local[p].versions) > 0 {
				continue
			}
			f := report.Diagnosis{
				Severity: report.Risky, Trap: "other-platform", Path: d.dir,
				Text: fmt.Sprintf("%s has %s only for %s", c.brief(d.dir), p, someOf(local[p].platforms)),
				Why:  "engines query no registry for the providers in this directory, so this one can't be installed here",
				Fix:  c.moveAway(d, p),
			}
			if slices.Contains(required, p) {
				f.Severity = report.Broken
			}
			found = append(found, f)
		}
	}
	return found
}

// moveAway returns the command that makes engines query the registry for a provider again.
func (c *checkup) moveAway(d mirrorDir, p sources.Provider) string {
	path := filepath.Join(d.dir, string(p.Host), p.Namespace, p.Type)
	to := filepath.Join(filepath.Dir(d.dir), p.Type)
	return fmt.Sprintf("mv %s %s", c.word(path), c.word(to))
}

// maxQueried limits how many providers of a directory a registry is queried for, besides the required ones.
const maxQueried = 10

// hiddenVersions finds newer versions in the registry that implied directories hide. It queries the origin registries, unless --offline is set.
func hiddenVersions(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	for _, d := range c.readable() {
		if d.method != nil {
			continue
		}
		providers, _ := d.Providers(ctx)
		present, required := localProviders(ctx, d), c.providers()
		rank := func(p sources.Provider) int { return slices.Index([]bool{true, false}, slices.Contains(required, p)) }
		slices.SortStableFunc(providers, func(a, b sources.Provider) int { return cmp.Compare(rank(a), rank(b)) })
		providers = slices.DeleteFunc(providers, func(p sources.Provider) bool { return len(present[p].versions) == 0 })
		providers = providers[:min(len(providers), maxQueried)]
		if c.flags.Offline {
			published := slices.DeleteFunc(providers, func(p sources.Provider) bool { return !published(p) })
			if len(published) > 0 {
				found = append(found, report.Diagnosis{
					Severity: report.Risky, Trap: "hidden-versions", Path: d.dir,
					Text: fmt.Sprintf("%s may hide newer versions of %s in the registry, which --offline does not query", c.brief(d.dir), names(published)),
					Why:  hides, Fix: c.moveAway(d, published[0]),
				})
			}
			continue
		}
		newer := c.newestInRegistry(ctx, providers)
		for i, p := range providers {
			here := present[p].versions
			allowed := c.constraintsOf(p)
			local, some := allowed.Newest(here)
			remote, ok := allowed.Newest(newer[i])
			if !ok || some && remote.Compare(local) <= 0 {
				continue
			}
			f := report.Diagnosis{
				Severity: report.Risky, Trap: "hidden-versions", Path: d.dir, Why: hides, Fix: c.moveAway(d, p),
				Text: fmt.Sprintf("%s hides %s %s in the registry: it has only %s", c.brief(d.dir), p, remote, newestOf(here)),
			}
			if !some {
				f.Severity = report.Broken
				f.Text += ", which the configuration does not allow"
			}
			found = append(found, f)
		}
	}
	return found
}

const hides = "engines query no registry for the providers in this directory"

// constraintsOf returns the constraints of the root module for a provider.
func (c *checkup) constraintsOf(p sources.Provider) (all sources.Constraints) {
	for _, r := range c.required {
		if r.Provider == p {
			all = all.And(r.Constraints)
		}
	}
	return all
}

// newestInRegistry returns the versions of providers in their origin registries, as far as these answer.
func (c *checkup) newestInRegistry(ctx context.Context, providers []sources.Provider) [][]sources.Version {
	versions := make([][]sources.Version, len(providers))
	var wait sync.WaitGroup
	for i, p := range providers {
		wait.Go(func() {
			if listing, err := c.registry().Versions(ctx, p); err == nil {
				versions[i] = listing.Versions
			}
		})
	}
	wait.Wait()
	return versions
}

// cacheAndMirror finds plugin caches in mirrors, and mirrors in plugin caches.
func cacheAndMirror(_ context.Context, c *checkup) (found []report.Diagnosis) {
	caches := []string{c.config.PluginCacheDir}
	if root := c.cacheRoot(); root != c.config.PluginCacheDir && !c.flags.NoCache {
		caches = append(caches, root)
	}
	for _, cache := range caches {
		for _, d := range c.mirrorDirs() {
			text := ""
			switch {
			case cache == "":
			case within(cache, d.dir) && within(d.dir, cache):
				text = "the plugin cache %s is a mirror too"
			case within(cache, d.dir):
				text = "the plugin cache %s is inside the mirror " + c.brief(d.dir)
			case within(d.dir, cache):
				text = "the mirror " + c.brief(d.dir) + " is inside the plugin cache %s"
			}
			if text == "" {
				continue
			}
			other := filepath.Join(c.config.Home(), ".terraform.d", "plugin-cache")
			if within(other, d.dir) || within(d.dir, other) {
				other = filepath.Join(c.config.Home(), ".terraform-plugin-cache")
			}
			found = append(found, report.Diagnosis{
				Severity: report.Broken, Trap: "cache-in-mirror", Path: cache, Text: fmt.Sprintf(text, c.brief(cache)),
				Why: "engines install from their own cache instead of the registry, and overwrite or lose packages",
				Fix: fmt.Sprintf("mkdir -p %s && export TF_PLUGIN_CACHE_DIR=%s", c.word(other), shellQuoted(other)),
			})
		}
	}
	return found
}

// writableMirrors finds mirrors in which every user of the machine can put packages.
func writableMirrors(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	for _, d := range c.readable() {
		dirs := []string{d.dir}
		all, _ := d.Packages(ctx)
		for _, p := range all {
			for at := p.Location.Dir + p.Location.Archive; at != d.dir && isBelow(at, d.dir); at = filepath.Dir(at) {
				dirs = append(dirs, at)
			}
		}
		i := slices.IndexFunc(dirs, func(path string) bool {
			info, err := os.Stat(path)
			return err == nil && c.machine.GOOS != "windows" && info.Mode().Perm()&0o002 != 0
		})
		if i < 0 {
			continue
		}
		found = append(found, report.Diagnosis{
			Severity: report.Risky, Trap: "writable-mirror", Path: dirs[i], Text: fmt.Sprintf("every user of this machine can write to %s", c.brief(dirs[i])),
			Why: "engines run the programs in a mirror without verifying a signature", Fix: "chmod -R o-w " + c.word(d.dir),
		})
	}
	return found
}
