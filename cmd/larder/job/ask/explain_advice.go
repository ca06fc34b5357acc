package ask

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// relaxed returns the constraints of all places, changed as little as possible so that v is chosen.
func (q *question) relaxed(v sources.Version) []string {
	texts := make([]string, len(q.req.From))
	changed, combined := -1, sources.Constraints{}
	for i, from := range q.req.From {
		texts[i] = from.Constraint
		c, err := sources.ParseConstraints(from.Constraint)
		if from.Constraint != "" && (err != nil || !c.Allow(v)) {
			texts[i] = installer.Relax(from, v)
			if c, err = sources.ParseConstraints(texts[i]); changed < 0 {
				changed = i
			}
		}
		if err == nil {
			combined = combined.And(c)
		}
	}
	var offered []sources.Version
	for _, c := range q.candidates() {
		if c.Excluded == nil && q.lacks(c.Version) != installer.NotOffered {
			offered = append(offered, c.Version)
		}
	}
	if newest, ok := combined.Newest(offered); changed >= 0 && ok && newest != v { // a newer one is allowed, too
		texts[changed] = v.String()
	}
	return texts
}

// mostTries limits how many versions are queried for one that can be installed.
const mostTries = 5

// advice returns what to change to get a version that is excluded.
func (q *question) advice(w installer.Candidate, upgrade planned) []report.Advice {
	v := w.Version
	var all []report.Advice
	add := func(v sources.Version, paste, what string) {
		all = append(all, report.Advice{Version: v.String(), Paste: paste, What: what})
	}
	if upgrade.err == nil && q.obstacle(upgrade) == "" && upgrade.Version.Compare(q.locked) > 0 && q.locked != (sources.Version{}) && q.asked == (sources.Version{}) {
		add(upgrade.Version, q.upgradeCommand(), "")
	}
	switch w.Bar {
	case installer.Constrained, installer.Prereleased:
		for i, constraint := range q.relaxed(v) {
			if from := q.req.From[i]; constraint != from.Constraint && from.Line > 0 {
				add(v, constraintLine(from, constraint), "at "+report.ConstraintOf(from).Where(q.Out))
			}
		}
		if len(all) == 0 || all[len(all)-1].Version != v.String() {
			return append(all, q.require(v)...)
		}
		all = append(all, q.upgradeAfter(v)...)
	case installer.NotOffered:
		paste, what := q.adviseMethod(v)
		if paste != "" {
			add(v, paste, what)
		}
	case installer.LockedOut:
		switch {
		case len(all) > 0:
		case upgrade.err == nil && upgrade.Version != v:
			all = q.require(v)
		default:
			add(v, q.upgradeCommand(), "")
		}
	case "": // a newer one is chosen, or one that is on this machine
		if !q.Flags.Offline {
			all = append(all, q.require(v)...)
		}
	}
	return all
}

// adviseOther returns what to change if the package of the chosen version can't be installed: to another allowed version,
// or else to another one.
func (q *question) adviseOther(ctx context.Context, upgrade planned) []report.Advice {
	if v, ok := q.installable(ctx, q.req.Constraints); ok && v == q.locked {
		return nil
	} else if ok {
		return q.require(v)
	}
	if v, ok := q.installable(ctx, sources.Constraints{}); ok {
		return q.advice(installer.Candidate{Version: v, Bar: installer.Constrained}, upgrade)
	}
	return nil
}

// installable returns the newest version that the constraints allow and that could be installed if it were required.
func (q *question) installable(ctx context.Context, allowed sources.Constraints) (none sources.Version, ok bool) {
	tries := 0
	for _, c := range q.candidates() {
		if c.Excluded != nil || q.lacks(c.Version) != "" || !allowed.Allow(c.Version) {
			continue
		}
		if tries++; tries > mostTries {
			break
		}
		req := q.req
		req.Constraints, _ = sources.ParseConstraints("= " + c.Version.String()) // which is a version
		if plan, err := q.planner(true).Plan(ctx, *q.root, req); err == nil && plan.Fails == nil {
			return c.Version, true
		}
	}
	return none, false
}

