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
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/policy"
)

// A setup is what is configured for a root module: objects for programs, and rows of a page for people.
type setup struct {
	*site.Root
	flags []cliconfig.Input // the variables of flags
	all   bool              // nothing is left out

	objects []report.Object
	rows    map[string][]report.Item // by section
}

// The sections of the page, in order. The last ones are the areas of settings.
const (
	inEngine        = "engine"
	inFiles         = "files"
	inVariables     = "variables"
	inMethods       = "providers from"
	areaUninstalled = "not installed" // providers
	areaHosts       = "hosts"
	areaCache       = "plugin cache"
	areaDirectories = "directories"
	areaTrust       = "trust"
	areaPolicy      = "policy" // rules; all apply
	areaOther       = "other settings"
)

var sections = []string{
	inEngine, inFiles, inVariables, inMethods,
	areaUninstalled, areaHosts, areaCache, areaDirectories, areaTrust, areaPolicy, areaOther,
}

// explainMachine shows what is configured for the root module in dir. Of a configuration with errors, it shows
// the errors first, and then what could be read.
func explainMachine(ctx context.Context, s *site.Site, dir string, request ExplainRequest) error {
	m, ds, err := look(ctx, s, dir, request.Flags)
	for _, err := range []error{err, s.Output.Warnings(append(ds, m.LockProblems...))} {
		s.Output.Fail(ctx, err)
	}
	m.all = request.All
	m.noteFlags()
	m.show()
	if err != nil || ds.Err() != nil || m.LockProblems.Err() != nil {
		return cmp.Or(ctx.Err(), error(&report.ToldError{Failed: 1, Of: 1}))
	}
	return ctx.Err()
}

// look returns the root module in dir with what can be read of the configuration, and all problems in it. If
// the error is not nil, the engine is unknown, and assumed.
func look(
	ctx context.Context, s *site.Site, dir string, flags []cliconfig.Input,
) (m *setup, ds sources.Diagnostics, err error) {
	m = &setup{flags: flags, rows: map[string][]report.Item{}}
	m.Root, ds, err = s.Look(ctx, dir)
	return m, ds, err
}

// add adds an object, with its row in a section. A row without cells is left out.
func (m *setup) add(section string, object report.Object, row report.Item) {
	m.objects = append(m.objects, object)
	if row.Cells != nil {
		m.rows[section] = append(m.rows[section], row)
	}
}

// show shows what is configured. Files that don't exist and variables that are not set are left out for people.
func (m *setup) show() {
	m.addEngine()
	m.addFiles()
	m.addVariables()
	m.addMethods()
	m.addSettings()
	if m.rows[inFiles] == nil {
		m.rows[inFiles] = []report.Item{report.ItemOf("none of them exists; --all lists them")}
	}
	if m.rows[inMethods] == nil {
		text := "none: provider_installation contains no methods"
		if m.Config.Incomplete() {
			text = "unknown, because of the error"
		}
		m.rows[inMethods] = []report.Item{report.ItemOf(text)}
	}
	page := m.Output.Page(16, 16, m.all)
	for _, section := range sections {
		page.Section(strings.ToUpper(section[:1])+section[1:], m.rows[section]...)
	}
	page.Show(m.objects...)
}

// path shortens a path, which may be followed by a line.
func (m *setup) path(path string) string { return m.Output.ShortenHere(path) }

// paths lists paths after a label.
func (m *setup) paths(label string, paths []string) string {
	var short []string
	for _, path := range paths {
		short = append(short, m.path(path))
	}
	return report.Labeled(label, short...)
}

// An EngineChoice is the engine of a root module, and why.
type EngineChoice struct {
	report.Typed `type:"engine"`
	Engine       string   `json:"engine"`
	Reason       string   `json:"reason"`
	File         string   `json:"file,omitempty"`      // that the reason is about
	Undecided    []string `json:"undecided,omitempty"` // stronger criteria, which don't decide
}

