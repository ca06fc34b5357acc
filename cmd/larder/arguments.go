package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst is the command line with flags in front of what they stand behind
// of: the flag package would take them for arguments. What follows a -- is left
// as it is.
func flagsFirst(app *cli.App, args []string) []string {
	if len(args) == 0 {
		return nil
	}
	flags, commands := app.Flags, app.Commands
	ordered, operands := slices.Clone(args[:1]), []string(nil)
	for args = args[1:]; len(args) > 0; args = args[1:] {
		arg := args[0]
		cmd := find(commands, []string{arg})
		switch {
		case arg == "--":
			return slices.Concat(ordered, args[:1], operands, args[1:])
		case strings.HasPrefix(arg, "-") && arg != "-":
			ordered = append(ordered, arg)
			if len(args) > 1 && wantsValue(flags, arg) {
				args = args[1:]
				ordered = append(ordered, args[0])
			}
		case cmd != nil && operands == nil:
			ordered = append(ordered, arg)
			flags, commands = cmd.Flags, cmd.Subcommands
		default:
			operands = append(operands, arg)
		}
	}
	return append(ordered, operands...)
}

// wantsValue reports whether the argument after this one is a flag's value.
func wantsValue(flags []cli.Flag, arg string) bool {
	name := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
	i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return false
	}
	_, simple := flags[i].(*cli.BoolFlag)
	return !simple
}
