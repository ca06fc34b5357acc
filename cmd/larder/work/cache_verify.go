package work

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// A verifiedCache is a cache that was verified, if it exists.
type verifiedCache struct {
	*targetCache
	*cachedir.Verification
}

// verified verifies the cache, if it exists, and shows its progress.
func verified(ctx context.Context, s *Session, repairs bool) (verifiedCache, error) {
	k, err := openCache(ctx, s, repairs)
	if err != nil || k.cache == nil {
		return verifiedCache{k, nil}, err
	}
	use, err := k.use(ctx, nil)
	if err != nil {
		return verifiedCache{k, nil}, err
	}
	v, err := report.Work(s.output, func(progress report.Report) (*cachedir.Verification, error) {
		return k.cache.Verify(ctx, cachedir.VerifyOptions{ListOptions: use, Report: progress})
	})
	return verifiedCache{k, v}, err
}

// sum returns the totals, and what was read: "212 packages (38.9 GB read in 31s)".
func (v verifiedCache) sum() (report.CacheChecked, string) {
	all := report.CacheChecked{Packages: len(v.Entries), Unknown: v.Unknown, Bytes: v.Bytes, Problems: len(v.Findings)}
	return all, report.ReadText(v.out, all.Packages, v.Bytes)
}

// tellUnknown reports the number of packages that have no recorded hash.
func (v verifiedCache) tellUnknown() {
	if v.Unknown > 0 {
		v.out.Say("%s had no record to compare with", ui.Count(v.Unknown, "package"))
	}
}

// VerifyCache verifies the cache. It returns a [report.FoundError] if it finds a problem, and another
// error if the verification itself fails. It changes nothing.
func VerifyCache(ctx context.Context, s *Session) error {
	v, err := verified(ctx, s, false)
	if err != nil || v.cache == nil {
		return err
	}
	var findings []report.Finding
	for _, f := range v.Findings {
		findings = append(findings, report.FindingOf(f.Kind, f.Path, f.Package, f.Text))
	}
	report.ShowAll(s.output, findings)
	sum, read := v.sum()
	distrusted, hints := v.trustFindings(v.accept(ctx, v.Packages), v.Packages, func(s sources.Stored) string { return s.ID.Path() }, v.path)
	sum.Problems += distrusted
	if len(v.Findings) > 0 {
		hints = slices.Insert(hints, 0, "larder cache repair replaces damaged packages")
	}
	s.output.CheckedInDetail(report.CheckedOf(v.Packages))
	s.output.Summary(sum)
	v.tellUnknown()
	if sum.Problems == 0 {
		s.output.Say("No problem in %s", read)
	}
	return report.Found(sum.Problems, "problem", "in "+read, hints...)
}

// RepairCache verifies the cache and repairs it. It replaces the packages that a source
// has, leaves other changed packages in place, and moves all other damaged files to the quarantine, because damage can be
// evidence of an attack.
func RepairCache(ctx context.Context, s *Session) error {
	v, err := verified(ctx, s, !s.flags.DryRun)
	if err != nil || v.cache == nil {
		return err
	}
	mendings := v.Mendings()
	switch {
	case s.flags.DryRun && s.flags.Offline:
		if err := v.predict(ctx, mendings); err != nil {
			return err
		}
	case !s.flags.DryRun:
		replace, sourceErr := v.replacer(ctx)
		if sourceErr != nil {
			return sourceErr
		}
		mendings, err = v.cache.Repair(ctx, v.Verification, replace)
	}
	v.tellUnknown()
	checked, read := v.sum()
	sum := report.Repaired{CacheChecked: checked, DryRun: s.flags.DryRun}
	for _, m := range mendings {
		failed := v.mended(m, sum.DryRun)
		sum.Add(m, failed)
		err = errors.Join(err, failed)
	}
	s.output.Summary(sum)
	found := ui.Count(sum.Problems, "problem")
	if sum.Problems == 0 {
		found = "No problem"
	}
	s.output.Conclude("%s in %s%s", found, read, sum.Text())
	return err
}

// predict corrects the repairs that need a package which no source on this machine has.
func (k *targetCache) predict(ctx context.Context, mendings []cachedir.Mending) error {
	from, err := k.source(ctx)
	if err != nil {
		return err
	}
	for i := range mendings {
		m := &mendings[i]
		if !m.Fetch() {
			continue
		}
		if _, m.Err = from.Package(ctx, *m.Package); m.Err != nil && (m.Kind == cachedir.Changed || m.Kind == cachedir.Missing) {
			m.Do = cachedir.Nothing
		}
	}
	return nil
}

// mended shows how a finding was repaired, and returns why it was not.
func (k *targetCache) mended(m cachedir.Mending, planned bool) error {
	found := m.Do == cachedir.Nothing && m.Err == nil
	if found {
		m.Err = errors.New(m.Text)
	}
	var failed error
	if m.Err != nil && !planned {
		failed = m.Err
		if named := (*sources.PackageError)(nil); !errors.As(failed, &named) {
			failed = fmt.Errorf("%s: %w", m.Path, failed)
		}
	}
	if failed != nil && m.Do == cachedir.Nothing && m.Kind != cachedir.Missing {
		failed = sources.WithHint(failed, "look at it in %s", path.Join(k.path, m.Path))
	}
	if found && failed != nil {
		return failed
	}
	k.out.Show(report.RepairOf(m, planned))
	return failed
}

// replacer downloads damaged packages of the cache again, from the configured sources. If no source has a package any
// more, it only reports one that no root module uses and whose hashes are unknown: it is a leftover of a download.
func (k *targetCache) replacer(ctx context.Context) (cachedir.Replacer, error) {
	from, err := k.source(ctx)
	if err != nil {
		return nil, err
	}
	in := installer.New(from, k.cache, k.client, k.installerOptions(k.out.Event))
	return func(ctx context.Context, m cachedir.Mending) error {
		id, before := *m.Package, k.before(m)
		outcome, err := in.Fetch(ctx, id, before)
		k.out.Forget(id)
		switch {
		case err == nil:
			k.out.Show(report.OutcomeOf(outcome).Again())
			return nil
		case m.Kind == cachedir.Changed:
			return k.explain(err)
		case errors.Is(err, sources.ErrNotFound) && !m.Used && len(before) == 0:
			k.out.Missing(id, nil, err, "not fetched again: %v", err)
			return nil
		}
		command := fmt.Sprintf("prefetch %s@%s", id.Provider, id.Version)
		if k.flags.Cache != "" {
			command += " --cache " + shellQuoted(k.shown(k.path))
		}
		return sources.WithLastHint(k.explain(err), "to fetch it later, run %s", k.again(command, id.Platform))
	}, nil
}

// before returns the hashes of a package that is replaced: the recorded ones, or else the
// signed ones.
func (k *targetCache) before(m cachedir.Mending) []sources.Hash {
	if len(m.Stored) > 0 {
		return m.Stored
	}
	signed, err := k.cache.Evidence(m.Package.Provider, m.Package.Version)
	if err != nil {
		return nil
	}
	sums, err := trust.ParseSums(signed.Sums)
	if err != nil {
		return nil
	}
	return sums.Hashes()
}
