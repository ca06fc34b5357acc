package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/sources"
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

// unknownCommand is the error of a command that does not exist.
func unknownCommand(name string) error {
	return usageError{sources.WithHint(fmt.Errorf("there is no command %q", name), "see larder help")}
}

// onUsageError makes the flag package's words ours.
func onUsageError(c *cli.Context, err error, isSubcommand bool) error {
	topic := "flags"
	if isSubcommand {
		topic = commandPath(c.Command)
	}
	return usageError{sources.WithHint(reword(err), "see larder help %s", topic)}
}

// commandPath is how a command is written, without larder.
func commandPath(cmd *cli.Command) string { return strings.TrimPrefix(cmd.HelpName, "larder ") }

// rewordings are the flag package's complaints, and ours.
var rewordings = []struct{ theirs, ours string }{
	{`^flag provided but not defined: -(?<flag>.*)$`, "there is no flag %s"},
	{`^flag needs an argument: -(?<flag>.*)$`, "%s needs a value"},
	{`(?s)^invalid (boolean )?value (?<value>.*) for (flag )?-(?<flag>[^:]*): .*$`, "%s cannot be %s"},
}

// reword puts an error of the flag package into larder's words. One that is not known
// stays as it is.
func reword(err error) error {
	for _, r := range rewordings {
		theirs := regexp.MustCompile(r.theirs)
		if m := theirs.FindStringSubmatch(err.Error()); m != nil {
			words := []any{dashed(m[theirs.SubexpIndex("flag")])}
			if i := theirs.SubexpIndex("value"); i > 0 {
				words = append(words, m[i])
			}
			return fmt.Errorf(r.ours, words...)
		}
	}
	return err
}
