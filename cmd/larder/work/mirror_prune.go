package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

// PruneMirror removes the packages that the policy selects, except those that the lock files at paths lock.
func PruneMirror(ctx context.Context, s *Session, dir string, paths []string, policy builder.Policy, request PruneRequest) error {
	if _, err := s.existing(dir); err != nil {
		return err
	}
	locked, err := s.lockedBy(ctx, paths)
	if err == nil {
		err = request.check(s)
	}
	if err != nil {
		return err
	}
	policy.Locked = func(id sources.PackageID) bool { return locked[id.Release()] }
	_, b, err := mirrorHere(ctx, s, dir, builder.Options{ReadOnly: s.flags.DryRun})
	if err != nil {
		return err
	}
	return errors.Join(s.pruneMirror(ctx, b, policy, request), b.Close())
}

// pruneMirror plans, asks for confirmation and removes. If there is nothing to remove, it
// completes a prune that was killed.
func (s *Session) pruneMirror(ctx context.Context, b *builder.Builder, policy builder.Policy, request PruneRequest) error {
	plan, err := b.PlanPrune(ctx, policy)
	if err != nil {
		return err
	}
	sum := &report.MirrorPruned{Locked: plan.Locked, Recent: plan.Recent, DryRun: s.flags.DryRun}
	s.output.Summary(sum)
	if !request.Yes {
		s.output.MirrorRemovals(plan.Remove, !request.asks)
	}
	planned := report.RemovedPackages(len(plan.Remove), plan.Freed)
	switch {
	case len(plan.Remove) == 0:
		s.output.Say("Nothing to remove%s", sum.Kept())
		if sum.DryRun {
			return nil
		}
		return b.Complete(ctx)
	case sum.DryRun:
		sum.Packages, sum.Freed = len(plan.Remove), plan.Freed
		s.output.Say("Would remove %s%s", planned, sum.Kept())
		return nil
	}
	if yes, err := request.confirmed(ctx, s.output, planned); err != nil || !yes {
		return err
	}
	gone, err := b.Prune(ctx, plan)
	if !request.asks {
		s.output.MirrorRemovals(gone, false)
	}
	sum.Packages, sum.Failed = len(gone), len(sources.Errors(err))
	for _, e := range gone {
		sum.Freed += e.Size
	}
	s.output.Conclude("Removed %s%s", report.RemovedPackages(sum.Packages, sum.Freed), sum.Kept())
	return err
}

// lockedBy returns the versions that the lock files at paths, as typed, select. It fails if a file is missing or unreadable,
// because its packages might be removed.
func (s *Session) lockedBy(ctx context.Context, paths []string) (map[sources.Release]bool, error) {
	locked := map[sources.Release]bool{}
	for _, path := range paths {
		path, err := Existing(s.workDir, path, FileOrDir, "name a lock file, a root module, or with -R a directory that contains root modules")
		if err != nil {
			return nil, err
		}
		files, err := s.lockFiles(ctx, path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			selected, err := selectedBy(file)
			if err != nil {
				return nil, err
			}
			for p, v := range selected {
				locked[sources.Release{Provider: p, Version: v}] = true
			}
		}
	}
	return locked, nil
}

// lockFiles returns the lock files of a path: a lock file, a root module, or a directory with
// root modules.
func (s *Session) lockFiles(ctx context.Context, path string) ([]string, error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		if !strings.HasSuffix(path, ".lock.hcl") {
			return nil, report.Usage(fmt.Errorf("%s is neither a directory nor a file whose name ends in .lock.hcl", path))
		}
		return []string{path}, nil
	}
	dirs, err := s.rootsAt(ctx, path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, dir := range dirs {
		file := filepath.Join(dir, lockfile.Name)
		if _, err := os.Stat(file); err != nil && s.flags.Recursive {
			s.output.Warn("%s has no lock file, so no packages are kept for it", dir)
			continue
		} else if err != nil {
			return nil, sources.WithHint(fmt.Errorf("there is no lock file in %s", dir), "-R searches the directories below for root modules, too")
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		err := fmt.Errorf("there is no root module with a lock file in %s or below", path)
		return nil, sources.WithHint(err, "name a lock file, or a directory that contains root modules")
	}
	return files, nil
}
