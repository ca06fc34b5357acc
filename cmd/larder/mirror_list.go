package main

import (
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

func mirrorListCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "list",
		Usage:     "list the packages in a mirror",
		ArgsUsage: "DIR [PATTERN...] [FLAG...]",
		UsageText: "larder mirror list ./mirror hashicorp/*",
		Description: "Shows size, age and verification result of each package. In a PATTERN, such as\n" +
			"aws or */aws, * stands for any name.",
		Action: func(c *cli.Context) error { return mirrorList(c, out) },
	}
}

// mirrorList lists a mirror from its records, without reading packages.
func mirrorList(c *cli.Context, out *ui.Output) error {
	patterns, err := readPatterns(c.Args().Tail())
	if err != nil {
		return err
	}
	m, b, err := mirrorHere(c, out, builder.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	entries, err := b.List(c.Context, builder.ListOptions{Proofs: true, Again: true})
	if err != nil {
		return err
	}
	var ids []sources.PackageID
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	unmatched(out, patterns, ids)
	entries = slices.DeleteFunc(entries, func(e builder.Entry) bool { return !selected(patterns, e.ID) })
	rows := mirrorRows(out, entries, func(_ int, e builder.Entry) any { return mirroredAs(e) })
	var total mirrorTotal
	for i, e := range entries {
		by := ui.Span{Paint: ui.Faint}
		if out.Level == ui.Verbose {
			by.Text = ui.VerificationOf(e.Stored.Report).Long()
		}
		rows[i].Cells = append(rows[i].Cells, by)
		total.packages++
		total.size += e.Size
	}
	out.Grid("mirrored", append(mirrorColumns(), ui.Column{Drop: 4}), rows)
	out.Summary(struct {
		Packages int   `json:"packages"`
		Size     int64 `json:"size"`
	}{total.packages, total.size})
	if total.packages == 0 && len(ids) > 0 {
		return nil // the patterns have had warnings
	}
	if total.packages == 0 {
		out.Say("the mirror %s has no packages", absolute(m.dir, c.Args().First()))
		return nil
	}
	out.Say("%s, %s", ui.Count(total.packages, "package"), ui.Size(total.size))
	return nil
}
