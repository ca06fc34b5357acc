package installer_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/installer/lockfile"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

// want parses "TYPE CONSTRAINTS" or, locked, "TYPE VERSION! CONSTRAINTS".
func want(from, text string, hashes ...sources.Hash) installer.Want {
	typ, constraints, _ := strings.Cut(text, " ")
	w := installer.Want{Requirement: sources.Requirement{Provider: provider(typ)}}
	if version, rest, ok := strings.Cut(constraints, "!"); ok {
		w.Locked = lockfile.Entry{Provider: w.Provider, Version: must(sources.ParseVersion(version)), Hashes: hashes}
		constraints = strings.TrimSpace(rest)
	}
	w.From = []sources.Origin{{File: from, Line: 3, Constraint: constraints}}
	if constraints != "" {
		w.Constraints = must(sources.ParseConstraints(constraints))
	}
	return w
}

// selection returns "TYPE VERSION OS_ARCH" of each package.
func selection(all []installer.Selected) string {
	var lines []string
	for _, s := range all {
		lines = append(lines, fmt.Sprintf("%s %s %s", s.ID.Provider.Type, s.ID.Version, s.ID.Platform))
	}
	return strings.Join(lines, ", ")
}

// A crowdedSource counts how many providers it is asked for at the same time.
type crowdedSource struct {
	*fakeSource
	now, most atomic.Int64
}

func (s *crowdedSource) Versions(ctx context.Context, p sources.Provider) (sources.Listing, error) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	time.Sleep(time.Millisecond) // others come meanwhile
	return s.fakeSource.Versions(ctx, p)
}

// However many providers there are, the lists of their versions take bounded memory.
func TestFewProvidersAreAskedForAtOnce(t *testing.T) {
	f := newFixture(t)
	source := &crowdedSource{fakeSource: f.source}
	in := installer.New(source, f.store, f.source, f.opts)
	var wants []installer.Want
	for i := range 500 {
		wants = append(wants, want("main.tf", fmt.Sprint("p", i)))
	}
	_, err := in.Select(t.Context(), wants, installer.SelectOptions{})
	sourcetest.ErrorIs(t, err, sources.ErrNotFound)
	sourcetest.Expect(t, source.most.Load() > 1 && source.most.Load() <= 64, "%d at the same time", source.most.Load())
}

