package main

import (
	"context"
	"errors"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

func bundleImportCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "import",
		Usage:     "add the packages in a bundle to a mirror",
		ArgsUsage: "FILE... DIR [FLAG...]",
		UsageText: "larder bundle import usb.tar ./mirror",
		Description: "Verifies everything before it changes DIR, which is created if missing. The parts\n" +
			"of a bundle can be imported together or one after another. A bundle made with\n" +
			"--since is refused if DIR lacks packages that it builds on.",
		Flags: []cli.Flag{
			writeConfigFlag(),
			trustKeyFlag(),
			dryRunFlag("verify everything, change nothing"),
		},
		Action: func(c *cli.Context) error { return bundleImport(c, out) },
	}
}

// bundleImport verifies all files before it changes anything.
func bundleImport(c *cli.Context, out *ui.Output) error {
	if c.NArg() < 2 || slices.Contains(c.Args().Slice(), "") {
		return usageError{errors.New("bundle import needs the FILE of a bundle, or of each of its parts, and the DIR of a mirror")}
	}
	m, err := here(c, out)
	if err != nil {
		return err
	}
	paths := m.files(c.Args().Slice())
	files, dir := paths[:len(paths)-1], paths[len(paths)-1]
	if err := m.noCache(dir); err != nil {
		return err
	}
	config, err := m.newMirrorConfig(c, dir)
	if err != nil {
		return err
	}
	dry := c.Bool("dry-run")
	key, err := m.recordKey()
	if err != nil {
		return err
	}
	arrivals, err := ui.Work(out, func(report ui.Report) ([]bundle.Arrival, error) {
		return bundle.Import(c.Context, files, dir, bundle.ImportOptions{
			Key: key, Check: m.known(files[0]), Vouch: m.vouchImport, Merge: m.mergeEvidence, Compare: m.compareKeys, DryRun: dry, Report: report, Warn: out.WarnOf,
			Waiting: out.WaitingForMirror(dir), LockTimeout: m.flags.lockTimeout,
		})
	})
	if err != nil {
		return err
	}
	added := m.tellImported(arrivals, dry)
	if dry {
		return nil
	}
	total, err := m.tellTotal(c.Context, dir)
	if err != nil {
		return err
	}
	return m.finish(config, total.packages == added)
}

// tellTotal prints the totals of the mirror.
func (m *rootModule) tellTotal(ctx context.Context, dir string) (mirrorTotal, error) {
	if m.out.JSON {
		return mirrorTotal{}, nil
	}
	b, err := m.openMirror(ctx, dir, builder.Options{ReadOnly: true})
	if err != nil {
		return mirrorTotal{}, err
	}
	total, err := totalOf(ctx, b)
	if err == nil {
		m.out.Say("%s", total.text(dir))
	}
	return total, errors.Join(err, b.Close())
}

// vouchImport verifies the evidence in a bundle, or in the mirror, which may have evidence
// from a registry.
func (m *rootModule) vouchImport(s sources.Stored) (trust.Report, error) {
	opts := m.trustFor(s.ID.Provider)
	opts.Carrier = trust.FromBundle
	return trust.VerifyArchive(s.Signed, s.ZH, opts)
}

// arrivedPackage is a package that was imported, in JSON.
type arrivedPackage struct {
	bundledPackage
	How     string `json:"how"`
	Verdict string `json:"verdict"`
	ui.Signature
}

// tellImported prints the result for each package, and returns the number of packages that
// were added. If planned is set, nothing was changed.
func (m *rootModule) tellImported(arrivals []bundle.Arrival, planned bool) (added int) {
	sum := importSummary{DryRun: planned}
	var rows []ui.Row
	for _, a := range arrivals {
		how, mark := string(a.How), ui.Span{Text: "  "}
		switch a.How {
		case bundle.Known:
			sum.There++
		default:
			sum.Packages++
			sum.Size += a.Size
			mark = ui.Span{Text: " +", Paint: ui.Added}
			if a.How == bundle.Added {
				added++
			} else {
				mark = ui.Span{Text: " ~", Paint: ui.Changed}
			}
			if planned {
				how = "would be " + how
			}
		}
		if a.How == bundle.Known && !m.out.JSON && m.out.Level != ui.Verbose {
			continue
		}
		rows = append(rows, ui.Row{
			Value: arrivedPackage{bundled(a.Package), how, a.Verdict.String(), ui.SignatureOf(a.Report)},
			Cells: []ui.Span{
				mark, {Text: m.out.Name(a.ID.Provider), Paint: ui.Bold}, {Text: a.ID.Version.String()}, {Text: a.ID.Platform.String()},
				{Text: ui.Size(a.Size)}, {Text: ui.SignatureOf(a.Report).Verdict(a.Verdict)},
			},
		})
	}
	m.out.Grid("imported", []ui.Column{{}, {Shorten: true}, {}, {Drop: 1}, {Right: true, Drop: 2}, {Shorten: true}}, rows)
	m.out.Summary(sum)
	did := "Imported"
	if planned {
		did = "Would import"
	}
	if sum.Packages == 0 {
		m.out.Say("Nothing to import%s", there(sum.There))
		return added
	}
	m.out.Say("%s %s (%s)%s", did, ui.Count(sum.Packages, "package"), ui.Size(sum.Size), there(sum.There))
	return added
}

// importSummary is the summary of an import, in JSON.
type importSummary struct {
	Packages int   `json:"packages"` // imported, or that would be imported
	Size     int64 `json:"size"`
	There    int   `json:"already_there"`
	DryRun   bool  `json:"dry_run,omitempty"`
}
