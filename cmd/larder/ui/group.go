package ui

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A group holds back what is said about several root modules, so that what many of them
// have in common is said once.
type group struct {
	mu   sync.Mutex
	said []*grouped
}

// A grouped is a diagnostic, and the root modules that it is about.
type grouped struct {
	diagnostic
	shown   string
	modules []string
}

// add notes a diagnostic about a root module. Of the hints, those remain that are the same
// for all root modules: others name their files, and the root modules are listed.
func (g *group) add(module string, d diagnostic, shown string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.said {
		if s.shown != shown || s.Severity != d.Severity {
			continue
		}
		if !slices.Contains(s.modules, module) {
			s.modules = append(s.modules, module)
			s.Hints = slices.DeleteFunc(slices.Clone(s.Hints), func(hint string) bool { return !slices.Contains(d.Hints, hint) })
		}
		return
	}
	g.said = append(g.said, &grouped{d, shown, []string{module}})
}

// Together runs a function that works on several root modules. What is said about them
// meanwhile follows when it has returned, warnings first. With --json nothing is held back.
func (o *Output) Together(work func()) {
	o.group = &group{}
	work()
	said := o.group.said
	o.group = nil
	slices.SortStableFunc(said, func(a, b *grouped) int { return strings.Compare(b.Severity, a.Severity) })
	var all []spoken
	for _, s := range said {
		slices.Sort(s.modules)
		if len(s.modules) == 1 {
			all = append(all, spoken{s.diagnostic, s.modules[0] + ": " + s.shown})
			continue
		}
		all = append(all, spoken{s.diagnostic, s.shown + "\n" + places(s.modules)})
	}
	o.speak(all)
}

// maxPlaces is how many root modules a message lists.
const maxPlaces = 5

// places lists root modules: "in a, b and 3 more root modules".
func places(modules []string) string {
	return "in " + Some(modules, maxPlaces)
}

// Some lists the first n of many texts, and how many more there are.
func Some(texts []string, n int) string {
	list := strings.Join(texts[:min(len(texts), n)], ", ")
	if more := len(texts) - n; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// A spoken is a diagnostic as people see it.
type spoken struct {
	diagnostic
	shown string
}

// speak writes diagnostics. A hint that several of them have follows the last of these.
func (o *Output) speak(all []spoken) {
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
		o.line(label, s.shown)
		for _, hint := range s.Hints {
			if last[hint] == i {
				o.line(hintLabel, hint)
			}
		}
	}
}
