package main

import (
	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

func cacheVerifyCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "verify every package in the plugin cache",
		ArgsUsage: "[FLAG...]",
		UsageText: "larder cache verify",
		Description: "Compares each package with its record, or with the hashes recorded for it, and with\n" +
			"its signed checksums. Changes nothing, and needs no network.",
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
	out.Summary(sum)
	k.tellUnknown(v)
	if sum.Problems == 0 {
		out.Say("No problem in %s", read)
	}
	return found(sum.Problems, "problem", "in "+read, "larder cache repair replaces damaged packages")
}
