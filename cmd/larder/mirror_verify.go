package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

func mirrorVerifyCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "verify every file in a mirror",
		ArgsUsage: "DIR [FLAG...]",
		UsageText: "larder mirror verify ./mirror",
		Description: "Compares packages with their records and signed checksums, and index.json and\n" +
			"VERSION.json with the archives. Changes nothing, and needs no network.",
		Flags:  trustFlags(),
		Action: func(c *cli.Context) error { return mirrorVerify(c, out) },
	}
}

// mirrorVerify returns exitFound if it finds a problem, and exitFailed if the verification
// itself fails.
func mirrorVerify(c *cli.Context, out *ui.Output) error {
	m, b, err := mirrorHere(c, out, builder.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	v, err := ui.Work(out, func(report ui.Report) (*builder.Verification, error) {
		return b.Verify(c.Context, report)
	})
	if err != nil {
		return err
	}
	for _, f := range v.Findings {
		out.Result("finding", ui.FindingOf(f.Kind, f.Path, f.Package, f.Text), "%s", f)
	}
	distrusted, hint := m.trustFindings(v.Sound, func(s sources.Stored) string { return s.Dir }, c.Args().First())
	problems := len(v.Findings) + distrusted
	if len(v.Findings) > 0 {
		hint = "larder mirror index rebuilds index.json and VERSION.json; remove damaged packages, then run larder mirror sync"
	}
	all := ui.CheckedOf(v.Sound)
	if out.JSON || out.Level == ui.Verbose {
		out.Checked(all)
	}
	out.Summary(checkSummary{v.Packages, v.Bytes, problems, v.Unvouched, 0})
	read := fmt.Sprintf("%s (%s read in %s)", ui.Count(v.Packages, "package"), ui.Size(v.Bytes), ui.Took(out.Elapsed()))
	if problems == 0 {
		out.Say("No problem in %s%s", read, out.Keys(all, "mirror"))
	} else if text := out.Keys(all, "mirror"); text != "" {
		out.Say("%s", strings.TrimPrefix(text, ". "))
	}
	out.KeyList(all, m.suggestsKeys())
	if v.Unvouched > 0 {
		out.Say("%s without signed checksums", ui.Count(v.Unvouched, "package"))
	}
	return found(problems, "problem", "in "+read, hint)
}
