package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

// Setup shows what is configured. Without all, the text fits on a screen if possible: it leaves out files that don't
// exist and variables that are not set. If necessary, it leaves out defaults and what is shown twice, and then the
// last rows of long sections.
func (o *Output) Setup(s Setup, all bool) {
	objects := []Object{s.Engine}
	objects = appendObjects(objects, s.Files)
	objects = appendObjects(objects, s.Variables)
	objects = appendObjects(objects, s.Methods)
	objects = appendObjects(objects, s.Settings)
	width, height := ui.TerminalSize(o.Stdout)
	p := setupPage{Output: o, tilde: s.Tilde, all: all, width: width, shown: map[string]int{}}
	page := p.text(s)
	for !all && strings.Count(ui.Laid(page, width), "\n") >= max(height, 24) && p.shorten() {
		page = p.text(s)
	}
	o.ShowPage(page, objects...)
}

func appendObjects[T Object](all []Object, more []T) []Object {
	for _, object := range more {
		all = append(all, object)
	}
	return all
}

// A setupPage makes the text of a [Setup].
type setupPage struct {
	*Output
	tilde func(path string) string
	all   bool
	width int
	brief bool           // see Setup
	shown map[string]int // rows, by section; if brief is set, the most to show
}

// mostRows is the number of rows of a section on a page that does not fit on a screen.
const mostRows = 16

// shorten makes the page shorter, if it can.
func (p *setupPage) shorten() bool {
	if !p.brief {
		p.brief = true
		for label, n := range p.shown {
			p.shown[label] = min(n, mostRows)
		}
		return true
	}
	longest := ""
	for _, label := range slices.Sorted(maps.Keys(p.shown)) {
		if p.shown[label] > max(1, p.shown[longest]) {
			longest = label
		}
	}
	p.shown[longest]--
	return longest != ""
}

// A setupRow is a row of a section.
type setupRow struct {
	cells    []string
	below    []string // lines
	standard bool     // it shows a default
	odd      bool     // it shows something without effect, so it is not left out before others
}

// The width of labels, and the width of terminals on which they have their own lines.
const (
	labelWidth = 16
	tooNarrow  = 60
)

// text returns the whole page.
func (p *setupPage) text(s Setup) string {
	var b strings.Builder
	p.section(&b, "Engine", p.engine(s.Engine))
	p.section(&b, "Files", p.files(s.Files))
	p.section(&b, "Variables", p.variables(s.Variables, s.Settings))
	p.section(&b, "Providers from", p.methods(s.Methods, s.Incomplete))
	for _, area := range areas {
		p.section(&b, strings.ToUpper(string(area[:1]))+string(area[1:]), p.settings(area, s.Settings))
	}
	if p.brief {
		b.WriteString("larder explain --all shows everything.\n")
	}
	return b.String()
}

// section adds rows. The label is in front of the first one.
func (p *setupPage) section(b *strings.Builder, label string, rows []setupRow) {
	indent := labelWidth
	if 0 < p.width && p.width < tooNarrow {
		indent = 2
	}
	most := len(rows)
	if p.brief {
		rows = slices.DeleteFunc(rows, func(r setupRow) bool { return r.standard })
		odd := slices.DeleteFunc(slices.Clone(rows), func(r setupRow) bool { return !r.odd })
		rows = append(odd, slices.DeleteFunc(rows, func(r setupRow) bool { return r.odd })...)
		most = p.shown[label]
	}
	p.shown[label] = min(most, len(rows))
	if more := len(rows) - p.shown[label]; more > 1 {
		rows = append(rows[:p.shown[label]], setupRow{cells: []string{fmt.Sprintf("and %d more", more)}})
	}
	if len(rows) > 0 && indent < labelWidth {
		b.WriteString(label + "\n")
		label = ""
	}
	for _, line := range p.lines(rows, p.width-indent) {
		fmt.Fprintf(b, "%-*s%s\n", indent, label, line)
		label = ""
	}
}

