package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

// A Setup is what is configured for a root module.
type Setup struct {
	Engine    EngineChoice
	Files     []ConfigFile
	Variables []ConfigVariable
	Methods   []ConfigMethod
	Settings  []Setting

	Incomplete bool // there may be other methods, in a file that can't be read

	Tilde func(path string) string // shortens a path in the home directory
}

// An EngineChoice is the engine of a root module, and why.
type EngineChoice struct {
	Engine    string   `json:"engine"`
	Reason    string   `json:"reason"`
	File      string   `json:"file,omitempty"`      // that the reason is about
	Undecided []string `json:"undecided,omitempty"` // stronger criteria, which don't decide
}

// Kind implements [Object].
func (EngineChoice) Kind() string { return "engine" }

// A ConfigFile is a file that configures Larder.
type ConfigFile struct {
	Path       string   `json:"path"`
	What       string   `json:"what"`
	Read       bool     `json:"read"`
	State      string   `json:"state"`                // "read", "not found", or why it has no effect
	NamedBy    string   `json:"named_by,omitempty"`   // flag or variable
	Sets       []string `json:"sets,omitempty"`       // names of settings
	Overridden []string `json:"overridden,omitempty"` // names of settings that have no effect here
}

// Kind implements [Object].
func (ConfigFile) Kind() string { return "config_file" }

// A ConfigVariable is an environment variable that configures Larder.
type ConfigVariable struct {
	Name      string   `json:"name"`
	What      string   `json:"what"`
	Value     string   `json:"value,omitempty"`
	NoEffect  string   `json:"no_effect,omitempty"` // why
	Overrides []string `json:"overrides,omitempty"` // places of settings

	Usual bool `json:"-"` // most machines set it
}

// Kind implements [Object].
func (ConfigVariable) Kind() string { return "config_variable" }

