package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
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

// anyEngine is the value of --engine that selects the engine by root module.
const anyEngine sources.Engine = "auto"

// colorMode returns the color mode from the flags, which are not parsed yet, or else from
// the environment.
func colorMode(args []string, machine cliconfig.Machine) ui.ColorMode {
	mode := ui.ColorMode(machine.Color())
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

// engines maps the values of --engine.
var engines = []sources.Engine{anyEngine, sources.Terraform, sources.OpenTofu}

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

// readFlags reads the flags and checks each of them.
func (s *session) readFlags(c *cli.Context) (err error) {
	for _, name := range []string{"chdir", "config", "cache", "mirror", "since"} {
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
	s.engine, s.configFile = sources.Engine(flag[string](c, "engine")), flag[string](c, "config")
	s.out.JSON = flag[bool](c, "json")
	switch {
	case flag[bool](c, "quiet"):
		s.out.Level = ui.Quiet
	case flag[bool](c, "verbose"):
		s.out.Level = ui.Verbose
	}
	err = cmp.Or(oneOf("link", s.flags.link, sources.LinkModes), oneOf("engine", s.engine, engines), oneOf("color", ui.ColorMode(flag[string](c, "color")), ui.ColorModes),
		exclusive(c, "cache", "no-cache"))
	if err != nil {
		return err
	}
	if s.engine != anyEngine {
		s.out.For(s.engine)
	}
	if s.flags.lockTimeout < 0 {
		return usageError{fmt.Errorf("--lock-timeout must not be negative, as %s is", s.flags.lockTimeout)}
	}
	if s.flags.jobs, err = positive(c, "jobs"); err != nil {
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
