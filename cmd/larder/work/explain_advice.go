package work

import (
	"fmt"
	"slices"

	"github.com/larder-cli/larder/cliconfig"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// advice returns what to change to get a version that is excluded.
func (q *question) advice(w installer.Weighed, upgrade planned) []report.Advice {
	v := w.Version
	var all []report.Advice
	add := func(v sources.Version, paste, what string) {
		all = append(all, report.Advice{Version: v.String(), Paste: paste, What: what})
	}
	if upgrade.err == nil && upgrade.Version.Compare(q.locked) > 0 && q.locked != (sources.Version{}) && q.asked == (sources.Version{}) {
		add(upgrade.Version, q.upgradeCommand(), "")
	}
	switch w.Bar {
	case installer.Constrained, installer.Prereleased:
		for _, from := range q.req.From {
			c, err := sources.ParseConstraints(from.Constraint)
			if from.Constraint != "" && from.Line > 0 && (err != nil || !c.Allow(v)) {
				add(v, fmt.Sprintf("version = %q", installer.Relax(from, v)), "at "+report.ConstraintOf(from).Where(q.out))
			}
		}
		if len(all) == 0 || all[len(all)-1].Version != v.String() {
			all = append(all, q.require(v)...)
		}
		if q.locked != (sources.Version{}) {
			add(v, q.upgradeCommand(), "after that")
		}
	case installer.NotOffered:
		paste, what := q.adviseMethod(v)
		if paste != "" {
			add(v, paste, what)
		}
	case installer.LockedOut:
		if len(all) == 0 {
			add(v, q.upgradeCommand(), "")
		}
	}
	return all
}

// otherForPlatform returns the newest allowed version that has a package for this platform, if the chosen one lacks
// it.
func (q *question) otherForPlatform(plan planned) (sources.Version, bool) {
	if plan.err != nil || q.deliveredBy(plan.Version) != "" || !q.offered(plan.Version) {
		return sources.Version{}, false
	}
	var all []sources.Version
	for _, c := range q.candidates() {
		if c.Offered && !c.NoPlatform {
			all = append(all, c.Version)
		}
	}
	return q.req.Constraints.Newest(all)
}

// require returns what to change to require exactly a version.
func (q *question) require(v sources.Version) []report.Advice {
	i := slices.IndexFunc(q.req.From, func(from sources.Origin) bool { return from.Line > 0 })
	if i < 0 {
		return nil
	}
	return []report.Advice{{Version: v.String(), Paste: fmt.Sprintf("version = %q", v), What: "in required_providers, at " + report.ConstraintOf(q.req.From[i]).Where(q.out)}}
}

// upgradeCommand is the command that locks the newest version.
func (q *question) upgradeCommand() string { return q.again("install --upgrade") }

// adviseMethod returns the line of the CLI configuration that lets a method deliver a version.
func (q *question) adviseMethod(v sources.Version) (paste, what string) {
	for i, a := range q.answers {
		if a.Applies || !slices.Contains(a.Listing.Versions, v) {
			continue
		}
		if dir := q.hidden[i]; dir != "" {
			return fmt.Sprintf("provider_installation { filesystem_mirror { path = %q } direct {} }", dir), "in " + q.config.Tilde(q.mainFile())
		}
		if m := q.kinds[i]; m != nil && a.By != nil {
			return fmt.Sprintf("exclude = [%q]", a.By), fmt.Sprintf("to be removed at %s:%d", q.config.Tilde(m.File), m.Line)
		}
	}
	return "", ""
}

// adviseRegistry returns the line of the CLI configuration that lets the origin registry be queried. It may have other
// versions.
func (q *question) adviseRegistry() (paste, what string) {
	for i, a := range q.answers {
		m := q.kinds[i]
		switch {
		case q.hidden[i] == "" && (m == nil || m.Kind == cliconfig.Direct) && a.Applies:
			return "", ""
		case m == nil || m.Kind != cliconfig.Direct:
		case a.By != nil:
			return fmt.Sprintf("exclude = [%q]", a.By), fmt.Sprintf("to be removed from direct at %s:%d, so that the registry is queried", q.config.Tilde(m.File), m.Line)
		default:
			return fmt.Sprintf("include = [%q]", q.req.Provider), fmt.Sprintf("to be added to direct at %s:%d, so that the registry is queried", q.config.Tilde(m.File), m.Line)
		}
	}
	if len(q.config.Methods) == 0 {
		return "", ""
	}
	m := q.config.Methods[len(q.config.Methods)-1]
	return fmt.Sprintf("direct { include = [%q] }", q.req.Provider), "to be added to provider_installation in " + q.config.Tilde(m.File) + ", so that the registry is queried"
}

// mainFile is the CLI configuration file to change.
func (q *question) mainFile() string {
	for _, f := range q.config.InputFiles() {
		return f.Name
	}
	return "the CLI configuration"
}
