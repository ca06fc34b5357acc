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
	upgrades := upgrade.fails == "" && q.locked != (sources.Version{}) &&
		(upgrade.Version.Compare(q.locked) > 0 || q.install.fails != "" && upgrade.Version != q.locked)
	if upgrades && (q.asked == upgrade.Version || q.asked == sources.Version{}) {
		all = append(all, Advice{Version: upgrade.Version.String(), Paste: q.again("install --upgrade")})
	}
	switch w.Bar {
	case installer.Constrained, installer.Prereleased:
		return append(all, q.change(v)...)
	case installer.LockedOut, "":
		if len(all) == 0 && !q.Flags.Offline { // offline, its package isn't verified
			return q.change(v)
		}
	}
	return all
}

// change returns the constraints that exclude a version, changed as little as possible so that it is chosen. If they
// allow it, it returns one that requires exactly this version.
func (q *question) change(v sources.Version) (all []Advice) {
	var offered []sources.Version
	for _, c := range q.candidates() {
		if c.Excluded == nil && q.lacks(c.Version) != installer.NotOffered {
			offered = append(offered, c.Version)
		}
	}
	for _, from := range q.req.From {
		c, err := sources.ParseConstraints(from.Constraint)
		if q.req.Constraints.Allow(v) || from.Line == 0 || from.Constraint == "" || err == nil && c.Allow(v) {
			continue
		}
		text := installer.Relax(from, v)
		if c, err := sources.ParseConstraints(text); err == nil {
			if newest, ok := c.Newest(offered); ok && newest != v { // a newer one is allowed, too
				text = v.String()
			}
		}
		all = append(all, q.edit(from, v, text, "at "))
	}
	if len(all) == 0 {
		i := slices.IndexFunc(q.req.From, func(from sources.Origin) bool { return from.Line > 0 })
		if i < 0 {
			return nil
		}
		all = append(all, q.edit(q.req.From[i], v, v.String(), "in required_providers, at "))
	}
	if q.locked != (sources.Version{}) && q.locked != v {
		all = append(all, Advice{Version: v.String(), Paste: q.again("install --upgrade"), What: "after that"})
	}
	return all
}

// edit returns a line with another constraint for the file of a place.
func (q *question) edit(at sources.Origin, v sources.Version, constraint, what string) Advice {
	line := fmt.Sprintf("version = %q", constraint)
	if strings.HasSuffix(at.File, ".json") {
		line = fmt.Sprintf(`"version": %q`, constraint)
	}
	return Advice{Version: v.String(), Paste: line, What: what + q.where(at)}
}

// mostTries limits how many versions are queried for one that can be installed.
const mostTries = 5

// adviseOther returns what to change if the package of the version that an upgrade chooses can't be installed: to
// another allowed version, or else to one that the constraints exclude.
func (q *question) adviseOther(ctx context.Context) []Advice {
	usable := slices.DeleteFunc(q.candidates(), func(c installer.Candidate) bool {
		return c.Excluded != nil || q.lacks(c.Version) != ""
	})
	slices.SortStableFunc(usable, func(a, b installer.Candidate) int {
		return strings.Compare(strconv.FormatBool(!a.Upgradable()), strconv.FormatBool(!b.Upgradable()))
	})
	for _, c := range usable[:min(len(usable), mostTries)] {
		req := q.req
		req.Constraints, _ = sources.ParseConstraints("= " + c.Version.String()) // which is a version
		if q.plan(ctx, req, true).fails != "" {
			continue
		}
		if q.req.Constraints.Allow(c.Version) && c.Version == q.locked {
			return nil
		}
		return q.change(c.Version)
	}
	return nil
}
