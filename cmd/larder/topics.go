package main

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/job/ask"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
)

// topics are the subjects of help other than commands. The help of commands refers to some of them.
var topics = []*line.Command{
	{Name: "config", Run: alone(ask.ShowFiles)}, {Name: "variables", Run: alone(variablesHelp)},
	{Name: "environment", Run: environmentHelp}, {Name: "s3", Run: alone(s3Help)}, textTopic("trust"),
	{Name: "flags", Run: flagsHelp}, textTopic("json"), {Name: "exit-status", Run: exitHelp},
}

//go:embed help
var texts embed.FS

// textTopic returns a topic that consists of a text.
func textTopic(name string) *line.Command {
	return &line.Command{Name: name, Run: func(_ context.Context, _ *line.Line, out *report.Output) error {
		text, _ := texts.ReadFile("help/" + name + ".txt") // each text topic has one
		out.ShowPage(ui.Joined(string(text)), report.Topic{Topic: name, Text: string(text)})
		return nil
	}}
}

// exitHelp is the topic exit-status.
func exitHelp(_ context.Context, _ *line.Line, out *report.Output) error {
	var rows [][]string
	var all []report.Object
	for _, s := range exitStatuses {
		rows = append(rows, []string{fmt.Sprintf("%3d", s.Status), s.Meaning, s.When})
		all = append(all, s)
	}
	out.ShowPage("Exit statuses of every command:\n\n"+ui.Indented(rows)+
		"\nWhat the policy refuses is a problem for these checks, and an error for other commands. "+
		"larder exec exits with the status of the command that it runs.\n", all...)
	return nil
}

// flagsHelp is the topic flags.
func flagsHelp(_ context.Context, l *line.Line, out *report.Output) error {
	flags := line.GlobalFlags{Flags: l.Command.Global()}
	out.ShowPage("Flags that every command has. Write them before or after the command:\n\n"+line.FlagTable(flags.Flags)+
		"\n--link selects how packages get from the plugin cache into a root module. A flag with ... may be repeated. "+
		"--platform and --trust-key also take a list with commas, and so does "+
		"--engine where packages for both engines are fetched: prefetch, mirror sync, bundle create. Short flags "+
		"can be combined, as in -uR. Relative paths start from --chdir. larder help environment lists the "+
		"variables of flags.\n", flags)
	return nil
}

// environmentHelp is the topic environment: the variables of the global flags. It works if one of them is wrong.
func environmentHelp(_ context.Context, l *line.Line, out *report.Output) error {
	var rows [][]string
	flags := line.GlobalFlags{Flags: l.Command.Global()}
	for _, f := range flags.Flags {
		rows = append(rows, []string{f.Written(), f.Variable + "=" + cmp.Or(f.Value, "1")})
	}
	out.ShowPage("Variables of the flags that every command has\n\n"+ui.Indented(rows)+
		"\nA flag overrides its variable, and the variables of conflicting flags. Variables "+
		"of flags without a value take 1, true, 0 or false. An empty variable has no effect. "+
		cliconfig.ShimOutput+" is what a shim prints: "+ui.List("or", site.ShimOutputs())+". "+
		"larder help variables lists all other variables.\n", flags)
	return nil
}

const awsPrefix = "AWS_"

// variablesHelp is the topic variables: all but those of flags and of S3.
func variablesHelp(ctx context.Context, s *site.Site) error {
	return ask.ShowVariables(ctx, s, "Variables, besides those of flags (larder help environment):\n\n",
		"\nlarder help s3 lists those for buckets, and larder explain shows what is set here.\n",
		func(name string) bool { return !strings.HasPrefix(name, awsPrefix) })
}

// s3Help is the topic s3: the variables for buckets.
func s3Help(ctx context.Context, s *site.Site) error {
	return ask.ShowVariables(ctx, s, "Variables for s3:// places, as in the AWS CLI:\n\n", "",
		func(name string) bool { return strings.HasPrefix(name, awsPrefix) })
}