func TestSelect(t *testing.T) {
	two := installer.SelectOptions{Newest: 2}
	all := installer.SelectOptions{All: true}
	for _, c := range []struct {
		name  string
		wants string // separated by ;
		opts  installer.SelectOptions
		want  string
		asked int    // for versions
		fails string // parts of errors, separated by ;
	}{
		{"the newest", "widget", installer.SelectOptions{}, "widget 2.0.0 linux_amd64", 1, ""},
		{"the newest that matches", "widget ~> 1.0", installer.SelectOptions{}, "widget 1.2.0 linux_amd64", 1, ""},
		{"a pre-release by name", "widget 3.0.0-rc1", installer.SelectOptions{}, "widget 3.0.0-rc1 linux_amd64", 1, ""},
		{"the newest two", "widget", two, "widget 1.2.0 linux_amd64, widget 2.0.0 linux_amd64", 1, ""},
		{"two, but there is one", "widget >= 2", two, "widget 2.0.0 linux_amd64", 1, ""},
		{"all that match", "widget ~> 1.0", all, "widget 1.0.0 linux_amd64, widget 1.1.0 linux_amd64, widget 1.2.0 linux_amd64", 1, ""},
		{"all but pre-releases", "widget >= 2", all, "widget 2.0.0 linux_amd64", 1, ""},
		{"locked", "widget 1.1.0!", all, "widget 1.1.0 linux_amd64", 0, ""},
		{"locked and no longer offered", "widget 0.5.0!", two, "widget 0.5.0 linux_amd64", 0, ""},
		{"locked and matching", "widget 1.1.0! ~> 1.0", two, "widget 1.1.0 linux_amd64", 0, ""},
		{"locked and not matching", "widget 2.0.0! ~> 1.0", two, "", 0, `selects 2.0.0, which does not match "~> 1.0"`},
		{"versions that exclude each other", "widget ~> 1.0; widget ~> 2.0; gadget", installer.SelectOptions{}, "gadget 5.0.0 linux_amd64, widget 1.2.0 linux_amd64, widget 2.0.0 linux_amd64", 2, ""},
		{"the same in several forms", "widget; widget >= 1; widget 2.0.0; widget 2.0.0!; widget", installer.SelectOptions{}, "widget 2.0.0 linux_amd64", 1, ""},
		{"one that does not exist", "widget > 9; widget; nothing; gadget", installer.SelectOptions{}, "gadget 5.0.0 linux_amd64, widget 2.0.0 linux_amd64", 3, `no version matches "> 9.0.0"; nothing: not found`},
		{"a locked one whose source fails", "broken 1.0.0!; broken", installer.SelectOptions{}, "broken 1.0.0 linux_amd64", 1, "no answer"},
		{"one that may not be queried", "offline ~> 1.0; offline; offline 1.0.0!", installer.SelectOptions{}, "offline 1.0.0 linux_amd64", 1, "choosing a version that matches \"~> 1.0\" needs the network; choosing a version needs the network"},
		{"nothing", "", installer.SelectOptions{}, "", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			for _, v := range []string{"widget 1.0.0", "widget 2.0.0", "widget 3.0.0-rc1", "widget 1.2.0", "widget 1.1.0", "gadget 5.0.0"} {
				f.source.add(v+" linux_amd64", nil)
			}
			f.source.fails[provider("broken")] = fmt.Errorf("no answer")
			f.source.fails[provider("offline")] = sources.ErrOffline
			var wants []installer.Want
			for i, text := range strings.Split(c.wants, "; ") {
				if text != "" {
					wants = append(wants, want(fmt.Sprintf("%d.tf", i), text))
				}
			}
			selected, err := f.installer().Select(t.Context(), wants, c.opts)
			sourcetest.Equal(t, selection(selected), c.want)
			sourcetest.Equal(t, strings.Count(f.source.log(), "versions "), c.asked, "questions")
			f.failsWith(err, c.fails)
		})
	}
}

func (f *fixture) installer() *installer.Installer {
	return installer.New(f.source, f.store, f.source, f.opts)
}

// failsWith checks that err joins one error for each of these parts, and no others.
func (f *fixture) failsWith(err error, parts string) {
	f.t.Helper()
	sourcetest.Require(f.t, (err != nil) == (parts != ""), "failed: %v, want %q", err, parts)
	if err == nil {
		return
	}
	for part := range strings.SplitSeq(parts, "; ") {
		sourcetest.Expect(f.t, strings.Contains(err.Error(), part), "%v\nhas no %q", err, part)
	}
}

// The errors of wants that require the same name all their places together.
func TestSelectErrorsNameAllPlaces(t *testing.T) {
	f := newFixture(t)
	f.source.add("widget 1.0.0 linux_amd64", nil)
	var wants []installer.Want
	for i := range 30 {
		wants = append(wants, want(fmt.Sprintf("%02d.tf", i), "widget > 9"), want(fmt.Sprintf("%02d.tf", i), "nothing"))
	}
	_, err := f.installer().Select(t.Context(), wants, installer.SelectOptions{})
	f.failsWith(err, "00.tf:3: > 9\n; 19.tf:3: > 9\n  and 10 other places")
	n := strings.Count(err.Error(), "no version matches")
	sourcetest.Expect(t, n == 1, "told %d times: %v", n, err)
	hints := strings.Join(sources.Hints(err), "\n")
	const places = "the provider is required by 00.tf:3, 01.tf:3, 02.tf:3, 03.tf:3, 04.tf:3, and 25 other places"
	sourcetest.Expect(t, strings.Contains(hints, places), "%q", hints)
}

