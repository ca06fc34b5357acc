package work

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/policy"
)

// configurationChecks are the checks of doctor for the CLI configuration and the environment.
var configurationChecks = []check{
	unreadableFiles, configurationProblems, unreadFiles, enginesDisagree, ignoredVariables, wrongProxy,
	exposedPolicy, noMethod, wrongPatternHost, fallbackWins, overrides, unusedTokens,
}

// configurationSummary names the file that was read.
func configurationSummary(_ context.Context, c *checkup) string {
	if file := c.config.MainFile(); file != "" {
		return c.brief(file)
	}
	return "no file, so engines use their defaults"
}

// unreadableFiles finds variables that name a file that can't be read.
func unreadableFiles(_ context.Context, c *checkup) (found []report.Diagnosis) {
	whys := map[string]string{
		"TF_CLI_CONFIG_FILE": "engines then use no configuration file at all, not even the one in the home directory",
		"TERRAFORM_CONFIG":   "engines then use no configuration file at all, not even the one in the home directory",
		"LARDER_CONFIG":      "other commands of larder fail",
		"NETRC":              "downloads are sent without the user and password that it should contain",
		"SSL_CERT_FILE":      "servers with certificates of your own authority are refused",
		"SSL_CERT_DIR":       "it replaces the system's directories, so servers may be refused",
	}
	for _, p := range c.config.Unreadable() {
		d := report.Diagnosis{Severity: report.Broken, Trap: "unreadable-file", Path: p.Path, Why: whys[p.Variable], Fix: "unset " + p.Variable}
		d.Text = fmt.Sprintf("%s names %s, which can't be used: %s", p.Variable, c.brief(p.Path), p.Fault)
		if strings.Contains(p.Fault, p.Path) {
			d.Text = fmt.Sprintf("%s is ignored: %s", p.Variable, p.Fault)
		}
		found = append(found, d)
	}
	return found
}

// configurationProblems finds errors and warnings in the configuration files, and why no engine can be chosen.
func configurationProblems(_ context.Context, c *checkup) (found []report.Diagnosis) {
	named := c.config.Unreadable() // found before
	problems := slices.DeleteFunc(slices.Clone(c.problems), func(p sources.Diagnostic) bool {
		return slices.ContainsFunc(named, func(n cliconfig.NamedPath) bool { return n.Path == p.File && p.Line == 0 })
	})
	if c.noEngine != nil {
		found = append(found, report.Diagnosis{
			Severity: report.Broken, Trap: "engine-problem", Text: sources.Text(c.noEngine), Why: "other commands of larder fail",
			Fix: cmp.Or(strings.Join(sources.Hints(c.noEngine), "; "), "correct the file, or remove it"),
		})
	}
	return append(found, findingsOf("configuration-problem", problems, "other commands of larder fail; engines only show the error, and ignore this part")...)
}

// unreadFiles finds configuration files that engines don't read, because they read another one, or because of the name.
func unreadFiles(_ context.Context, c *checkup) (found []report.Diagnosis) {
	by := map[string][]string{}
	for _, f := range c.config.UnreadFiles() {
		if f.By != "" {
			by[f.By] = append(by[f.By], f.Path)
			continue
		}
		d := report.Diagnosis{
			Severity: report.Risky, Trap: "unread-configuration", Path: f.Path,
			Text: fmt.Sprintf("%s is not read: engines expect this file at %s", c.brief(f.Path), c.brief(f.RenameTo)),
			Fix:  fmt.Sprintf("mv %s %s", c.word(f.Path), c.word(f.RenameTo)),
		}
		if exists(f.RenameTo) {
			d.Text = fmt.Sprintf("%s is not read: engines read %s instead", c.brief(f.Path), c.brief(f.RenameTo))
			d.Fix = fmt.Sprintf("move its settings to %s, and remove it", c.brief(f.RenameTo))
		}
		if c.checkedOut(f.Path) { // it may belong to someone else
			d.Fix = "read it first: its settings then apply everywhere. Move those that you want to " + c.brief(f.RenameTo)
		}
		found = append(found, d)
	}
	named := c.config.Unreadable()
	for variable, files := range by {
		if slices.ContainsFunc(named, func(n cliconfig.NamedPath) bool { return n.Variable == variable }) { // found before
			continue
		}
		short := make([]string, len(files))
		for i, f := range files {
			short[i] = c.brief(f)
		}
		found = append(found, report.Diagnosis{
			Severity: report.Risky, Trap: "unread-configuration", Path: files[0],
			Text: fmt.Sprintf("%s names the only configuration file that is read, and not %s", variable, someOf(short)),
			Fix:  fmt.Sprintf("unset %s, or copy the settings that you need", variable),
		})
	}
	return found
}

