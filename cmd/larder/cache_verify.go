package main

import (
	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

func cacheVerifyCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "verify every package in the plugin cache",
		ArgsUsage: "[FLAG...]",
		UsageText: "larder cache verify",
		Description: "Compares each package with its record, or with the hashes recorded for it, and with\n" +
			"its signed checksums. Changes nothing, and needs no network.",
		Flags:  trustFlags(),
		Action: func(c *cli.Context) error { return cacheVerify(c, out) },
	}
}

// cacheVerify returns exitFound if it finds a problem, and exitFailed if the verification
// itself fails. It changes nothing: cacheRepair does the repairs.
func cacheVerify(c *cli.Context, out *ui.Output) error {
	k, v, err := verifyCache(c, out, false)
	if err != nil || k.cache == nil {
		return err
	}
	for _, f := range v.Findings {
		out.Result("finding", ui.FindingOf(f.Kind, f.Path, f.Package, f.Text), "%s", f)
	}
	sum, read := k.sum(v)
	distrusted, hint := k.trustFindings(v.Packages, func(s sources.Stored) string { return s.ID.Path() }, k.path)
	sum.Problems += distrusted
	if len(v.Findings) > 0 {
		hint = "larder cache repair replaces damaged packages"
	}
	all := ui.CheckedOf(v.Packages)
	if out.JSON || out.Level == ui.Verbose {
		out.Checked(all)
	}
	out.Summary(sum)
	k.tellUnknown(v)
	if sum.Problems == 0 {
		out.Say("No problem in %s", read)
	}
	return found(sum.Problems, "problem", "in "+read, hint)
}
