package main

import (
	"context"
	"errors"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job/install"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var installCommand = &line.Command{
	Name:      "install",
	Job:       forModules,
	Does:      "install the providers that root modules require",
	Arguments: "[PATH...] [FLAG...]",
	OnlyDirs:  true,
	Example:   "larder install -R --upgrade",
	About: "Installs providers as terraform init and tofu init do: the same versions, the same\n" +
		"lock file, the same files in .terraform. PATH is a root module.",
	Flags: slices.Concat([]line.Flag{
		upgradeFlag,
	}, treeFlags(notHere), trustFlags, installFlags("show what would be installed")),
	Leaves: "providers already installed are complete; the lock file is intact",
	Run:    atSite(installRoots),
}

// installRoots reads the flags of install, and runs the installation.
func installRoots(ctx context.Context, l *line.Line, s *site.Site) error {
	readOnlyLock, err := readOnlyLockFile(l)
	if err != nil {
		return err
	}
	if readOnlyLock && l.Bool("upgrade") {
		return report.Usage(errors.New("--upgrade and --lockfile readonly exclude each other"))
	}
	return install.Install(ctx, s, install.InstallRequest{Roots: l.Words, PluginDirs: l.Texts("plugin-dir"), ReadOnlyLock: readOnlyLock})
}