func TestFill(t *testing.T) {
	const gone = "no package for this platform"
	a, b := "widget 1.0.0 linux_amd64", "widget 1.0.0 darwin_arm64"
	for _, c := range []struct {
		name      string
		wants     []installer.Want
		platforms string
		stored    string // text of the package in the store
		edit      func(*fixture)
		strict    bool
		want      string // TYPE OS_ARCH: how, or part of the error, for each package
		fails     string
		asked     string // with ; for newlines
	}{
		{name: "fetched", wants: []installer.Want{want("a", "widget 1.0.0!")}, platforms: "linux_amd64",
			want: "widget linux_amd64: fetched", asked: "download; package"},
		{name: "locked and in the store", wants: []installer.Want{want("a", "widget 1.0.0!", zh(a))}, platforms: "linux_amd64", stored: a,
			want: "widget linux_amd64: from the cache"},
		{name: "in the store, with its contents locked", wants: []installer.Want{want("a", "widget 1.0.0!", h1(a))}, platforms: "linux_amd64", stored: a,
			want: "widget linux_amd64: from the cache"},
		{name: "in the store and not locked", wants: []installer.Want{want("a", "widget 1.0.0")}, platforms: "linux_amd64", stored: a,
			want: "widget linux_amd64: from the cache", asked: "package; versions"},
		{name: "two platforms", wants: []installer.Want{want("a", "widget 1.0.0!", zh(a), zh(b))}, platforms: "linux_amd64 darwin_arm64",
			want: "widget darwin_arm64: fetched; widget linux_amd64: fetched", asked: "download; download; package; package"},
		{name: "other hashes locked", wants: []installer.Want{want("a", "widget 1.0.0!", zh("else"))}, platforms: "linux_amd64",
			want: "widget linux_amd64: the dependency lock file has", fails: "the package is", asked: "package"},
		{name: "one want with other hashes", wants: []installer.Want{want("a", "widget 1.0.0!", zh("else")), want("b", "widget 1.0.0!", zh(a))}, platforms: "linux_amd64", stored: a,
			want: "widget linux_amd64: from the cache", fails: "the dependency lock file has " + string(zh("else")), asked: "package"},
		{name: "in reverse order", wants: []installer.Want{want("b", "widget 1.0.0!", zh(a)), want("a", "widget 1.0.0!", zh("else"))}, platforms: "linux_amd64", stored: a,
			want: "widget linux_amd64: from the cache", fails: "the dependency lock file has " + string(zh("else")), asked: "package"},
		{name: "one want with other hashes, and one without", wants: []installer.Want{want("b", "widget"), want("a", "widget 1.0.0!", zh("else"))}, platforms: "linux_amd64",
			want: "widget linux_amd64: fetched", fails: "the dependency lock file has", asked: "download; package; package; versions"},
		{name: "no such platform", wants: []installer.Want{want("a", "widget 1.0.0!")}, platforms: "linux_amd64 plan9_386",
			want: "widget linux_amd64: fetched; widget plan9_386: " + gone, asked: "download; package; package"},
		{name: "no such platform, strictly", wants: []installer.Want{want("a", "widget 1.0.0!")}, platforms: "linux_amd64 plan9_386", strict: true,
			want: "widget linux_amd64: fetched; widget plan9_386: " + gone, fails: "plan9_386: " + gone, asked: "download; package; package"},
		{name: "no platform at all", wants: []installer.Want{want("a", "widget 1.0.0!")}, platforms: "plan9_386",
			want: "widget plan9_386: " + gone, fails: "plan9_386: " + gone, asked: "package"},
		{name: "none for one of two", wants: []installer.Want{want("a", "widget 1.0.0!"), want("b", "gadget 1.0.0!")}, platforms: "darwin_arm64",
			want: "gadget darwin_arm64: " + gone + "; widget darwin_arm64: fetched", fails: "gadget 1.0.0 darwin_arm64: " + gone, asked: "download; package; package"},
		{name: "a signature is required", wants: []installer.Want{want("a", "widget 1.0.0!", zh(a))}, platforms: "linux_amd64", stored: a,
			edit: func(f *fixture) { f.opts.Judge.Require = trust.RequireSigned },
			want: "widget linux_amd64: a signature is required", fails: "a signature is required", asked: "package"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.opts.Platforms = nil
			for _, p := range strings.Fields(c.platforms) {
				f.opts.Platforms = append(f.opts.Platforms, platform(p))
			}
			for _, text := range []string{a, b, "gadget 1.0.0 linux_amd64"} {
				f.source.add(text, nil)
			}
			if c.stored != "" {
				f.store.entries[id(c.stored)] = sources.Stored{ID: id(c.stored), H1: h1(c.stored), ZH: zh(c.stored), Proof: sources.Proof{Matched: true}}
			}
			if c.edit != nil {
				c.edit(f)
			}
			in := f.installer()
			selected := sourcetest.Must(in.Select(t.Context(), c.wants, installer.SelectOptions{}))(t)
			filled, err := in.Fill(t.Context(), selected, installer.FillOptions{RequirePlatforms: c.strict})
			f.failsWith(err, c.fails)
			for i, want := range strings.Split(c.want, "; ") {
				got := fmt.Sprintf("%s %s: %s", filled[i].ID.Provider.Type, filled[i].ID.Platform, filled[i].Outcome.How)
				if filled[i].Outcome.How == "" {
					got += filled[i].Err.Error()
				}
				name, text, _ := strings.Cut(want, ": ")
				sourcetest.Expect(t, strings.HasPrefix(got, name+": ") && strings.Contains(got, text),
					"got %s, want %s", got, want)
			}
			var asked []string
			for line := range strings.Lines(f.source.log()) {
				kind, _, _ := strings.Cut(line, " ")
				asked = append(asked, kind)
			}
			sourcetest.Equal(t, strings.Join(asked, "; "), c.asked, "asked for")
		})
	}
}

