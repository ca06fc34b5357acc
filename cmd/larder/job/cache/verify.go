package cache

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/store"
	"github.com/larder-cli/larder/sources/trust"
)

// verified verifies the cache, if it exists, and shows its progress.
func verified(ctx context.Context, s *site.Site, repairs bool) (*job.TargetCache, *cachedir.Verification, error) {
	k, err := job.OpenCache(ctx, s, repairs)
	if err != nil || k.Cache == nil {
		return k, nil, err
	}
	use, err := use(ctx, k)
	if err != nil {
		return k, nil, err
	}
	v, err := report.Work(s.Output, func(progress report.Report) (*cachedir.Verification, error) {
		return k.Cache.Verify(ctx, cachedir.VerifyOptions{ListOptions: use, Report: progress})
	})
	return k, v, err
}

func sumOf(v *cachedir.Verification) report.VerifySum {
	return report.VerifySum{Packages: len(v.Entries), Unknown: v.Unknown, Bytes: v.Bytes, Problems: len(v.Findings)}
}

// tellUnknown reports the number of packages that have no recorded hash.
func tellUnknown(k *job.TargetCache, v *cachedir.Verification) {
	if v.Unknown > 0 {
		k.Out.Say("%s had no record to compare with", ui.Count(v.Unknown, "package"))
		if job.IsRootModule(k.WorkDir) {
			k.Out.Hint("%s compares installed packages with lock files, which need no records", k.Again("verify"))
		}
	}
}

// Verify verifies the cache. It returns a [report.FoundError] if it finds a problem, and another
// error if the verification itself fails. It changes nothing.
func Verify(ctx context.Context, s *site.Site) error {
	k, v, err := verified(ctx, s, false)
	if err != nil || k.Cache == nil {
		return err
	}
	s.Output.Findings(report.FindingsOf(v.Findings)...)
	sum := sumOf(v)
	at := func(s sources.Stored) string { return s.ID.Path() }
	distrusted, hints, accepted := k.TrustFindings(k.AcceptKept(ctx, k.Path, v.Packages), v.Packages, at, k.Path)
	sum.Problems += distrusted
	if len(v.Findings) > 0 {
		hints = slices.Insert(hints, 0, "larder cache repair replaces damaged packages")
	}
	s.Output.CheckedInDetail(report.CheckedOf(accepted))
	s.Output.Summary(sum)
	tellUnknown(k, v)
	read := "in " + sum.Text(s.Output)
	if sum.Problems == 0 {
		s.Output.Say("No problem %s", read)
	}
	return report.Found(sum.Problems, "problem", read, hints...)
}

// Repair verifies the cache and repairs it. It replaces the packages that a source has, leaves other changed packages
// in place, and moves all other damaged files to the quarantine, because damage can be evidence of an attack.
func Repair(ctx context.Context, s *site.Site) error {
	k, v, err := verified(ctx, s, !s.Flags.DryRun)
	if err != nil || k.Cache == nil {
		return err
	}
	mendings := v.Mendings()
	switch {
	case s.Flags.DryRun && s.Flags.Offline:
		if err := predict(ctx, k, mendings); err != nil {
			return err
		}
	case !s.Flags.DryRun:
		replace, sourceErr := replacer(ctx, k)
		if sourceErr != nil {
			return sourceErr
		}
		mendings, err = k.Cache.Repair(ctx, v, replace)
	}
	tellUnknown(k, v)
	sum := report.RepairSum{VerifySum: sumOf(v), DryRun: s.Flags.DryRun}
	for _, m := range mendings {
		err = errors.Join(err, mended(k, m, &sum))
	}
	s.Output.Summary(sum)
	s.Output.Conclude("%s", sum.Text(s.Output))
	return err
}

// predict corrects the repairs that need a package which no source on this machine has.
func predict(ctx context.Context, k *job.TargetCache, mendings []cachedir.Mending) error {
	from, err := k.Source(ctx)
	if err != nil {
		return err
	}
	for i := range mendings {
		m := &mendings[i]
		if !m.Fetch() {
			continue
		}
		if _, m.Err = from.Package(ctx, *m.Package); m.Err != nil && m.Kind == store.Changed {
			m.Do = cachedir.Nothing
		}
	}
	return nil
}

// mended counts and shows how a finding was repaired, and returns why it was not.
func mended(k *job.TargetCache, m cachedir.Mending, sum *report.RepairSum) error {
	found := m.Do == cachedir.Nothing && m.Err == nil
	if found {
		m.Err = m.Finding.Err
	}
	var failed error
	if m.Err != nil && !sum.DryRun {
		failed = m.Err
		if named := (*sources.PackageError)(nil); !errors.As(failed, &named) {
			failed = fmt.Errorf("%s: %w", m.Path, failed)
		}
	}
	if failed != nil && m.Do == cachedir.Nothing {
		failed = sources.WithHint(failed, "look at it in %s", path.Join(k.Path, m.Path))
	}
	shown := sum.Add(m.Finding, string(m.Do), m.Fetch(), failed != nil)
	if !found || failed == nil {
		k.Out.Findings(shown)
	}
	return failed
}

// replacer downloads damaged packages of the cache again, from the configured sources. If no source has a package any
// more, it only reports one that no root module uses and whose hashes are unknown: it is a leftover of a download.
func replacer(ctx context.Context, k *job.TargetCache) (cachedir.Replacer, error) {
	from, err := k.Source(ctx)
	if err != nil {
		return nil, err
	}
	in := installer.New(from, k.Cache, k.Client, k.InstallerOptions(k.Out.Event))
	return func(ctx context.Context, m cachedir.Mending) error {
		id, before := *m.Package, before(k, m)
		outcome, err := in.Fetch(ctx, id, before)
		k.Out.Forget(id)
		switch {
		case err == nil:
			k.Out.Show(report.OutcomeOf(outcome).Again())
			return nil
		case m.Kind == store.Changed:
			return k.Explain(err)
		case errors.Is(err, sources.ErrNotFound) && !m.Used && len(before) == 0:
			k.Out.Missing(id, nil, err, "not fetched again: %v", err)
			return nil
		}
		if err = k.Explain(err); acquire.IsOther(err) {
			return err
		}
		command := fmt.Sprintf("prefetch %s@%s", id.Provider, id.Version)
		return sources.WithLastHint(err, "to fetch it later, run %s", k.Again(command, id.Platform))
	}, nil
}

// before returns the hashes of a package that is replaced: the recorded ones, or else the
// signed ones.
func before(k *job.TargetCache, m cachedir.Mending) []sources.Hash {
	if len(m.Stored) > 0 {
		return m.Stored
	}
	signed, err := k.Cache.Evidence(m.Package.Provider, m.Package.Version)
	if err != nil {
		return nil
	}
	sums, err := trust.ParseSums(signed.Sums)
	if err != nil {
		return nil
	}
	return sums.Hashes()
}
