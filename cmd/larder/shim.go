package main

import (
	"context"

	"github.com/larder-cli/larder/cmd/larder/job/run"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var shimCommand = &line.Command{
	Name:      "shim",
	Job:       forModules,
	Does:      "create terraform and tofu links that run larder",
	Arguments: "DIR [FLAG...]",
	Least:     1, Most: 1, Needs: "needs one directory",
	Example: "larder shim ~/.local/lib/larder",
	About: "When called by one of these names, larder acts like larder exec and runs the next\n" +
		"program of that name on PATH. With --engine-path, creates a script in DIR that runs\n" +
		"the engine FILE, without searching PATH.",
	Flags: []line.Flag{
		{Name: enginePath, Value: "FILE", Kind: line.File, Does: "engine to run", Default: "the next one on PATH",
			Excludes: "remove"},
		{Name: "remove", Does: "remove the links and scripts"},
		dryRunFlag("show what would be created or removed"),
	},
	Run: atSite(func(_ context.Context, l *line.Line, s *site.Site) error {
		return run.PutShims(s, run.ShimRequest{Dir: l.Word(0), Engine: l.Text(enginePath), Remove: l.Bool("remove")})
	}),
}