// Wants whose hashes differ from the stored package's share one error, from one
// query.
func TestFillQueriesUnreachableSourceOnce(t *testing.T) {
	f := newFixture(t)
	f.source.add("widget 1.0.0 linux_amd64", nil)
	clear(f.source.archives)
	wants := []installer.Want{want("a", "widget 1.0.0!", h1("a")), want("b", "widget 1.0.0!", h1("b")), want("c", "widget")}
	in := f.installer()
	selected := sourcetest.Must(in.Select(t.Context(), wants, installer.SelectOptions{}))(t)
	_, err := in.Fill(t.Context(), selected, installer.FillOptions{})
	n := strings.Count(f.source.log(), "download")
	sourcetest.Expect(t, n == 1 && strings.Count(err.Error(), "no answer") == 1, "%d downloads, and then: %v", n, err)
	hints := sources.Hints(err)
	sourcetest.Expect(t, slices.Contains(hints, "the provider is required by a:3, b:3, c:3"), "%q", hints)
}

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

// Offline, the newest verified version on this machine is chosen.
func TestChooseOffline(t *testing.T) {
	for _, c := range []struct {
		name        string
		here        string // WHERE TYPE VERSION OS_ARCH VERDICT[!]; "!" is a damaged package
		constraints string
		locked      string // version; the run is then an upgrade
		platforms   string
		want        string // version; empty if there is none
		says        string // part of the warning or the error
	}{
		{"the newest", "stored 1.0.0 linux_amd64 self-signed; stored 1.2.0 linux_amd64 self-signed", "", "", "", "1.2.0", "chose 1.2.0, the newest verified version on this machine; --offline: fake may have newer ones"},
		{"by version, not by text", "stored 1.9.0 linux_amd64 self-signed; stored 1.10.0 linux_amd64 hash only", "", "", "", "1.10.0", ""},
		{"the constraints", "stored 1.2.0 linux_amd64 self-signed; stored 2.0.0 linux_amd64 self-signed", "~> 1.0", "", "", "1.2.0", `this machine that "~> 1.0" allows; --offline`},
		{"unverified", "stored 1.2.0 linux_amd64 hash only; stored 9.0.0 linux_amd64 unverified", "", "", "", "1.2.0", "; skipped 9.0.0 (unverified); --offline"},
		{"damaged", "stored 1.2.0 linux_amd64 self-signed; stored 1.3.0 linux_amd64 self-signed !", "", "", "", "1.2.0", "skipped 1.3.0 (damaged)"},
		{"another platform", "stored 1.2.0 linux_amd64 self-signed; stored 1.3.0 darwin_arm64 self-signed", "", "", "", "1.2.0", "skipped 1.3.0 (not for linux_amd64)"},
		{"every platform", "stored 1.2.0 linux_amd64 self-signed; stored 1.2.0 darwin_arm64 self-signed; stored 1.3.0 linux_amd64 self-signed", "", "", "linux_amd64 darwin_arm64", "1.2.0", "skipped 1.3.0 (not for darwin_arm64)"},
		{"a pre-release", "stored 1.2.0 linux_amd64 self-signed; stored 1.3.0-rc1 linux_amd64 self-signed", "", "", "", "1.2.0", ""},
		{"a pre-release by name", "stored 1.2.0 linux_amd64 self-signed; stored 1.3.0-rc1 linux_amd64 self-signed", "1.3.0-rc1", "", "", "1.3.0-rc1", ""},
		{"never 0.0.0", "stored 0.0.0 linux_amd64 self-signed", "", "", "", "", "this machine has 0.0.0 (not allowed)"},
		{"installed", "installed 1.2.0 linux_amd64 self-signed", "", "", "", "1.2.0", "chose 1.2.0"},
		{"installed, but unverified", "installed 1.3.0 linux_amd64 unverified; stored 1.2.0 linux_amd64 self-signed", "", "", "", "1.2.0", "skipped 1.3.0 (unverified)"},
		{"installed and damaged, stored and whole", "installed 1.2.0 linux_amd64 self-signed !; stored 1.2.0 linux_amd64 self-signed", "", "", "", "1.2.0", "chose 1.2.0, the newest verified version on this machine; --offline"},
		{"nothing", "", "~> 1.0", "", "", "", `no version is locked, and choosing a version that matches "~> 1.0" needs the network (--offline)`},
		{"nothing that fits", "stored 1.2.0 linux_amd64 unverified; stored 2.0.0 linux_amd64 self-signed; installed 1.1.0 darwin_arm64 self-signed", "~> 1.0", "", "", "", "this machine has 2.0.0 (not allowed), 1.2.0 (unverified), 1.1.0 (not for linux_amd64)"},
		{"many", many(12), "", "", "", "", "1.3.0 (unverified) and 2 older"},
		{"an upgrade", "stored 1.2.0 linux_amd64 self-signed", "", "1.1.0", "", "1.2.0", "chose 1.2.0"},
		{"no downgrade", "stored 1.2.0 linux_amd64 self-signed", "", "1.3.0", "", "", "widget 1.3.0 linux_amd64 is not on this machine"},
		{"a locked version that is not allowed", "stored 1.2.0 linux_amd64 self-signed", "~> 1.0", "2.3.0", "", "1.2.0", "chose 1.2.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.source.offline = true
			f.require("widget", c.constraints)
			for what := range strings.SplitSeq(c.here, "; ") {
				if what != "" {
					f.put(what)
				}
			}
			if c.locked != "" {
				f.lock("widget " + c.locked)
				f.opts.Upgrade = true
			}
			if c.platforms != "" {
				f.opts.Platforms = nil
				for p := range strings.FieldsSeq(c.platforms) {
					f.opts.Platforms = append(f.opts.Platforms, platform(p))
				}
			}
			result, err := f.install()
			if c.want == "" {
				sourcetest.Require(t, err != nil, "chose %s", outcome(result))
				sourcetest.Expect(t, strings.Contains(err.Error(), c.says), "failed: %v", err)
				return
			}
			f.must(err)
			for _, o := range result.Packages {
				sourcetest.Expect(t, o.Package.ID.Version.String() == c.want && o.Offline, "got %+v", o)
			}
			sourcetest.Expect(t, strings.HasPrefix(f.locked(), "widget "+c.want), "locked %s", f.locked())
			warnings := f.warnings()
			sourcetest.Expect(t, len(warnings) == 1 && strings.Contains(warnings[0], c.says), "warned %q", warnings)
			sourcetest.Expect(t, !strings.Contains(f.source.log(), "package"), "asked %s", f.source.log())
		})
	}
}

