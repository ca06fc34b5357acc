package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/ask"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var explainCommand = &line.Command{
	Name:      "explain",
	Aliases:   []string{"why"},
	Job:       forQuestions,
	Does:      "show why a version is chosen, or what is configured",
	Arguments: "[ADDRESS[@VERSION]] [PATH] [FLAG...]",
	Most:      2,
	Needs:     "takes one provider and one root module",
	Example: "larder explain hashicorp/random\nlarder explain hashicorp/random@3.7.2\n" +
		"larder explain -R hashicorp/random",
	About: "Shows the constraints on a provider, what each installation method offers, which\n" +
		"version is chosen, what excludes each newer one, and how to get another. Without\n" +
		"ADDRESS, shows the engine, files, variables and settings in effect. With -R, shows\n" +
		"which root modules require the provider, and what each of them gets. Changes nothing.",
	Flags: []line.Flag{
		recursiveFlag, excludeFlag,
		{Name: "all", Does: "show all rows, even those without an effect"},
	},
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		all := l.Bool("all") || l.Bool("verbose")
		return ask.Explain(ctx, s, ask.ExplainRequest{Arguments: l.Words, All: all, Flags: flagVariables(l)})
	}),
}
