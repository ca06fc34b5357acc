package main

import (
	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
)

func mirrorVerifyCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "read everything in a mirror and name what is wrong",
		ArgsUsage: "DIR [FLAG...]",
		Description: "Compares each package with what it was when it came and with the signed\n" +
			"checksums beside it, and index.json and VERSION.json with the archives. Takes\n" +
			"mirrors that others have made, and media that cannot be written. Opens no\n" +
			"connection and changes nothing.",
		Flags:  []cli.Flag{trustKeyFlag()},
		Action: func(c *cli.Context) error { return mirrorVerify(c, out) },
	}
}

// mirrorVerify ends with exitFound if anything is wrong, and with exitFailed if that
// could not be found out.
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
	var all []ui.Checked
	for _, s := range v.Vouched {
		report, _ := m.vouch(s) // which has just succeeded
		all = append(all, ui.CheckedOf(s.ID, s.Verdict, report))
	}
	if out.JSON || out.Level == ui.Verbose {
		out.Checked(all)
	}
	out.Say("verified %s, %s", ui.Count(v.Packages, "package"), ui.Size(v.Bytes))
	if v.Unvouched > 0 {
		out.Say("for %d of them no evidence vouches", v.Unvouched)
	}
	out.Keys(all, "mirror")
	return found(len(v.Findings), "thing", "found in the mirror",
		"larder mirror index rebuilds index.json and VERSION.json; remove damaged packages, then run larder mirror sync")
}
