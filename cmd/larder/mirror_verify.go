package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

func mirrorVerifyCommand(out *output) *cli.Command {
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

func mirrorVerify(c *cli.Context, out *output) error {
	m, b, err := mirrorHere(c, out, builder.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	shown := out.followed()
	shown.work(0, 0) // the first package may take a while
	v, err := b.Verify(c.Context, shown.work)
	shown.end(itemKey{})
	if err != nil {
		return err
	}
	for _, f := range v.Findings {
		told := finding{Kind: string(f.Kind), Path: f.Path, Text: f.Text}
		if id := f.Package; id != nil {
			told.Provider, told.Version, told.Platform = id.Provider.String(), id.Version.String(), id.Platform.String()
		}
		out.result("finding", told, "%s", f)
	}
	var all []checkedPackage
	for _, s := range v.Vouched {
		report, _ := m.vouch(s) // which has just succeeded
		all = append(all, checked(s.ID, s.Verdict, report))
	}
	out.checked(verbose, all)
	out.say(normal, "verified %s, %s", count(v.Packages, "package"), humanSize(v.Bytes))
	if v.Unvouched > 0 {
		out.say(normal, "for %d of them no evidence vouches", v.Unvouched)
	}
	out.keys(all, "mirror")
	if n := len(v.Findings); n > 0 {
		err := fmt.Errorf("%s found in the mirror", count(n, "thing"))
		return foundError{sources.WithHint(err, "larder mirror index mends what index.json and VERSION.json say; remove packages that are wrong, and sync again")}
	}
	return nil
}

func mirrorIndexCommand(out *output) *cli.Command {
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

func mirrorIndex(c *cli.Context, out *output) error {
	dry := c.Bool("dry-run")
	m, b, err := mirrorHere(c, out, builder.Options{ReadOnly: dry, Paranoid: true})
	if err != nil {
		return err
	}
	shown := out.followed()
	shown.work(0, 0)
	changes, leftOut, err := b.Index(c.Context)
	shown.end(itemKey{})
	for _, change := range changes {
		did := "written"
		if change.Removed {
			did = "removed"
		}
		if dry {
			did = "would be " + did
		}
		m.out.result("document", struct {
			Path   string `json:"path"`
			Do     string `json:"do"`
			DryRun bool   `json:"dry_run"`
		}{change.Path, did, dry}, "%s: %s", change.Path, did)
	}
	if err == nil && len(changes) == 0 {
		out.say(normal, "nothing to do: the index says what is there")
	}
	return errors.Join(append(leftOut, err, b.Close())...)
}