// lines returns rows as lines, with aligned cells where they fit into a width, which is negative if there is no
// terminal. Otherwise, the last cell is on the next line.
func (p *setupPage) lines(rows []setupRow, width int) (lines []string) {
	var aligned [][]string
	for _, r := range rows {
		for i, cell := range r.cells {
			r.cells[i] = inOneLine(p.address(cell))
		}
		if len(r.cells) > 1 {
			aligned = append(aligned, r.cells)
		}
	}
	columns := fitting(aligned, width)
	for _, r := range rows {
		last := len(r.cells) - 1
		first := strings.Join(r.cells, "\x00")
		switch line, fits := columns[first]; {
		case last == 0:
			lines = append(lines, r.cells[0])
		case fits:
			lines = append(lines, line)
		default:
			lines = append(lines, strings.Join(r.cells[:last], " "), "    "+r.cells[last])
		}
		for _, line := range r.below {
			lines = append(lines, "  "+inOneLine(p.address(line)))
		}
	}
	return lines
}

// inOneLine returns text like [ui.Visible], with line breaks as \n, so that no name can imitate a row.
func inOneLine(text string) string { return strings.ReplaceAll(ui.Visible(text), "\n  ", `\n`) }

// fitting returns aligned lines by their cells, joined by NUL: as many as fit into a width.
func fitting(rows [][]string, width int) map[string]string {
	length := func(cells []string) int { return utf8.RuneCountInString(strings.Join(cells, "")) }
	slices.SortStableFunc(rows, func(a, b []string) int { return length(a) - length(b) })
	for {
		lines := ui.Columns(rows)
		if width > 0 && slices.ContainsFunc(lines, func(line string) bool { return utf8.RuneCountInString(line) > width }) {
			rows = rows[:len(rows)-1] // the longest
			continue
		}
		all := map[string]string{}
		for i, line := range lines {
			all[strings.Join(rows[i], "\x00")] = line
		}
		return all
	}
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

func (p *setupPage) engine(e EngineChoice) []setupRow {
	row := setupRow{cells: []string{strings.TrimSpace(e.Engine + ": " + e.Reason + " " + p.path(e.File))}}
	if p.all && len(e.Undecided) > 0 {
		row.below = []string{"not decided by: " + strings.Join(e.Undecided, ", ")}
	}
	return []setupRow{row}
}

func (p *setupPage) files(files []ConfigFile) (rows []setupRow) {
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
			about = append(about, "sets "+p.names(f.Sets))
		}
		if len(f.Overridden) > 0 {
			about = append(about, "overridden: "+p.names(f.Overridden))
		}
		cells := []string{p.path(f.Path), cmp.Or(strings.Join(about, "; "), "sets nothing")}
		rows = append(rows, setupRow{cells: cells, odd: f.State != "read"})
	}
	if len(rows) == 0 {
		return []setupRow{{cells: []string{"none of them exists; --all lists them"}}}
	}
	return rows
}

// names lists names, or says how many there are.
func (p *setupPage) names(names []string) string {
	if p.brief && len(names) > 2 {
		return ui.Count(len(names), "setting")
	}
	return strings.Join(names, ", ")
}

// missingFile is the state of files that don't exist.
const missingFile = "not found"

// variables returns the rows of variables. If the page is brief, it leaves out those that settings show.
func (p *setupPage) variables(variables []ConfigVariable, settings []Setting) (rows []setupRow) {
	var unset []string
	for _, v := range variables {
		switch {
		case v.Value == "":
			unset = append(unset, v.Name)
			continue
		case v.Usual && !p.all, p.brief && slices.ContainsFunc(settings, func(s Setting) bool { return s.From == v.Name }):
			continue
		}
		row := setupRow{cells: []string{v.Name + "=" + p.path(v.Value)}, odd: v.NoEffect != ""}
		switch {
		case v.NoEffect != "":
			row.cells = append(row.cells, p.ShortenHere(v.NoEffect))
		case len(v.Overrides) > 0:
			row.cells = append(row.cells, "overrides "+p.paths(v.Overrides))
		}
		rows = append(rows, row)
	}
	if p.all && len(unset) > 0 {
		rows = append(rows, setupRow{cells: []string{"not set: " + strings.Join(unset, ", ")}})
	}
	return rows
}

