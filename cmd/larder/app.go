package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/job/install"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
)

// After a signal, a command has this long to end by itself, and then to say that it was
// interrupted. After both, larder ends whatever it waits for: files in place are complete at any
// time, and the next run removes the temporary ones.
const patience, lastWords = 800 * time.Millisecond, 100 * time.Millisecond

// runLine runs the command line args and returns the exit status. If the command doesn't end soon
// after ctx is done, run returns nevertheless.
func runLine(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := report.New(stdout, stderr)
	done := make(chan func() int, 1)
	go func() { done <- runIn(ctx, out, args) }()
	select {
	case finish := <-done:
		return finish()
	case <-ctx.Done():
	}
	select {
	case finish := <-done:
		return finish()
	case <-time.After(out.Patience(patience)):
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
func runIn(ctx context.Context, out *report.Output, args []string) (finish func() int) {
	root := commandTree()
	if len(args) > 1 && args[1] == line.CompleteWord {
		line.Complete(root, args[2:], out.Stdout, func(l *line.Line) line.Machine { return machineOf(ctx, l) })
		return func() int { return exitDone }
	}
	l, err := line.Read(root, args)
	if err == nil {
		_, _, err = readEngine(l)
	}
	style(l, out)
	for _, word := range l.Words {
		if strings.Contains(word, ":") { // it may be a URL with a password, where an address is expected
			out.Secrets().AddURL(word)
		}
	}
	if l.Command.Passes && !l.Help { // standard output is for the command that is run
		out.Stdout = out.Stderr
	}
	if err == nil {
		err = l.Run(ctx, out)
	}
	out.End()
	var next *handover
	if errors.As(err, &next) {
		err = nil
	}
	out.Fail(ctx, err)
	if incomplete := out.Last(); err == nil && incomplete != nil {
		err = fmt.Errorf("writing the results: %w", incomplete)
		out.Fail(ctx, err)
	}
	exit := status(ctx, err)
	if next == nil || exit != exitDone {
		out.Summarize(exit)
		return func() int { return exit }
	}
	if next.Failed == nil { // the program replaces this process
		out.Summarize(exit)
	}
	return func() int {
		if exit, err = next.run(); err != nil {
			out.Fail(ctx, err)
		}
		if err != nil || next.Failed != nil {
			out.Summarize(exit)
		}
		return exit
	}
}

// style sets the form of the output, which errors in the command line have too: JSON or text, and colors.
func style(l *line.Line, out *report.Output) {
	machine := cliconfig.This()
	_ = readVariables(l, machine) // openSite reports the error
	out.JSON = l.Bool("json") || l.Text("format") == string(install.CheckJSON)
	switch {
	case l.Bool("no-color"):
		out.Color = ui.ColorNever
	case l.IsSet("color"):
		out.Color = ui.ColorMode(l.Text("color"))
	default:
		out.Color = ui.ColorMode(machine.Color())
	}
}

// commandTree returns the commands of larder. It completes their descriptions once.
var commandTree = sync.OnceValue(func() *line.Command {
	return line.New(&line.Command{
		Name:  "larder",
		Does:  "download, verify and share Terraform and OpenTofu providers",
		Flags: append(globalFlags(), line.Flag{Name: "version", Short: "V", Hidden: true}),
		Commands: []*line.Command{
			installCommand, execCommand, shimCommand, lockCommand, checkCommand, verifyCommand,
			explainCommand, versionsCommand, listCommand, outdatedCommand, doctorCommand, prefetchCommand,
			{
				Name: "mirror", Job: forStores, Does: "create, publish, verify and prune mirrors",
				Commands: []*line.Command{
					mirrorSyncCommand, mirrorPushCommand, mirrorListCommand, mirrorVerifyCommand, mirrorSignCommand,
					mirrorRepairCommand, mirrorIndexCommand, mirrorRemoveCommand, mirrorPruneCommand, mirrorDiffCommand,
				},
			},
			serveCommand,
			{
				Name: "bundle", Job: forStores, Does: "carry packages across an air gap in a file",
				About: "A bundle is a tar file. Extracting it creates a mirror.",
				Commands: []*line.Command{
					bundleCreateCommand, bundleShowCommand, bundleVerifyCommand, bundleImportCommand, bundleManifestCommand,
				},
			},
			importCommand,
			{
				Name: "cache", Job: forStores, Does: "list, verify, repair and prune the plugin cache",
				About: "These commands work on any plugin cache, even while larder installs from it.",
				Commands: []*line.Command{
					cachePathCommand, cacheListCommand, cacheStatsCommand, cacheVerifyCommand, cacheRepairCommand,
					cachePruneCommand, cacheKeyCommand, cacheExportCommand, cacheImportCommand, cacheForgetCommand,
				},
			},
			completionCommand, versionCommand, line.HelpCommand(forLarder, topics...),
		},
		Run: func(ctx context.Context, l *line.Line, out *report.Output) error {
			if l.Bool("version") || l.Typed("verbose") && l.Bool("verbose") { // -v is the version in other programs
				return showVersion(ctx, l, out)
			}
			l.ShowHelp(out, l.Command)
			return nil
		},
	})
})
