package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
)

var completionCommand = &line.Command{
	Name:      "completion",
	Job:       forLarder,
	Does:      "print a completion script for a shell",
	Arguments: strings.Join(line.Shells, " | "),
	Example:   "larder completion bash",
	About: "Completes commands, flags, platforms, and the addresses and versions in lock " +
		"files, plugin cache and mirrors. Add one of these lines to the file of your shell:\n" +
		"  ~/.bashrc                   eval \"$(larder completion bash)\"\n" +
		"  ~/.zshrc                    eval \"$(larder completion zsh)\"\n" +
		"  ~/.config/fish/config.fish  larder completion fish | source\n" +
		"  $PROFILE                    larder completion powershell | Out-String | iex\n" +
		"In ~/.zshrc, add it after the line with compinit.",
	Run: completion,
}

// completion prints the script for a shell. The script runs larder to list completions.
func completion(_ context.Context, l *line.Line, out *report.Output) error {
	shell := l.Word(0)
	switch script := line.Script(shell); {
	case len(l.Words) == 0:
		return report.Usage(fmt.Errorf("completion needs a shell: %s", ui.List("or", line.Shells)))
	case len(l.Words) > 1 || script == "":
		return report.Usage(fmt.Errorf("completion is for %s, not %q", ui.List("or", line.Shells), shell))
	default:
		out.ShowText(script, report.Completion{Shell: shell, Script: script})
		return nil
	}
}