// engineNames are the names of engines in sentences.
var engineNames = map[sources.Engine]string{sources.Terraform: "Terraform", sources.OpenTofu: "OpenTofu"}

// enginesDisagree finds differences between the configurations of Terraform and OpenTofu, if they read different files or
// directories.
func enginesDisagree(ctx context.Context, c *checkup) []report.Diagnosis {
	var of [2]*cliconfig.Config
	for i, e := range BothEngines {
		config, _ := c.configOf(ctx, e)
		of[i] = config.At(c.dir)
	}
	first, second := of[0].MainFile(), of[1].MainFile()
	if (first == "" || second == "") && len(c.enginesOnPath()) < len(BothEngines) {
		return nil // only one of them is used
	}
	var differences []string
	if first != second {
		for _, part := range configParts {
			if part.text(of[0]) != part.text(of[1]) {
				differences = append(differences, part.name)
			}
		}
	} else if of[0].Implied && !slices.Equal(of[0].ImpliedDirs(), of[1].ImpliedDirs()) {
		differences = []string{"implied directories"}
	}
	if len(differences) == 0 {
		return nil
	}
	reads := func(i int) string {
		if file := of[i].MainFile(); file != "" {
			return fmt.Sprintf("%s reads %s", engineNames[BothEngines[i]], c.brief(file))
		}
		return engineNames[BothEngines[i]] + " reads no configuration file"
	}
	d := report.Diagnosis{
		Severity: report.Risky, Trap: "engines-disagree", Path: cmp.Or(second, first),
		Text: fmt.Sprintf("%s, %s: they differ in %s", reads(0), reads(1), ui.List("and", differences)),
		Why:  "the same root module behaves differently, depending on the engine",
		Fix:  "make both files equal, or remove that of OpenTofu, which then reads that of Terraform",
	}
	if first == second {
		var only []string
		for _, dir := range of[1].ImpliedDirs() {
			if !slices.Contains(of[0].ImpliedDirs(), dir) {
				only = append(only, c.brief(dir))
			}
		}
		d.Text = fmt.Sprintf("only OpenTofu searches %s for providers", someOf(only))
		d.Fix = "name the directory in provider_installation, which both engines read"
	}
	return []report.Diagnosis{d}
}

// configParts are the parts of the configurations of two engines that may differ, and how they are compared.
var configParts = []struct {
	name string
	text func(config *cliconfig.Config) string
}{
	{"installation methods", func(config *cliconfig.Config) string {
		if config.Implied {
			return fmt.Sprint(config.ImpliedDirs())
		}
		var b strings.Builder
		for _, m := range config.Methods {
			fmt.Fprintln(&b, m.Kind, m.Path, m.URL, m.Template, m.Include, m.Exclude)
		}
		return b.String()
	}},
	{"plugin cache", func(config *cliconfig.Config) string { return config.PluginCacheDir }},
	{"hosts", func(config *cliconfig.Config) string { return fmt.Sprint(config.Hosts) }},
	{"tokens", func(config *cliconfig.Config) string {
		var hosts []string
		for _, t := range tokensIn(config) {
			hosts = append(hosts, t.Of)
		}
		return fmt.Sprint(hosts)
	}},
	{"dev_overrides", func(config *cliconfig.Config) string { return fmt.Sprint(config.DevOverrides) }},
}

