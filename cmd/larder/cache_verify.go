package main

import (
	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

func cacheVerifyCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "verify",
		ArgsUsage: "[FLAG...]",
		Usage:     "hash everything in the plugin cache and name what is wrong",
		Description: "Compares each package with what was recorded when it was stored, or else with\n" +
			"what is remembered of it, and with the signed checksums that are kept with it.\n" +
			"Opens no connection and changes nothing.",
		Action: func(c *cli.Context) error { return cacheVerify(c, out) },
	}
}

// cacheVerify ends with exitFound if anything is wrong, and with exitFailed if that
// could not be found out. It changes nothing, also where it could mend: that is for
// cacheRepair.
func cacheVerify(c *cli.Context, out *ui.Output) error {
	k, v, err := verifyCache(c, out, false)
	if err != nil || k.cache == nil {
		return err
	}
	for _, f := range v.Findings {
		out.Result("finding", ui.FindingOf(f.Kind, f.Path, f.Package, f.Text), "%s", f)
	}
	k.sum(v)
	return found(len(v.Findings), "thing", "found in the plugin cache", "larder cache repair replaces damaged packages")
}
