package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

func mirrorVerifyCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "read everything in a mirror and name what is wrong",
		ArgsUsage: "DIR [FLAG...]",
		Description: "Compares each package with what it was when it came and with the signed\n" +
			"checksums beside it, and index.json and VERSION.json with the archives. Takes\n" +
			"mirrors that others have made, and media that cannot be written. Opens no\n" +
			"connection and changes nothing.\n" +
			"Exit status: 0 all is well, 1 it could not be told, 3 something was found.",
		Flags:  []cli.Flag{trustKeyFlag()},
		Action: func(c *cli.Context) error { return mirrorVerify(c, out) },
	}
}

func mirrorVerify(c *cli.Context, out *ui.Output) error {
	m, b, err := mirrorHere(c, out, builder.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	var v *builder.Verification
	err = out.Work(func(report func(done, of int64)) (err error) {
		v, err = b.Verify(c.Context, report)
		return err
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
	if n := len(v.Findings); n > 0 {
		err := fmt.Errorf("%s found in the mirror", ui.Count(n, "thing"))
		return foundError{sources.WithHint(err, "larder mirror index mends what index.json and VERSION.json say; remove packages that are wrong, and sync again")}
	}
	return nil
}

func mirrorIndexCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "index",
		Usage:     "make a mirror's JSON anew from its archives",
		ArgsUsage: "DIR [FLAG...]",
		Description: "Reads all archives and writes those of index.json and VERSION.json that are not\n" +
			"as they should be: so a directory of archives becomes a network mirror. Archives\n" +
			"that cannot be read are left out. Exit status: 0 done, 1 some were left out.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "tell what would be written, and write nothing"},
		},
		Action: func(c *cli.Context) error { return mirrorIndex(c, out) },
	}
}

func mirrorIndex(c *cli.Context, out *ui.Output) error {
	dry := c.Bool("dry-run")
	m, b, err := mirrorHere(c, out, builder.Options{ReadOnly: dry, Paranoid: true})
	if err != nil {
		return err
	}
	var changes []builder.Change
	var leftOut []error
	err = out.Work(func(func(done, of int64)) (err error) {
		changes, leftOut, err = b.Index(c.Context)
		return err
	})
	for _, change := range changes {
		did := "written"
		if change.Removed {
			did = "removed"
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
	if err == nil && len(changes) == 0 {
		out.Say("nothing to do: the index says what is there")
	}
	return errors.Join(append(leftOut, err, b.Close())...)
}
