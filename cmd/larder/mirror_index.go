package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
)

func mirrorIndexCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "index",
		Usage:     "regenerate index.json and VERSION.json",
		ArgsUsage: "DIR [FLAG...]",
		UsageText: "larder mirror index ./mirror",
		Description: "Reads every archive, so that a directory of archives becomes a network mirror.\n" +
			"Archives that cannot be read are left out.",
		Flags:  []cli.Flag{dryRunFlag("show which files would be written")},
		Action: func(c *cli.Context) error { return mirrorIndex(c, out) },
	}
}

// mirrorIndex reads all archives and uses no hash records, because it repairs mirrors with
// wrong documents.
func mirrorIndex(c *cli.Context, out *ui.Output) error {
	dry := c.Bool("dry-run")
	m, b, err := mirrorHere(c, out, builder.Options{ReadOnly: dry, Paranoid: true})
	if err != nil {
		return err
	}
	var leftOut []error
	changes, err := ui.Work(out, func(ui.Report) (changes []builder.Change, err error) {
		changes, leftOut, err = b.Index(c.Context)
		return changes, err
	})
	sum := indexSummary{LeftOut: len(leftOut), DryRun: dry}
	for _, change := range changes {
		did := "written"
		sum.Written++
		if change.Removed {
			did = "removed"
			sum.Removed++
			sum.Written--
		}
		if dry {
			did = "would be " + did
		}
		m.out.Result("document", struct {
			Path   string `json:"path"`
			Do     string `json:"do"`
			DryRun bool   `json:"dry_run"`
		}{change.Path, did, dry}, "%s: %s", change.Path, did)
	}
	out.Summary(sum)
	if err == nil {
		out.Conclude("%s", sum.text())
	}
	return errors.Join(append(leftOut, err, b.Close())...)
}

// indexSummary is the summary of rebuilding an index, in JSON.
type indexSummary struct {
	Written int  `json:"written"`
	Removed int  `json:"removed"`
	LeftOut int  `json:"left_out"` // archives
	DryRun  bool `json:"dry_run,omitempty"`
}

// text returns the summary as text.
func (s indexSummary) text() string {
	text := "The index is up to date"
	switch {
	case s.Written+s.Removed == 0:
	case s.DryRun:
		text = fmt.Sprintf("Would write %s and remove %d", ui.Count(s.Written, "file"), s.Removed)
	default:
		text = fmt.Sprintf("Wrote %s, removed %d", ui.Count(s.Written, "file"), s.Removed)
	}
	if s.LeftOut > 0 {
		text += fmt.Sprintf("; left out %s", ui.Count(s.LeftOut, "archive"))
	}
	return text
}
