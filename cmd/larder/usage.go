package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/sources"
)

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
