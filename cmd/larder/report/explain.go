package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

// A Constraint is a place that requires a provider.
type Constraint struct {
	Constraint string `json:"constraint,omitempty"`
	Place
	Module string `json:"module_address,omitempty"`
}

// ConstraintOf returns a place that requires a provider.
func ConstraintOf(from sources.Origin) Constraint {
	return Constraint{from.Constraint, Place{from.File, from.Line}, from.Module}
}

// Where returns the place as people write it.
func (c Constraint) Where(o *Output) string { return o.Shorten(c.Place.String()) }

// A MethodAnswer is what an installation method says about a provider.
type MethodAnswer struct {
	Method   string `json:"method"` // its kind and location
	Place           // in the CLI configuration; none for implied ones
	Implied  bool   `json:"implied,omitempty"` // the configuration has no provider_installation block
	Used     bool   `json:"used"`              // takes part
	Pattern  string `json:"pattern,omitempty"` // of include or exclude, that decides
	Hidden   string `json:"hidden,omitempty"`  // the implied directory for which the method is not used
	Versions int    `json:"versions"`          // number of versions
	Newest   string `json:"newest,omitempty"`  // the newest release, or else the newest version
	Asked    bool   `json:"asked"`             // it was queried
	Problem  string `json:"problem,omitempty"` // why it has no answer
	Absent   bool   `json:"absent,omitempty"`  // it answered that it doesn't have the provider
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
	if a.Used {
		if a.Pattern != "" {
			answer = ui.Together(answer, fmt.Sprintf("included by %q", a.Pattern))
		}
		return answer
	}
	why := "not used: not in its include"
	switch {
	case a.Hidden != "":
		why = "not used: " + a.Hidden + " has packages of it"
	case a.Pattern != "":
		why = fmt.Sprintf("not used: excluded by %q", a.Pattern)
	}
	return why + "; " + cmp.Or(answer, "not queried")
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
	Typed    `type:"explanation"`
	Provider string `json:"provider"`
	Engine   string `json:"engine"`
	Because  string `json:"engine_reason"`

	Required  []Constraint   `json:"required"`
	Unread    string         `json:"unread,omitempty"`    // why the answer is incomplete: what of the root module can't be read
	Unmanaged string         `json:"unmanaged,omitempty"` // why no package of it is installed
	Locked    string         `json:"locked,omitempty"`
	LockedAt  Place          `json:"locked_at,omitzero"`
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

	Command        string `json:"-"` // of Install
	UpgradeCommand string `json:"-"` // of InstallUpgrade
}

// Unlocked is the part of an answer that is missing if the lock file can't be read.
const Unlocked = "what is locked"

// Explained shows an explanation. All means that nothing is left out.
func (o *Output) Explained(e Explanation, all bool) {
	p := &page{o: o, all: all || o.Level == Verbose, indent: 11, most: 6}
	p.line(inOneLine(o.fullName(e.Provider)))
	p.section("Engine", row(e.Engine+": "+o.Shorten(e.Because)))
	p.section("Required", o.requiredText(e)...)
	p.section("Here", row(o.hereText(e)))
	p.section("Sources", rows(e.Methods, func(i int, m MethodAnswer) sectionRow {
		at := o.Shorten(m.Place.String())
		if m.Implied {
			at = "implied"
		}
		return row(strconv.Itoa(i+1), o.Shorten(m.Method), at, o.Shorten(m.says()))
	})...)
	p.section("Choice", row(o.Shorten(ui.Together(e.Chosen, e.Why))))
	p.section("Not chosen", rows(e.Newer, func(_ int, x Excluded) sectionRow {
		return row(sources.JoinSome(x.Versions, 4, ", ", " and %d older"), o.Shorten(x.Why))
	})...)
	p.section("To change", rows(e.Advice, func(_ int, a Advice) sectionRow { return row(a.Version, a.Paste, o.Shorten(a.What)) })...)
	if e.Install != "" {
		p.section("Then", row(e.Command, o.Shorten(e.Install)), row(e.UpgradeCommand, o.Shorten(e.InstallUpgrade)))
	}
	p.section("Unknown", rows(e.Unknown, func(_ int, text string) sectionRow { return row(o.Shorten(text)) })...)
	o.ShowPage(p.text.String(), e)
}

// fullName is an address as the engine reads it, with the short form that this output uses elsewhere.
func (o *Output) fullName(address string) string {
	if short := o.address(address); short != address {
		return short + " = " + address
	}
	return address
}

// requiredText lists the constraints with their places, those that allow any version last.
func (o *Output) requiredText(e Explanation) (rows []sectionRow) {
	slices.SortStableFunc(e.Required, func(a, b Constraint) int { return min(1, len(b.Constraint)) - min(1, len(a.Constraint)) })
	for _, c := range e.Required {
		rows = append(rows, row(cmp.Or(c.Constraint, "any version"), o.Shorten(c.Place.String()), c.Module))
	}
	if len(rows) == 0 {
		rows = []sectionRow{row("nothing here requires it")}
		if e.Unread != "" {
			rows = []sectionRow{row("nothing that can be read here")}
		}
	}
	return rows
}

// hereText says what this machine has.
func (o *Output) hereText(e Explanation) string {
	has := func(what string, versions []string) string {
		return after(what+" ", sources.JoinSome(versions, 5, ", ", " and %d older"))
	}
	locked := "not locked"
	if slices.Contains(e.Unknown, Unlocked) {
		locked = "lock file not read"
	}
	if e.Locked != "" {
		locked = fmt.Sprintf("locked %s (%s)", e.Locked, o.Shorten(e.LockedAt.String()))
	}
	installed := cmp.Or(has("installed", e.Installed), "not installed")
	return ui.Together(locked, installed, has("cached", e.Cached))
}
