package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

func mirrorPruneCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "prune",
		Usage:     "remove packages that no lock file selects",
		ArgsUsage: "DIR [FLAG...]",
		UsageText: "larder mirror prune ./mirror --keep-locked-by . --dry-run",
		Description: "A package stays if one of the lock files selects its version, for any platform, or\n" +
			"if it is within --older-than or --keep-last. The index is changed first.",
		Flags: append([]cli.Flag{
			&cli.StringSliceFlag{Category: selectionFlags, Name: "keep-locked-by", Usage: "`PATH` root modules or lock files whose packages stay"},
			recursiveFlag("root modules in PATH and below"),
			excludeFlag(),
		}, pruneFlags("packages added before an `AGE`, such as 90d")...),
		Action: func(c *cli.Context) error { return mirrorPrune(c, out) },
	}
}

// mirrorPrune requires flags that select the packages to keep. Unlike a plugin cache, a mirror
// has no record of its users.
func mirrorPrune(c *cli.Context, out *ui.Output) error {
	policy, err := mirrorPolicy(c)
	if err != nil {
		return err
	}
	asks, err := asks(c, out)
	if err != nil {
		return err
	}
	m, b, err := mirrorHere(c, out, builder.Options{ReadOnly: c.Bool("dry-run")})
	if err != nil {
		return err
	}
	return errors.Join(m.pruneMirror(c, b, policy, asks), b.Close())
}

// pruneMirror plans, asks for confirmation and removes. If there is nothing to remove, it
// completes a prune that was killed.
func (m *rootModule) pruneMirror(c *cli.Context, b *builder.Builder, policy builder.Policy, asks bool) error {
	locked, err := m.lockedBy(c)
	if err != nil {
		return err
	}
	policy.Locked = func(id sources.PackageID) bool { return locked[id.Release()] }
	plan, err := b.PlanPrune(c.Context, policy)
	if err != nil {
		return err
	}
	sum := &mirrorPruneSummary{Locked: plan.Locked, Recent: plan.Recent, DryRun: c.Bool("dry-run")}
	m.out.Summary(sum)
	if !c.Bool("yes") {
		m.mirrorRemovals(plan.Remove, !asks)
	}
	planned := fmt.Sprintf("%s, %s", ui.Count(len(plan.Remove), "package"), ui.Size(plan.Freed))
	switch {
	case len(plan.Remove) == 0:
		m.out.Say("Nothing to remove%s", sum.kept())
		if sum.DryRun {
			return nil
		}
		return b.Complete(c.Context)
	case sum.DryRun:
		sum.Packages, sum.Freed = len(plan.Remove), plan.Freed
		m.out.Say("Would remove %s%s", planned, sum.kept())
		return nil
	}
	if asks {
		m.out.OnInterrupt("nothing was removed")
		if yes, err := m.out.Ask(c.Context, planned+". Remove?"); err != nil || !yes {
			return err
		}
		m.out.OnInterrupt(interruptions["mirror prune"])
	}
	gone, err := b.Prune(c.Context, plan)
	if !asks {
		m.mirrorRemovals(gone, false)
	}
	sum.Packages, sum.Failed = len(gone), len(sources.Errors(err))
	for _, e := range gone {
		sum.Freed += e.Size
	}
	m.out.Conclude("Removed %s, %s%s", ui.Count(sum.Packages, "package"), ui.Size(sum.Freed), sum.kept())
	return err
}

// mirrorPruneSummary is the summary of a prune, in JSON.
type mirrorPruneSummary struct {
	Packages int   `json:"packages"` // removed, or that would be removed
	Freed    int64 `json:"freed"`
	Locked   int   `json:"locked"`
	Recent   int   `json:"recent"` // packages within the limits
	Failed   int   `json:"failed"`
	DryRun   bool  `json:"dry_run,omitempty"`
}

// kept prints what remains, and what could not be removed.
func (s *mirrorPruneSummary) kept() string {
	return keptText(s.Failed, ui.Number{N: s.Locked, What: "locked"}, ui.Number{N: s.Recent, What: "within the limits"})
}

// mirrorPolicy reads the limits.
func mirrorPolicy(c *cli.Context) (p builder.Policy, err error) {
	if p.KeepLast, err = positive(c, "keep-last", "--keep-last"); err != nil {
		return p, err
	}
	if p.OlderThan, err = age(c); err != nil {
		return p, err
	}
	paths := len(c.StringSlice("keep-locked-by")) > 0
	switch {
	case !paths && p.KeepLast == 0 && p.OlderThan == 0:
		return p, usageError{errors.New("every package would be removed: add --keep-locked-by, --keep-last or --older-than")}
	case c.Bool("recursive") && !paths:
		return p, usageError{errors.New("--recursive requires --keep-locked-by")}
	}
	return p, nil
}

// A lockedVersions contains the versions that lock files select.
type lockedVersions map[sources.Release]bool

// lockedBy reads the lock files of the flags. A missing or unreadable file is an error,
// because its packages might be removed.
func (s *session) lockedBy(c *cli.Context) (lockedVersions, error) {
	locked := lockedVersions{}
	for _, path := range c.StringSlice("keep-locked-by") {
		files, err := s.lockFiles(c.Context, absolute(s.dir, path))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if err := locked.read(file); err != nil {
				return nil, err
			}
		}
	}
	return locked, nil
}

// lockFiles returns the lock files of a path: a lock file, a root module, or a directory with
// root modules.
func (s *session) lockFiles(ctx context.Context, path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if !strings.HasSuffix(path, ".lock.hcl") {
			return nil, usageError{fmt.Errorf("%s is neither a directory nor a file whose name ends in .lock.hcl", path)}
		}
		return []string{path}, nil
	}
	dirs := []string{path}
	if s.flags.recursive {
		if dirs, err = s.find(ctx, path); err != nil {
			return nil, err
		}
	}
	var files []string
	for _, dir := range dirs {
		file := filepath.Join(dir, lockfile.Name)
		if _, err := os.Stat(file); err != nil && s.flags.recursive {
			s.out.Warn("%s has no lock file, so it keeps no packages", dir)
			continue
		} else if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no root module with a lock file in %s or below", path)
	}
	return files, nil
}

// read adds the versions in a lock file.
func (l lockedVersions) read(path string) error {
	file, ds := lockfile.Read(path)
	if err := ds.Err(); err != nil {
		return err
	}
	for _, e := range file.Entries() {
		l[sources.Release{Provider: e.Provider, Version: e.Version}] = true
	}
	return nil
}

// mirrorRemovals prints the packages to remove.
func (m *rootModule) mirrorRemovals(entries []builder.Entry, planned bool) {
	m.out.Grid("removal", mirrorColumns(), mirrorRows(m.out, entries, func(_ int, e builder.Entry) any {
		return struct {
			mirrored
			DryRun bool `json:"dry_run"`
		}{mirroredAs(e), planned}
	}))
}
