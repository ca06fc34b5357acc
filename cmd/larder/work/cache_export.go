package work

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
)

// ExportCache writes the packages that root modules select to a bundle, or to standard output if the file
// is -. It first finds every required package. Without partial, it fails if one
// is missing.
func ExportCache(ctx context.Context, s *Session, file string, roots []string, partial bool) error {
	if err := s.takeRoots(roots); err != nil {
		return err
	}
	t, err := s.tree(ctx)
	if err == nil && file != "-" {
		_, err = s.parentOf(file)
	}
	if err != nil {
		return err
	}
	k, err := openCache(ctx, s, false)
	if err != nil {
		return err
	}
	return k.export(ctx, t, file, partial)
}

// export writes the packages that the tree requires to the file.
func (k *targetCache) export(ctx context.Context, t *tree, file string, partial bool) error {
	if k.cache != nil {
		release, err := k.cache.Use(ctx)
		if err != nil {
			return err
		}
		defer release()
	}
	packages, missing, err := k.collect(ctx, t)
	if err != nil {
		return err
	}
	if err := k.tellMissing(missing, partial); err != nil {
		return err
	}
	m, err := bundle.Of(ctx, packages)
	if err != nil {
		return err
	}
	if file == "-" {
		return bundle.Write(ctx, k.out.Stdout, m)
	}
	created, err := bundle.WriteFile(ctx, Absolute(k.dir, file), m, nil)
	if err != nil {
		return err
	}
	k.out.Private(file, created.Private)
	k.out.Exported(packages)
	k.out.Summary(report.ExportSum{
		File: Absolute(k.dir, file), Packages: len(packages), Missing: len(missing), Size: created.Size, Unchanged: created.Unchanged,
	})
	did := "Wrote " + file
	if created.Unchanged {
		did = file + " is unchanged"
	}
	text := fmt.Sprintf("%s: %s, %s", did, ui.Count(len(packages), "package"), ui.Size(created.Size))
	if len(missing) > 0 {
		text += fmt.Sprintf("; %d missing", len(missing))
	}
	k.out.Say("%s", text)
	return nil
}

// collect returns the packages in the cache that lock files select, and the reasons why
// others are missing.
func (k *targetCache) collect(ctx context.Context, t *tree) (packages []sources.Stored, missing []error, err error) {
	open := map[sources.Provider][]string{}
	for _, r := range t.open {
		open[r.Provider] = append(open[r.Provider], r.module)
	}
	for _, p := range slices.SortedFunc(maps.Keys(open), sources.Provider.Compare) {
		missing = append(missing, &sources.ProviderError{Provider: p, Err: notLocked{open[p]}})
	}
	wanted := t.wanted()
	for _, id := range slices.SortedFunc(maps.Keys(wanted), sources.PackageID.Compare) {
		s, err := k.stored(ctx, id)
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if err != nil {
			missing = append(missing, err)
			continue
		}
		unmet := 0
		for _, l := range wanted[id] {
			if !l.allows(s) {
				err := fmt.Errorf("the package in the plugin cache differs from the one locked in %s", l.module)
				missing = append(missing, &sources.PackageError{ID: id, Err: err})
				unmet++
			}
		}
		if unmet < len(wanted[id]) {
			packages = append(packages, s)
		}
	}
	return packages, missing, nil
}

// stored is a package in the cache.
func (k *targetCache) stored(ctx context.Context, id sources.PackageID) (sources.Stored, error) {
	if k.cache == nil {
		return sources.Stored{}, &sources.PackageError{ID: id, Err: errNotCached}
	}
	s, err := k.cache.Get(ctx, id)
	if errors.Is(err, sources.ErrNotFound) {
		err = &sources.PackageError{ID: id, Err: errNotCached}
	}
	return s, err
}

// maxPlaces is the largest number of root modules shown for one provider.
const maxPlaces = 10

// notLocked is the reason why a provider is not exported: these root modules lock no version of it.
type notLocked struct{ modules []string }

func (e notLocked) Error() string {
	return "no version is locked in " + ui.Some(e.modules, maxPlaces)
}

// errNotCached is the reason why a package is not exported.
var errNotCached = errors.New("not in the plugin cache")

// wanted returns the packages that lock files select, each with the root modules that
// select it.
func (t *tree) wanted() map[sources.PackageID][]lockedProvider {
	wanted := map[sources.PackageID][]lockedProvider{}
	for _, l := range t.locked {
		for _, platform := range t.platforms {
			id := sources.PackageID{Provider: l.Provider, Version: l.Version, Platform: platform}
			wanted[id] = append(wanted[id], l)
		}
	}
	return wanted
}

// allows reports whether a package matches a hash in the lock file, or the lock file has no
// hashes.
func (l lockedProvider) allows(s sources.Stored) bool {
	return !sources.AnyUsable(l.Hashes) || sources.MatchesAny(l.Hashes, s.H1, s.ZipH1, s.ZH)
}

// tellMissing prints the packages that cannot be exported. Without --partial it returns an
// error.
func (k *targetCache) tellMissing(missing []error, partial bool) error {
	if len(missing) == 0 {
		return nil
	}
	if partial {
		k.out.WarnAll(missing)
		return nil
	}
	open := 0
	for _, err := range missing {
		if _, is := errors.AsType[notLocked](err); is {
			open++
		}
	}
	err := sources.WithHint(errors.New("nothing was exported"), "--partial exports the packages that are in the cache")
	if open < len(missing) {
		err = sources.WithHint(err, "%s fetches what is missing", k.again("prefetch", k.flags.Platforms...))
	}
	if open > 0 {
		err = sources.WithHint(err, "%s installs the providers, and writes the lock files", k.again("install"))
	}
	return errors.Join(append(missing, err)...)
}

// again returns another command line for the same root modules.
func (s *Session) again(command string, platforms ...sources.Platform) string {
	words := []string{"larder"}
	if s.workDir != s.machine.WorkDir {
		words = append(words, "--chdir", shellQuoted(s.shown(s.workDir)))
	}
	words = append(append(words, s.configured(s.workDir, command)...), command)
	if s.flags.Recursive {
		words = append(words, "-R")
	}
	for _, pattern := range s.flags.Exclude {
		words = append(words, "--exclude", shellQuoted(pattern))
	}
	for _, p := range platforms {
		words = append(words, "--platform", p.String())
	}
	for _, root := range s.roots {
		words = append(words, shellQuoted(root))
	}
	return strings.Join(words, " ")
}

// configured returns the flags of this run that choose the CLI configuration and the engine, for another command that runs
// in dir.
func (s *Session) configured(dir, command string) (words []string) {
	if s.flags.Config != "" {
		path := s.flags.Config
		if relative, err := filepath.Rel(dir, path); err == nil && (dir != s.machine.WorkDir || filepath.IsLocal(relative)) {
			path = relative // an absolute path would be shown relative to the working directory
		}
		words = append(words, "--config", shellQuoted(path))
	}
	if s.requested.reason == "--engine" && !strings.Contains(command, "--engine") {
		words = append(words, "--engine", string(s.requested.engine))
	}
	return words
}