// A required signature is required offline, too.
func TestChooseOfflineSigned(t *testing.T) {
	f := newFixture(t)
	f.source.offline, f.opts.Judge.Require = true, trust.RequireSigned
	f.require("widget", "")
	f.put("stored 1.2.0 linux_amd64 hash only")
	_, err := f.install()
	f.failsWith(err, "this machine has 1.2.0 (not signed as required)")
	signed := id("widget 1.1.0 linux_amd64")
	f.source.add("widget 1.1.0 linux_amd64", signedAsPublished)
	f.store.entries[signed] = sources.Stored{
		ID: signed, Dir: "somewhere", H1: h1("widget"), ZH: f.source.packages[signed].Hashes[0],
		Signed: f.source.packages[signed].Signed,
	}
	result := sourcetest.Must(f.install())(t)
	sourcetest.Equal(t, outcome(result), "widget 1.1.0 linux_amd64: from the cache, self-signed")

	f.root.Lock, f.opts.Judge.Require = &lockfile.File{}, trust.RequireNothing
	delete(f.store.entries, id("widget 1.2.0 linux_amd64"))
	clear(f.store.installed)
	f.opts.Judge.Options.Policy = &policy.Policy{Rules: []policy.Rule{{Setting: policy.TrustedKeys, Layer: policy.User, Keys: []sources.TrustedKeys{{Providers: sources.Pattern{Host: "*", Namespace: "*", Type: "*"}, Keys: []sources.Fingerprint{"0123456789ABCDEF0123456789ABCDEF01234567"}}}}}}
	_, err = f.install()
	f.failsWith(err, "this machine has 1.1.0 (signed by ")
}