// A ConfigMethod is an installation method.
type ConfigMethod struct {
	Method   string   `json:"method"`             // as in provider_installation
	Location string   `json:"location,omitempty"` // path or URL
	Implied  bool     `json:"implied,omitempty"`  // not configured
	NoEffect string   `json:"no_effect,omitempty"`
	Include  []string `json:"include,omitempty"`
	Exclude  []string `json:"exclude,omitempty"`
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`

	Missing bool `json:"-"` // an implied directory that does not exist
}

// Kind implements [Object].
func (ConfigMethod) Kind() string { return "installation_method" }

// An Area is a part of the configuration, which the text has together.
type Area string

// The areas, in the order of the text.
const (
	AreaUninstalled Area = "not installed" // providers
	AreaHosts       Area = "hosts"
	AreaCache       Area = "plugin cache"
	AreaLinks       Area = "links"
	AreaDirectories Area = "directories"
	AreaTrust       Area = "trust"
	AreaOther       Area = "other settings"
)

var areas = []Area{AreaUninstalled, AreaHosts, AreaCache, AreaLinks, AreaDirectories, AreaTrust, AreaOther}

// A Setting is something that is in force.
type Setting struct {
	Area      Area     `json:"area"`
	Name      string   `json:"name"`
	Of        string   `json:"of,omitempty"`    // host, provider or pattern; absent if it applies to everything
	Value     string   `json:"value,omitempty"` // absent for a secret
	Secret    bool     `json:"secret,omitempty"`
	From      string   `json:"from"` // place, variable or flag, or "default"
	Overrides []string `json:"overrides,omitempty"`
}

// Kind implements [Object].
func (Setting) Kind() string { return "setting" }

// Setup shows what is configured. Without all, it leaves out files that don't exist and variables that are
// not set.
func (o *Output) Setup(s Setup, all bool) {
	var objects []Object
	objects = append(objects, s.Engine)
	objects = appendObjects(objects, s.Files)
	objects = appendObjects(objects, s.Variables)
	objects = appendObjects(objects, s.Methods)
	objects = appendObjects(objects, s.Settings)
	p := &setupPage{Output: o, tilde: s.Tilde, all: all}
	p.section("Engine", p.engine(s.Engine))
	p.section("Files", p.files(s.Files))
	p.section("Variables", p.variables(s.Variables))
	p.section("Providers from", p.methods(s.Methods, s.Incomplete))
	for _, area := range areas {
		p.section(strings.ToUpper(string(area[:1]))+string(area[1:]), p.settings(area, s.Settings))
	}
	o.ShowPage(p.String(), objects...)
}

func appendObjects[T Object](all []Object, more []T) []Object {
	for _, object := range more {
		all = append(all, object)
	}
	return all
}

// A setupPage is the text of a [Setup].
type setupPage struct {
	*Output
	strings.Builder
	tilde func(path string) string
	all   bool
}

// The width of labels, and the width of terminals on which they have their own lines.
const (
	labelWidth = 16
	tooNarrow  = 60
)

// section adds rows. The label is in front of the first one.
func (p *setupPage) section(label string, rows [][]string) {
	width, indent := p.Width(), labelWidth
	if 0 < width && width < tooNarrow && len(rows) > 0 {
		fmt.Fprintln(p, label)
		label, indent = "", 2
	}
	for _, row := range rows {
		for i, cell := range row {
			row[i] = ui.Visible(p.address(cell))
		}
	}
	for _, line := range rowLines(rows, width-indent) {
		fmt.Fprintf(p, "%-*s%s\n", indent, label, line)
		label = ""
	}
}

// rowLines returns rows as lines, with aligned cells where they fit into a width, which may be negative if there
// is none. Otherwise, the last cell is on the next line. A row with one cell is not aligned.
func rowLines(rows [][]string, width int) (lines []string) {
	var aligned []int // indexes
	for i, row := range rows {
		if len(row) > 1 {
			aligned = append(aligned, i)
		}
	}
	length := func(i int) int { return utf8.RuneCountInString(strings.Join(rows[i], "")) }
	var columns []string
	for {
		var some [][]string
		for _, i := range aligned {
			some = append(some, rows[i])
		}
		columns = ui.Columns(some)
		if width <= 0 || !slices.ContainsFunc(columns, func(line string) bool { return utf8.RuneCountInString(line) > width }) {
			break
		}
		longest := slices.MaxFunc(aligned, func(i, j int) int { return length(i) - length(j) })
		aligned = slices.DeleteFunc(aligned, func(i int) bool { return i == longest })
	}
	for i, row := range rows {
		switch last := len(row) - 1; {
		case last == 0:
			lines = append(lines, row[0])
		case slices.Contains(aligned, i):
			lines = append(lines, columns[slices.Index(aligned, i)])
		default:
			lines = append(lines, strings.Join(row[:last], " "), "    "+row[last])
		}
	}
	return lines
}

// path shortens a path, which may be followed by a line.
func (p *setupPage) path(path string) string {
	if short := p.ShortenHere(path); short != path {
		return short
	}
	return p.tilde(path)
}

// paths shortens paths, and lists them.
func (p *setupPage) paths(paths []string) string {
	var short []string
	for _, path := range paths {
		short = append(short, p.path(path))
	}
	return strings.Join(short, ", ")
}

func (p *setupPage) engine(e EngineChoice) [][]string {
	rows := [][]string{{strings.TrimSpace(e.Engine + ": " + e.Reason + " " + p.path(e.File))}}
	if p.all && len(e.Undecided) > 0 {
		rows = append(rows, []string{"not decided by: " + strings.Join(e.Undecided, ", ")})
	}
	return rows
}

func (p *setupPage) files(files []ConfigFile) (rows [][]string) {
	for _, f := range files {
		if f.State == missingFile && !p.all && f.NamedBy == "" {
			continue
		}
		var about []string
		if f.NamedBy != "" {
			about = append(about, "named by "+f.NamedBy)
		}
		if f.State != "read" {
			about = append(about, f.State)
		}
		if len(f.Sets) > 0 {
			about = append(about, "sets "+strings.Join(f.Sets, ", "))
		}
		if len(f.Overridden) > 0 {
			about = append(about, "overridden: "+strings.Join(f.Overridden, ", "))
		}
		rows = append(rows, []string{p.path(f.Path), cmp.Or(strings.Join(about, "; "), "sets nothing")})
	}
	if len(rows) == 0 {
		return [][]string{{"none of them exists; --all lists them"}}
	}
	return rows
}

// missingFile is the state of files that don't exist.
const missingFile = "not found"

func (p *setupPage) variables(variables []ConfigVariable) (rows [][]string) {
	var unset []string
	for _, v := range variables {
		switch {
		case v.Value == "":
			unset = append(unset, v.Name)
			continue
		case v.Usual && !p.all:
			continue
		}
		about := v.NoEffect
		if about == "" && len(v.Overrides) > 0 {
			about = "overrides " + p.paths(v.Overrides)
		}
		if about = p.ShortenHere(about); about != "" {
			rows = append(rows, []string{v.Name + "=" + p.path(v.Value), about})
		} else {
			rows = append(rows, []string{v.Name + "=" + p.path(v.Value)})
		}
	}
	if p.all && len(unset) > 0 {
		rows = append(rows, []string{"not set: " + strings.Join(unset, ", ")})
	}
	return rows
}

func (p *setupPage) methods(methods []ConfigMethod, incomplete bool) (rows [][]string) {
	switch {
	case len(methods) == 0 && incomplete:
		return [][]string{{"unknown, because of the error"}}
	case len(methods) == 0:
		return [][]string{{"none: provider_installation contains no methods"}}
	}
	number := 0
	for _, m := range methods {
		if m.Missing && !p.all {
			continue
		}
		place := fmt.Sprintf("%s:%d", p.path(m.File), m.Line)
		if m.Implied {
			place = "implied"
		}
		about := ""
		if m.NoEffect == "" || !m.Implied {
			number++
			about = fmt.Sprintf("%d ", number)
		}
		about += strings.TrimSpace(m.Method + " " + p.path(m.Location))
		rows = append(rows, []string{about, strings.TrimPrefix(place+": "+m.NoEffect, ": ")})
		if m.NoEffect == "" {
			rows[len(rows)-1][1] = place
		}
		if len(m.Include) > 0 {
			rows = append(rows, []string{"  include " + strings.Join(m.Include, ", ")})
		}
		if len(m.Exclude) > 0 {
			rows = append(rows, []string{"  exclude " + strings.Join(m.Exclude, ", ")})
		}
	}
	return rows
}

// settings returns rows of an area. Without all, settings of one host in one file are one row.
func (p *setupPage) settings(area Area, settings []Setting) (rows [][]string) {
	last := ""
	for _, s := range settings {
		if s.Area != area {
			continue
		}
		value, from := p.path(s.Value), p.path(s.From)
		if len(s.Overrides) > 0 {
			from += ", overrides " + p.paths(s.Overrides)
		}
		if s.Secret && area != AreaHosts {
			value = "set"
		}
		row := []string{s.Name, value, from}
		switch area {
		case AreaCache, AreaLinks:
			row = row[1:]
		case AreaTrust:
			row[0] = strings.TrimSpace(s.Name + " " + s.Of)
		case AreaUninstalled:
			row = []string{strings.TrimSpace(s.Of + ": " + s.Name + " " + value), from}
		case AreaHosts:
			what := strings.TrimSpace(s.hostSetting() + " " + value)
			row = []string{cmp.Or(s.Of, "other hosts") + ": " + what, from}
			file, _, inFile := strings.Cut(s.From, ":")
			same := s.Of + " " + file
			if inFile && !p.all && same == last {
				rows[len(rows)-1][0] += "; " + what
				continue
			}
			last = same
		}
		rows = append(rows, row)
	}
	return rows
}

// hostSetting names a setting of a host.
func (s Setting) hostSetting() string {
	switch {
	case s.Name == "credentials" && s.Secret:
		return "token"
	case s.Name == "credentials":
		return "credentials without a token"
	case s.Name == "password":
		return "password for archives"
	case s.Name == "host":
		return "services"
	}
	return strings.ReplaceAll(s.Name, "credentials_helper", "credentials helper")
}

// SortSettings sorts settings by their area, and by what they apply to: those that apply to everything else are
// last.
func SortSettings(settings []Setting) {
	slices.SortStableFunc(settings, func(a, b Setting) int {
		return cmp.Or(
			cmp.Compare(slices.Index(areas, a.Area), slices.Index(areas, b.Area)),
			strings.Compare(cmp.Or(a.Of, "\xff"), cmp.Or(b.Of, "\xff")),
		)
	})
}