func (p *setupPage) methods(methods []ConfigMethod, incomplete bool) (rows []setupRow) {
	switch {
	case len(methods) == 0 && incomplete:
		return []setupRow{{cells: []string{"unknown, because of the error"}}}
	case len(methods) == 0:
		return []setupRow{{cells: []string{"none: provider_installation contains no methods"}}}
	}
	number := 0
	for _, m := range methods {
		if m.Missing && !p.all {
			continue
		}
		about, place := strings.TrimSpace(m.Method+" "+p.path(m.Location)), "implied"
		if !m.Implied {
			place = fmt.Sprintf("%s:%d", p.path(m.File), m.Line)
		}
		if m.NoEffect != "" {
			place += ": " + m.NoEffect
		}
		if m.NoEffect == "" || !m.Implied {
			number++
			about = fmt.Sprintf("%d %s", number, about)
		}
		row := setupRow{cells: []string{about, place}}
		if len(m.Include) > 0 {
			row.below = append(row.below, "include "+strings.Join(m.Include, ", "))
		}
		if len(m.Exclude) > 0 {
			row.below = append(row.below, "exclude "+strings.Join(m.Exclude, ", "))
		}
		rows = append(rows, row)
	}
	return rows
}

// settings returns the rows of an area. Without all, settings of one host in one file are one row.
func (p *setupPage) settings(area Area, settings []Setting) (rows []setupRow) {
	last := ""
	for _, s := range settings {
		if s.Area != area {
			continue
		}
		row := setupRow{cells: p.cells(s), standard: s.From == ByDefault && area != AreaCache}
		if p.all {
			row.below = slices.DeleteFunc([]string{s.Reason, s.Contact}, func(text string) bool { return text == "" })
		}
		if colon := strings.LastIndex(s.From, ":"); colon >= 0 && area == AreaHosts && !p.all {
			same := s.Of + " " + s.From[:colon]
			if same == last {
				before := rows[len(rows)-1]
				before.cells[0] += "; " + s.ofHost(p.path(s.Value))
				continue
			}
			last = same
		}
		rows = append(rows, row)
	}
	return rows
}

// cells returns the cells of a setting. The last one is where it is set.
func (p *setupPage) cells(s Setting) []string {
	value, from := p.path(s.Value), p.path(s.From)
	if s.Secret {
		value = "set"
	}
	if len(s.Overrides) > 0 {
		from += ", overrides " + p.paths(s.Overrides)
	}
	switch s.Area {
	case AreaHosts:
		return []string{cmp.Or(s.Of, "other hosts") + ": " + s.ofHost(p.path(s.Value)), from}
	case AreaUninstalled:
		return []string{strings.TrimSpace(s.Of + ": " + s.Name + " " + value), from}
	case AreaCache:
		return []string{value, from}
	}
	return []string{strings.TrimSpace(s.Name + " " + s.Of), value, from}
}

// ofHost returns a setting of a host, with its value.
func (s Setting) ofHost(value string) string {
	switch {
	case s.Name == "credentials" && s.Secret:
		return "token"
	case s.Name == "credentials":
		return "credentials without a token"
	case s.Name == "password":
		return "password for archives"
	case s.Name == "oci_credentials":
		return strings.TrimSpace("OCI credentials " + value)
	case s.Name == "host":
		return strings.TrimSpace("services " + value)
	}
	return strings.ReplaceAll(s.Name, "credentials_helper", "credentials helper") + " " + value
}
