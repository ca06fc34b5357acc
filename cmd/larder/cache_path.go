package main

import (
	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

func cachePathCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "path",
		Usage:     "print the path of the plugin cache",
		UsageText: "larder cache path",
		Action: func(c *cli.Context) error {
			k, err := findCache(c, out)
			if err != nil {
				return err
			}
			out.Result("cache", struct {
				Path string `json:"path"`
			}{k.path}, "%s", k.path)
			return nil
		},
	}
}
