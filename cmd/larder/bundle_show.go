package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
)

func bundleShowCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "list the packages in a bundle",
		ArgsUsage: "FILE [FLAG...]",
		UsageText: "larder bundle show usb.tar",
		Description: "Reads the manifest only, which is not verified. Lists the packages in other parts\n" +
			"of the bundle too.",
		Action: func(c *cli.Context) error { return bundleShow(c, out) },
	}
}

// bundleShow reads the manifest alone. What it shows is what the bundle claims: nothing
// was verified.
func bundleShow(c *cli.Context, out *ui.Output) error {
	if c.NArg() != 1 {
		return usageError{errors.New("bundle show takes one FILE")}
	}
	s, err := newSession(c, out)
	if err != nil {
		return err
	}
	b, err := bundle.Open(absolute(s.dir, c.Args().First()))
	if err != nil {
		return err
	}
	defer b.Close()
	m := b.Manifest
	evidence := m.Evidenced()
	var rows [][]string
	for _, p := range m.Packages {
		vouched := map[bool]string{true: "evidence", false: "no evidence"}[evidence[p.ID.Release()]]
		row := []string{p.ID.String(), ui.Size(p.Size), vouched}
		if m.Parts > 0 {
			row = append(row, fmt.Sprintf("part %d", p.Part))
		}
		rows = append(rows, row)
	}
	out.Table("bundled", rows, func(i int) any { return bundled(m.Packages[i]) })
	if out.JSON {
		out.Object("bundle", infoOf(b.Name(), m))
	}
	if m.Parts > 0 {
		out.Say("this is part %d of %d", m.Part, m.Parts)
	}
	out.Say("%s, %s%s", ui.Count(len(m.Packages), "package"), ui.Size(m.Size()), basedOn(m))
	return nil
}
