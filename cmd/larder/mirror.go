package main

import (
	"errors"

	"github.com/urfave/cli/v2"
)

func mirrorCommand(out *output) *cli.Command {
	return &cli.Command{
		Name:        "mirror",
		Usage:       "make mirrors and look after them",
		ArgsUsage:   "COMMAND [FLAG...]",
		Description: "\"larder help mirror COMMAND\" tells more.",
		Subcommands: []*cli.Command{
			mirrorSyncCommand(out),
		},
		HideHelpCommand: true,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand("mirror " + c.Args().First())
			}
			return usageError{errors.New("mirror needs a command: sync")}
		},
	}
}
