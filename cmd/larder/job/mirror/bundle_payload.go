package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer/datadir"
	"github.com/larder-cli/larder/sources"
)

// bundleRoots returns the root modules that the arguments and flags name. Their paths in the
// bundle are relative to the directory in which the command runs.
func bundleRoots(ctx context.Context, w *job.Wanted) ([]bundle.Root, error) {
	if len(w.Paths) == 0 {
		return nil, report.Usage(sources.WithHint(errors.New("--modules needs a root module where providers are named"),
			"add . for the root module here; with -R, also those in subdirectories"))
	}
	var roots []bundle.Root
	owners := map[string]string{}
	for _, typed := range w.Paths {
		dirs, err := dirsAt(ctx, w, site.Absolute(w.WorkDir, typed))
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			if slices.ContainsFunc(roots, func(r bundle.Root) bool { return r.Dir == dir }) {
				continue
			}
			path, err := filepath.Rel(w.WorkDir, dir)
			if err != nil || !filepath.IsLocal(path) {
				err := fmt.Errorf("--modules: %s is not in %s", w.Shown(dir), w.WorkDir)
				return nil, report.Usage(sources.WithHint(err, "add --chdir with a directory that contains all root modules"))
			}
			m, err := w.Root(ctx, dir, w.Output)
			if err != nil {
				return nil, err
			}
			data := m.Config.DataDir
			if err := datadir.CheckOwn(dir, data); err != nil {
				return nil, fmt.Errorf("--modules: %w", err)
			}
			if other, ok := owners[data]; ok {
				err := fmt.Errorf("--modules: %s is the data directory of both %s and %s", data, other, w.Shown(dir))
				return nil, sources.WithHint(err, "unset TF_DATA_DIR, or set it to a relative path")
			}
			owners[data] = w.Shown(dir)
			roots = append(roots, bundle.Root{Path: filepath.ToSlash(path), Dir: dir, DataDir: data})
		}
	}
	return roots, nil
}

// dirsAt returns the root modules at a path. A file is in none: it only lists providers.
func dirsAt(ctx context.Context, w *job.Wanted, path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return nil, err
	}
	return w.RootsAt(ctx, path)
}
