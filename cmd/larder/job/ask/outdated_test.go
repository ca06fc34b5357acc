package ask

import (
	"fmt"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// TestOutdatedOf checks how a locked version compares with the others.
func TestOutdatedOf(t *testing.T) {
	const listed = "1.0.0 1.1.0 2.0.0 2.1.0-rc1"
	for _, c := range []struct {
		name       string
		constraint string
		recorded   bool
		locked     string
		listed     string
		want       string // rank, allowed, newest, rule and constraint
	}{
		{"the newest", "", false, "2.0.0", listed, "up to date 2.0.0 2.0.0"},
		{"newer than the newest release", "2.1.0-rc1", false, "2.1.0-rc1", listed, "up to date 2.1.0-rc1 2.0.0"},
		{"no longer listed", "~> 1.0", false, "1.2.0", listed, "must change 1.1.0 2.0.0 constraint ~> 1.0, or ~> 2.0"},
		{"allowed and excluded", "~> 1.0", false, "1.0.0", listed, "upgradable 1.1.0 2.0.0 constraint ~> 1.0, or ~> 2.0"},
		{"kept by the lock file", "", false, "1.0.0", listed, "upgradable 2.0.0 2.0.0 lock file"},
		{"refused, and an older one is allowed", "~> 1.0", false, "2.0.0", listed, "must change 1.1.0 2.0.0 constraint ~> 1.0, or ~> 2.0 refused"},
		{"refused, and a newer one is allowed", ">= 2", false, "1.0.0", listed, "upgradable 2.0.0 2.0.0 constraint >= 2, or >= 1 refused"},
		{"not locked", "~> 1.0", false, "", listed, "not locked 1.1.0 2.0.0 constraint ~> 1.0, or ~> 2.0"},
		{"only pre-releases", "", false, "", "1.0.0-rc1 1.0.0-rc2", "not locked - 1.0.0-rc2 pre-release"},
		{"nothing is listed", "", false, "1.0.0", "", "must change - -"},
		{"only in the lock file, with constraints", "~> 1.0", true, "1.0.0", listed, "upgradable 1.1.0 2.0.0 constraint ~> 1.0, or ~> 2.0"},
		{"only in the lock file", "", true, "1.0.0", listed, "held back 1.0.0 2.0.0 lock file"},
		{"only in the lock file, outside of its constraints", "~> 1.0", true, "2.0.0", listed, "up to date 2.0.0 2.0.0"},
	} {
		r := sources.Requirement{Recorded: c.recorded, From: []sources.Origin{{File: "main.tf", Line: 1, Constraint: c.constraint}}}
		if c.constraint != "" {
			r.Constraints = sourcetest.Must(sources.ParseConstraints(c.constraint))(t)
		}
		var all []sources.Version
		for _, text := range strings.Fields(c.locked + " " + c.listed) {
			v := sourcetest.Must(sources.ParseVersion(text))(t)
			all = append(all, v)
		}
		var locked sources.Version
		if c.locked != "" {
			locked, all = all[0], all[1:]
		}
		rules := rulesOf(&site.Root{}, r, locked, sources.Listing{Versions: all})
		sourcetest.Equal(t, outdatedText(outdatedOf(rules, all)), c.want, c.name)
		if c.locked == "1.2.0" { // an upgrade may take it again
			rules := rulesOf(&site.Root{}, r, locked, sources.Listing{Versions: all, Unasked: []string{"direct"}})
			sourcetest.Equal(t, outdatedOf(rules, all).Allowed, c.locked, "not all sources were queried")
		}
	}
}

func outdatedText(s Outdated) string {
	rank := map[rank]string{
		upToDate: "up to date", notLocked: "not locked", heldBack: "held back", mustChange: "must change", upgradable: "upgradable",
	}[s.rank]
	text := fmt.Sprintf("%s %s %s %s %s", rank, orDash(s.Allowed), orDash(s.Newest), s.Bar, s.Constraint)
	if s.Instead != "" {
		text += ", or " + s.Instead
	}
	if s.Refused {
		text += " refused"
	}
	return strings.TrimSpace(text)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
