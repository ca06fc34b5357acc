package ask

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// A Constraint is a place that requires a provider.
type Constraint struct {
	Constraint string `json:"constraint,omitempty"`
	report.Place
	Module string `json:"module_address,omitempty"`
}

// constraintOf returns a place that requires a provider.
func constraintOf(from sources.Origin) Constraint {
	return Constraint{from.Constraint, report.Place{File: from.File, Line: from.Line}, from.Module}
}

// barOf returns the constraint or the rule of the policy that excludes a version. It is zero if it is neither.
func barOf(c installer.Candidate) Constraint {
	if c.Bar == installer.Excluded {
		rule := c.Excluded.Rule
		return Constraint{Constraint: rule.Text, Place: report.Place{File: rule.File, Line: rule.Line}}
	}
	return constraintOf(c.By)
}

// where returns a place that requires a provider, as people write it.
func (q *question) where(from sources.Origin) string {
	return q.Out.Shorten(constraintOf(from).Place.String())
}

// An Excluded says why some versions are not chosen, all for the same reason.
type Excluded struct {
	Versions []string    `json:"versions"` // the newest first
	Rule     string      `json:"rule"`
	By       *Constraint `json:"by,omitempty"`
	Why      string      `json:"why"`
}

// An Advice is what to change to get another version.
type Advice struct {
	Version string `json:"version"`
	What    string `json:"what"` // what to do with the line
	Paste   string `json:"line"` // a command, or a line of a file
}

// An Explanation explains the choice of a provider's version.
type Explanation struct {
	report.Typed `type:"explanation"`
	Provider     string `json:"provider"`
	Engine       string `json:"engine"`
	Because      string `json:"engine_reason"`

	Required  []Constraint   `json:"required"`
	Unread    string         `json:"unread,omitempty"`    // why it is incomplete: what of the root module can't be read
	Unmanaged string         `json:"unmanaged,omitempty"` // why no package of it is installed
	Locked    string         `json:"locked,omitempty"`
	LockedAt  report.Place   `json:"locked_at,omitzero"`
	Installed []string       `json:"installed"`
	Cached    []string       `json:"cached"`
	Methods   []MethodAnswer `json:"methods"`

	Chosen         string     `json:"chosen,omitempty"`
	Upgrade        string     `json:"chosen_by_upgrade,omitempty"`
	From           string     `json:"from,omitempty"` // the method that delivers it
	Why            string     `json:"why"`
	Newer          []Excluded `json:"newer"`
	Advice         []Advice   `json:"advice"`
	Install        string     `json:"install,omitempty"` // what the command would do
	InstallUpgrade string     `json:"install_upgrade,omitempty"`
	Unknown        []string   `json:"unknown"` // what could not be found out
}

// unlocked is the part of an answer that is missing if the lock file can't be read.
const unlocked = "what is locked"

// show shows an explanation. All means that nothing is left out.
func (q *question) show(e Explanation, all bool) {
	page, name := q.Output.Page(11, 6, all), e.Provider
	if short := q.Output.Name(q.req.Provider); short != name {
		name = short + " = " + name
	}
	page.Heading(name)
	page.Section("Engine", report.ItemOf(e.Engine+": "+e.Because))
	page.Section("Required", e.requiredItems()...)
	page.Section("Here", report.ItemOf(e.here()))
	var methods, others, changes, unknown []report.Item
	for i, m := range e.Methods {
		at := m.Place.String()
		if m.Implied {
			at = "implied"
		}
		methods = append(methods, report.ItemOf(strconv.Itoa(i+1), m.Method, at, m.says()))
	}
	for _, x := range e.Newer {
		others = append(others, report.ItemOf(sources.JoinSome(x.Versions, 4, ", ", " and %d older"), x.Why))
	}
	for _, a := range e.Advice {
		changes = append(changes, report.ItemOf(a.Version, a.Paste, a.What))
	}
	for _, text := range e.Unknown {
		unknown = append(unknown, report.ItemOf(text))
	}
	page.Section("Sources", methods...)
	page.Section("Choice", report.ItemOf(ui.Together(e.Chosen, e.Why)))
	page.Section("Not chosen", others...)
	page.Section("To change", changes...)
	if e.Install != "" {
		upgrade := report.ItemOf(q.again("install --upgrade"), e.InstallUpgrade)
		page.Section("Then", report.ItemOf(q.again("install"), e.Install), upgrade)
	}
	page.Section("Unknown", unknown...)
	page.Show(e)
}

// requiredItems lists the constraints with their places, those that allow any version last.
func (e Explanation) requiredItems() (rows []report.Item) {
	slices.SortStableFunc(e.Required, func(a, b Constraint) int {
		return min(1, len(b.Constraint)) - min(1, len(a.Constraint))
	})
	for _, c := range e.Required {
		rows = append(rows, report.ItemOf(cmp.Or(c.Constraint, "any version"), c.Place.String(), c.Module))
	}
	switch {
	case len(rows) > 0:
		return rows
	case e.Unread != "":
		return []report.Item{report.ItemOf("nothing that can be read here")}
	}
	return []report.Item{report.ItemOf("nothing here requires it")}
}

// here says what this machine has.
func (e Explanation) here() string {
	has := func(what string, versions []string) string {
		return report.Labeled(what+" ", sources.JoinSome(versions, 5, ", ", " and %d older"))
	}
	locked := "not locked"
	if slices.Contains(e.Unknown, unlocked) {
		locked = "lock file not read"
	}
	if e.Locked != "" {
		locked = fmt.Sprintf("locked %s (%s)", e.Locked, e.LockedAt)
	}
	return ui.Together(locked, cmp.Or(has("installed", e.Installed), "not installed"), has("cached", e.Cached))
}

// says describes the answer.
func (a MethodAnswer) says() string {
	answer := fmt.Sprintf("%s, newest %s", ui.Count(a.Versions, "version"), a.Newest)
	switch {
	case a.Problem != "":
		answer = a.Problem
	case a.Absent:
		answer = "doesn't have it"
	case !a.Asked:
		answer = ""
	}
	why := "not used: not in its include"
	switch {
	case a.Used && a.Pattern != "":
		return ui.Together(answer, fmt.Sprintf("included by %q", a.Pattern))
	case a.Used:
		return answer
	case a.Hidden != "":
		why = "not used: " + a.Hidden + " has packages of it"
	case a.Pattern != "":
		why = fmt.Sprintf("not used: excluded by %q", a.Pattern)
	}
	return why + "; " + cmp.Or(answer, "not queried")
}
