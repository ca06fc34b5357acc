package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// A commandLine is a command line that was examined before the library parses its flags.
type commandLine struct {
	args     []string // with flags in front of arguments: the flag package stops at the first argument
	commands []*cli.Command
	flags    []cli.Flag
	help     bool   // help of the command was requested
	novalue  string // a flag that lacks its value
	unknown  string // the word in place of a command that does not exist, with the commands before it
}

// readCommandLine moves flags in front of the arguments that they follow, and splits
// combined flags such as -uR. It does not change arguments after --.
func readCommandLine(app *cli.App, args []string) commandLine {
	line := commandLine{flags: app.Flags}
	if len(args) == 0 {
		return line
	}
	commands, operands := app.Commands, []string(nil)
	line.args = slices.Clone(args[:1])
	for args = args[1:]; len(args) > 0; args = args[1:] {
		arg := args[0]
		cmd := find(commands, []string{arg})
		switch {
		case arg == "--":
			line.args = slices.Concat(line.args, args[:1], operands, args[1:])
			return line
		case line.path() == execName && !strings.HasPrefix(arg, "-"):
			line.args = slices.Concat(line.args, []string{"--"}, args)
			return line
		case arg == "-h" || arg == "-help" || arg == "--help":
			line.help = true
			line.args = append(line.args, arg)
		case strings.HasPrefix(arg, "-") && arg != "-":
			line.args = append(line.args, apart(line.flags, arg)...)
			switch {
			case !takesValue(line.flags, arg):
			case len(args) == 1, isFlag(args[1]):
				line.novalue = arg
			default:
				args = args[1:]
				line.args = append(line.args, args[0])
			}
		case cmd != nil && operands == nil:
			line.args = append(line.args, arg)
			line.commands = append(line.commands, cmd)
			line.flags, commands = cmd.Flags, cmd.Subcommands
		default:
			if operands == nil && len(commands) > 0 {
				line.unknown = strings.TrimSpace(line.path() + " " + arg)
			}
			operands = append(operands, arg)
		}
	}
	line.args = append(line.args, operands...)
	return line
}

// execName is the command whose arguments are a command line of another program, which isn't
// changed.
const execName = "exec"

// ownArguments returns the arguments of larder itself.
func ownArguments(args []string) []string {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i]
	}
	return args
}

// path returns the command as typed, without larder. It is empty if there is no command.
func (l commandLine) path() string {
	var names []string
	for _, cmd := range l.commands {
		names = append(names, cmd.Name)
	}
	return strings.Join(names, " ")
}

// isFlag reports whether an argument is a flag rather than a value, such as a negative number,
// or - for a file. Other values that begin with - are written after a =.
func isFlag(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && (arg[1] == '-' || unicode.IsLetter(rune(arg[1])))
}

// apart splits combined short flags: -uR becomes -u and -R. Other arguments are unchanged.
func apart(flags []cli.Flag, arg string) []string {
	letters, ok := strings.CutPrefix(arg, "-")
	if !ok || len(letters) < 2 || letters[0] == '-' || flagNamed(flags, letters) != nil {
		return []string{arg}
	}
	var each []string
	for _, letter := range letters {
		f := flagNamed(flags, string(letter))
		if _, simple := f.(*cli.BoolFlag); f == nil || !simple {
			return []string{arg}
		}
		each = append(each, "-"+string(letter))
	}
	return each
}

// takesValue reports whether the next argument is the value of this flag.
func takesValue(flags []cli.Flag, arg string) bool {
	f := flagNamed(flags, strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"))
	_, simple := f.(*cli.BoolFlag)
	return f != nil && !simple
}

// flagNamed returns the flag with a name, or nil if there is none.
func flagNamed(flags []cli.Flag, name string) cli.Flag {
	i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return nil
	}
	return flags[i]
}

// commandPaths returns the paths of all commands, without larder.
func commandPaths(parent string, commands []*cli.Command) []string {
	var all []string
	for _, cmd := range visibleCommands(commands) {
		path := strings.TrimSpace(parent + " " + cmd.Name)
		all = append(append(all, path), commandPaths(path, cmd.Subcommands)...)
	}
	return all
}

// visibleCommands omits hidden commands, and the help command that the library adds to
// commands with subcommands.
func visibleCommands(commands []*cli.Command) []*cli.Command {
	return slices.DeleteFunc(slices.Clone(commands), func(c *cli.Command) bool {
		return c.Hidden || c.Name == "help" && c.Category == ""
	})
}

// otherCommands maps command names of other programs to those of larder.
var otherCommands = map[string]string{
	"init": "install", "i": "install", "sync": "mirror sync", "update": "install --upgrade", "upgrade": "install --upgrade",
	"add": "prefetch", "get": "prefetch", "download": "prefetch", "fetch": "prefetch", "pull": "prefetch", "warm": "prefetch",
	"ls": "cache list", "list": "cache list", "clean": "cache prune", "gc": "cache prune", "du": "cache stats",
	"providers": "lock", "man": "help",
}

