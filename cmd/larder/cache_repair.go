package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

func cacheRepairCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "repair",
		Usage:     "replace damaged packages in the plugin cache",
		ArgsUsage: "[FLAG...]",
		UsageText: "larder cache repair --dry-run",
		Description: "Verifies the cache, and fetches damaged packages with the same hashes again; with\n" +
			"--offline, from this machine. Moves what it replaces, and what is no package, into\n" +
			".larder/aside in the cache. Fails if a package can't be replaced; a changed one stays.",
		Flags:  []cli.Flag{dryRunFlag("show what would be replaced")},
		Action: func(c *cli.Context) error { return cacheRepair(c, out) },
	}
}

// cacheRepair verifies the cache and repairs it. It replaces the packages that a source
// has, leaves other changed packages in place, and moves all other damaged files aside. It
// deletes nothing, because damage can be evidence of an attack.
func cacheRepair(c *cli.Context, out *ui.Output) error {
	k, v, err := verifyCache(c, out, !c.Bool("dry-run"))
	if err != nil || k.cache == nil {
		return err
	}
	mendings := v.Mendings()
	if !c.Bool("dry-run") {
		replace, sourceErr := k.replacer(c.Context)
		if sourceErr != nil {
			return sourceErr
		}
		mendings, err = k.cache.Repair(c.Context, v, replace)
	}
	k.tellUnknown(v)
	sum := repairSummary{DryRun: c.Bool("dry-run")}
	var read string
	sum.verifySummary, read = k.sum(v)
	for _, m := range mendings {
		failed := k.mended(m, sum.DryRun)
		sum.add(m, failed)
		err = errors.Join(err, failed)
	}
	out.Summary(sum)
	out.Conclude("%s in %s%s", ui.Count(sum.Problems, "problem"), read, sum.text())
	if dir := k.cache.AsideDir(); dir != "" {
		out.Conclude("Moved what was set aside to %s", dir)
	}
	return err
}

// repairSummary is the summary of a repair, in JSON.
type repairSummary struct {
	verifySummary
	Replaced int  `json:"replaced"`
	Restored int  `json:"restored"`
	SetAside int  `json:"set_aside"`
	Recorded int  `json:"recorded"`
	Lowered  int  `json:"lowered"`
	Failed   int  `json:"failed"`
	DryRun   bool `json:"dry_run,omitempty"`
}

// add counts the result of a repair.
func (s *repairSummary) add(m cachedir.Mending, failed error) {
	switch {
	case failed != nil:
		s.Failed++
	case m.Do == cachedir.Replaced:
		s.Replaced++
	case m.Do == cachedir.Restored:
		s.Restored++
	case m.Do == cachedir.SetAside:
		s.SetAside++
	case m.Do == cachedir.Recorded:
		s.Recorded++
	case m.Do == cachedir.Lowered:
		s.Lowered++
	}
}

// text describes the results: ": 2 replaced, 1 set aside".
func (s repairSummary) text() string {
	parts := ui.Numbers(ui.Number{N: s.Replaced, What: "replaced"}, ui.Number{N: s.Restored, What: "restored"}, ui.Number{N: s.SetAside, What: "set aside"},
		ui.Number{N: s.Recorded, What: "recorded again"}, ui.Number{N: s.Lowered, What: "kept without evidence"},
		ui.Number{N: s.Failed, What: "failed"})
	switch {
	case len(parts) == 0:
		return ""
	case s.DryRun:
		return ": would be " + strings.Join(parts, ", ")
	}
	return ": " + strings.Join(parts, ", ")
}

// mended prints how a finding was repaired, or why it was not.
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
	if failed != nil && m.Aside == "" {
		failed = sources.WithHint(failed, "look at it in %s", path.Join(k.path, m.Path))
		if found || m.Do != cachedir.Nothing {
			return failed
		}
	}
	did := string(m.Do)
	if planned {
		did = "would be " + did
		if m.Fetch() {
			did += " and fetched again"
		}
	}
	k.out.Result("mended", struct {
		ui.Finding
		Do    string `json:"do"`
		Aside string `json:"aside,omitempty"`
		Fetch bool   `json:"fetch"`
	}{ui.FindingOf(m.Kind, m.Path, m.Package, m.Text), string(m.Do), m.Aside, m.Fetch()}, "%s: %s", m.Finding, did)
	return failed
}

// replacer downloads damaged packages of the cache again, from the configured sources. It
// only reports incomplete packages that no source has any more: they are leftovers of a download.
func (k *targetCache) replacer(ctx context.Context) (cachedir.Replacer, error) {
	from, err := k.source(ctx)
	if err != nil {
		return nil, err
	}
	in := installer.New(from, k.cache, k.client, k.installerOptions(k.out.Event))
	return func(ctx context.Context, m cachedir.Mending) error {
		outcome, err := in.Fetch(ctx, *m.Package, k.before(m))
		k.out.Forget(*m.Package)
		switch {
		case err == nil:
			again := outcome
			again.How += " again"
			k.out.Result("package", ui.OutcomeInJSON(outcome), "%s: %s", k.out.Package(outcome.Package.ID), ui.OutcomeText(again))
		case m.Kind != cachedir.Changed && errors.Is(err, sources.ErrNotFound):
			k.out.Missing(*m.Package, nil, err, "not fetched again: %v", err)
			return nil
		}
		return k.explain(err)
	}, nil
}

// before returns the hashes of a package that was set aside: the recorded ones, or else the
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
