package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
)

// A topic is help about a subject other than a command.
type topic struct {
	name  string
	write func(*cli.Context, *ui.Output) error
}

// topics are all topics. The help of commands refers to some of them.
var topics = []topic{
	{"config", configHelp}, {"environment", environmentHelp}, {"trust", textTopic("trust", trustText)}, {"flags", flagsHelp},
	{"json", textTopic("json", jsonText)}, {"exit-status", exitHelp},
}

// topicNames returns the names of the topics.
func topicNames() []string {
	return []string{"config", "environment", "trust", "flags", "json", "exit-status"}
}

// unknownTopic returns the error for help on a name that is neither a command nor a topic.
func unknownTopic(app *cli.App, typed string) error {
	if near := sources.Nearest(typed, topicNames()); near != "" {
		return usageError{sources.WithHint(fmt.Errorf("unknown topic %q", typed), "did you mean %q?", near)}
	}
	return unknownCommand(app, typed)
}

// textTopic returns a topic that consists of a text.
func textTopic(name, text string) func(*cli.Context, *ui.Output) error {
	return func(_ *cli.Context, out *ui.Output) error {
		if out.JSON {
			out.Object("topic", struct {
				Topic string `json:"topic"`
				Text  string `json:"text"`
			}{name, text})
			return nil
		}
		_, err := fmt.Fprint(out.Stdout, text)
		return err
	}
}

// exitHelp is the topic exit-status.
func exitHelp(_ *cli.Context, out *ui.Output) error {
	var rows [][]string
	for _, s := range exitStatuses {
		rows = append(rows, []string{fmt.Sprintf("%3d", s.status), s.meaning, s.when})
		if out.JSON {
			out.Object("exit_status", struct {
				Status  int    `json:"status"`
				Meaning string `json:"meaning"`
				When    string `json:"when"`
			}{s.status, s.meaning, s.when})
		}
	}
	if out.JSON {
		return nil
	}
	_, err := fmt.Fprint(out.Stdout, "Exit statuses of every command:\n\n"+table(rows))
	return err
}

// flagsHelp is the topic flags.
func flagsHelp(_ *cli.Context, out *ui.Output) error {
	flags := describeFlags(globalFlags())
	if out.JSON {
		out.Object("flags", struct {
			Flags []describedFlag `json:"flags"`
		}{flags})
		return nil
	}
	_, err := fmt.Fprint(out.Stdout, "Flags of every command, before it or after it:\n\n"+flagTable(flags)+
		"\nA flag with ... may be repeated. --platform and --trust-key also take a list\nwith commas, and so does --engine where packages for both engines are fetched:\nprefetch, mirror sync, bundle create. Short flags can be combined, as in -uR.\nRelative paths start from --chdir. larder help environment lists the variables\nof flags.\n")
	return err
}

// environmentHelp is the topic environment: the variables of the global flags.
func environmentHelp(_ *cli.Context, out *ui.Output) error {
	if out.JSON {
		return flagsHelp(nil, out)
	}
	var rows [][]string
	for _, f := range describeFlags(globalFlags()) {
		rows = append(rows, []string{f.written(), f.Variable + "=" + cmp.Or(f.Value, "1")})
	}
	_, err := fmt.Fprint(out.Stdout, "Variables: each flag of every command has one\n\n"+table(rows)+
		"\nA flag overrides its variable, and the variables of flags that exclude it. Those\n"+
		"without a value take 1, true, 0 or false. An empty variable is not set.\n"+
		cliconfig.ShimOutput+" is what a shim prints: "+ui.List("or", shimOutputs())+".\n"+
		"larder help config lists all other variables, and their values.\n")
	return err
}

const trustText = `Signatures: how packages are verified

The verification result of each package is one of these, the best first:

  signed by HashiCorp            signed with HashiCorp's key
  signed by a trusted key        signed with a key that you trust (see below)
  self-signed                    signed with a key that the registry lists
  signed, key from the mirror    signed with a key that came with the package
  hash only                      a lock file or a mirror states its hash
  unverified                     nothing states a hash for it

--require-signed accepts any valid signature, and --require-trusted only the
first two results. Trust a key for one run with --trust-key FINGERPRINT, or for
good in larder/config.hcl (see larder help config):

  trusted_keys = {
    "acme/*" = ["E2D4 1C2A 0B3F 6A51 77C0  9F1E 4304 3C76 9306 34BC"]
  }

Where a provider has trusted keys, both flags refuse signatures by other keys.
`

const jsonText = `JSON: --json writes JSON Lines to standard output, and nothing to standard error

Each line is an object whose first member is "type". Names and types are stable:
new ones may be added, so skip those that you don't know.

  diagnostic     an error or a warning: severity, text, hints, file, line
  package        a package: provider, version, platform, how, verdict, size
  finding        what a check found
  summary        counts, the last object of a command

With -R, objects about a root module have its path in "module". The exit status
is the same as without --json. Example:

  larder install --json | jq -r 'select(.type == "package") | .provider'

docs/json.md describes every object.
`

// configHelp is the topic config: all files and variables that larder reads, and their values.
func configHelp(c *cli.Context, out *ui.Output) error {
	s, err := newSession(c, out)
	if err != nil {
		return err
	}
	m := &rootModule{session: s, out: out, dir: s.dir}
	lockPath := filepath.Join(s.dir, lockfile.Name)
	lock, _ := lockfile.Read(lockPath)
	chosen, err := s.chooseEngine(c.Context, s.dir, lockPath, lock)
	if err != nil {
		return err
	}
	config, _ := cliconfig.Load(c.Context, s.machine, chosen.engine, s.configOptions()) // commands that use the configuration report its errors
	m.config = config
	files, variables := config.InputFiles(s.configOptions()), config.InputVariables()
	for _, f := range describeFlags(globalFlags()) {
		if f.Name != "config" { // listed above
			variables = append(variables, cliconfig.Input{Name: f.Variable, What: dashed(f.Name), State: s.machine.FlagValue(f.Name)})
		}
	}
	if out.JSON {
		for _, f := range files {
			out.Object("config_file", struct {
				Path string `json:"path"`
				What string `json:"what"`
				Read bool   `json:"read"`
			}{f.Name, f.What, f.State == "read"})
		}
		for _, v := range variables {
			out.Object("config_variable", struct {
				Name  string `json:"name"`
				What  string `json:"what"`
				Value string `json:"value,omitempty"`
			}{v.Name, v.What, v.State})
		}
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Configuration in effect here, as read by %s:\n\n", chosen.engine)
	b.WriteString(table([][]string{
		{"engine", fmt.Sprintf("%s: %s", chosen.engine, chosen.because(config.Tilde))},
		{"providers from", strings.Join(installedFrom(config), ", ")},
		{"plugin cache", config.Tilde(m.cacheRoot())},
		{"data directory", out.Shorten(config.DataDir)},
	}))
	var rows [][]string
	for _, f := range files {
		rows = append(rows, []string{config.Tilde(f.Name), f.State, f.What})
	}
	b.WriteString("\nFiles, in the order in which they are read:\n\n" + table(rows))
	b.WriteString("\nVariables that are set:\n\n" + variableTable(variables, true))
	b.WriteString("\nVariables that are not set:\n\n" + variableTable(variables, false))
	b.WriteString("\nA flag overrides a variable, and a variable overrides a file. More in\ndocs/configuration.md.\n")
	_, err = fmt.Fprint(out.Stdout, b.String())
	return err
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
