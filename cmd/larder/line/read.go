package line

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// A Line is a command line that was read. The methods for flags return the values of the last one with a
// name, wherever it stands.
type Line struct {
	Command *Command // the program itself if no command is named
	Words   []string // arguments
	Help    bool     // help of the command is requested

	root  *Command
	flags []string // as typed, each value behind its flag
	err   error
	of    *cli.Context

	variables map[string]string // those that have set flags, by flag
}

// Read reads the words of a command line, which begin with the name of the program. Flags may come
// before or after arguments, and be combined, as in -uR. All words after -- are arguments. The line is
// never nil: even a line with errors contains the flags before them.
func Read(root *Command, words []string) (*Line, error) {
	l := &Line{root: root, Command: root, variables: map[string]string{}}
	if len(words) > 0 {
		l.scan(words[1:])
	}
	app := &cli.App{
		Flags: libraryFlags(l.Command.Flags), HideHelp: true, HideVersion: true, DisableSliceFlagSeparator: true,
		Action:         func(c *cli.Context) error { l.of = c; return nil },
		OnUsageError:   func(c *cli.Context, err error, _ bool) error { l.of = c; return err },
		ExitErrHandler: func(*cli.Context, error) {},
	}
	if err := app.Run(slices.Concat([]string{root.Name}, l.flags, []string{"--"}, l.Words)); err != nil && l.err == nil {
		l.err = report.Usage(err)
	}
	return l, l.err
}

// scan reads the words after the name of the program.
func (l *Line) scan(words []string) {
	for ; len(words) > 0; words = words[1:] {
		word := words[0]
		sub := l.Command.Find(word)
		switch {
		case word == "--" && len(l.Command.Commands) > 0: // a command follows
		case word == "--":
			l.Words = append(l.Words, words[1:]...)
			return
		case l.Command.Passes && !strings.HasPrefix(word, "-"):
			l.Words = append(l.Words, words...)
			return
		case word == "-h" || word == "-help" || word == "--help":
			l.Help = true
		case strings.HasPrefix(word, "-") && word != "-":
			if words = l.scanFlag(words); words == nil {
				return
			}
		case sub != nil && l.Words == nil:
			l.Command = sub
		default:
			if l.Words == nil && len(l.Command.Commands) > 0 {
				typed := append(strings.Fields(l.Command.Path), word)
				if len(words) > 1 && elsewhere[strings.Join(typed, " ")+" "+words[1]] != "" {
					typed = append(typed, words[1])
				}
				l.fail(unknownCommand(l.root, typed))
			}
			l.Words = append(l.Words, word)
		}
	}
}

// fail keeps the first error. An unknown command is more than wrong flags before it.
func (l *Line) fail(err error) {
	if l.err == nil || isUnknownCommand(err) {
		l.err = report.Usage(err)
	}
}

// scanFlag reads the flag that words begin with, and returns the words from its last one.
func (l *Line) scanFlag(words []string) []string {
	for _, typed := range l.apart(words[0]) {
		name, value, assigned := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(typed, "-"), "-"), "=")
		f := l.Command.flag(name)
		switch {
		case f == nil:
			l.fail(unknownFlag(l.root, l.Command, name, typed))
			return words
		case f.Value == "" && !assigned:
			value = "true"
		case assigned:
		case len(words) == 1 || isFlag(words[1]):
			l.fail(withoutValue(l.Command, *f, typed, words[1:]))
			return words
		default:
			words = words[1:]
			value = words[0]
		}
		if what := f.refuses(value); what != "" {
			topic := l.Command.Path
			if topic == "" || f.Group == Global {
				topic = "flags"
			}
			l.fail(sources.WithHint(fmt.Errorf("%s: %q is not %s", Dashed(name), value, what), "larder help %s describes it", topic))
			return words
		}
		l.flags = append(l.flags, Dashed(f.Name)+"="+value)
	}
	return words
}

