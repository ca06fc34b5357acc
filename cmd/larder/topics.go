package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/job/ask"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
)

// topics are the subjects of help other than commands. The help of commands refers to some of them.
var topics = []line.Topic{
	{Name: "config", Show: atSite(configHelp)}, {Name: "environment", Show: environmentHelp}, textTopic("trust", trustText), {Name: "flags", Show: flagsHelp},
	textTopic("json", jsonText), {Name: "exit-status", Show: exitHelp},
}

// textTopic returns a topic that consists of a text.
func textTopic(name, text string) line.Topic {
	return line.Topic{Name: name, Show: func(_ context.Context, _ *line.Line, out *report.Output) error {
		out.ShowPage(ui.Joined(text), report.Topic{Topic: name, Text: text})
		return nil
	}}
}

// exitHelp is the topic exit-status.
func exitHelp(_ context.Context, _ *line.Line, out *report.Output) error {
	var rows [][]string
	var all []report.Object
	for _, s := range exitStatuses {
		rows = append(rows, []string{fmt.Sprintf("%3d", s.status), s.meaning, s.when})
		all = append(all, report.ExitStatus{Status: s.status, Meaning: s.meaning, When: s.when})
	}
	out.ShowPage("Exit statuses of every command:\n\n"+ui.Indented(rows)+"\nlarder exec exits with the status of the command that it runs.\n", all...)
	return nil
}

// flagsHelp is the topic flags.
func flagsHelp(_ context.Context, l *line.Line, out *report.Output) error {
	flags := line.GlobalFlags{Flags: l.Command.Global()}
	out.ShowPage("Flags that every command has. Write them before or after the command:\n\n"+line.FlagTable(flags.Flags)+
		"\nA flag with ... may be repeated. --platform and --trust-key also take a list with commas, and so does "+
		"--engine where packages for both engines are fetched: prefetch, mirror sync, bundle create. Short flags "+
		"can be combined, as in -uR. Relative paths start from --chdir. larder help environment lists the "+
		"variables of flags.\n", flags)
	return nil
}

// environmentHelp is the topic environment: the variables of the global flags.
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
		"larder help config lists all other variables, and larder explain shows what is set.\n", flags)
	return nil
}

const trustText = `Signatures: how packages are verified

Each package has one of these verification results, from best to worst:

  signed by HashiCorp            signed with HashiCorp's key
  signed by a trusted key        signed with a key that you trust (see below)
  self-signed                    signed with a key that the registry lists
  signed, key from the mirror    signed with a key that came with the package
  hash only                      a hash in a lock file or a source matches
  unverified                     nothing to compare with, or only hashes in the
                                 checkout that contains the package

--require-signed accepts any valid signature, and --require-trusted only the
first two results. --trust-key FINGERPRINT trusts a key for one run. To trust it
permanently, add it to larder/config.hcl:

  policy {
    trusted_keys = {
      "acme/*" = ["E2D4 1C2A 0B3F 6A51 77C0  9F1E 4304 3C76 9306 34BC"]
    }
  }

Larder then refuses packages of these providers that other keys signed.
`

const jsonText = `JSON: --json writes JSON Lines to standard output (exec: to standard error)

Each line is an object whose first member is "type". Types and members don't
change, but later versions may add some. Ignore any that you don't know.

  diagnostic     an error or a warning: severity, text, hints, file, line
  package        a package: provider, version, platform, how, verdict
  finding        a problem that verify found
  summary        counts; the last object

Standard output of larder exec belongs to its command, so larder exec writes its
objects to standard error, and the summary before the command starts. Other
commands write nothing to standard error.

With -R, objects for a root module have its path in "module". The exit status
is the same as without --json. Example:

  larder install --json | jq -r 'select(.type == "package") | .provider'

docs/json.md describes every object.
`

// configHelp is the topic config: all files and variables that Larder reads.
func configHelp(ctx context.Context, l *line.Line, s *site.Site) error {
	return ask.ShowConfig(ctx, s, flagVariables(l))
}
