package ask

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// What to change to get another version: lines of the configuration, and commands. If a method isn't used, the answer
// of the method has the place to change.

// advice returns what to change to get a version that is excluded.
func (q *question) advice(w installer.Candidate) (all []Advice) {
	v, upgrade := w.Version, q.upgrade
	upgrades := upgrade.fails == "" && q.locked != (sources.Version{}) && upgrade.Version.Compare(q.locked) > 0
	if upgrades && (q.asked == upgrade.Version || q.asked == sources.Version{}) {
		all = append(all, Advice{Version: upgrade.Version.String(), Paste: q.again("install --upgrade")})
	}
	switch w.Bar {
	case installer.Constrained, installer.Prereleased:
		return append(all, q.relax(v)...)
	case installer.LockedOut, "":
		if len(all) == 0 && !q.Flags.Offline { // offline, its package isn't verified
			return q.require(v)
		}
	}
	return all
}

// relax returns the constraints that exclude a version, changed as little as possible so that it is chosen.
func (q *question) relax(v sources.Version) (all []Advice) {
	var offered []sources.Version
	for _, c := range q.candidates() {
		if c.Excluded == nil && q.lacks(c.Version) != installer.NotOffered {
			offered = append(offered, c.Version)
		}
	}
	for _, from := range q.req.From {
		if c, err := sources.ParseConstraints(from.Constraint); from.Line == 0 || from.Constraint == "" || err == nil && c.Allow(v) {
			continue
		}
		text := installer.Relax(from, v)
		if c, err := sources.ParseConstraints(text); err == nil {
			if newest, ok := c.Newest(offered); ok && newest != v { // a newer one is allowed, too
				text = v.String()
			}
		}
		all = append(all, Advice{Version: v.String(), Paste: constraintLine(from, text), What: "at " + q.where(from)})
	}
	if len(all) == 0 {
		return q.require(v)
	}
	return append(all, q.upgradeAfter(v)...)
}

// mostTries limits how many versions are queried for one that can be installed.
const mostTries = 5

// adviseOther returns what to change if the package of the version that an upgrade chooses can't be installed: to another
// allowed version, or else to one that the constraints exclude.
func (q *question) adviseOther(ctx context.Context) []Advice {
	usable := slices.DeleteFunc(q.candidates(), func(c installer.Candidate) bool { return c.Excluded != nil || q.lacks(c.Version) != "" })
	slices.SortStableFunc(usable, func(a, b installer.Candidate) int {
		return strings.Compare(strconv.FormatBool(!a.Upgradable()), strconv.FormatBool(!b.Upgradable()))
	})
	for _, c := range usable[:min(len(usable), mostTries)] {
		req := q.req
		req.Constraints, _ = sources.ParseConstraints("= " + c.Version.String()) // which is a version
		switch plan := q.plan(ctx, req, true); {
		case plan.fails != "":
		case !q.req.Constraints.Allow(c.Version):
			return q.relax(c.Version)
		case c.Version != q.locked:
			return q.require(c.Version)
		default:
			return nil
		}
	}
	return nil
}

// require returns what to change to require exactly a version.
func (q *question) require(v sources.Version) []Advice {
	i := slices.IndexFunc(q.req.From, func(from sources.Origin) bool { return from.Line > 0 })
	if i < 0 {
		return nil
	}
	line := Advice{
		Version: v.String(), Paste: constraintLine(q.req.From[i], v.String()),
		What: "in required_providers, at " + q.where(q.req.From[i]),
	}
	return append([]Advice{line}, q.upgradeAfter(v)...)
}

// constraintLine returns the line with a constraint for the file of a place.
func constraintLine(at sources.Origin, constraint string) string {
	if strings.HasSuffix(at.File, ".json") {
		return fmt.Sprintf(`"version": %q`, constraint)
	}
	return fmt.Sprintf("version = %q", constraint)
}

// upgradeAfter returns the command that is necessary after a change of constraints, if the lock file has another version.
func (q *question) upgradeAfter(v sources.Version) []Advice {
	if q.locked == (sources.Version{}) || q.locked == v {
		return nil
	}
	return []Advice{{Version: v.String(), Paste: q.again("install --upgrade"), What: "after that"}}
}

// patternList returns an argument of an installation method.
func patternList(name string, patterns []string) string {
	for i, p := range patterns {
		patterns[i] = strconv.Quote(p)
	}
	return name + " = [" + strings.Join(patterns, ", ") + "]"
}
