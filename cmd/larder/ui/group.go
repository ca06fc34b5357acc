package ui

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A group collects diagnostics about several root modules, so that one with the same text for
// many of them is printed once.
type group struct {
	mu   sync.Mutex
	said []*grouped
}

// A grouped is a diagnostic with its root modules.
type grouped struct {
	spoken
	modules []string
}

// add records a diagnostic about a root module. It keeps only the hints that are the same for
// all root modules: other hints name files of single root modules, which are listed anyway.
func (g *group) add(module string, d spoken) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.said {
		if s.shown != d.shown || s.Severity != d.Severity || (len(d.about) == 0) != (len(s.about) == 0) || d.missing {
			continue
		}
		for _, about := range d.about {
			if !slices.Contains(s.about, about) {
				s.about = append(s.about, about)
			}
		}
		if !slices.Contains(s.modules, module) {
			s.modules = append(s.modules, module)
			s.Hints = slices.DeleteFunc(slices.Clone(s.Hints), func(hint string) bool { return !slices.Contains(d.Hints, hint) })
		}
		return
	}
	g.said = append(g.said, &grouped{d, []string{module}})
}

// Together runs a function that works on several root modules. It prints their diagnostics
// when the function has returned, warnings first. With --json it prints them at once.
func (o *Output) Together(work func()) {
	o.group = &group{}
	work()
	said := o.group.said
	o.group = nil
	slices.SortStableFunc(said, func(a, b *grouped) int { return strings.Compare(b.Severity, a.Severity) })
	var all []spoken
	for _, s := range said {
		slices.Sort(s.modules)
		s.root = s.modules[0]
		if len(s.modules) == 1 {
			s.shown = s.root + ": " + s.shown
		} else {
			s.shown += "\n" + places(s.modules)
		}
		all = append(all, s.spoken)
	}
	o.speak(all)
}

// maxPlaces is how many root modules a message lists.
const maxPlaces = 5

// places lists root modules: "in a, b and 3 more root modules".
func places(modules []string) string {
	return "in " + Some(modules, maxPlaces)
}

// Some lists the first n of many texts, and the number of the others.
func Some(texts []string, n int) string {
	list := strings.Join(texts[:min(len(texts), n)], ", ")
	if more := len(texts) - n; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// A spoken is a diagnostic as text.
type spoken struct {
	diagnostic
	shown string
	about []string // packages with the same cause; empty if shown names its package

	missing bool   // modules that the root module calls are not installed
	root    string // the root module of missing modules
}

// text returns the printed text. A single package is in front of the cause, several are below.
func (s spoken) text() string {
	if len(s.about) == 1 {
		return s.about[0] + ": " + s.shown
	}
	text := s.shown
	for i, about := range s.about {
		if i == maxAbout {
			return text + fmt.Sprintf("\nand %d more", len(s.about)-i)
		}
		text += "\n" + about
	}
	return text
}

// maxAbout is how many packages a message lists.
const maxAbout = 20

// byCause merges diagnostics with the same cause.
func byCause(all []spoken) []spoken {
	var one []spoken
	for _, s := range all {
		i := slices.IndexFunc(one, func(t spoken) bool {
			return len(s.about) > 0 && len(t.about) > 0 && t.shown == s.shown && t.Severity == s.Severity
		})
		if i < 0 {
			one = append(one, s)
			continue
		}
		for _, about := range s.about {
			if !slices.Contains(one[i].about, about) {
				one[i].about = append(slices.Clip(one[i].about), about)
			}
		}
	}
	return one
}

// speak prints diagnostics. A hint of several diagnostics is printed after the last of them.
func (o *Output) speak(all []spoken) {
	all = byCause(all)
	if o.Level != Verbose {
		all = togetherMissing(all)
	}
	last := map[string]int{}
	for i, s := range all {
		for _, hint := range s.Hints {
			last[hint] = i
		}
	}
	for i, s := range all {
		label := errorLabel
		switch {
		case s.found:
			label = noLabel
		case s.Severity == "warning":
			label = warningLabel
		}
		o.line(label, s.text())
		for _, hint := range s.Hints {
			if last[hint] == i {
				o.line(hintLabel, hint)
			}
		}
	}
}
