package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
)

func bundleVerifyCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "verify every package in a bundle",
		ArgsUsage: "FILE... [FLAG...]",
		UsageText: "larder bundle verify usb.tar",
		Description: "Hashes packages and their contents, and verifies their signed checksums. A bundle\n" +
			"in parts needs all of them. Changes nothing, and needs no network.",
		Flags:  trustFlags(),
		Action: func(c *cli.Context) error { return bundleVerify(c, out) },
	}
}

// bundleVerify returns exitFound if it finds a problem, and exitFailed if the verification
// itself fails.
func bundleVerify(c *cli.Context, out *ui.Output) error {
	if !c.Args().Present() {
		return usageError{errors.New("bundle verify needs the FILE of a bundle, or of each of its parts")}
	}
	m, err := here(c, out)
	if err != nil {
		return err
	}
	v, err := ui.Work(out, func(report ui.Report) (bundle.Verification, error) {
		return bundle.Verify(c.Context, m.files(c.Args().Slice()), bundle.VerifyOptions{Judge: m.bundleJudge(), Report: report})
	})
	if err != nil {
		return err
	}
	for _, f := range v.Findings {
		out.Result("finding", ui.FindingOf(f.Kind, f.File, f.Package, f.Err.Error()), "%s", out.Shorten(f.Error()))
	}
	packages := bundledAs(v.Packages)
	file := c.Args().First()
	distrusted, hint := m.trustFindings(packages, func(sources.Stored) string { return file }, file)
	problems := len(v.Findings) + distrusted
	if len(v.Findings) > 0 {
		hint = "copy the bundle again, or ask for another; larder bundle import refuses it as it is"
	}
	all := ui.CheckedOf(packages)
	out.Checked(all)
	showPayload(out, v.Payload, ui.Span{})
	out.Summary(checkSummary{len(v.Packages), v.Bytes, problems, 0, len(v.Payload)})
	out.Say("Verified %s, %s%s%s", ui.Count(len(v.Packages), "package"), ui.Size(v.Bytes), withPayload(v.Payload), out.Keys(all, "bundle"))
	out.KeyList(all, m.suggestsKeys())
	return found(problems, "problem", fmt.Sprintf("in %s", ui.Count(c.NArg(), "file")), hint)
}
