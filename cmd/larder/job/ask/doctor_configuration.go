package ask

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/policy"
)

// configurationChecks are the checks of doctor for the CLI configuration and the environment.
var configurationChecks = []check{
	read, ignoredCertificates, unreadFiles, enginesDisagree, ignoredVariables, wrongProxy, exposedPolicy, fallbackWins, overrides,
}

// configurationSummary names the file that was read.
func configurationSummary(_ context.Context, c *checkup) string {
	if file := c.Config.MainFile(); file != "" {
		return c.Brief(file)
	}
	return "no file, so engines use their defaults"
}

// ignoredCertificates finds a file of authorities that can't be used.
func ignoredCertificates(_ context.Context, c *checkup) {
	if fault := c.Config.CertificateFault; fault != "" {
		c.add(report.Diagnosis{
			Severity: report.Broken, Trap: "ignored-certificates", Text: "SSL_CERT_FILE is ignored: " + fault,
			Why: "servers with certificates of your own authority are refused", Fix: "unset SSL_CERT_FILE",
		})
	}
}

// unreadFiles finds configuration files that engines don't read, because they read another one, or because of the name.
func unreadFiles(_ context.Context, c *checkup) {
	by := map[string][]string{}
	for _, f := range c.Config.UnreadFiles() {
		if f.By != "" {
			by[f.By] = append(by[f.By], c.Brief(f.Path))
			continue
		}
		fix := fmt.Sprintf("mv %s %s", c.word(f.Path), c.word(f.RenameTo))
		if c.CheckedOut(f.Path) || site.Exists(f.RenameTo) { // it may belong to someone else
			fix = "read it first: its settings then apply everywhere. Move those that you want to " + c.Brief(f.RenameTo)
		}
		c.add(report.Diagnosis{
			Trap: "unread-configuration", Path: f.Path, Fix: fix,
			Text: fmt.Sprintf("%s is not read: engines expect this file at %s", c.Brief(f.Path), c.Brief(f.RenameTo)),
		})
	}
	for variable, files := range by {
		c.add(report.Diagnosis{
			Trap: "unread-configuration",
			Text: fmt.Sprintf("%s names the only configuration file that is read, and not %s", variable, ui.Some(files, 3)),
			Fix:  fmt.Sprintf("unset %s, or copy the settings that you need", variable),
		})
	}
}

// engineNames are the names of engines in sentences.
var engineNames = map[sources.Engine]string{sources.Terraform: "Terraform", sources.OpenTofu: "OpenTofu"}

// enginesDisagree finds differences between the configurations of Terraform and OpenTofu, if they read different
// files.
func enginesDisagree(ctx context.Context, c *checkup) {
	var of [2]*cliconfig.Config
	var reads [2]string
	for i, e := range site.BothEngines {
		config, _ := c.configOf(ctx, e)
		of[i], reads[i] = config.At(c.Dir), engineNames[e]+" reads no configuration file"
		if file := of[i].MainFile(); file != "" {
			reads[i] = fmt.Sprintf("%s reads %s", engineNames[e], c.Brief(file))
		}
	}
	first, second := of[0].MainFile(), of[1].MainFile()
	if first == second || (first == "" || second == "") && len(c.EnginesOnPath()) < len(site.BothEngines) {
		return // only one of them is used
	}
	var differences []string
	for _, part := range configParts {
		if part.text(of[0]) != part.text(of[1]) {
			differences = append(differences, part.name)
		}
	}
	if len(differences) > 0 {
		c.add(report.Diagnosis{
			Trap: "engines-disagree", Path: cmp.Or(second, first),
			Text: fmt.Sprintf("%s, %s: they differ in %s", reads[0], reads[1], ui.List("and", differences)),
			Why:  "the same root module behaves differently, depending on the engine",
			Fix:  "make both files equal, or remove that of OpenTofu, which then reads that of Terraform",
		})
	}
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
	{"dev_overrides", func(config *cliconfig.Config) string { return fmt.Sprint(config.DevOverrides) }},
}

