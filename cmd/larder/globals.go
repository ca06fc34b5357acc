package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// globalCategory marks flags that the help of single commands omits.
const globalCategory = "global"

// globalFlags are flags that are accepted before and after the command.
func globalFlags() []cli.Flag {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "chdir", Usage: "work in `DIR`"},
		&cli.StringFlag{Name: "config", Usage: "CLI configuration `FILE` to read, and no other"},
		&cli.StringFlag{Name: "cache", Usage: "plugin cache in `DIR`"},
		&cli.BoolFlag{Name: "no-cache", Usage: "use no plugin cache"},
		&cli.StringFlag{Name: "engine", Usage: "`ENGINE` engine whose rules apply: " + ui.List("or", engines), Value: string(anyEngine)},
		&cli.BoolFlag{Name: "offline", Usage: "use no network"},
		&cli.IntFlag{Name: "jobs", Usage: "install `N` providers at once; 16 by default"},
		&cli.DurationFlag{Name: "lock-timeout", Usage: "`TIME` time to wait for other larder processes, such as 5m"},
		&cli.StringFlag{Name: "link", Usage: "`HOW` way to install: " + ui.List("or", sources.LinkModes), Value: string(sources.LinkAuto)},
		&cli.BoolFlag{Name: "json", Usage: "write JSON Lines, see larder help json"},
		&cli.BoolFlag{Name: "quiet", Usage: "write results and errors only"},
		&cli.BoolFlag{Name: "verbose", Usage: "also write unchanged packages and every step"},
		&cli.StringFlag{Name: "color", Usage: "`WHEN` when to use colors: " + ui.List("or", ui.ColorModes), Value: string(ui.ColorAuto)},
		&cli.BoolFlag{Name: "no-color", Usage: "the same as --color never"},
	}
	for _, f := range flags {
		switch f := f.(type) {
		case *cli.StringFlag:
			f.Category = globalCategory
		case *cli.BoolFlag:
			f.Category = globalCategory
		case *cli.IntFlag:
			f.Category = globalCategory
		case *cli.DurationFlag:
			f.Category = globalCategory
		}
	}
	return flags
}

// flag returns the value of a global flag. A flag after the command overrides one before it.
func flag[T any](c *cli.Context, name string) T {
	for _, level := range c.Lineage() {
		if level.IsSet(name) {
			value, _ := level.Value(name).(T)
			return value
		}
	}
	value, _ := c.Value(name).(T)
	return value
}

// isSet reports whether a global flag is set, before or after the command.
func isSet(c *cli.Context, name string) bool {
	return slices.ContainsFunc(c.Lineage(), func(level *cli.Context) bool { return level.IsSet(name) })
}

// wantsJSON reports whether the output is JSON, by the flags, which are not parsed yet, or else by
// the environment.
func wantsJSON(args []string, machine cliconfig.Machine) bool {
	args = ownArguments(args)
	for _, arg := range slices.Backward(args) {
		if name, value, assigned := strings.Cut(strings.TrimPrefix(arg, "-"), "="); name == "-json" || name == "json" && arg != name {
			on, _ := strconv.ParseBool(value)
			return on || !assigned
		}
	}
	on, _ := variableBool(machine.FlagValue("json"))
	return on && !slices.Contains(args, "--"+asShim)
}

// colorMode returns the color mode from the flags, which are not parsed yet, or else from
// the environment.
func colorMode(args []string, machine cliconfig.Machine) ui.ColorMode {
	mode := ui.ColorMode(cmp.Or(machine.FlagValue("color"), machine.Color()))
	if never, _ := variableBool(machine.FlagValue("no-color")); never {
		mode = ui.ColorNever
	}
	for i, arg := range args {
		name, value, assigned := strings.Cut(arg, "=")
		if name == "--color" && !assigned && i+1 < len(args) {
			value = args[i+1]
		}
		switch {
		case name == "--":
			return mode
		case name == "--no-color" && value != "false":
			mode = ui.ColorNever
		case name == "--color":
			mode = ui.ColorMode(value)
		}
	}
	return mode
}

// globals are the values of the global flags, and of flags with the same meaning in several
// commands. Flags that a command does not have are zero.
type globals struct {
	cache       string
	noCache     bool
	link        sources.LinkMode
	offline     bool
	lockTimeout time.Duration
	jobs        int
	slots       acquire.Slots // one for each of jobs, shared by all installers of the command

	platforms  []sources.Platform // empty means the current platform
	recursive  bool
	exclude    []string
	upgrade    bool
	noLockFile bool // lock files are ignored
	require    trust.Requirement
	trustKeys  []sources.Fingerprint
	paranoid   bool
	dryRun     bool
	readOnly   bool // nothing is changed, as in a dry run or a check
}

