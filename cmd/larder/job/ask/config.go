package ask

import (
	"context"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
)

// ShowFiles lists all files that Larder reads.
func ShowFiles(ctx context.Context, s *site.Site) error {
	m, _, err := look(ctx, s, s.WorkDir, nil) // jobs that use the configuration report its errors
	if err != nil {
		return err
	}
	m.addFiles()
	var rows [][]string
	for _, part := range m.objects {
		file := part.(ConfigFile)
		rows = append(rows, []string{m.Out.Brief(file.Path), file.What})
	}
	s.Output.ShowPage(fmt.Sprintf("Files that Larder reads, in this order, if the engine is %s:\n\n%s\n"+
		"A flag overrides a variable, and a variable overrides a file. larder help variables, environment and s3 "+
		"list variables, and larder explain shows what is set here, where, and what it overrides.\n",
		m.Chosen.Engine, ui.Indented(rows)), m.objects...)
	return nil
}

// ShowVariables lists the variables that Larder reads and is selects, besides those of flags, between two texts.
func ShowVariables(ctx context.Context, s *site.Site, before, after string, is func(name string) bool) error {
	m, _, err := look(ctx, s, s.WorkDir, nil)
	if err != nil {
		return err
	}
	m.addVariables()
	var b strings.Builder
	var shown []report.Object
	for _, part := range m.objects {
		if v := part.(ConfigVariable); is(v.Name) {
			fmt.Fprintf(&b, "  %-32s  %s\n", v.Name, v.What)
			shown = append(shown, v)
		}
	}
	s.Output.ShowPage(before+b.String()+after, shown...)
	return nil
}
