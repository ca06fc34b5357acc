package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cmd/larder/ui"
)

// ByCause joins findings with the same cause. It keeps only the hints that all of them have, as
// others are about single members, or with allHints each of them. Hints that name their members are kept.
func ByCause(all []Finding, allHints bool) (joined []Finding) {
	type cause struct {
		text  string
		of    Severity
		named bool
		alone Member // of a finding without a cause, which joins only the same finding
	}
	for _, same := range GroupBy(all, func(f Finding) cause {
		if f.cause == "" {
			return cause{f.Kind + f.Text, f.Severity, false, Member{f.module, f.Subject}}
		}
		return cause{f.cause, f.Severity, f.named, Member{}}
	}) {
		one, members := same[0], same[0].members()
		for _, f := range same[1:] {
			if allHints || one.hinted {
				one.Hints = Unique(slices.Concat(one.Hints, f.Hints))
			} else {
				other := func(hint string) bool { return !slices.Contains(f.Hints, hint) }
				one.Hints = slices.DeleteFunc(slices.Clone(one.Hints), other)
			}
			members, one.Related = append(members, f.members()...), Unique(slices.Concat(one.Related, f.Related))
		}
		if members = Unique(members); len(members) > 1 {
			one.Members = members
		}
		if one.hinted && !allHints { // as many as members are named
			one.Hints = one.Hints[:min(len(one.Hints), few)]
		}
		joined = append(joined, one)
	}
	return joined
}

// members returns what the finding is about, at least one. All members of one with a kind have its provider and
// version.
func (f Finding) members() []Member {
	switch {
	case len(f.Members) > 0:
		return f.Members
	case f.Kind != "":
		return []Member{{f.module, At(f.File, f.Line)}}
	}
	return []Member{{f.module, f.Subject}}
}

// GroupBy returns the elements in groups with equal keys, in the order of their first elements.
func GroupBy[S ~[]E, E any, K comparable](all S, key func(E) K) (groups []S) {
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

// Unique returns the elements without duplicates, in their order.
func Unique[T comparable](all []T) (once []T) {
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
func (f Finding) text(most int) string {
	members := f.members()
	if len(members) == 1 {
		return members[0].before(cmp.Or(f.line, f.Text))
	}
	in := rootsOf(members, most)
	if !f.named {
		return about(f.cause, nil, most) + strings.Replace(in, " ", "\n", 1)
	}
	if members[0].File != "" { // places are in their root modules
		in = ""
	}
	var names []string
	byName := GroupBy(members, func(m Member) string { return cmp.Or(m.name(), m.Module) })
	alike := !slices.ContainsFunc(byName, func(same []Member) bool { return in != "" && rootsOf(same, most) != in })
	for _, same := range byName {
		name := cmp.Or(same[0].name(), same[0].Module)
		if !alike && same[0].name() != "" {
			name += rootsOf(same, most)
		}
		names = append(names, name)
	}
	if !alike {
		in = ""
	}
	return about(f.cause, names, most) + strings.Replace(in, " ", "\n", 1)
}

// rootsOf returns " in " and the root modules of members, or "".
func rootsOf(members []Member, most int) string {
	var modules []string
	for _, m := range members {
		if m.Module != "" {
			modules = append(modules, m.Module)
		}
	}
	if len(modules) == 0 {
		return ""
	}
	slices.Sort(modules)
	return " in " + ui.Some(slices.Compact(modules), most)
}

// before puts the root module in front of a text that does not begin with a path in it.
func (m Member) before(text string) string {
	if m.Module == "" || m.File != "" || strings.HasPrefix(text, m.Module+"/") {
		return text
	}
	return m.Module + ": " + text
}

// A group collects errors and warnings about several root modules, so that a cause is printed once, and changes, so
// that their columns are aligned.
type group struct {
	mu      sync.Mutex
	said    []Finding
	changes []Change
}

func (g *group) add(f Finding) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.said = append(g.said, f)
}

// Together runs a function that works on several root modules. When the function has returned, it prints
// their changes in one table, and their errors and warnings, warnings first. With --json, changes are printed at once.
func (o *Output) Together(work func()) {
	o.group = &group{}
	work()
	said, changes := o.group.said, o.group.changes
	o.group = nil
	o.changes(changes)
	slices.SortStableFunc(said, func(a, b Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	o.speak(said)
}

// speak prints errors and warnings, those with the same cause as one.
func (o *Output) speak(all []Finding) {
	all = ByCause(all, o.JSON || o.Level == Verbose)
	last := map[string]int{} // a hint of several findings is printed after the last of them
	for i, f := range all {
		for _, hint := range f.Hints {
			last[hint] = i
		}
	}
	for i, f := range all {
		switch {
		case o.hear != nil:
			o.hear(f.overheard(o.most()))
			continue
		case o.JSON:
			o.sum.count(f.Severity)
			o.findingObject(f)
			continue
		}
		label := map[Severity]ui.Span{Broken: errorLabel, Risky: warningLabel}[f.Severity]
		if f.found {
			label = noLabel
		}
		o.write(label, o.ShortenHere(f.text(o.most())))
		for _, hint := range f.Hints {
			if last[hint] == i {
				o.write(hintLabel, o.ShortenHere(hint))
			}
		}
	}
}

// findingObject writes a finding as an object. If it has several members, these say where it is.
func (o *Output) findingObject(f Finding) {
	some := *o
	some.module = f.module
	if len(f.Members) > 0 {
		some.module, f.File, f.Line, f.Column = "", "", 0, 0
	}
	switch {
	case f.Kind != "":
		some.object(f)
	case len(f.Members) > 0:
		some.object(Diagnostic{Severity: f.Severity, Text: f.cause, Hints: f.Hints, Members: f.Members})
	default:
		some.object(Diagnostic{Typed{}, f.Severity, f.Text, f.Subject, f.Hints, nil})
	}
}

// namesOf returns the places of findings with the same reason, and the packages that they are about.
func namesOf(all []Finding) (names []string) {
	for _, f := range all {
		for _, m := range f.members() {
			names = append(names, strings.TrimSuffix(m.name()+": "+f.about, ": "))
		}
	}
	return names
}

// Findings shows findings as results, those with the same cause as one. In text, so are many with the same reason.
func (o *Output) Findings(all ...Finding) {
	all = ByCause(all, true)
	alike := map[string][]Finding{}
	for _, f := range all {
		alike[f.reason] = append(alike[f.reason], f)
	}
	for _, f := range all {
		many, open := alike[f.reason]
		switch {
		case o.hear != nil:
			o.hear(f.overheard(o.most()))
		case o.JSON:
			o.findingObject(f)
		case !open: // shown with the first of them
		case f.reason != "" && len(many) > few+1:
			delete(alike, f.reason)
			o.Sentence("%s", o.ShortenHere(about(f.reason, namesOf(many), o.most())))
		default:
			o.Sentence("%s", o.ShortenHere(f.text(o.most())))
		}
	}
}
