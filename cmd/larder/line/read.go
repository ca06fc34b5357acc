package line

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
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

	root *Command
	at   *cli.Context // of the command: the library continues there
	err  error

	values    map[string][]string // of flags by name, in the order of the line
	variables map[string]string   // those that have set flags, by flag
}

// Read reads the words of a command line, which begin with the name of the program. Flags may come
// before or after arguments, and be combined, as in -uR. All words after -- are arguments. The line is
// never nil: even a line with errors contains its other flags.
//
// The library parses the line. What it can't do is done here:
//   - It stops at the first argument, and takes another flag as a value. So it parses one part of the line after the
//     other. Only the first word of a part can be a flag, and a negative number after it.
//   - It doesn't pass arguments on to another program, and doesn't report that it has skipped a --.
//   - It stops at errors, returns them as text, and knows other suggestions: see parse, unknownFlag and unknownCommand.
func Read(root *Command, words []string) (*Line, error) {
	l := &Line{root: root, Command: root, values: map[string][]string{}, variables: map[string]string{}}
	l.at = cli.NewContext(&cli.App{}, nil, nil)
	l.at.Command = l.library(root, words)
	for words = words[min(1, len(words)):]; len(words) > 0; {
		n := 1
		if dashed(words[0]) && len(words) > 1 && !isFlag(words[1]) { // which may be its value
			n = 2
		}
		for n < len(words) && !dashed(words[n]) {
			n++
		}
		switch {
		case l.runs():
			n = len(words)
			l.Words = append(l.Words, words...)
		case words[0] == "--" && len(l.Command.Commands) == 0:
			n = len(words)
			l.Words = append(l.Words, words[1:]...)
		default:
			l.parse(words[:n])
		}
		words = words[n:]
	}
	return l, l.err
}

// library returns a command as the library describes it, with those of its commands that the words can name. What the
// library parses is recorded in the line.
func (l *Line) library(c *Command, words []string) *cli.Command {
	parser := &cli.Command{
		Name: c.Name, Aliases: c.Aliases, HideHelp: true, UseShortOptionHandling: true,
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return err },
		Action: func(at *cli.Context) error {
			l.at, l.Command = at, c
			words := at.Args().Slice()
			if l.Words == nil && len(words) > 0 && len(c.Commands) > 0 {
				typed := append(strings.Fields(c.Path), words[0])
				if len(words) > 1 && elsewhere[strings.Join(append(typed, words[1]), " ")] != "" {
					typed = append(typed, words[1])
				}
				l.fail(unknownCommand(l.root, typed))
			}
			l.Words = append(l.Words, words...)
			return nil
		},
	}
	flags := c.AllFlags()
	for i, f := range flags {
		for _, name := range []string{f.Name, f.Short, f.Alias} {
			if name != "" {
				value := recorder{l, &flags[i], Dashed(name)}
				parser.Flags = append(parser.Flags, named{&cli.GenericFlag{Name: name, Value: value}})
			}
		}
	}
	for _, sub := range c.Commands {
		if slices.ContainsFunc(words, sub.goesBy) {
			parser.Subcommands = append(parser.Subcommands, l.library(sub, words))
		}
	}
	return parser
}

// A named flag has one name. The library would look for others with a regular expression, for each pair of flags.
type named struct{ *cli.GenericFlag }

func (f named) Names() []string { return []string{f.Name} }

// A recorder records the values of a flag. It implements [cli.Generic].
type recorder struct {
	l    *Line
	f    *Flag
	name string // as typed
}

// Set records a value, or the error of a value that the flag refuses. The library then continues.
func (r recorder) Set(value string) error {
	topic := r.l.Command.Path
	if topic == "" || r.f.Group == Global {
		topic = "flags"
	}
	if err := r.f.refuse(r.name, value, topic); err != nil {
		r.l.fail(err)
	} else {
		r.l.values[r.f.Name] = append(r.l.values[r.f.Name], value)
	}
	return nil
}

// String returns no default.
func (r recorder) String() string { return "" }

// IsBoolFlag reports whether the flag is a switch, which the library sets without a value.
func (r recorder) IsBoolFlag() bool { return r.f.Value == "" }

// parse lets the library parse a part of the line. After an error, it continues with the next word.
func (l *Line) parse(part []string) {
	err := l.at.Command.Run(l.at, slices.Concat([]string{l.root.Name}, part)...)
	if err == nil {
		return
	}
	_, typed, _ := strings.Cut(err.Error(), ": ") // the flag with one -
	if strings.HasPrefix(part[0], "-"+typed) {
		typed = "-" + typed
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		l.Help = true
	case strings.Contains(err.Error(), "needs an argument"):
		l.fail(withoutValue(l.Command.flag(strings.TrimLeft(typed, "-")), typed))
	default:
		l.fail(unknownFlag(l.root, l.Command, typed))
		if len(part) > 2 && l.Command == l.root && l.takesValue(typed) {
			part = part[1:]
		}
	}
	l.parse(part[1:])
}

// takesValue reports whether a flag, as typed, is one of a command or of another program, with a value.
func (l *Line) takesValue(typed string) bool {
	if flagsElsewhere[strings.TrimLeft(typed, "-")] != "" {
		return true
	}
	return slices.ContainsFunc(l.root.All(), func(c *Command) bool {
		f := flagNamed(c.Own(), strings.TrimLeft(typed, "-"))
		return f != nil && f.Value != ""
	})
}

// fail keeps the first error. An unknown command is more than wrong flags before it.
func (l *Line) fail(err error) {
	if l.err == nil || errors.Is(err, errUnknownCommand) {
		l.err = report.Usage(err)
	}
}

// withoutValue returns the error for a flag, as typed.
func withoutValue(f *Flag, typed string) error {
	value := f.Value
	if len(f.Offers) > 0 {
		value = f.Offers[0]
	}
	return sources.WithHint(fmt.Errorf("%s needs a value", typed), "write it after the flag, as in %s %s", typed, value)
}

// isFlag reports whether a word is a flag rather than a value, such as a negative number, or - for a
// file. Other values that begin with - are written after a =.
func isFlag(word string) bool {
	return dashed(word) && (word[1] == '-' || unicode.IsLetter(rune(word[1])))
}

// dashed reports whether a word can't be an argument.
func dashed(word string) bool { return len(word) > 1 && word[0] == '-' }

// Run runs the command of the line, or shows its help.
func (l *Line) Run(ctx context.Context, out *report.Output) error {
	switch {
	case l.Help:
		l.ShowHelp(out, l.Command)
		return nil
	case l.Command.Run == nil:
		return report.Usage(fmt.Errorf("%s needs a command: %s", l.Command.Path, ui.List("or", namesOf(l.Command.Commands))))
	case l.Command.Arguments == onlyFlags && len(l.Words) > 0:
		return report.Usage(fmt.Errorf("%s takes no arguments: %s", l.Command.Path, strings.Join(l.Words, " ")))
	case slices.Contains(l.Words, "") && !l.Command.Passes: // probably an unset variable
		return report.Usage(errors.New("an argument is empty"))
	case len(l.Words) < l.Command.Least || l.Command.Most > 0 && len(l.Words) > l.Command.Most:
		return report.Usage(fmt.Errorf("%s %s", l.Command.Path, l.Command.Needs))
	}
	if l.Command.Leaves != "" {
		out.OnInterrupt(l.Command.Leaves)
	}
	return l.Command.Run(ctx, l, out)
}
