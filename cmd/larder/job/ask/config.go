package ask

import (
	"context"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
)

// ShowConfig lists all files and variables that Larder reads. Flags are the variables of flags.
func ShowConfig(ctx context.Context, s *site.Site, flags []cliconfig.Input) error {
	m, _, err := look(ctx, s, s.WorkDir, flags) // jobs that use the configuration report its errors
	if err != nil {
		return err
	}
	var rows [][]string
	var all []report.Object
	for _, f := range m.files() {
		rows = append(rows, []string{m.Config.Tilde(f.Path), f.What})
		all = append(all, f)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Files that Larder reads, in this order, if the engine is %s:\n\n%s\nVariables:\n\n", m.Chosen.Engine, ui.Indented(rows))
	for _, v := range m.variables() {
		fmt.Fprintf(&b, "  %-30s  %s\n", v.Name, v.What)
		all = append(all, v)
	}
	b.WriteString("\nA flag overrides a variable, and a variable overrides a file. larder explain shows what is set here, where, " +
		"and what it overrides. More in docs/configuration.md.\n")
	s.Output.ShowPage(b.String(), all...)
	return nil
}
