package report

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// A Subject is what a diagnostic is about: a place, or a provider or package.
type Subject struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Provider string `json:"provider,omitempty"`
	Version  string `json:"version,omitempty"`
	Platform string `json:"platform,omitempty"`
}

// A Member is what one of several diagnostics with the same cause is about.
type Member struct {
	Module string `json:"module,omitempty"`
	Subject
}

// name returns the package, provider or place, which text about it begins with.
func (m Member) name() string {
	if m.Provider == "" {
		place := sources.Diagnostic{File: m.File, Line: m.Line, Column: m.Column}.String()
		return strings.TrimSuffix(place, ": ")
	}
	return strings.TrimSpace(m.Provider + " " + m.Version + " " + m.Platform)
}

// A spoken is a diagnostic that others may share the cause of.
type spoken struct {
	Diagnostic
	shown   string   // text if there is one member; it names the member
	cause   string   // text if there are several; empty if the diagnostic is always printed separately
	named   bool     // cause leaves out the names of the members
	members []Member // never empty

	hinted bool // each hint names its member
}

// spokenOf returns a diagnostic about one root module, which may be empty.
func spokenOf(module string, d Diagnostic, shown string) spoken {
	return spoken{Diagnostic: d, shown: shown, members: []Member{{module, d.Subject}}}
}

// withCause sets what the diagnostic of an error shares with others.
func (s spoken) withCause(err error) spoken {
	if s.cause = sources.Cause(err); s.cause == "" || s.Provider == "" {
		return s
	}
	s.named, s.hinted = true, errors.Is(err, sources.ErrNoPlatform)
	return s
}

// byCause joins diagnostics with the same cause. It keeps only the hints that all of them have, as
// others are about single members, or with allHints each of them. Hints that name their members are kept.
func byCause(all []spoken, allHints bool) (joined []spoken) {
	type cause struct {
		text, severity string
		named          bool
		alone          int // greater than 0 for a diagnostic without a cause
	}
	alone := 0
	for _, same := range grouped(all, func(s spoken) cause {
		if s.cause == "" {
			alone++
			return cause{alone: alone}
		}
		return cause{s.cause, s.Severity, s.named, 0}
	}) {
		one := same[0]
		for _, s := range same[1:] {
			if allHints || one.hinted {
				one.Hints = unique(slices.Concat(one.Hints, s.Hints))
			} else {
				other := func(hint string) bool { return !slices.Contains(s.Hints, hint) }
				one.Hints = slices.DeleteFunc(slices.Clone(one.Hints), other)
			}
			one.members = append(one.members, s.members...)
		}
		one.members = unique(one.members)
		if one.hinted && !allHints { // as many as members are named
			one.Hints = one.Hints[:min(len(one.Hints), few)]
		}
		joined = append(joined, one)
	}
	return joined
}

// grouped returns the elements in groups with equal keys, in the order of their first elements.
func grouped[S ~[]E, E any, K comparable](all S, key func(E) K) (groups []S) {
	at := map[K]int{}
	for _, e := range all {
		k := key(e)
		i, known := at[k]
		if !known {
			i = len(groups)
			at[k], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], e)
	}
	return groups
}

// unique returns the elements without duplicates, in their order.
func unique[T comparable](all []T) (once []T) {
	seen := make(map[T]bool, len(all))
	for _, e := range all {
		if !seen[e] {
			seen[e] = true
			once = append(once, e)
		}
	}
	return once
}

// few is how many members of a diagnostic are named without --verbose.
const few = 5

// most returns how many members of a diagnostic are named.
func (o *Output) most() int {
	if o.Level == Verbose {
		return math.MaxInt - 1
	}
	return few
}

// about returns a text with what it is about: one name before it, or several below it, at most as many as given.
func about(text string, names []string, most int) string {
	if len(names) == 1 {
		return strings.TrimPrefix(names[0]+": ", ": ") + text
	}
	if len(names) > most+1 { // a line for the number of others has room for one other
		names = append(names[:most:most], fmt.Sprintf("and %d more (--verbose lists them)", len(names)-most))
	}
	return strings.Join(append([]string{text}, names...), "\n")
}

// text returns the printed text: the only member's own, or else the cause, and below it what it
// concerns, at most as many as given.
func (s spoken) text(most int) string {
	if len(s.members) == 1 {
		return s.members[0].before(s.shown)
	}
	modules := s.modules()
	text := about(s.cause, s.names(), most)
	if len(modules) == 0 || s.named && s.Provider == "" { // places are in their root modules
		return text
	}
	return text + "\nin " + ui.Some(modules, most)
}

// before puts the root module in front of a text that does not begin with a path in it.
func (m Member) before(text string) string {
	if m.Module == "" || m.File != "" || strings.HasPrefix(text, m.Module+"/") {
		return text
	}
	return m.Module + ": " + text
}

// names returns the names of the members, in order of their first diagnostics.
func (s spoken) names() []string {
	if !s.named {
		return nil
	}
	names := make([]string, len(s.members))
	for i, m := range s.members {
		names[i] = m.name()
	}
	return unique(names)
}

// modules returns the root modules of the members, sorted.
func (s spoken) modules() []string {
	var modules []string
	for _, m := range s.members {
		if m.Module != "" {
			modules = append(modules, m.Module)
		}
	}
	slices.Sort(modules)
	return slices.Compact(modules)
}

// A group collects diagnostics about several root modules, so that a cause is printed once, and changes, so
// that their columns are aligned.
type group struct {
	mu      sync.Mutex
	said    []spoken
	changes []Change
}

func (g *group) add(s spoken) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.said = append(g.said, s)
}

// Together runs a function that works on several root modules. When the function has returned, it prints
// their changes in one table, and their diagnostics, warnings first. With --json, changes are printed at once.
func (o *Output) Together(work func()) {
	o.group = &group{}
	work()
	said, changes := o.group.said, o.group.changes
	o.group = nil
	o.changes(changes)
	slices.SortStableFunc(said, func(a, b spoken) int { return strings.Compare(b.Severity, a.Severity) })
	o.speak(said)
}

// speak prints diagnostics, those with the same cause as one.
func (o *Output) speak(all []spoken) {
	all = byCause(all, o.JSON || o.Level == Verbose)
	if o.JSON {
		for _, s := range all {
			o.speakJSON(s)
		}
		return
	}
	if o.hear != nil {
		for _, s := range all {
			o.hear(s.diagnosis(o.most()))
		}
		return
	}
	last := map[string]int{} // a hint of several diagnostics is printed after the last of them
	for i, s := range all {
		for _, hint := range s.Hints {
			last[hint] = i
		}
	}
	for i, s := range all {
		o.write(s.label(), o.ShortenHere(s.text(o.most())))
		for _, hint := range s.Hints {
			if last[hint] == i {
				o.write(hintLabel, o.ShortenHere(hint))
			}
		}
	}
}

// label returns the beginning of the first line.
func (s spoken) label() ui.Span {
	switch {
	case s.found:
		return noLabel
	case s.Severity == "warning":
		return warningLabel
	}
	return errorLabel
}

// speakJSON writes a diagnostic as an object. If it has several members, these say what it is about.
func (o *Output) speakJSON(s spoken) {
	o.sum.count(s.Diagnostic)
	some, d := *o, s.Diagnostic
	some.module = s.members[0].Module
	if len(s.members) > 1 {
		some.module = ""
		d = Diagnostic{Severity: d.Severity, Text: s.cause, Hints: d.Hints, Members: s.members}
	}
	some.object(d)
}