// rivals are global flags, and flags of commands that exclude them. On the command line, one of these
// overrides the variable of the other.
var rivals = [][2]string{{"cache", "no-cache"}, {"keep", "no-cache"}, {"quiet", "verbose"}, {"color", "no-color"}}

// shimless are the global flags whose variables shims ignore: the program that runs an engine
// chooses the engine and its directory, and reads what it prints.
var shimless = []string{"chdir", "engine", "json"}

// readVariables sets the global flags that are not on the command line, but in the environment. An
// empty variable is not set. cliconfig reads the one of --config, like engines do.
func (s *session) readVariables(c *cli.Context) error {
	typed := func(name string) bool {
		return isSet(c, name) || slices.ContainsFunc(rivals, func(pair [2]string) bool {
			return pair[0] == name && isOn(c, pair[1]) || pair[1] == name && isOn(c, pair[0])
		})
	}
	flags := globalFlags()
	flags = slices.DeleteFunc(flags, func(f cli.Flag) bool {
		name := longName(f)
		return name == "config" || s.machine.FlagValue(name) == "" || typed(name) || c.Bool(asShim) && slices.Contains(shimless, name)
	})
	for _, f := range flags {
		name := longName(f)
		value, variable := s.machine.FlagValue(name), cliconfig.FlagVariable(name)
		err := c.Set(name, value)
		if _, isBool := f.(*cli.BoolFlag); isBool && err == nil {
			_, err = variableBool(value)
		}
		if err != nil {
			return usageError{sources.WithHint(fmt.Errorf("%s: %q is not %s", variable, value, valueOf(f)), "larder help environment describes it")}
		}
		s.variables[name] = variable
	}
	return nil
}

// variableBool parses the value of a variable. It accepts less than flags do, so that every tool
// that reads the variable understands it.
func variableBool(value string) (bool, error) {
	switch value {
	case "1", "true":
		return true, nil
	case "0", "false":
		return false, nil
	}
	return false, strconv.ErrSyntax
}

// typed returns a global flag as the user has set it: the flag, or its variable.
func (s *session) typed(name string) string { return cmp.Or(s.variables[name], dashed(name)) }

// readFlags reads the flags and checks each of them.
func (s *session) readFlags(c *cli.Context) (err error) {
	for _, name := range []string{"chdir", "config", "cache", "mirror", "since", enginePath} {
		if isSet(c, name) && flag[string](c, name) == "" {
			return usageError{fmt.Errorf("--%s is empty", name)} // probably an unset variable
		}
	}
	s.flags = globals{
		cache:   flag[string](c, "cache"),
		noCache: flag[bool](c, "no-cache"),
		link:    sources.LinkMode(flag[string](c, "link")),
		offline: flag[bool](c, "offline"),

		lockTimeout: flag[time.Duration](c, "lock-timeout"),

		recursive: c.Bool("recursive"), exclude: c.StringSlice("exclude"),
		upgrade: c.Bool("upgrade"), noLockFile: c.Bool("no-lock-file"), require: requirement(c),
		paranoid: c.Bool("paranoid"),
		dryRun:   c.Bool("dry-run"), readOnly: c.Bool("dry-run") || c.Bool("check"),
	}
	s.configFile = flag[string](c, "config")
	s.out.JSON = flag[bool](c, "json")
	switch {
	case flag[bool](c, "quiet"):
		s.out.Level = ui.Quiet
	case flag[bool](c, "verbose"):
		s.out.Level = ui.Verbose
	}
	err = cmp.Or(oneOf(s.typed("link"), s.flags.link, sources.LinkModes), oneOf(s.typed("color"), ui.ColorMode(flag[string](c, "color")), ui.ColorModes))
	if err != nil {
		return err
	}
	if isOn(c, "cache") && s.flags.noCache {
		return usageError{fmt.Errorf("%s and %s exclude each other", s.typed("cache"), s.typed("no-cache"))}
	}
	if err := s.readEngine(c); err != nil {
		return err
	}
	if s.flags.lockTimeout < 0 {
		return usageError{fmt.Errorf("%s must not be negative, as %s is", s.typed("lock-timeout"), s.flags.lockTimeout)}
	}
	if s.flags.jobs, err = positive(c, "jobs", s.typed("jobs")); err != nil {
		return err
	}
	s.flags.slots = acquire.NewSlots(s.flags.jobs)
	if c.IsSet("exclude") && !s.flags.recursive {
		return usageError{errors.New("--exclude requires --recursive")}
	}
	if s.flags.platforms, err = platforms(c); err != nil {
		return err
	}
	s.flags.trustKeys, err = trustKeys(c)
	return err
}
