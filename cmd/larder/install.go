package main

import (
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job/install"
	"github.com/larder-cli/larder/cmd/larder/line"
)

var installCommand = &line.Command{
	Name:      "install",
	Job:       forModules,
	Does:      "install the providers that root modules require",
	Arguments: "[PATH...] [FLAG...]",
	OnlyDirs:  true,
	Example:   "larder install --dry-run\nlarder install\nlarder install -R --upgrade",
	About: "Installs providers as terraform init and tofu init do: the same versions, the same\n" +
		"lock file, the same files in .terraform. PATH is a root module.",
	Flags: slices.Concat([]line.Flag{
		upgradeFlag,
	}, treeFlags(thisOne), trustFlags, installFlags("show what would be installed"), []line.Flag{allowEmptyFlag}),
	Leaves: "providers already installed are complete; the lock file is intact",
	Run:    onWords(install.Install),
}
