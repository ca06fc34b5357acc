package report

import (
	"cmp"
	"fmt"
	"strings"
)

// Setup shows what is configured. Without all, it leaves out files that don't exist and variables that are not set.
func (o *Output) Setup(s Setup, all bool) {
	o.Tell(s.Engine)
	tellAll(o, s.Files)
	tellAll(o, s.Variables)
	tellAll(o, s.Methods)
	tellAll(o, s.Settings)
	p := setupPage{Output: o, tilde: s.Tilde, all: all}
	page := page{o: o, all: all, indent: 16, most: 16}
	page.section("Engine", p.engine(s.Engine))
	page.section("Files", p.files(s.Files)...)
	page.section("Variables", p.variables(s.Variables)...)
	page.section("Providers from", p.methods(s.Methods, s.Incomplete)...)
	for _, area := range areas {
		page.section(strings.ToUpper(string(area[:1]))+string(area[1:]), p.settings(area, s.Settings)...)
	}
	o.ShowPage(page.text.String())
}

// A setupPage makes the rows of a [Setup].
type setupPage struct {
	*Output
	tilde func(path string) string
	all   bool
}

// path shortens a path, which may be followed by a line.
func (p *setupPage) path(path string) string {
	if short := p.ShortenHere(path); short != path {
		return short
	}
	return p.tilde(path)
}

// paths shortens paths.
func (p *setupPage) paths(paths []string) (short []string) {
	for _, path := range paths {
		short = append(short, p.path(path))
	}
	return short
}

func (p *setupPage) engine(e EngineChoice) sectionRow {
	r := row(strings.TrimSpace(e.Engine + ": " + e.Reason + " " + p.path(e.File)))
	if p.all {
		r.below = filled(after("not decided by: ", e.Undecided...))
	}
	return r
}

func (p *setupPage) files(files []ConfigFile) (rows []sectionRow) {
	for _, f := range files {
		if f.State == missingFile && !p.all && f.NamedBy == "" {
			continue
		}
		about := filled(after("named by ", f.NamedBy), strings.TrimPrefix(f.State, "read"),
			after("sets ", f.Sets...), after("overridden: ", f.Overridden...))
		rows = append(rows, row(p.path(f.Path), cmp.Or(strings.Join(about, "; "), "sets nothing")))
	}
	if len(rows) == 0 {
		return []sectionRow{row("none of them exists; --all lists them")}
	}
	return rows
}

// missingFile is the state of files that don't exist.
const missingFile = "not found"

func (p *setupPage) variables(variables []ConfigVariable) (rows []sectionRow) {
	var unset []string
	for _, v := range variables {
		switch {
		case v.Value == "":
			unset = append(unset, v.Name)
			continue
		case v.Usual && !p.all:
			continue
		}
		r := row(v.Name + "=" + p.path(v.Value))
		if text := cmp.Or(p.ShortenHere(v.NoEffect), after("overrides ", p.paths(v.Overrides)...)); text != "" {
			r.cells = append(r.cells, text)
		}
		rows = append(rows, r)
	}
	if p.all && len(unset) > 0 {
		rows = append(rows, row(after("not set: ", unset...)))
	}
	return rows
}

func (p *setupPage) methods(methods []ConfigMethod, incomplete bool) (rows []sectionRow) {
	switch {
	case len(methods) == 0 && incomplete:
		return []sectionRow{row("unknown, because of the error")}
	case len(methods) == 0:
		return []sectionRow{row("none: provider_installation contains no methods")}
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
		r := row(about, place)
		r.below = filled(after("include ", m.Include...), after("exclude ", m.Exclude...))
		rows = append(rows, r)
	}
	return rows
}

// settings returns the rows of an area.
func (p *setupPage) settings(area Area, settings []Setting) (rows []sectionRow) {
	for _, s := range settings {
		if s.Area != area {
			continue
		}
		value := p.path(s.Value)
		if s.Secret {
			value = strings.TrimSpace("set " + value)
		}
		r := row(strings.TrimSpace(s.Name+" "+s.Of), value, p.path(s.From)+after(", overrides ", p.paths(s.Overrides)...))
		if p.all {
			r.below = filled(s.Reason, s.Contact)
		}
		rows = append(rows, r)
	}
	return rows
}