// tokensIn returns the settings of tokens, sorted by host.
func tokensIn(config *cliconfig.Config) []cliconfig.Setting {
	all := slices.DeleteFunc(slices.Clone(config.Settings), func(s cliconfig.Setting) bool { return s.Name != "credentials" })
	slices.SortFunc(all, func(a, b cliconfig.Setting) int { return cmp.Compare(a.Of, b.Of) })
	return all
}

// placeOf returns the file and line of a setting or a block, which is set for a host or a provider if of isn't empty.
func (c *checkup) placeOf(name, of string) (file string, line int) {
	s, _ := c.config.SettingOf(name, of)
	return s.From.File, s.From.Line
}

// ignoredVariables finds variables that engines don't read, or read as the opposite.
func ignoredVariables(_ context.Context, c *checkup) (found []report.Diagnosis) {
	for _, v := range c.config.IgnoredVariables() {
		d := report.Diagnosis{Severity: report.Risky, Trap: "ignored-variable", Text: fmt.Sprintf("engines don't read the variable %s", v.Name), Fix: unset(v.Name)}
		switch {
		case strings.HasSuffix(v.Meant, "HOST"):
			d.Fix = fmt.Sprintf("write the host in the name, as in %s", cliconfig.TokenVariable("registry.example.com"))
		case v.Meant != "" && isShellName(v.Name):
			d.Fix = fmt.Sprintf(`export %s="$%s"`, v.Meant, v.Name)
		}
		found = append(found, d)
	}
	if name := c.config.MeansTrue(); name != "" {
		found = append(found, report.Diagnosis{
			Severity: report.Risky, Trap: "false-means-true", Text: fmt.Sprintf("engines read every value of %s except 0 as true", name),
			Why: "the plugin cache may provide packages whose hashes were not verified", Fix: "unset " + name,
		})
	}
	return found
}