// require returns what to change to require exactly a version.
func (q *question) require(v sources.Version) []report.Advice {
	i := slices.IndexFunc(q.req.From, func(from sources.Origin) bool { return from.Line > 0 })
	if i < 0 {
		return nil
	}
	line := report.Advice{Version: v.String(), Paste: constraintLine(q.req.From[i], v.String()), What: "in required_providers, at " + report.ConstraintOf(q.req.From[i]).Where(q.Out)}
	return append([]report.Advice{line}, q.upgradeAfter(v)...)
}

// constraintLine returns the line with a constraint for the file of a place.
func constraintLine(at sources.Origin, constraint string) string {
	if strings.HasSuffix(at.File, ".json") {
		return fmt.Sprintf(`"version": %q`, constraint)
	}
	return fmt.Sprintf("version = %q", constraint)
}

// upgradeAfter returns the command that is necessary after a change of constraints, if the lock file has another version.
func (q *question) upgradeAfter(v sources.Version) []report.Advice {
	if q.locked == (sources.Version{}) || q.locked == v {
		return nil
	}
	return []report.Advice{{Version: v.String(), Paste: q.upgradeCommand(), What: "after that"}}
}

// upgradeCommand is the command that locks the newest version.
func (q *question) upgradeCommand() string { return q.Again("install --upgrade") }

// adviseMethod returns the line of the CLI configuration that lets a method deliver a version.
func (q *question) adviseMethod(v sources.Version) (paste, what string) {
	for i, a := range q.answers {
		if a.Applies || !q.listed[i][v] {
			continue
		}
		if q.hidden[i] != "" {
			return q.impliedMethods(), "in " + q.Config.Tilde(q.mainFile())
		}
		if q.kinds[i] != nil {
			return q.adviseUse(i)
		}
	}
	return "", ""
}

// impliedMethods returns the block with the implied directories, and with the registries for all providers. A directory
// of this checkout is not in it: all root modules would use its packages.
func (q *question) impliedMethods() string {
	block := "provider_installation { "
	for _, a := range q.answers {
		if mirror := site.LocalMirror(a.Method); mirror != nil && !mirror.Confined() {
			block += fmt.Sprintf("filesystem_mirror { path = %s } ", job.QuotedPath(mirror.Dir()))
		}
	}
	return block + "direct {} }"
}

// adviseUse returns the include or exclude of a configured method, changed so that the method is used for the provider.
func (q *question) adviseUse(i int) (paste, what string) {
	m, by := q.kinds[i], q.answers[i].By
	what = fmt.Sprintf("%s at %s:%d", m.Kind, q.Config.Tilde(m.File), m.Line)
	if by == nil {
		return patternList("include", append(sources.Texts(m.Include), q.req.Provider.String())), "in " + what
	}
	others := slices.DeleteFunc(sources.Texts(m.Exclude), func(pattern string) bool { return pattern == by.String() })
	if len(others) == 0 {
		return patternList("exclude", []string{by.String()}), "to be removed from " + what
	}
	return patternList("exclude", others), "in " + what
}

// patternList returns an argument of an installation method.
func patternList(name string, patterns []string) string {
	for i, p := range patterns {
		patterns[i] = strconv.Quote(p)
	}
	return name + " = [" + strings.Join(patterns, ", ") + "]"
}

// adviseRegistry returns the line of the CLI configuration that lets the origin registry be queried. It may have other
// versions.
func (q *question) adviseRegistry() (paste, what string) {
	const why = ", so that the registry is queried"
	for i, a := range q.answers {
		m := q.kinds[i]
		switch {
		case q.hidden[i] == "" && (m == nil || m.Kind == cliconfig.Direct) && a.Applies:
			return "", ""
		case m != nil && m.Kind == cliconfig.Direct:
			paste, what = q.adviseUse(i)
			return paste, what + why
		}
	}
	if len(q.Config.Methods) == 0 {
		return "", ""
	}
	m := q.Config.Methods[len(q.Config.Methods)-1]
	return fmt.Sprintf("direct { include = [%q] }", q.req.Provider), "in provider_installation in " + q.Config.Tilde(m.File) + why
}

// mainFile is the CLI configuration file to change.
func (q *question) mainFile() string {
	for _, f := range q.Config.InputFiles() {
		return f.Name
	}
	return "the CLI configuration"
}