// signedAsPublished signs a package with a key that its registry listed.
func signedAsPublished(p *sources.Package) {
	signed(p)
	for i, key := range p.Signed.Keys {
		p.Signed.Keys[i] = key.AsListed(true)
	}
}

// many returns stored packages of versions 1.1.0 to 1.N.0.
func many(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("stored 1.%d.0 linux_amd64 unverified", i+1))
	}
	return strings.Join(all, "; ")
}

// put puts a package into the store or the working directory: WHERE VERSION OS_ARCH VERDICT[ !].
func (f *fixture) put(what string) {
	f.t.Helper()
	where, rest, _ := strings.Cut(what, " ")
	version, rest, _ := strings.Cut(rest, " ")
	platform, verdict, _ := strings.Cut(rest, " ")
	verdict, damaged := strings.CutSuffix(verdict, " !")
	id := id("widget " + version + " " + platform)
	s := sources.Stored{ID: id, Dir: "somewhere", H1: h1(fmt.Sprint(id))}
	index := slices.Index(sources.Texts(sourcetest.AllVerdicts), verdict)
	sourcetest.Require(f.t, index >= 0, "unknown verdict %q", verdict)
	s.Proof = proven(id, sourcetest.AllVerdicts[index])
	if damaged {
		s.Differs = h1("before")
	}
	if where == "installed" {
		f.store.installed[filepath.Join(f.root.DataDir, "providers", filepath.FromSlash(id.Path()))] = s
		return
	}
	f.store.entries[id] = s
}

// warnings returns the texts of all warnings.
func (f *fixture) warnings() []string { return f.told(acquire.Warned) }

// told returns the texts of the events of a step.
func (f *fixture) told(step acquire.Step) (all []string) {
	for _, e := range f.events {
		if e.Step == step {
			all = append(all, e.Text)
		}
	}
	return all
}

// A selection for the cache follows the same rules, for any number of versions.
func TestSelectOffline(t *testing.T) {
	f := newFixture(t)
	f.source.offline = true
	for _, what := range []string{"stored 1.0.0 linux_amd64 hash only", "stored 1.1.0 linux_amd64 unverified", "stored 1.2.0 linux_amd64 self-signed", "stored 1.3.0 linux_amd64 self-signed"} {
		f.put(what)
	}
	for _, c := range []struct {
		opts installer.SelectOptions
		want string
	}{
		{installer.SelectOptions{}, "widget 1.3.0 linux_amd64"},
		{installer.SelectOptions{Newest: 2}, "widget 1.2.0 linux_amd64, widget 1.3.0 linux_amd64"},
		{installer.SelectOptions{All: true}, "widget 1.0.0 linux_amd64, widget 1.2.0 linux_amd64, widget 1.3.0 linux_amd64"},
	} {
		in := f.installer()
		selected := sourcetest.Must(in.Select(t.Context(), []installer.Want{want("main.tf", "widget")}, c.opts))(t)
		sourcetest.Equal(t, selection(selected), c.want)
		filled := sourcetest.Must(in.Fill(t.Context(), selected, installer.FillOptions{}))(t)
		for _, got := range filled {
			sourcetest.Expect(t, got.Outcome.How == installer.FromStore && got.Outcome.Offline, "got %+v", got)
		}
	}
}
