package ask

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/policy"
)

// explainMachine shows what is configured for the root module in dir. Of a configuration with errors, it shows
// the errors first, and then what could be read.
func explainMachine(ctx context.Context, s *site.Site, dir string, request ExplainRequest) error {
	m, ds, err := look(ctx, s, dir)
	for _, err := range []error{err, s.Output.Warnings(append(ds, m.LockProblems...))} {
		s.Output.Fail(ctx, err)
	}
	overrideCache(m, request.Flags)
	s.Output.Setup(setup(m, request.Flags), request.All)
	if err != nil || ds.Err() != nil || m.LockProblems.Err() != nil {
		return cmp.Or(ctx.Err(), error(&report.ToldError{Failed: 1, Of: 1}))
	}
	return ctx.Err()
}

// look returns the root module in dir with what can be read of the configuration, and all problems in it. If
// the error is not nil, the engine is unknown, and assumed.
func look(ctx context.Context, s *site.Site, dir string) (m *site.Root, ds sources.Diagnostics, err error) {
	m = &site.Root{Site: s, Out: s.Output, Dir: dir, LockPath: filepath.Join(dir, lockfile.Name)}
	if err = m.ReadLock(ctx); err != nil {
		m.Chosen = site.Choice{Engine: cmp.Or(s.Requested.Engine, sources.Terraform), Reason: "assumed, because of the error"}
	}
	s.Output.For(m.Chosen.Engine)
	config, ds := cliconfig.Load(ctx, s.Machine, m.Chosen.Engine, s.ConfigOptions())
	m.Config = config.At(dir)
	if err == nil {
		m.Policy, err = s.PolicyFor(dir, m.Config)
	}
	return m, ds, err
}

// setup returns what is configured for a root module. Flags are the variables of flags.
func setup(m *site.Root, flags []cliconfig.Input) report.Setup {
	return report.Setup{
		Engine: report.EngineChoice{Engine: string(m.Chosen.Engine), Reason: m.Chosen.Reason, File: m.Chosen.File, Undecided: m.Chosen.Undecided},
		Files:  append(configFiles(m.Config), checkoutFiles(m)...), Variables: configVariables(m.Config, flags),
		Methods: configMethods(m), Settings: settingsInForce(m, flags),
		Incomplete: m.Config.Incomplete(), Tilde: m.Config.Tilde,
	}
}

// configFiles returns all files that may configure Larder.
func configFiles(config *cliconfig.Config) (all []report.ConfigFile) {
	for _, in := range config.InputFiles() {
		f := report.ConfigFile{Path: in.Name, What: in.What, State: in.State, NamedBy: in.By, Read: in.WasRead()}
		if in.Fault != "" {
			f.State += ": " + in.Fault
		}
		for _, s := range config.Settings {
			if isIn(in.Name)(s.From) && !slices.Contains(f.Sets, s.Name) {
				f.Sets = append(f.Sets, s.Name)
			}
			if slices.ContainsFunc(s.Overrides, isIn(in.Name)) && !slices.Contains(f.Overridden, s.Name) {
				f.Overridden = append(f.Overridden, s.Name)
			}
		}
		if slices.ContainsFunc(config.Policy, func(r policy.Rule) bool { return r.File == in.Name }) {
			f.Sets = append(f.Sets, "policy")
		}
		all = append(all, f)
	}
	return all
}

// checkoutFiles returns the files of the repository that may configure Larder, the nearest first.
func checkoutFiles(m *site.Root) (all []report.ConfigFile) {
	for _, dir := range m.DirsOf(m.Dir) {
		f := report.ConfigFile{Path: filepath.Join(dir, cliconfig.CheckoutFile), What: "settings of the repository", State: cliconfig.FileMissing}
		if site.Exists(f.Path) {
			found, err := cliconfig.ReadCheckout(dir)
			if f.State, f.Read = cliconfig.FileRead, true; err != nil {
				f.State = cliconfig.FileFaulty
			}
			if found.Engine != "" {
				f.Sets = append(f.Sets, "engine")
			}
			if len(found.Policy) > 0 {
				f.Sets = append(f.Sets, "policy")
			}
		}
		all = append(all, f)
	}
	return all
}

// rulesInForce returns the rules of the policy.
func rulesInForce(m *site.Root) (all []report.Setting) {
	if m.Policy == nil {
		return nil
	}
	for _, r := range m.Policy.Rules {
		rule := report.Setting{Area: report.AreaPolicy, Name: string(r.Setting), Value: r.Value(), From: r.Place(), Reason: r.Reason, Contact: r.Contact}
		if r.Setting == policy.Versions {
			rule.Of = strings.Join(sources.Texts(r.Providers), ", ")
		}
		all = append(all, rule)
	}
	return all
}

// isIn returns a function that reports whether a place is a line of a file.
func isIn(file string) func(p cliconfig.Place) bool {
	return func(p cliconfig.Place) bool { return p.File == file && p.Line > 0 }
}

// configVariables returns all variables that may configure Larder.
func configVariables(config *cliconfig.Config, flags []cliconfig.Input) (all []report.ConfigVariable) {
	for _, in := range append(config.InputVariables(), flags...) {
		v := report.ConfigVariable{Name: in.Name, What: in.What, Value: in.State, NoEffect: in.Fault, Usual: in.Usual}
		for _, s := range config.Settings {
			if s.From.By == in.Name {
				v.Overrides = append(v.Overrides, sources.Texts(s.Overrides)...)
			}
		}
		all = append(all, v)
	}
	return all
}

