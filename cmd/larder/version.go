package main

import (
	"runtime"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

func versionCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "version",
		Category:  forLarder,
		Usage:     "print the version",
		UsageText: "larder version",
		Action: func(c *cli.Context) error {
			v := struct {
				Version  string `json:"version"`
				Platform string `json:"platform"`
				Go       string `json:"go"`
			}{version(), sources.CurrentPlatform().String(), runtime.Version()}
			out.Result("version", v, "larder %s %s", v.Version, v.Platform)
			return nil
		},
	}
}