// isShellName reports whether shells can use a variable of this name.
func isShellName(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// unset returns what removes a variable.
func unset(name string) string {
	if isShellName(name) {
		return "unset " + name
	}
	return fmt.Sprintf("remove the variable %q where it is set", name)
}

// wrongProxy finds variables that name no proxy.
func wrongProxy(_ context.Context, c *checkup) []report.Diagnosis {
	_, err := c.config.Proxy(&url.URL{Scheme: "https", Host: string(c.config.Engine.DefaultHost())})
	if err == nil {
		return nil
	}
	return []report.Diagnosis{{Severity: report.Broken, Trap: "wrong-proxy", Text: sources.Text(err), Why: "no server can be reached", Fix: strings.Join(sources.Hints(err), "; ")}}
}

// applies reports whether an installation method is used for a provider.
func applies(m cliconfig.Method, p sources.Provider) bool {
	return sources.Method{Include: m.Include, Exclude: m.Exclude}.Applies(p)
}

// noMethod finds providers for which include and exclude leave no installation method.
func noMethod(_ context.Context, c *checkup) (found []report.Diagnosis) {
	file, line := c.placeOf("provider_installation", "")
	if c.config.Implied || c.problems.Err() != nil { // then methods may be missing because of an error
		return nil
	}
	if len(c.config.Methods) == 0 {
		return []report.Diagnosis{{
			Severity: report.Broken, Trap: "no-method", Path: file, Line: line, Text: "provider_installation has no installation method",
			Why: "engines can't install any provider", Fix: "add direct {} to the block",
		}}
	}
	var without []sources.Provider
	for _, p := range c.providers() {
		if !slices.ContainsFunc(c.config.Methods, func(m cliconfig.Method) bool { return applies(m, p) }) {
			without = append(without, p)
		}
	}
	for _, p := range without[:min(1, len(without))] {
		found = append(found, report.Diagnosis{
			Severity: report.Broken, Trap: "no-method", Path: file, Line: line,
			Text: fmt.Sprintf("include and exclude leave no installation method for %s", names(without)),
			Why:  "engines fail with \"no available releases match\"",
			Fix:  letIn(c, p),
		})
	}
	return found
}

// letIn returns the edit that makes a method take part for a provider: the last one, which is usually direct.
func letIn(c *checkup, p sources.Provider) string {
	m := c.config.Methods[len(c.config.Methods)-1]
	for _, pattern := range m.Exclude {
		if pattern.Match(p) {
			return fmt.Sprintf("remove %q from exclude of %s at %s:%d", pattern, m.Kind, c.brief(m.File), m.Line)
		}
	}
	return fmt.Sprintf("add %q to include of %s at %s:%d", p, m.Kind, c.brief(m.File), m.Line)
}

// exposedPolicy finds a policy of this machine that others than root can change.
func exposedPolicy(_ context.Context, c *checkup) (found []report.Diagnosis) {
	i := slices.IndexFunc(c.config.Policy, func(r policy.Rule) bool { return r.Layer == policy.Site })
	if i < 0 {
		return nil
	}
	file := c.config.Policy[i].File
	for at, below := resolve(file), ""; at != below; at, below = filepath.Dir(at), at {
		info, err := os.Stat(at)
		if err != nil {
			continue
		}
		create, exchange := disk.WritableByAll(info)
		text, fix := "", "chmod o-w "
		switch {
		case exchange || create && !info.IsDir():
			text = "all users can write to "
		case !disk.OfRoot(info):
			text, fix = disk.Owner(at)+" owns ", "chown root "
		default:
			continue
		}
		return []report.Diagnosis{{
			Severity: report.Risky, Trap: "exposed-policy", Path: at,
			Text: text + c.brief(at), Why: "not only root can change the policy in " + c.brief(file), Fix: fix + c.word(at),
		}}
	}
	return nil
}

// wrongPatternHost finds patterns that match none of the required providers, only because of their host.
func wrongPatternHost(_ context.Context, c *checkup) (found []report.Diagnosis) {
	required := c.providers()
	matched := func(pattern sources.Pattern) bool { return slices.ContainsFunc(required, pattern.Match) }
	for _, m := range c.config.Methods {
		for setting, patterns := range map[string][]sources.Pattern{"include": m.Include, "exclude": m.Exclude} {
			for _, pattern := range patterns {
				i := slices.IndexFunc(required, func(p sources.Provider) bool {
					return sources.Pattern{Host: "*", Namespace: pattern.Namespace, Type: pattern.Type}.Match(p) &&
						!slices.ContainsFunc(patterns, func(other sources.Pattern) bool { return other.Match(p) })
				})
				if pattern.Namespace == "*" && pattern.Host != "" && !sources.Host(pattern.Host).Default() || i < 0 || matched(pattern) {
					continue
				}
				p := required[i]
				right := sources.Pattern{Host: string(p.Host), Namespace: pattern.Namespace, Type: pattern.Type}
				why := fmt.Sprintf("a pattern matches only providers of its own host, and this root module requires %s", p)
				if pattern.Host == "" {
					why = fmt.Sprintf("a pattern without a host means the engine's own registry, and this root module requires %s", p)
				}
				found = append(found, report.Diagnosis{
					Severity: report.Risky, Trap: "pattern-of-other-host", Path: m.File, Line: m.Line,
					Text: fmt.Sprintf("%q in %s of %s matches no required provider", pattern, setting, m.Kind),
					Why:  why, Fix: fmt.Sprintf("add %q to %s", right, setting),
				})
			}
		}
	}
	return found
}

// fallbackWins finds registries that are meant as a fallback for a mirror, but whose newer versions win.
func fallbackWins(ctx context.Context, c *checkup) (found []report.Diagnosis) {
	for _, direct := range c.config.Methods {
		if direct.Kind != cliconfig.Direct {
			continue
		}
		for _, m := range c.config.Methods {
			if m.Kind == cliconfig.Direct {
				continue
			}
			both := slices.DeleteFunc(c.samples(ctx, m), func(p sources.Provider) bool { return !applies(m, p) || !applies(direct, p) })
			if len(both) == 0 {
				continue
			}
			text := fmt.Sprintf("direct does not exclude the providers of %s", c.describe(m))
			if !slices.Contains(both, anyProvider) {
				text = fmt.Sprintf("both direct and %s are used for %s", c.describe(m), names(both))
			}
			found = append(found, report.Diagnosis{
				Severity: report.Risky, Trap: "fallback-wins", Path: direct.File, Line: direct.Line, Text: text,
				Why: "the newest version of all methods is installed, whatever their order: the registry bypasses the mirror as soon as it has a newer one",
				Fix: c.leaveTo(m, both),
			})
		}
	}
	return found
}

// anyProvider stands for all providers of a method without include.
var anyProvider = sources.Provider{Host: sources.Terraform.DefaultHost(), Namespace: "example", Type: "any"}

// samples returns providers for which a mirror is meant: the required ones, those that a directory has, or else one for
// all.
func (c *checkup) samples(ctx context.Context, m cliconfig.Method) []sources.Provider {
	all := c.providers()
	if m.Kind == cliconfig.FilesystemMirror {
		here, _ := c.mirror(m.Path).Providers(ctx) // an error is found with the mirrors
		all = slices.DeleteFunc(all, func(p sources.Provider) bool { return len(m.Include) == 0 && !slices.Contains(here, p) })
		for _, p := range here {
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	if len(all) > 0 || len(m.Include) > 0 || m.Kind == cliconfig.FilesystemMirror {
		return all
	}
	return []sources.Provider{anyProvider}
}

// mostExcluded is how many providers an edit lists.
const mostExcluded = 10

// leaveTo returns the edit with which a registry leaves a mirror's providers to the mirror.
func (c *checkup) leaveTo(m cliconfig.Method, both []sources.Provider) string {
	patterns := sources.Texts(m.Include)
	switch {
	case len(patterns) > mostExcluded:
		return "give direct the include list of the mirror as exclude"
	case len(patterns) == 0 && m.Kind != cliconfig.FilesystemMirror:
		return "remove direct, or give the mirror an include list, and direct the same list as exclude"
	case len(patterns) == 0 && len(both) > mostExcluded:
		return fmt.Sprintf("in direct, exclude the providers of the mirror, which larder mirror list %s shows", c.word(m.Path))
	case len(patterns) == 0:
		patterns = sources.Texts(both)
	}
	for i, p := range patterns {
		patterns[i] = fmt.Sprintf("%q", p)
	}
	return fmt.Sprintf("in direct, write exclude = [%s]", strings.Join(patterns, ", "))
}

// describe names an installation method.
func (c *checkup) describe(m cliconfig.Method) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s", m.Kind, c.config.Tilde(m.Path+fetch.Redact(m.URL)+m.Template.String())))
}

// overrides finds development overrides, which replace providers without any check.
func overrides(_ context.Context, c *checkup) (found []report.Diagnosis) {
	for p, dir := range c.config.DevOverrides {
		d := report.Diagnosis{
			Severity: report.Broken, Trap: "broken-override", Text: fmt.Sprintf("dev_overrides replaces %s with %s", p, c.brief(dir)),
			Why: "engines can't start the provider", Fix: fmt.Sprintf("build the provider in %s, or remove the line from dev_overrides", c.brief(dir)),
		}
		d.Path, d.Line = c.placeOf("dev_overrides", p.String())
		entries, err := os.ReadDir(dir)
		switch {
		case err != nil:
			d.Text += ", which is not a directory that can be read"
		case !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() && sources.NamesExecutable(e.Name(), p.Type) }):
			d.Text += fmt.Sprintf(", which has no executable %s%s", sources.FilePrefix, p.Type)
		default:
			d.Severity, d.Trap = report.Risky, "override-in-force"
			d.Why = "engines ignore the version, the lock file and all hashes for this provider"
			d.Fix = "remove the line when you have finished developing"
		}
		found = append(found, d)
	}
	slices.SortFunc(found, func(a, b report.Diagnosis) int { return cmp.Compare(a.Text, b.Text) })
	if len(c.config.Unmanaged) > 0 {
		found = append(found, report.Diagnosis{
			Severity: report.Risky, Trap: "override-in-force", Text: fmt.Sprintf("TF_REATTACH_PROVIDERS replaces %s with a running process", names(c.config.Unmanaged)),
			Why: "engines install no package for these providers", Fix: "unset TF_REATTACH_PROVIDERS",
		})
	}
	return found
}