// unknownCommand returns the error for a command that does not exist. Its hint suggests
// similar commands. The path is the command as typed.
func unknownCommand(app *cli.App, path string) error {
	err := fmt.Errorf("unknown command %q", path)
	words := strings.Fields(path)
	if meant := meantCommands(app, words); len(meant) > 0 {
		return usageError{sources.WithHint(err, "did you mean %s?", ui.List("or", meant))}
	}
	if parent := find(app.Commands, words[:max(0, len(words)-1)]); parent != nil && len(parent.Subcommands) > 0 {
		return usageError{sources.WithHint(err, "larder help %s lists its commands", strings.Join(words[:len(words)-1], " "))}
	}
	return usageError{sources.WithHint(err, "larder help lists the commands")}
}

// meantCommands returns the quoted commands that are similar to words. The last word is
// not a command.
func meantCommands(app *cli.App, words []string) []string {
	if len(words) == 0 {
		return nil
	}
	before, last := words[:len(words)-1], words[len(words)-1]
	commands := app.Commands
	if parent := find(app.Commands, before); parent != nil {
		commands = parent.Subcommands
	}
	var names []string
	for _, cmd := range visibleCommands(commands) {
		names = append(names, cmd.Name)
	}
	if last == "help" && len(before) > 0 {
		return []string{fmt.Sprintf("%q", "help "+strings.Join(before, " "))}
	}
	if near := sources.Nearest(last, names); near != "" {
		return []string{fmt.Sprintf("%q", strings.Join(append(slices.Clone(before), near), " "))}
	}
	if other := otherCommands[last]; other != "" && len(before) == 0 {
		return []string{fmt.Sprintf("%q", other)}
	}
	var meant []string // subcommands with that name, of all commands
	for _, path := range commandPaths("", app.Commands) {
		if strings.HasSuffix(path, " "+last) && len(before) < 2 {
			meant = append(meant, fmt.Sprintf("%q", path))
		}
	}
	return meant
}

// onUsageError rewords the errors of the flag package and suggests similar flags.
func onUsageError(c *cli.Context, err error, isSubcommand bool) error {
	path, flags := "", c.App.Flags
	if isSubcommand || c.Command != nil && c.Command.HelpName != c.App.Name {
		path, flags = commandPath(c.Command), c.Command.Flags
	}
	if path == c.App.Name {
		path = ""
	}
	if m := unknownFlag().FindStringSubmatch(err.Error()); m != nil {
		return usageError{noSuchFlag(c.App, path, flags, m[1])}
	}
	topic := path
	m := badValue().FindStringSubmatch(err.Error())
	if path == "" || m != nil && flagNamed(globalFlags(), m[2]) != nil {
		topic = "flags"
	}
	return usageError{sources.WithHint(reword(err, flags), "larder help %s describes it", topic)}
}

// These regular expressions match the errors of the flag package.
var (
	unknownFlag = lazyRegexp(`^flag provided but not defined: -(.*)$`)
	noValue     = lazyRegexp(`^flag needs an argument: -(.*)$`)
	badValue    = lazyRegexp(`(?s)^invalid (?:boolean )?value (.*) for (?:flag )?-([^:]*): .*$`)
)

// noSuchFlag returns the error for a flag that the command at path does not have.
func noSuchFlag(app *cli.App, path string, flags []cli.Flag, name string) error {
	err := fmt.Errorf("unknown flag %q", dashed(name))
	if path != "" {
		err = fmt.Errorf("unknown flag %q for larder %s", dashed(name), path)
	}
	var known, owners []string
	for _, f := range flags {
		known = append(known, longName(f))
	}
	var spelled string
	for _, other := range commandPaths("", app.Commands) {
		cmd := find(app.Commands, strings.Fields(other))
		if f := flagNamed(ownFlags(cmd), name); f != nil {
			owners, spelled = append(owners, "larder "+other), dashed(name)
		}
	}
	switch near := sources.Nearest(name, known); {
	case near != "":
		return sources.WithHint(err, "did you mean %q?", dashed(near))
	case len(owners) > 0 && path == "":
		return sources.WithHint(err, "write it after the command, as in %s %s", owners[0], spelled)
	case len(owners) > 0:
		return sources.WithHint(err, "%s %s", ui.Some(owners, 3), has(len(owners))+" it")
	case path == "":
		return sources.WithHint(err, "larder help flags lists the flags of every command")
	}
	return sources.WithHint(err, "larder help %s lists its flags", path)
}

// has returns the verb for n items.
func has(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

// longName returns the long name of a flag.
func longName(f cli.Flag) string { return f.Names()[0] }

// commandPath returns the path of a command, without larder.
func commandPath(cmd *cli.Command) string { return strings.TrimPrefix(cmd.HelpName, "larder ") }

// reword rewords an error about the value of a flag. It does not change an unknown error.
func reword(err error, flags []cli.Flag) error {
	if m := noValue().FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("%s needs a value", dashed(m[1]))
	}
	m := badValue().FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	return fmt.Errorf("%s: %s is not %s", dashed(m[2]), m[1], valueOf(flagNamed(flags, m[2])))
}

// valueOf describes the values of a flag.
func valueOf(f cli.Flag) string {
	switch f.(type) {
	case *cli.BoolFlag:
		return "true or false"
	case *cli.IntFlag:
		return "a whole number"
	case *cli.DurationFlag:
		return "a time, such as 30s or 5m"
	}
	return "a value that it takes"
}

// lazyRegexp returns a function that compiles a regular expression on its first call.
func lazyRegexp(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
