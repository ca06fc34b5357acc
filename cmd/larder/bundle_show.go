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

// bundleShow reads only the manifest. Its output is what the bundle claims: nothing is
// verified.
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
	rows := make([]ui.Row, len(m.Packages))
	for i, p := range m.Packages {
		part := ""
		if m.Parts > 0 {
			part = fmt.Sprintf("part %d", p.Part)
		}
		vouched := map[bool]string{true: "signed checksums", false: "no signed checksums"}[evidence[p.ID.Release()]]
		rows[i] = ui.Row{Value: bundled(p), Cells: []ui.Span{
			{Text: out.Name(p.ID.Provider), Paint: ui.Bold}, {Text: p.ID.Version.String()}, {Text: p.ID.Platform.String()},
			{Text: ui.Size(p.Size)}, {Text: vouched}, {Text: part},
		}}
	}
	out.Grid("bundled", []ui.Column{{Head: "PROVIDER", Shorten: true}, {Head: "VERSION"}, {Head: "PLATFORM", Drop: 1}, {Head: "SIZE", Right: true}, {Head: "EVIDENCE", Drop: 2}, {Head: "PART"}}, rows)
	showPayload(out, m.Payload, ui.Span{})
	out.Summary(bundleSummary{max(m.Parts, 1), len(m.Packages), m.Size(), len(m.Base), len(m.Payload), false})
	if out.JSON {
		out.Object("bundle", infoOf(b.Name(), m))
	}
	if m.Parts > 0 {
		out.Say("This is part %d of %d", m.Part, m.Parts)
	}
	out.Say("%s, %s%s%s", ui.Count(len(m.Packages), "package"), ui.Size(m.Size()), withPayload(m.Payload), basedOn(m))
	return nil
}
