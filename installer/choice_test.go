package installer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// TestCandidates checks the rule that excludes each version, and its place.
func TestCandidates(t *testing.T) {
	for _, tt := range []struct {
		name     string
		from     []string // constraints, at a.tf:1 and so on
		recorded bool
		locked   string
		all      string // versions; after a slash what they lack
		want     string
	}{
		{name: "nothing excludes any", from: []string{""}, all: "1.0.0 2.0.0 1.10.0",
			want: "2.0.0, 1.10.0, 1.0.0"},
		{name: "the first constraint that excludes it alone", from: []string{"", "~> 1.0", "~> 1.0.0"}, all: "1.0.1 1.1.0 2.0.0",
			want: "2.0.0 constraint a.tf:2, 1.1.0 constraint a.tf:3, 1.0.1"},
		{name: "a pre-release is excluded as such if its release is allowed", from: []string{"", "~> 1.0"}, all: "1.1.0-beta1 2.0.0-rc1",
			want: "2.0.0-rc1 constraint a.tf:2, 1.1.0-beta1 pre-release a.tf:2"},
		{name: "a pre-release without any constraint", from: []string{""}, all: "1.1.0-beta1",
			want: "1.1.0-beta1 pre-release a.tf:1"},
		{name: "a required pre-release", from: []string{"< 2.0.0", "2.0.0-rc1"}, all: "2.0.0-rc1 2.0.0-rc2 1.0.0",
			want: "2.0.0-rc2 constraint a.tf:1, 2.0.0-rc1, 1.0.0 constraint a.tf:2"},
		{name: "a pre-release that another place does not allow", from: []string{"2.0.0-rc1", ">= 2.0.0"}, all: "2.0.0-rc1",
			want: "2.0.0-rc1 pre-release a.tf:2"},
		{name: "0.0.0 is no version", from: []string{""}, all: "0.0.0",
			want: "0.0.0 constraint together"},
		{name: "the lock file, for newer versions only", from: []string{"~> 1.0"}, locked: "1.1.0", all: "1.0.0 1.1.0 1.2.0 2.0.0",
			want: "2.0.0 constraint a.tf:1, 1.2.0 lock file, 1.1.0, 1.0.0"},
		{name: "the order of rules", from: []string{"< 9"}, locked: "1.0.0",
			all:  "9.0.0/not_offered 5.0.0/not_offered 4.0.0/platform 3.0.0/protocol 2.0.0",
			want: "9.0.0 constraint a.tf:1, 5.0.0 not offered, 4.0.0 platform, 3.0.0 protocol, 2.0.0 lock file"},
		{name: "a locked version outside of its recorded constraints", from: []string{"~> 1.0"}, recorded: true, locked: "2.0.0", all: "1.0.0 2.0.0 2.1.0",
			want: "2.1.0 constraint a.tf:1, 2.0.0, 1.0.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := sources.Requirement{Recorded: tt.recorded}
			for i, text := range tt.from {
				req.From = append(req.From, sources.Origin{File: "a.tf", Line: i + 1, Constraint: text})
				if text != "" {
					req.Constraints = req.Constraints.And(must(sources.ParseConstraints(text)))
				}
			}
			var locked sources.Version
			if tt.locked != "" {
				locked = must(sources.ParseVersion(tt.locked))
			}
			var got []string
			for _, w := range candidatesOf(tt.all, req, locked) {
				got = append(got, candidateText(w))
			}
			sourcetest.Equal(t, strings.Join(got, ", "), tt.want)
		})
	}
}

// TestCandidatesTogether checks a requirement whose places have no constraints of their own.
func TestCandidatesTogether(t *testing.T) {
	req := sources.Requirement{Constraints: must(sources.ParseConstraints("~> 1.0"))}
	for text, want := range map[string]string{
		"1.1.0":       "1.1.0",
		"2.0.0":       "2.0.0 constraint together",
		"2.0.0-beta1": "2.0.0-beta1 constraint together",
		"1.1.0-beta1": "1.1.0-beta1 pre-release :0",
	} {
		sourcetest.Equal(t, candidateText(candidatesOf(text, req, sources.Version{})[0]), want)
	}
}

// candidateText returns the version, the rule, and the place of the constraint.
func candidateText(w installer.Candidate) string {
	text := w.Version.String()
	if w.Bar != "" {
		text += " " + string(w.Bar)
	}
	switch {
	case w.Together:
		text += " together"
	case w.Bar == installer.Constrained || w.Bar == installer.Prereleased:
		text += fmt.Sprintf(" %s:%d", w.By.File, w.By.Line)
	}
	return text
}

// candidatesOf asks the rules about versions, each with what it lacks.
func candidatesOf(text string, req sources.Requirement, locked sources.Version) []installer.Candidate {
	var all []sources.Version
	lacks := map[sources.Version]installer.Bar{}
	for field := range strings.FieldsSeq(text) {
		number, lack, _ := strings.Cut(field, "/")
		v := must(sources.ParseVersion(number))
		all, lacks[v] = append(all, v), installer.Bar(strings.ReplaceAll(lack, "_", " "))
	}
	rules := installer.Rules{Requirement: req, Locked: locked, Lacks: func(v sources.Version) installer.Bar { return lacks[v] }}
	return rules.Candidates(all)
}

// TestRelax checks the constraint to write for a version.
func TestRelax(t *testing.T) {
	for _, tt := range []struct{ constraint, version, want string }{
		{"~> 1.0.0", "1.2.0", "~> 1.2.0"},
		{"~> 1.0", "2.3.4", "~> 2.3"},
		{"~> 1", "2.3.4", "~> 2"},
		{"~>1.0.0-rc1", "1.2.3", "~> 1.2.3"},
		{"= 1.0.1", "1.2.0", "1.2.0"},
		{"1.0.1", "1.2.0", "1.2.0"},
		{">= 3.0", "2.1.3", ">= 2.1"},
		{">= 1, < 2", "2.1.0", "~> 2.1"},
		{"< 2.1.5", "2.3.0", "~> 2.3"},
		{"!= 1.2.0", "1.2.0", "~> 1.2"},
		{"~> 1.0", "2.0.0-beta1", "2.0.0-beta1"},
		{"", "2.0.0-beta1", "2.0.0-beta1"},
		{"${file(\"/etc/passwd\")}", "1.0.0-rc.1+build", "1.0.0-rc.1+build"},
	} {
		got := installer.Relax(sources.Origin{Constraint: tt.constraint}, must(sources.ParseVersion(tt.version)))
		sourcetest.Equal(t, got, tt.want, tt.constraint, "for", tt.version)
	}
}
