package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// After a signal, a command has this long to end by itself, and then to say that it was
// interrupted. After both, larder ends whatever it waits for: files in place are complete at any
// time, and the next run removes the temporary ones.
const patience, lastWords = 800 * time.Millisecond, 100 * time.Millisecond

// run runs the command line args and returns the exit status. If the command doesn't end soon
// after ctx is done, run returns nevertheless.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	results := &results{to: stdout}
	out := ui.New(results, stderr)
	done := make(chan func() int, 1)
	go func() { done <- runIn(ctx, out, results, args) }()
	select {
	case finish := <-done:
		return finish()
	case <-ctx.Done():
	}
	select {
	case finish := <-done:
		return finish()
	case <-time.After(patience):
	}
	abandoned := make(chan bool)
	go func() { // the terminal may be what the command waits for
		out.Abandon(ctx, exitInterrupted)
		close(abandoned)
	}()
	select {
	case <-abandoned:
	case <-time.After(lastWords):
	}
	return exitInterrupted
}

// runIn runs the command line args with an output. It returns what is left to do, which may take
// as long as it wants: to run the program of a [handover], if there is one, and to return the exit
// status.
func runIn(ctx context.Context, out *ui.Output, results *results, args []string) (finish func() int) {
	machine := cliconfig.This()
	out.JSON, out.Color = wantsJSON(args, machine), colorMode(args, machine) // before the flags are parsed, because parsing may fail
	app := newApp(out)
	if len(args) > 1 && args[1] == completeWord {
		completeLine(ctx, app, results.to, args[2:])
		return func() int { return exitDone }
	}
	line := readCommandLine(app, args)
	var err error
	switch {
	case line.unknown != "": // also with --help
		err = unknownCommand(app, line.unknown)
	case line.help:
		showHelp(app, out, line.path(), find(app.Commands, strings.Fields(line.path())))
	case line.novalue != "":
		err = usageError{sources.WithHint(fmt.Errorf("%s needs a value", line.novalue), "write a value that begins with - behind a =: %s=-VALUE", line.novalue)}
	default:
		err = app.RunContext(ctx, line.args)
	}
	out.End()
	var next *handover
	if errors.As(err, &next) {
		err = nil
	}
	out.Fail(ctx, err)
	out.Last()
	if err == nil && results.err != nil {
		err = fmt.Errorf("writing the results: %w", results.err)
		out.Fail(ctx, err)
	}
	exit := status(ctx, err)
	out.Summarize(exit)
	return func() int {
		if next != nil && exit == exitDone {
			if exit, err = next.run(); err != nil {
				out.Fail(ctx, err)
			}
		}
		return exit
	}
}

// results is standard output. It keeps the first write error, so that a truncated output
// ends with an error.
type results struct {
	to  io.Writer
	err error // the first
}

// Unwrap returns the underlying writer, which may be a terminal.
func (r *results) Unwrap() io.Writer { return r.to }

// Write implements [io.Writer].
func (r *results) Write(p []byte) (int, error) {
	n, err := r.to.Write(p)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// newApp returns the command line of larder. All output of commands goes to out, so that
// tests can run several commands in one process.
func newApp(out *ui.Output) *cli.App {
	app := &cli.App{
		Name:  "larder",
		Usage: "keep Terraform and OpenTofu providers at hand",
		Flags: globalFlags(),
		Commands: []*cli.Command{
			installCommand(out), execCommand(out), shimCommand(out), lockCommand(out), prefetchCommand(out),
			mirrorCommand(out), bundleCommand(out), importCommand(out),
			cacheCommand(out), completionCommand(out), versionCommand(out), helpCommand(out),
		},
		HideVersion:               true,
		HideHelpCommand:           true,
		Writer:                    out.Stdout,
		ErrWriter:                 out.Stderr,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              onUsageError,
		DisableSliceFlagSeparator: true,
		Action:                    func(c *cli.Context) error { return noCommand(c, out) },
	}
	app.Flags = append(app.Flags, cli.HelpFlag, &cli.BoolFlag{Name: "version", Usage: "print the version"})
	complete(out, "", app.Commands)
	return app
}

// complete adds to commands what all commands have. The parent is the command of these
// subcommands, if any.
func complete(out *ui.Output, parent string, commands []*cli.Command) {
	for _, cmd := range commands {
		path := strings.TrimSpace(parent + " " + cmd.Name)
		if len(cmd.Subcommands) > 0 {
			cmd.ArgsUsage, cmd.HideHelpCommand, cmd.Action = "COMMAND [ARGUMENT...] [FLAG...]", true, noSubcommand
		}
		if cmd.ArgsUsage == "" || cmd.ArgsUsage == "[FLAG...]" {
			cmd.ArgsUsage, cmd.Action = "[FLAG...]", withoutArguments(cmd.Action)
		}
		if leaves := interruptions[path]; leaves != "" {
			cmd.Before = func(*cli.Context) error { out.OnInterrupt(leaves); return nil }
		}
		cmd.OnUsageError = onUsageError
		cmd.Flags = append(cmd.Flags, globalFlags()...)
		complete(out, path, cmd.Subcommands)
	}
}

// withoutArguments is the action of commands that accept no arguments.
func withoutArguments(action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.Args().Present() {
			return usageError{fmt.Errorf("%s takes no arguments: %s", commandPath(c.Command), strings.Join(c.Args().Slice(), " "))}
		}
		return action(c)
	}
}

// noCommand runs if the command line names no command: larder alone, larder --version, or
// larder with an unknown command.
func noCommand(c *cli.Context, out *ui.Output) error {
	switch {
	case c.Args().Present():
		return unknownCommand(c.App, c.Args().First())
	case c.Bool("version"):
		return c.App.Command("version").Run(c, "version")
	default:
		showHelp(c.App, out, "", nil)
		return nil
	}
}

// noSubcommand is the action of a command that only has subcommands.
func noSubcommand(c *cli.Context) error {
	if c.Args().Present() {
		return unknownCommand(c.App, commandPath(c.Command)+" "+c.Args().First())
	}
	var names []string
	for _, cmd := range c.Command.Subcommands {
		names = append(names, cmd.Name)
	}
	return usageError{fmt.Errorf("%s needs a command: %s", commandPath(c.Command), ui.List("or", names))}
}

// version returns the module version of this program, or "devel" if it was built from a
// working copy.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
