package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/ask"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var doctorCommand = &line.Command{
	Name:      "doctor",
	Job:       forQuestions,
	Does:      "find problems with configuration, cache and mirrors",
	Arguments: "[URL | HOST [ADDRESS]] [FLAG...]",
	Most:      2,
	Needs:     "takes one mirror or registry, and one provider to try",
	Example:   "larder doctor https://mirror.example.com/providers/",
	About: "Tries an installation, and finds traps that would silently change it. With the URL\n" +
		"of a mirror or the host of a registry, sends the requests of an installation of\n" +
		"ADDRESS, or of a provider that is required here, and shows each. Changes nothing.",
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		if len(l.Words) > 0 {
			return ask.ExamineServer(ctx, s, l.Word(0), l.Word(1))
		}
		return ask.ExamineMachine(ctx, s)
	}),
}
