package work

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer/lockfile"
)

// ShowConfig shows all files and variables that larder reads, and their values. Flags are the variables of
// flags.
func ShowConfig(ctx context.Context, s *Session, flags []cliconfig.Input) error {
	m := &rootModule{Session: s, out: s.output, dir: s.workDir}
	lockPath := filepath.Join(s.workDir, lockfile.Name)
	lock, _ := lockfile.Read(lockPath)
	chosen, err := s.chooseEngine(ctx, s.workDir, lockPath, lock)
	if err != nil {
		return err
	}
	config, _ := cliconfig.Load(ctx, s.machine, chosen.engine, s.configOptions()) // jobs that use the configuration report its errors
	m.config = config
	files, variables := config.InputFiles(), append(config.InputVariables(), flags...)
	var b strings.Builder
	var all []report.Object
	fmt.Fprintf(&b, "Configuration in effect here, as read by %s:\n\n", chosen.engine)
	b.WriteString(ui.Indented([][]string{
		{"engine", fmt.Sprintf("%s: %s", chosen.engine, chosen.because(config.Tilde))},
		{"providers from", strings.Join(installedFrom(config), ", ")},
		{"plugin cache", config.Tilde(m.cacheRoot())},
		{"data directory", s.output.Shorten(config.DataDir)},
	}))
	var rows [][]string
	for _, f := range files {
		rows = append(rows, []string{config.Tilde(f.Name), f.State, f.What})
		all = append(all, report.ConfigFile{Path: f.Name, What: f.What, Read: f.State == "read"})
	}
	for _, v := range variables {
		all = append(all, report.ConfigVariable{Name: v.Name, What: v.What, Value: v.State})
	}
	b.WriteString("\nFiles, in the order in which they are read:\n\n" + ui.Indented(rows))
	b.WriteString("\nVariables that are set:\n\n" + variableTable(variables, true))
	b.WriteString("\nVariables that are not set:\n\n" + variableTable(variables, false))
	b.WriteString("\nA flag overrides a variable, and a variable overrides a file. More in docs/configuration.md.\n")
	s.output.ShowPage(b.String(), all...)
	return nil
}

// installedFrom returns the installation methods in order of use.
func installedFrom(config *cliconfig.Config) []string {
	var from []string
	if config.Implied {
		for _, dir := range config.ImpliedDirs() {
			from = append(from, config.Tilde(dir))
		}
		return append(from, "registries")
	}
	for _, method := range config.Methods {
		text := string(method.Kind)
		if place := method.Path + method.URL + method.Template; place != "" {
			text += " " + config.Tilde(place)
		}
		from = append(from, text)
	}
	return from
}

// variableTable lists the variables that are set, with their values, or those that are not.
func variableTable(variables []cliconfig.Input, set bool) string {
	const wide = 30
	var rows [][]string
	var text strings.Builder
	for _, v := range variables {
		if (v.State != "") != set {
			continue
		}
		name := v.Name
		if set {
			name += "=" + v.State
		}
		if len(name) > wide {
			rows = append(rows, []string{name}, []string{strings.Repeat(" ", wide), v.What})
			continue
		}
		rows = append(rows, []string{fmt.Sprintf("%-*s", wide, name), v.What})
	}
	for _, row := range rows {
		fmt.Fprintf(&text, "  %s\n", strings.Join(row, "  "))
	}
	if len(rows) == 0 {
		return "  none\n"
	}
	return text.String()
}