func (m *setup) addEngine() {
	c := m.Chosen
	row := report.ItemOf(string(c.Engine) + ": " + m.path(c.Because()))
	if m.all {
		row.Below = report.Filled(report.Labeled("not decided by: ", c.Undecided...))
	}
	m.add(inEngine, EngineChoice{Engine: string(c.Engine), Reason: c.Reason, File: c.File, Undecided: c.Undecided}, row)
}

// A ConfigFile is a file that configures Larder.
type ConfigFile struct {
	report.Typed `type:"config_file"`
	Path         string   `json:"path"`
	What         string   `json:"what"`
	Read         bool     `json:"read"`
	State        string   `json:"state"`                // "read", "not found", or why it has no effect
	NamedBy      string   `json:"named_by,omitempty"`   // flag or variable
	Sets         []string `json:"sets,omitempty"`       // names of settings
	Overridden   []string `json:"overridden,omitempty"` // names of settings that have no effect here
}

// addFiles adds all files that may configure Larder, those of the repository last, the nearest first.
func (m *setup) addFiles() {
	for _, in := range m.Config.InputFiles() {
		f := ConfigFile{Path: in.Name, What: in.What, State: in.State, NamedBy: in.By, Read: in.WasRead()}
		if in.Fault != "" {
			f.State += ": " + in.Fault
		}
		isHere := func(p cliconfig.Place) bool { return p.File == in.Name && p.Line > 0 }
		for _, s := range m.Config.Settings {
			if isHere(s.From) {
				f.Sets = append(f.Sets, s.Name)
			}
			if slices.ContainsFunc(s.Overrides, isHere) {
				f.Overridden = append(f.Overridden, s.Name)
			}
		}
		if slices.ContainsFunc(m.Config.Policy, func(r policy.Rule) bool { return r.File == in.Name }) {
			f.Sets = append(f.Sets, "policy")
		}
		f.Sets, f.Overridden = report.Unique(f.Sets), report.Unique(f.Overridden)
		m.addFile(f)
	}
	for _, dir := range m.DirsOf(m.Dir) {
		path := filepath.Join(dir, cliconfig.CheckoutFile)
		f := ConfigFile{Path: path, What: "settings of the repository", State: cliconfig.FileMissing}
		if site.Exists(path) {
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
		m.addFile(f)
	}
}

func (m *setup) addFile(f ConfigFile) {
	about := report.Filled(report.Labeled("named by ", f.NamedBy), strings.TrimPrefix(f.State, cliconfig.FileRead),
		report.Labeled("sets ", f.Sets...), report.Labeled("overridden: ", f.Overridden...))
	row := report.ItemOf(m.path(f.Path), cmp.Or(strings.Join(about, "; "), "sets nothing"))
	if f.State == cliconfig.FileMissing && !m.all && f.NamedBy == "" {
		row = report.Item{}
	}
	m.add(inFiles, f, row)
}

// A ConfigVariable is an environment variable that configures Larder.
type ConfigVariable struct {
	report.Typed `type:"config_variable"`
	Name         string   `json:"name"`
	What         string   `json:"what"`
	Value        string   `json:"value,omitempty"`
	NoEffect     string   `json:"no_effect,omitempty"` // why
	Overrides    []string `json:"overrides,omitempty"` // places of settings
}

// addVariables adds all variables that may configure Larder.
func (m *setup) addVariables() {
	var unset []string
	for _, in := range append(m.Config.InputVariables(), m.flags...) {
		v := ConfigVariable{Name: in.Name, What: in.What, Value: in.State, NoEffect: in.Fault}
		for _, s := range m.Config.Settings {
			if s.From.By == in.Name {
				v.Overrides = append(v.Overrides, sources.Texts(s.Overrides)...)
			}
		}
		var row report.Item
		if v.Value == "" {
			unset = append(unset, v.Name)
		} else if m.all || !in.Usual {
			about := cmp.Or(v.NoEffect, m.paths("overrides ", v.Overrides))
			row = report.ItemOf(report.Filled(v.Name+"="+m.path(v.Value), about)...)
		}
		m.add(inVariables, v, row)
	}
	if m.all && len(unset) > 0 {
		m.rows[inVariables] = append(m.rows[inVariables], report.ItemOf(report.Labeled("not set: ", unset...)))
	}
}

// A ConfigMethod is an installation method.
type ConfigMethod struct {
	report.Typed `type:"installation_method"`
	Method       string   `json:"method"`             // as in provider_installation
	Location     string   `json:"location,omitempty"` // path or URL
	Implied      bool     `json:"implied,omitempty"`  // not configured
	NoEffect     string   `json:"no_effect,omitempty"`
	Include      []string `json:"include,omitempty"`
	Exclude      []string `json:"exclude,omitempty"`
	report.Place
}

// addMethods adds the installation methods in order, or none if they are unknown.
func (m *setup) addMethods() {
	if !m.Config.Implied {
		for i, c := range m.Config.Methods {
			method := ConfigMethod{
				Method: string(c.Kind), Location: c.Path + fetch.Redact(c.URL) + c.Template.String(),
				Include: sources.Texts(c.Include), Exclude: sources.Texts(c.Exclude),
				Place: report.Place{File: c.File, Line: c.Line},
			}
			m.addMethod(method, i+1, m.path(method.Place.String()))
		}
		return
	}
	if m.Config.Incomplete() { // there may be methods in it
		return
	}
	n, existing := 0, m.Config.ImpliedDirs()
	for _, dir := range m.Config.ImpliedPlaces() {
		method := ConfigMethod{Method: string(cliconfig.FilesystemMirror), Location: dir, Implied: true}
		switch {
		case !slices.Contains(existing, dir):
			method.NoEffect = missingDir
		case m.IsLinked(dir):
			method.NoEffect = "not searched: reached through a symbolic link"
		default:
			n++
		}
		m.addMethod(method, n, "implied")
	}
	m.addMethod(ConfigMethod{Method: string(cliconfig.Direct), Implied: true}, n+1, "implied")
}

// missingDir is why an implied directory has no effect that doesn't exist.
const missingDir = "doesn't exist"

// addMethod adds a method with its place and, if it has an effect, its number.
func (m *setup) addMethod(c ConfigMethod, n int, place string) {
	about := strings.TrimSpace(c.Method + " " + m.path(c.Location))
	row := report.ItemOf(fmt.Sprintf("%d %s", n, about), place)
	if c.NoEffect != "" {
		row = report.ItemOf(about, place+": "+c.NoEffect)
	}
	row.Below = report.Filled(report.Labeled("include ", c.Include...), report.Labeled("exclude ", c.Exclude...))
	if c.NoEffect == missingDir && !m.all {
		row = report.Item{}
	}
	m.add(inMethods, c, row)
}

// A Setting is something that is in force.
type Setting struct {
	report.Typed `type:"setting"`
	Area         string   `json:"area"`
	Name         string   `json:"name"`
	Of           string   `json:"of,omitempty"`    // host, provider or pattern; absent if it applies to everything
	Value        string   `json:"value,omitempty"` // absent for a secret
	Secret       bool     `json:"secret,omitempty"`
	From         string   `json:"from"` // place, variable, flag or "default"
	Overrides    []string `json:"overrides,omitempty"`
	Reason       string   `json:"reason,omitempty"`  // of a rule
	Contact      string   `json:"contact,omitempty"` // whom to ask for an exception to a rule
}

// addSettings adds the settings that are in force, with the defaults of some, by their area, and by what they apply to:
// those that apply to everything else are last. Rules of a policy keep their order.
func (m *setup) addSettings() {
	var all []Setting
	for _, s := range m.Config.Settings {
		if area, value := m.shownAs(s); area != "" {
			all = append(all, Setting{
				Area: area, Name: s.Name, Of: s.Of, Value: value, Secret: s.Secret,
				From: s.From.String(), Overrides: sources.Texts(s.Overrides),
			})
		}
	}
	if m.Policy != nil {
		for _, r := range m.Policy.Rules {
			rule := Setting{
				Area: areaPolicy, Name: string(r.Setting), Value: r.Value(), From: r.Place(),
				Reason: r.Reason, Contact: r.Contact,
			}
			if r.Setting == policy.Versions {
				rule.Of = strings.Join(sources.Texts(r.Providers), ", ")
			}
			all = append(all, rule)
		}
	}
	slices.SortStableFunc(all, func(a, b Setting) int {
		if a.Area == areaPolicy && b.Area == areaPolicy {
			return 0
		}
		return cmp.Or(
			slices.Index(sections, a.Area)-slices.Index(sections, b.Area),
			strings.Compare(cmp.Or(a.Of, "\xff"), cmp.Or(b.Of, "\xff")),
		)
	})
	for _, s := range all {
		value := m.path(s.Value)
		if s.Secret {
			value = strings.TrimSpace("set " + value)
		}
		place := m.path(s.From) + m.paths(", overrides ", s.Overrides)
		row := report.ItemOf(strings.TrimSpace(s.Name+" "+s.Of), value, place)
		if m.all {
			row.Below = report.Filled(s.Reason, s.Contact)
		}
		m.add(s.Area, s, row)
	}
}

// shownAs returns the area of a setting, and its value for people. Those that the files, the variables or the methods
// show have no area.
func (m *setup) shownAs(s cliconfig.Setting) (area, value string) {
	switch s.Name {
	case "CLI configuration", "Larder's own configuration", "passwords for archives", "provider_installation",
		"https_proxy", "http_proxy", "no_proxy":
		return "", ""
	case "host":
		var services []string
		for name, at := range m.Config.Hosts[sources.Host(s.Of)] {
			services = append(services, name+" "+fetch.Redact(at))
		}
		slices.Sort(services)
		return areaHosts, strings.Join(services, ", ")
	case "credentials", "credentials_helper", "password", "ca_file", "client_certificate", "client_key", "headers",
		"send_token_to_archives", "oci_credentials", "discover_ambient_credentials", "docker_style_config_files",
		"docker_credentials_helper":
		return areaHosts, s.Value
	case "dev_overrides", "runs already":
		p, _ := sources.ParseStoredProvider(s.Of) // which it is
		return areaUninstalled, m.Config.DevOverrides[p]
	case "without a key", "expired keys":
		return areaTrust, "refused"
	case "record key":
		return areaTrust, s.Value
	case "plugin_cache_dir":
		if m.Flags.NoCache {
			return areaCache, s.Value
		}
		return areaCache, cmp.Or(m.CacheRoot(), "no directory is known")
	case "data directory":
		return areaDirectories, m.Config.DataDir
	case "link", "state directory":
		return areaDirectories, s.Value
	}
	return areaOther, s.Value
}

// noteFlags notes among the settings what flags set, and the defaults of some that nothing sets.
func (m *setup) noteFlags() {
	note := func(flag, name, value string) {
		m.Config.Override(cliconfig.Setting{Name: name, Value: value, From: cliconfig.Place{By: m.named(flag)}})
	}
	switch {
	case m.Flags.NoCache:
		note("no-cache", "plugin_cache_dir", "none")
	case m.Flags.Cache != "":
		note("cache", "plugin_cache_dir", m.Flags.Cache)
	}
	if m.Flags.Link != sources.LinkAuto {
		note("link", "link", string(m.Flags.Link))
	}
	for _, s := range []cliconfig.Setting{
		{Name: "link", Value: string(m.Flags.Link)}, {Name: "data directory"},
		{Name: "state directory", Value: cmp.Or(m.Config.StateDir, "none is known")},
		{Name: "plugin_cache_dir"}, {Name: "record key", Value: "this user's"},
	} {
		if _, set := m.Config.Setting(s.Name, ""); !set {
			s.From.By = "default"
			m.Config.Override(s)
		}
	}
}

// named returns the variable or the flag that sets a flag.
func (m *setup) named(name string) string {
	variable := cliconfig.FlagVariable(name)
	sets := func(in cliconfig.Input) bool { return in.Name == variable && in.State != "" && in.Fault == "" }
	if slices.ContainsFunc(m.flags, sets) {
		return variable
	}
	return fmt.Sprintf("--%s", name)
}