// loginFile is the name of the file in which terraform login stores tokens.
const loginFile = "credentials.tfrc.json"

// unusedTokens finds tokens for hosts that this root module doesn't use. Nothing is known about them elsewhere.
func unusedTokens(_ context.Context, c *checkup) (found []report.Diagnosis) {
	if c.tree.Empty || len(c.tree.Missing) > 0 {
		return nil
	}
	used := c.usedHosts()
	for _, t := range tokensIn(c.config) {
		host, variable := sources.Host(t.Of), t.From.By
		near := withPort(host, used)
		if slices.Contains(used, t.Of) || host.Default() || near == "" && c.mentions(host) {
			continue
		}
		d := report.Diagnosis{
			Severity: report.Risky, Trap: "unused-token", Path: t.From.File, Line: t.From.Line,
			Text: fmt.Sprintf("nothing in this root module uses the token for %s", host), Why: "a misspelled host is the usual reason",
			Fix: fmt.Sprintf("remove the block if the token is for nothing else: credentials %q", host),
		}
		if variable != "" {
			d.Text += " in " + variable
			d.Why += ", and the secret is in the environment of every process"
			d.Fix = unset(variable)
		}
		switch near = cmp.Or(near, sources.Nearest(t.Of, used)); {
		case near == "" && filepath.Base(t.From.File) == loginFile:
			continue // users log in to all their hosts
		case near != "":
			d.Text += fmt.Sprintf(", but %s is used", near)
			d.Why = "requests are sent without this token"
			d.Fix = fmt.Sprintf("write credentials %q { token = \"TOKEN\" } in the CLI configuration", near)
			if right := cliconfig.TokenVariable(sources.Host(near)); isShellName(variable) && right != "" {
				d.Fix = fmt.Sprintf(`export %s="$%s"`, right, variable)
			}
			if !slices.Contains(c.configuredHosts(), near) { // a checkout must not lead tokens to its own host
				d.Fix = fmt.Sprintf("find out which of the two names is misspelled: only this root module names %s, so don't give it the token if you don't know that host", near)
			}
		}
		found = append(found, d)
	}
	return found
}

