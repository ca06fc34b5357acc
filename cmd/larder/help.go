package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

func helpCommand() *cli.Command {
	return &cli.Command{
		Name:      "help",
		Usage:     "tell more about a command, or about what all have",
		ArgsUsage: "[COMMAND | flags | exit-status]",
		Action:    help,
	}
}

func help(c *cli.Context) error {
	topic := strings.Join(c.Args().Slice(), " ")
	cmd := find(c.App.Commands, c.Args().Slice())
	switch {
	case topic == "":
		fmt.Fprint(c.App.Writer, appHelp(c.App))
	case topic == "flags":
		fmt.Fprint(c.App.Writer, flagsHelp())
	case topic == "exit-status":
		fmt.Fprint(c.App.Writer, exitHelp())
	case cmd != nil:
		fmt.Fprint(c.App.Writer, commandHelp(topic, cmd))
	default:
		return unknownCommand(topic)
	}
	return nil
}
