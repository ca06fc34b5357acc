package main

import (
	"context"
	"runtime/debug"
	"strings"

	"golang.org/x/mod/module"

	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/sources"
)

// scripts/release sets both.
var (
	releaseVersion string // without a leading v
	releaseCommit  string // hexadecimal
)

var versionCommand = &line.Command{
	Name:    "version",
	Job:     forLarder,
	Does:    "print the version",
	Example: "larder version",
	Run:     showVersion,
}

func showVersion(_ context.Context, _ *line.Line, out *report.Output) error {
	out.Show(thisVersion())
	return nil
}

// thisVersion returns the version of this program.
func thisVersion() report.Version {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionOf(info)
}

// versionOf returns the version that scripts/release has set, or else what Go has recorded: the
// version of the module for "go install", the commit for a build in a repository.
func versionOf(info *debug.BuildInfo) report.Version {
	v := report.Version{Version: releaseVersion, Commit: releaseCommit, Go: info.GoVersion}
	v.Platform = sources.CurrentPlatform().String()
	if v.Version == "" {
		v.Version = strings.TrimPrefix(info.Main.Version, "v")
		if v.Version == "" || v.Version == "(devel)" {
			v.Version = "devel"
		}
		v.Commit, _ = module.PseudoVersionRev(strings.TrimSuffix(info.Main.Version, "+dirty"))
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	return v
}