// withoutValue returns the error for a flag, as typed, before the other words of the line.
func withoutValue(cmd *Command, f Flag, typed string, next []string) error {
	err := fmt.Errorf("%s needs a value", typed)
	if len(next) > 0 {
		name, _, _ := strings.Cut(strings.TrimLeft(next[0], "-"), "=")
		if cmd.flag(name) == nil {
			return sources.WithHint(err, "if %[2]s is the value, write %[1]s=%[2]s", typed, next[0])
		}
	}
	value := f.Value
	if len(f.Offers) > 0 && f.Offers[0][0] != ':' {
		value = f.Offers[0]
	}
	return sources.WithHint(err, "write it after the flag, as in %s %s", typed, value)
}

// isFlag reports whether a word is a flag rather than a value, such as a negative number, or - for a
// file. Other values that begin with - are written after a =.
func isFlag(word string) bool {
	return len(word) > 1 && word[0] == '-' && (word[1] == '-' || unicode.IsLetter(rune(word[1])))
}

// apart splits combined switches: -uR becomes -u and -R. One unknown letter among them is a switch too,
// so that the error names it. Other flags are unchanged.
func (l *Line) apart(typed string) []string {
	letters := strings.TrimPrefix(typed, "-")
	if len(letters) < 2 || letters[0] == '-' || strings.Contains(letters, "=") || l.Command.flag(letters) != nil {
		return []string{typed}
	}
	var each []string
	unknown := 0
	for _, letter := range letters {
		if f := l.Command.flag(string(letter)); f == nil || f.Value != "" {
			unknown++
		}
		each = append(each, "-"+string(letter))
	}
	if unknown > 1 || unknown == 1 && nearestFlag(l.Command, letters) != "" {
		return []string{typed}
	}
	return each
}

// refuses returns what a value is not, or "" if the flag takes it.
func (f Flag) refuses(value string) string {
	var err error
	switch {
	case f.Value == "":
		if _, err = strconv.ParseBool(value); err != nil {
			return "true or false"
		}
	case f.Kind == Number:
		_, err = strconv.ParseInt(value, 0, strconv.IntSize)
	case f.Kind == Time:
		_, err = time.ParseDuration(value)
	}
	if err != nil {
		return string(f.Kind)
	}
	return ""
}

// libraryFlags returns flags as the library wants them.
func libraryFlags(flags []Flag) []cli.Flag {
	var all []cli.Flag
	for _, f := range flags {
		switch {
		case f.Value == "":
			all = append(all, &cli.BoolFlag{Name: f.Name})
		case f.Repeatable:
			all = append(all, &cli.StringSliceFlag{Name: f.Name})
		case f.Kind == Number:
			number, _ := strconv.Atoi(f.Default)
			all = append(all, &cli.IntFlag{Name: f.Name, Value: number})
		case f.Kind == Time:
			all = append(all, &cli.DurationFlag{Name: f.Name})
		default:
			all = append(all, &cli.StringFlag{Name: f.Name, Value: f.Default})
		}
	}
	return all
}

// Run runs the command of the line, or shows its help.
func (l *Line) Run(ctx context.Context, out *report.Output) error {
	switch {
	case l.Help:
		l.ShowHelp(out, l.Command)
		return nil
	case l.Command.Run == nil:
		var names []string
		for _, c := range l.Command.Visible() {
			names = append(names, c.Name)
		}
		return report.Usage(fmt.Errorf("%s needs a command: %s", l.Command.Path, ui.List("or", names)))
	case l.Command.Arguments == onlyFlags && len(l.Words) > 0:
		return report.Usage(fmt.Errorf("%s takes no arguments: %s", l.Command.Path, strings.Join(l.Words, " ")))
	case slices.Contains(l.Words, "") && !l.Command.Passes: // probably an unset variable
		return report.Usage(errors.New("an argument is empty"))
	case l.Command.refusesWords(l.Words):
		return report.Usage(fmt.Errorf("%s %s", l.Command.Path, l.Command.Needs))
	}
	if l.Command.Leaves != "" {
		out.OnInterrupt(l.Command.Leaves)
	}
	return l.Command.Run(ctx, l, out)
}

// refusesWords reports whether the command takes another number of arguments.
func (c *Command) refusesWords(words []string) bool {
	return len(words) < c.Least || c.Most > 0 && len(words) > c.Most
}
