// Package line handles the command line: commands and flags as data, parsing, help, completion, and
// suggestions for mistyped words. It contains no commands: package main describes them, each with a
// function to run. Only this package imports the command-line library, which parses.
package line

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cmd/larder/report"
)

// A Command is a command, or a group of commands. Help and manual pages are generated from it.
type Command struct {
	Name      string
	Aliases   []string // other names, which completion does not offer
	Job       string   // heading in help; for commands that are in no group
	Does      string   // in a few words
	Arguments string   // as in "[PATH...] [FLAG...]"; empty if it takes none
	Least     int      // number of arguments required
	Most      int      // number of arguments it takes; 0 means any
	Needs     string   // for other numbers of arguments, as in "takes one FILE"
	Example   string   // command lines, the harmless one first
	About     string
	Flags     []Flag     // without those of the program; see [Command.AllFlags]
	Leaves    string     // what remains after an interruption; empty if it writes nothing
	Passes    bool       // its arguments are a command line of another program, which isn't changed
	OnlyDirs  bool       // a PATH is a directory
	Topics    []*Command // of the help command: other subjects, with a name and what shows them
	Commands  []*Command // of a group, which only has these
	Run       func(ctx context.Context, l *Line, out *report.Output) error

	Path  string        // as typed, without the program; set by [New]
	flags func() []Flag // see [Command.AllFlags]; set by [New]
}

// A Kind is what values a flag takes.
type Kind string

// The kinds. A flag without a placeholder for its value is a switch. No value is empty, as an unset variable would be.
const (
	Text   Kind = ""
	Number Kind = "a whole number" // greater than 0
	Time   Kind = "a time, such as 30s or 5m"
	Size   Kind = "a size, such as 20G"
	Age    Kind = "an age, such as 30d"
	Choice Kind = "one of what it offers"

	// Paths, which the shell completes if it reads these lines.
	Dir  Kind = ":dirs"
	File Kind = ":files" // or a directory
)

// A Flag is a flag of a command, in JSON too.
type Flag struct {
	Name       string `json:"name"`
	Short      string `json:"short,omitempty"`
	Alias      string `json:"alias,omitempty"` // another short name
	Value      string `json:"value,omitempty"` // placeholder; empty for a switch
	Repeatable bool   `json:"repeatable,omitempty"`
	Group      string `json:"group,omitempty"`    // heading
	Does       string `json:"does"`               // with the default
	Variable   string `json:"variable,omitempty"` // environment variable

	Kind     Kind     `json:"-"`
	Default  string   `json:"-"` // added to Does; also the value of a choice, a number or a time that isn't set
	Offers   []string `json:"-"` // values for completion
	Excludes string   `json:"-"` // the name of a flag that can't be combined with it
	Hidden   bool     `json:"-"`
}

// The headings of flags. Help of single commands omits those of every command.
const (
	Global = "global"
	Other  = "Other"
)

// New completes a tree of commands, whose root is the program: every command has the global flags of the
// root.
func New(root *Command) *Command {
	root.flags = sync.OnceValue(func() []Flag { return described(root.Flags, Global) })
	root.complete("", root.flags)
	return root
}

func (c *Command) complete(path string, global func() []Flag) {
	for _, sub := range c.Commands {
		sub.Path = strings.TrimSpace(path + " " + sub.Name)
		sub.flags = sync.OnceValue(func() []Flag { return append(described(sub.Flags, Other), global()...) })
		if len(sub.Commands) > 0 {
			sub.Arguments = "COMMAND [ARGUMENT...] " + onlyFlags
		} else if sub.Arguments == "" {
			sub.Arguments = onlyFlags
		}
		sub.complete(sub.Path, global)
	}
}

// described returns flags with a heading, and their defaults in their descriptions.
func described(flags []Flag, heading string) []Flag {
	flags = slices.Clone(flags)
	for i, f := range flags {
		flags[i].Group = cmp.Or(f.Group, heading)
		if f.Default != "" {
			flags[i].Does += " (default: " + f.Default + ")"
		}
	}
	return flags
}

// onlyFlags are the arguments of a command that takes none.
const onlyFlags = "[FLAG...]"

// Find returns the command at a path below this one, or nil.
func (c *Command) Find(path ...string) *Command {
	for _, name := range path {
		i := slices.IndexFunc(c.Commands, func(c *Command) bool { return c.goesBy(name) })
		if i < 0 {
			return nil
		}
		c = c.Commands[i]
	}
	return c
}

// All returns all commands below, groups before theirs.
func (c *Command) All() []*Command {
	var all []*Command
	for _, sub := range c.Commands {
		all = append(append(all, sub), sub.All()...)
	}
	return all
}

// Own returns the visible flags that are not global, by heading.
func (c *Command) Own() []Flag {
	own := slices.DeleteFunc(slices.Clone(c.AllFlags()), func(f Flag) bool { return f.Hidden || f.Group == Global })
	return byHeading(own, func(f Flag) string { return f.Group })
}

// Examples returns the lines of Example.
func (c *Command) Examples() []string {
	return strings.FieldsFunc(c.Example, func(r rune) bool { return r == '\n' })
}

// Global returns the visible flags of every command.
func (c *Command) Global() []Flag {
	return slices.DeleteFunc(slices.Clone(c.AllFlags()), func(f Flag) bool { return f.Hidden || f.Group != Global })
}

// byHeading sorts by heading, in the order in which the headings appear. [Other] is the last.
func byHeading[T any](all []T, heading func(T) string) []T {
	first := map[string]int{Other: len(all)}
	for i, e := range all {
		if _, known := first[heading(e)]; !known {
			first[heading(e)] = i
		}
	}
	slices.SortStableFunc(all, func(a, b T) int { return first[heading(a)] - first[heading(b)] })
	return all
}

// AllFlags returns the flags of the command and of the program. A run needs those of few commands.
func (c *Command) AllFlags() []Flag { return c.flags() }

// flag returns the flag with a long or short name, or nil.
func (c *Command) flag(name string) *Flag { return flagNamed(c.AllFlags(), name) }

func flagNamed(flags []Flag, name string) *Flag {
	i := slices.IndexFunc(flags, func(f Flag) bool {
		return name != "" && (f.Name == name || f.Short == name || f.Alias == name)
	})
	if i < 0 {
		return nil
	}
	return &flags[i]
}

// IsPath reports whether the values of a flag are paths.
func (f Flag) IsPath() bool { return f.Kind == Dir || f.Kind == File }

// Dashed returns the name of a flag as typed.
func Dashed(name string) string { return strings.Repeat("-", min(len(name), 2)) + name }

// Written returns a flag as help shows it.
func (f Flag) Written() string {
	text := Dashed(f.Name)
	for _, short := range []string{f.Short, f.Alias} {
		if short != "" {
			text = Dashed(short) + ", " + text
		}
	}
	if f.Value != "" {
		text += " " + f.Value
	}
	if f.Repeatable && !strings.HasSuffix(f.Value, "...") {
		text += "..."
	}
	return text
}

// goesBy reports whether a command has a name.
func (c *Command) goesBy(name string) bool { return c.Name == name || slices.Contains(c.Aliases, name) }
