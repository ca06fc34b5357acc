package ask

import (
	"context"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
)

// ShowConfig lists all files and variables that Larder reads. Flags are the variables of flags.
func ShowConfig(ctx context.Context, s *site.Site, flags []cliconfig.Input) error {
	m, _, err := look(ctx, s, s.WorkDir, flags) // jobs that use the configuration report its errors
	if err != nil {
		return err
	}
	m.addFiles()
	m.addVariables()
	var files [][]string
	var variables strings.Builder
	for _, part := range m.objects {
		switch p := part.(type) {
		case ConfigFile:
			files = append(files, []string{m.Config.Tilde(p.Path), p.What})
		case ConfigVariable:
			fmt.Fprintf(&variables, "  %-30s  %s\n", p.Name, p.What)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Files that Larder reads, in this order, if the engine is %s:\n\n%s\nVariables:\n\n%s",
		m.Chosen.Engine, ui.Indented(files), &variables)
	b.WriteString("\nA flag overrides a variable, and a variable overrides a file. " +
		"larder explain shows what is set here, where, and what it overrides. More in docs/configuration.md.\n")
	s.Output.ShowPage(b.String(), m.objects...)
	return nil
}