// ignoredVariables finds variables that engines don't read.
func ignoredVariables(_ context.Context, c *checkup) {
	for _, v := range c.Config.IgnoredVariables() {
		d := report.Diagnosis{Trap: "ignored-variable", Text: fmt.Sprintf("engines don't read the variable %s", v.Name), Fix: "unset " + site.ShellQuoted(v.Name)}
		if v.Meant != "" {
			d.Fix = "rename it to " + v.Meant
		}
		c.add(d)
	}
}

// wrongProxy finds variables that name no proxy.
func wrongProxy(_ context.Context, c *checkup) {
	_, err := c.Config.Proxy(&url.URL{Scheme: "https", Host: string(c.Config.Engine.DefaultHost())})
	if err != nil {
		c.add(report.Diagnosis{Severity: report.Broken, Trap: "wrong-proxy", Text: sources.Text(err), Fix: strings.Join(sources.Hints(err), "; ")})
	}
}

// exposedPolicy finds a policy of this machine that others than root can change.
func exposedPolicy(_ context.Context, c *checkup) {
	i := slices.IndexFunc(c.Config.Policy, func(r policy.Rule) bool { return r.Layer == policy.Site })
	if i < 0 {
		return
	}
	file := c.Config.Policy[i].File
	if e := site.ExposureOf(site.Resolve(file), func(info fs.FileInfo) bool { return !disk.OfRoot(info) }); e.At != "" {
		c.add(report.Diagnosis{
			Trap: "exposed-policy", Path: e.At, Text: e.Who + c.Brief(e.At),
			Why: "not only root can change the policy in " + c.Brief(file), Fix: cmp.Or(e.Fix, "chown root "+c.word(e.At)),
		})
	}
}

// fallbackWins finds registries that are meant as a fallback for a mirror, but whose newer versions win.
func fallbackWins(ctx context.Context, c *checkup) {
	for _, direct := range c.Config.Methods {
		for _, m := range c.Config.Methods {
			if direct.Kind != cliconfig.Direct || m.Kind == cliconfig.Direct {
				continue
			}
			all := c.providers()
			if m.Kind == cliconfig.FilesystemMirror {
				all, _ = c.Mirror(m.Path).Providers(ctx) // an error is found with the mirrors
			}
			both := slices.DeleteFunc(all, func(p sources.Provider) bool { return !site.Applies(m, p) || !site.Applies(direct, p) })
			if len(both) == 0 {
				continue
			}
			patterns := sources.Texts(m.Include)
			if len(patterns) == 0 {
				patterns = sources.Texts(both)
			}
			for i, p := range patterns {
				patterns[i] = fmt.Sprintf("%q", p)
			}
			c.add(report.Diagnosis{
				Trap: "fallback-wins", Path: direct.File, Line: direct.Line,
				Text: fmt.Sprintf("both direct and %s %s are used for %s", m.Kind, c.Config.Tilde(m.Path+fetch.Redact(m.URL)+m.Template.String()), names(both)),
				Why:  "the newest version of all methods is installed, whatever their order: the registry bypasses the mirror as soon as it has a newer one",
				Fix:  fmt.Sprintf("in direct, write exclude = [%s]", strings.Join(patterns, ", ")),
			})
		}
	}
}

// overrides finds development overrides, which replace providers without any check.
func overrides(_ context.Context, c *checkup) {
	for p, dir := range c.Config.DevOverrides {
		place, _ := c.Config.SettingOf("dev_overrides", p.String())
		c.add(report.Diagnosis{
			Trap: "override-in-force", Path: place.From.File, Line: place.From.Line,
			Text: fmt.Sprintf("dev_overrides replaces %s with %s", p, c.Brief(dir)),
			Why:  "engines ignore the version, the lock file and all hashes for this provider",
			Fix:  "remove the line when you have finished developing",
		})
		_, _ = c.Site.Overrides.Get(p, func() (string, error) { return dir, nil }) // the finding replaces the warning
	}
	if len(c.Config.Unmanaged) > 0 {
		c.add(report.Diagnosis{
			Trap: "override-in-force", Text: fmt.Sprintf("TF_REATTACH_PROVIDERS replaces %s with a running process", names(c.Config.Unmanaged)),
			Why: "engines install no package for these providers", Fix: "unset TF_REATTACH_PROVIDERS",
		})
	}
}
