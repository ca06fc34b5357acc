package main

import (
	"errors"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

func installCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "install",
		Category:  forModules,
		Usage:     "install the providers that root modules require",
		ArgsUsage: "[PATH...] [FLAG...]",
		UsageText: "larder install -R --upgrade",
		Description: "Does the provider part of terraform init and tofu init: the same\n" +
			"versions, the same lock file, the same files. PATH is a root module.",
		Flags: slices.Concat([]cli.Flag{
			upgradeFlag(),
		}, treeFlags(), trustFlags(), []cli.Flag{
			lockFileFlag(),
			&cli.StringSliceFlag{Name: "plugin-dir", Usage: "`DIR` mirrors to install from, and no other source"},
			&cli.BoolFlag{Name: "paranoid", Usage: "rehash every file, ignore hash records"},
			dryRunFlag("show what would be installed"),
		}),
		Action: func(c *cli.Context) error { return install(c, out) },
	}
}

// install reads the flags of install, and runs the installation.
func install(c *cli.Context, out *ui.Output) (err error) {
	in := &installation{}
	if in.readOnlyLock, err = readOnlyLockFile(c); err != nil {
		return err
	}
	if in.session, err = newSession(c, out); err != nil {
		return err
	}
	if in.readOnlyLock && in.flags.upgrade {
		return usageError{errors.New("--upgrade and --lockfile readonly exclude each other")}
	}
	if err := in.readPluginDirs(c.StringSlice("plugin-dir")); err != nil {
		return err
	}
	if err := in.takeRoots(c.Args().Slice()); err != nil {
		return err
	}
	return in.run(c.Context)
}
