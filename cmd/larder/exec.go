package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig/programs"
	"github.com/larder-cli/larder/cmd/larder/job/run"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources"
)

var execCommand = &line.Command{
	Name:      "exec",
	Job:       forModules,
	Does:      "install providers, then run terraform or tofu",
	Arguments: "[FLAG...] -- COMMAND [ARGUMENT...]",
	Example:   "larder exec --dry-run -- terraform init\nlarder exec -- terraform init",
	About: "Before init, Larder installs the providers, so init sends no requests for them.\n" +
		"Other commands, such as plan, start at once.\n" +
		"COMMAND can also be a program that runs terraform or tofu, such as terragrunt.\n" +
		"Larder then installs the providers before each init that the program runs.",
	Flags: slices.Concat([]line.Flag{
		recursiveFlag, excludeFlag, allowEmptyFlag, upgradeFlag,
		{Name: "unconfined", Does: "let init install providers that larder has not foreseen"},
	}, trustFlags, installFlags("show what would be installed, and run nothing"), []line.Flag{
		{Name: asShim, Hidden: true},
		{Name: enginePath, Value: "FILE", Kind: line.File, Hidden: true},
	}),
	Passes: true,
	Leaves: "the command was not run; providers already installed are complete",
	Run:    execute,
}

// execute prepares what the command requires, and returns the command as a [handover].
func execute(ctx context.Context, l *line.Line, out *report.Output) error {
	if l.Word(0) == "" {
		err := errors.New("exec needs a command")
		return report.Usage(sources.WithHint(err, "write it after --: larder exec -- terraform init"))
	}
	s, err := openSite(l, out)
	if err != nil {
		return err
	}
	defer s.End(nil) // it shows its hints after a failure too
	flags, err := shimFlags(l, s)
	if err != nil {
		return report.Usage(err)
	}
	next, err := run.Exec(ctx, s, run.ExecRequest{
		Line: l.Words, AsShim: l.Bool(asShim), EnginePath: l.Text(enginePath), Unconfined: l.Bool("unconfined"),
		Restricts: l.IsSet("lockfile") || l.IsSet("plugin-dir"), Flags: flags,
	})
	if err != nil || next == nil {
		return err
	}
	return &handover{*next}
}

// shimFlags returns the flags of this command line that count for shims too, after those of an outer larder
// exec. The shims work in other directories, and each for its engine.
func shimFlags(l *line.Line, s *site.Site) (words []string, err error) {
	outer, err := programs.ShimFlags(s.Machine)
	skipped := append([]string{"recursive", "exclude", allowEmptyFlag.Name, asShim}, shimless...)
	for _, f := range l.Command.AllFlags() {
		inherited := l.FromVariable(f.Name) && f.Name != "cache" // that may be relative
		if slices.Contains(skipped, f.Name) || !l.IsSet(f.Name) || inherited {
			continue
		}
		outer = slices.DeleteFunc(outer, func(earlier string) bool {
			name, _, _ := strings.Cut(strings.TrimLeft(earlier, "-"), "=")
			return slices.Contains(rivals, [2]string{f.Name, name}) || slices.Contains(rivals, [2]string{name, f.Name})
		})
		for _, value := range l.Texts(f.Name) {
			if f.IsPath() {
				value = site.Absolute(s.WorkDir, value)
			}
			words = append(words, "--"+f.Name+"="+value)
		}
	}
	return append(outer, words...), err
}
