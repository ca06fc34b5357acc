package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

// run runs the command line args and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := ui.New(stdout, stderr)
	out.JSON = slices.Contains(args, "--json") // before flags are parsed, which may fail
	app := newApp(out)
	err := app.RunContext(ctx, flagsFirst(app, args))
	out.End()
	out.Fail(ctx, err)
	return status(ctx, err)
}

func newApp(out *ui.Output) *cli.App {
	app := &cli.App{
		Name:  "larder",
		Usage: "keep Terraform and OpenTofu providers at hand",
		Flags: globalFlags(),
		Commands: []*cli.Command{
			installCommand(out), lockCommand(out), prefetchCommand(out),
			mirrorCommand(out), bundleCommand(out), importCommand(out),
			cacheCommand(out), versionCommand(out), helpCommand(),
		},
		HideVersion:               true,
		HideHelpCommand:           true,
		Writer:                    out.Stdout,
		ErrWriter:                 out.Stderr,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              onUsageError,
		DisableSliceFlagSeparator: true,
		Action:                    noCommand,
	}
	app.Flags = append(app.Flags, cli.HelpFlag, &cli.BoolFlag{Name: "version", Usage: "tell which larder this is"})
	app.CustomAppHelpTemplate = verbatim(appHelp(app))
	complete("", app.Commands)
	return app
}

// complete gives commands what all have. The parent is the command that they
// are commands of, if any.
func complete(parent string, commands []*cli.Command) {
	for _, cmd := range commands {
		path := strings.TrimSpace(parent + " " + cmd.Name)
		cmd.OnUsageError = onUsageError
		cmd.CustomHelpTemplate = verbatim(commandHelp(path, cmd))
		cmd.Flags = append(cmd.Flags, globalFlags()...)
		complete(path, cmd.Subcommands)
	}
}

// verbatim is a template that yields text.
func verbatim(text string) string { return strings.ReplaceAll(text, "{{", `{{"{{"}}`) }

func noCommand(c *cli.Context) error {
	switch {
	case c.Args().Present():
		return unknownCommand(c.Args().First())
	case c.Bool("version"):
		return c.App.Command("version").Run(c, "version")
	default:
		return cli.ShowAppHelp(c)
	}
}

const globalCategory = "global"

// globalFlags are the flags that may stand before a command or after it.
func globalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Category: globalCategory, Name: "chdir", Usage: "work in `DIR`"},
		&cli.StringFlag{Category: globalCategory, Name: "config", Usage: "read the CLI configuration from `FILE` and no other"},
		&cli.StringFlag{Category: globalCategory, Name: "cache", Usage: "use the plugin cache in `DIR`"},
		&cli.BoolFlag{Category: globalCategory, Name: "no-cache", Usage: "use no plugin cache"},
		&cli.StringFlag{Category: globalCategory, Name: "engine", Usage: "`ENGINE` whose defaults apply: auto, terraform or tofu", Value: "auto"},
		&cli.BoolFlag{Category: globalCategory, Name: "offline", Usage: "open no connection"},
		&cli.IntFlag{Category: globalCategory, Name: "jobs", Usage: "install `N` providers at once; 16 unless told otherwise"},
		&cli.DurationFlag{Category: globalCategory, Name: "lock-timeout", Usage: "wait for others no longer than a `TIME` such as 5m"},
		&cli.StringFlag{Category: globalCategory, Name: "link", Usage: "install by `HOW`: auto, hardlink, symlink, reflink or copy", Value: "auto"},
		&cli.BoolFlag{Category: globalCategory, Name: "json", Usage: "write events and results as JSON lines"},
		&cli.BoolFlag{Category: globalCategory, Name: "quiet", Usage: "write results and errors alone, and show no progress"},
		&cli.BoolFlag{Category: globalCategory, Name: "verbose", Usage: "tell every step"},
		&cli.BoolFlag{Category: globalCategory, Name: "no-color", Usage: "of no effect, as nothing is coloured"},
	}
}

// flag returns the value of a global flag, which may stand before the command
// or after it; the one after it counts if both do.
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

// isSet reports whether a global flag stands before the command or after it.
func isSet(c *cli.Context, name string) bool {
	return slices.ContainsFunc(c.Lineage(), func(level *cli.Context) bool { return level.IsSet(name) })
}

// noArguments refuses what stands after the flags of a command that takes none.
func noArguments(c *cli.Context) error {
	if c.Args().Present() {
		return usageError{fmt.Errorf("%s takes no arguments: %s", commandPath(c.Command), strings.Join(c.Args().Slice(), " "))}
	}
	return nil
}