// withPort returns the used host that has a port where a token's host lacks it, or has it after a dot because of the name
// of a variable.
func withPort(host sources.Host, used []string) string {
	for _, u := range used {
		if name, port, ok := strings.Cut(u, ":"); ok && (string(host) == name || string(host) == name+"."+port) {
			return u
		}
	}
	return ""
}

// usedHosts returns the hosts that requests about the required providers are sent to, as far as known.
func (c *checkup) usedHosts() []string {
	used := c.configuredHosts()
	for _, p := range c.providers() {
		used = append(used, string(p.Host))
	}
	return used
}

// configuredHosts returns the hosts of mirrors and registries in the user's configuration.
func (c *checkup) configuredHosts() []string {
	used := []string{}
	add := func(text string) {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			used = append(used, u.Host)
		}
	}
	for _, m := range c.config.Methods {
		add(m.URL)
	}
	for host, services := range c.config.Hosts {
		used = append(used, string(host))
		for _, service := range services {
			add(service)
		}
	}
	return used
}

// maxConfiguration limits how much of a configuration file is searched for a host, in bytes.
const maxConfiguration = 1 << 20

// mentions reports whether a configuration file of the root module contains the name of a host: modules, backends and
// remote states are on such hosts too.
func (c *checkup) mentions(host sources.Host) bool {
	if host == "app.terraform.io" { // the default of backends and cloud blocks, which don't name it
		return true
	}
	entries, _ := os.ReadDir(c.dir)
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		if !modules.IsConfiguration(e.Name()) {
			return false
		}
		text, err := disk.ReadFile(filepath.Join(c.dir, e.Name()), maxConfiguration)
		return err != nil || strings.Contains(string(text), string(host))
	})
}