// configMethods returns the installation methods in order, or none if they are unknown.
func configMethods(m *site.Root) (all []report.ConfigMethod) {
	if !m.Config.Implied {
		for _, c := range m.Config.Methods {
			method := report.ConfigMethod{
				Method: string(c.Kind), Location: c.Path + c.Template.String(), File: c.File, Line: c.Line,
				Include: sources.Texts(c.Include), Exclude: sources.Texts(c.Exclude),
			}
			if c.Kind == cliconfig.NetworkMirror {
				method.Location = fetch.Redact(c.URL)
			}
			all = append(all, method)
		}
		return all
	}
	if m.Config.Incomplete() { // there may be methods in it
		return nil
	}
	existing := m.Config.ImpliedDirs()
	for _, dir := range m.Config.ImpliedPlaces() {
		method := report.ConfigMethod{Method: string(cliconfig.FilesystemMirror), Location: dir, Implied: true}
		if !slices.Contains(existing, dir) {
			method.Missing, method.NoEffect = true, "doesn't exist"
		} else if m.IsLinked(dir) {
			method.NoEffect = "not searched: reached through a symbolic link"
		}
		all = append(all, method)
	}
	return append(all, report.ConfigMethod{Method: string(cliconfig.Direct), Implied: true})
}

// settingsInForce returns the settings that are in force, with the defaults of some.
func settingsInForce(m *site.Root, flags []cliconfig.Input) (all []report.Setting) {
	for _, s := range m.Config.Settings {
		if area, value := shownAs(m, s); area != "" {
			all = append(all, report.Setting{
				Area: area, Name: s.Name, Of: s.Of, Value: value, Secret: s.Secret, From: s.From.String(), Overrides: sources.Texts(s.Overrides),
			})
		}
	}
	all = append(withDefaults(m, all, flags), rulesInForce(m)...)
	report.SortSettings(all)
	return all
}

// shownAs returns the area of a setting, and its value for people. Those that the files, the variables or the methods
// show have no area.
func shownAs(m *site.Root, s cliconfig.Setting) (area report.Area, value string) {
	switch s.Name {
	case "CLI configuration", "Larder's own configuration", "passwords for archives", "provider_installation", "https_proxy", "http_proxy", "no_proxy":
		return "", ""
	case "host":
		var services []string
		for name, at := range m.Config.Hosts[sources.Host(s.Of)] {
			services = append(services, name+" "+fetch.Redact(at))
		}
		slices.Sort(services)
		return report.AreaHosts, strings.Join(services, ", ")
	case "credentials", "credentials_helper", "password", "ca_file", "client_certificate", "client_key", "headers", "send_token_to_archives",
		"oci_credentials", "discover_ambient_credentials", "docker_style_config_files", "docker_credentials_helper":
		return report.AreaHosts, s.Value
	case "dev_overrides", "runs already":
		p, _ := sources.ParseStoredProvider(s.Of) // which it is
		return report.AreaUninstalled, m.Config.DevOverrides[p]
	case "without a key", "expired keys":
		return report.AreaTrust, "refused"
	case "record key":
		return report.AreaTrust, s.Value
	case "plugin_cache_dir":
		return report.AreaCache, s.Value
	case "data directory":
		return report.AreaDirectories, s.Value
	}
	return report.AreaOther, s.Value
}

// withDefaults adds the settings that flags or defaults determine.
func withDefaults(m *site.Root, all []report.Setting, flags []cliconfig.Input) []report.Setting {
	defaults := []report.Setting{
		{Area: report.AreaDirectories, Name: "link", Value: string(m.Flags.Link)},
		{Area: report.AreaDirectories, Name: "data directory", Value: m.Config.DataDir},
		{Area: report.AreaDirectories, Name: "state directory", Value: cmp.Or(m.Config.StateDir, "none is known")},
	}
	if m.Flags.Link != sources.LinkAuto {
		defaults[0].From = named(flags, "link")
	}
	if !m.Flags.NoCache {
		defaults = append(defaults, report.Setting{Area: report.AreaCache, Name: "plugin_cache_dir", Value: cmp.Or(m.CacheRoot(), "no directory is known")})
	}
	if m.Config.RecordKey == "" {
		defaults = append(defaults, report.Setting{Area: report.AreaTrust, Name: "record key", Value: "this user's"})
	}
	for _, s := range defaults {
		if i := slices.IndexFunc(all, func(old report.Setting) bool { return old.Name == s.Name }); i >= 0 {
			all[i].Value = s.Value
			continue
		}
		s.From = cmp.Or(s.From, report.ByDefault)
		all = append(all, s)
	}
	return all
}

// overrideCache notes the flags for the plugin cache among the settings.
func overrideCache(m *site.Root, flags []cliconfig.Input) {
	set := cliconfig.Setting{Name: "plugin_cache_dir", Value: m.Flags.Cache, From: cliconfig.Place{By: named(flags, "cache")}}
	if m.Flags.NoCache {
		set.Value, set.From.By = "none", named(flags, "no-cache")
	}
	if set.Value != "" {
		m.Config.Override(set)
	}
}

// named returns the variable or the flag that sets a flag.
func named(flags []cliconfig.Input, name string) string {
	variable := cliconfig.FlagVariable(name)
	if slices.ContainsFunc(flags, func(in cliconfig.Input) bool { return in.Name == variable && in.State != "" && in.Fault == "" }) {
		return variable
	}
	return fmt.Sprintf("--%s", name)
}
