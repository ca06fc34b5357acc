package sources_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/apparentlymart/go-versions/versions"
	ruby "github.com/apparentlymart/go-versions/versions/constraints"
	goversion "github.com/hashicorp/go-version"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var provider, version = sourcetest.Address, sourcetest.Number

func constraints(t *testing.T, s string) sources.Constraints {
	t.Helper()
	return sourcetest.Must(sources.ParseConstraints(s))(t)
}

// hinted reports whether a hint of err contains want.
func hinted(err error, want string) bool {
	return slices.ContainsFunc(sources.Hints(err), func(h string) bool { return strings.Contains(h, want) })
}

func TestCanonicalConstraints(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"1.0", "1.0.0"}, {"=1.0", "1.0.0"}, {"= 1.0", "1.0.0"}, {" 1.0 ", "1.0.0"}, {"1", "1.0.0"},
		{">=1.0\n", ">= 1.0.0"}, {">= 1.0 ,\n< 2.0", ">= 1.0.0, < 2.0.0"}, {">= 1.0,< 2.0", ">= 1.0.0, < 2.0.0"},
		{"~> 1", "~> 1.0"}, {"~> 1.0", "~> 1.0"}, {"~> 1.2.0", "~> 1.2.0"}, {"01.02.03", "1.2.3"},
		{"1.0-beta1", "1.0.0-beta1"}, {"1-beta", "1.0.0-beta"}, {"~> 1-beta", "~> 1.0-beta"},
		{"1.0.0-", "1.0.0"}, {"1.0.0--", "1.0.0--"}, {"1.0.0-01", "1.0.0-01"}, {"1.0.0-beta.01", "1.0.0-beta.01"},
		{"1.0.0+meta", "1.0.0+meta"}, {">= 1.0.0+meta", ">= 1.0.0+meta"}, {"1.0.0-alpha+001", "1.0.0-alpha+001"},
		{"> 1.0.0, < 1.0.0, >= 1.0.0, <= 1.0.0, != 1.0.0", "> 1.0.0, >= 1.0.0, <= 1.0.0, < 1.0.0, != 1.0.0"},
		{">= 1.2.3, 1.2.3, ~> 1.2, 1.2.3", "~> 1.2, >= 1.2.3, 1.2.3"},
		{">= 2.68, >= 2.68.0", ">= 2.68.0"},
		{"~> 1.2, >= 1.2, 1.2.4", ">= 1.2.0, ~> 1.2, 1.2.4"},
		{">= 2, >= 1.2, < 1.3", ">= 1.2.0, < 1.3.0, >= 2.0.0"},
		{
			"~> 1.2, ~> 1.2.0, >= 1.2, > 1.1.9, < 9, <= 1.2.5, != 1.2, =1.2.5",
			"> 1.1.9, >= 1.2.0, ~> 1.2.0, ~> 1.2, != 1.2.0, 1.2.5, <= 1.2.5, < 9.0.0",
		},
		{">=1.0.0+b,>=1.0.0+a", ">= 1.0.0+a, >= 1.0.0+b"},
		{">= 1.0.0-beta, >=1.0.0-alpha, >= 1.0.0", ">= 1.0.0-alpha, >= 1.0.0-beta, >= 1.0.0"},
		{"1.2.3-beta+foo.bar", "1.2.3-beta+foo.bar"},
		// The order of terraform 1.11: text with more identifiers comes last.
		{
			"= 1.0.0-b, > 1.0.0+x, < 1.0.0+a, >= 1.0.0-b, >= 1.0.0-a.1, != 1.0.0+10, != 1.0.0+9, != 1.0.0+x.1, ~> 1.0.0-z",
			">= 1.0.0-b, 1.0.0-b, ~> 1.0.0-z, >= 1.0.0-a.1, != 1.0.0+9, != 1.0.0+10, < 1.0.0+a, > 1.0.0+x, != 1.0.0+x.1",
		},
	} {
		sourcetest.Equal(t, constraints(t, tt.in).String(), tt.want, tt.in)
	}
}

func TestRejectedConstraints(t *testing.T) {
	for _, tt := range []struct{ in, hint string }{
		{">=  1.0", "one space"}, {">=\t1.0", "one space"}, {"v1.0", "write it as 1.0"}, {">= v1.0", "write it as 1.0"},
		{">=v1.2.3-a", "write it as 1.2.3-a"}, {"1.2.3.4", ""}, {"~>1.2.3.4", ""}, {"1.0.0beta1", "dash"}, {"1.0.0-~a", ""},
		{"", "leave out"}, {" ", "leave out"}, {">= 1.0,", "no comma after the last"}, {",>= 1.0", ""}, {">= 1.0,,< 2", ""},
		{">=", "leave out"}, {"1.0.", ""}, {".1", ""}, {"1.0.0-a..b", ""}, {"9223372036854775808", ""}, {"18446744073709551616", ""},
		{"==1.0", `"="`}, {"=> 1.0", `">="`}, {"=< 1.0", `"<="`}, {"<> 1.0", `"!="`}, {"!1.0", `"!="`}, {"~1.0", `"~>"`},
		{"^1.0", `"~>"`}, {"1.x", "~> 1.0"}, {"1.*", "~> 1.0"}, {"*", "~> 1.0"}, {">= 1.*", "~> 1.0"}, {"latest", ""}, {"-1.0", ""},
		{"1. 0", ""}, {"1.0.0-a_b", ""}, {">= 1.0 < 2.0", "comma"}, {"1.0 - 2.0", "comma"}, {"1.0 || 2.0", "!="}, {"\v1.0", ""},
	} {
		_, err := sources.ParseConstraints(tt.in)
		if err == nil {
			t.Errorf("%q: accepted", tt.in)
		} else if tt.hint != "" && !hinted(err, tt.hint) {
			t.Errorf("%q: hints are %q, want one with %q", tt.in, sources.Hints(err), tt.hint)
		}
	}
}

func checkAllow(t *testing.T, c sources.Constraints, allowed, refused string) {
	t.Helper()
	for s := range strings.FieldsSeq(allowed) {
		sourcetest.Expect(t, c.Allow(version(t, s)), "%q refuses %s", c, s)
	}
	for s := range strings.FieldsSeq(refused) {
		sourcetest.Expect(t, !c.Allow(version(t, s)), "%q allows %s", c, s)
	}
}

func TestAndIsTheIntersection(t *testing.T) {
	a, b := constraints(t, ">= 1.0"), constraints(t, "< 2.0, >= 1.0.0")
	both := a.And(b)
	sourcetest.Equal(t, both.String(), ">= 1.0.0, < 2.0.0")
	checkAllow(t, both, "1.0.0 1.9.0", "0.9.0 2.0.0")
	sourcetest.Expect(t, (sources.Constraints{}).And(sources.Constraints{}).Empty() && !both.Empty(),
		"Empty is wrong about what And returns")
	sourcetest.Equal(t, (sources.Constraints{}).And(a).String(), ">= 1.0.0", "nothing and", a)
	checkAllow(t, sources.Constraints{}, "1.0.0 0.0.1 0.0.0+x", "0.0.0 1.0.0-a")
	sourcetest.Expect(t, !(sources.Constraints{}).Allow(sources.Version{}), "no version at all is allowed")
}

func TestNewest(t *testing.T) {
	for _, tt := range []struct{ constraints, versions, want string }{
		{">= 1.0", "1.0.0 1.10.0 1.9.0 2.0.0-rc1 0.0.0", "1.10.0"},
		{"~> 1.0", "2.0.0 1.0.0", "1.0.0"},
		{"2.0.0-rc1", "2.0.0 2.0.0-rc1", "2.0.0-rc1"},
		{">= 3.0", "1.0.0", ""},
		{">= 1.0", "1.0.0+b 1.0.0 1.0.0+a", "1.0.0+b"},
		{">= 0", "0.0.0", ""},
	} {
		var vs []sources.Version
		for s := range strings.FieldsSeq(tt.versions) {
			vs = append(vs, version(t, s))
		}
		got, ok := constraints(t, tt.constraints).Newest(vs)
		sourcetest.Expect(t, got.String() == tt.want && ok == (tt.want != ""),
			"%s of %s: got %q, %v, want %q", tt.constraints, tt.versions, got, ok, tt.want)
	}
}

func TestVersions(t *testing.T) {
	for _, tt := range []struct{ in, want string }{ // want is empty for an error
		{"1.0.0", "1.0.0"}, {"1", "1.0.0"}, {"3.0", "3.0.0"}, {"01.002.3", "1.2.3"}, {"1.0.0-", "1.0.0"},
		{"18446744073709551615.0.0", "18446744073709551615.0.0"}, {"18446744073709551616.0.0", ""},
		{"1-beta.1+b.2", "1.0.0-beta.1+b.2"}, {"1.0.0+a-b", "1.0.0+a-b"}, {"0.0.0", "0.0.0"},
		{"", ""}, {"v1.0.0", ""}, {" 1.0.0", ""}, {"1.0.0 ", ""}, {"1.2.3.4", ""}, {"= 1.0", ""}, {"1.x", ""}, {"1.0.0-a_b", ""},
		{"1.0.0-..", ""}, {"1.0.0/..", ""}, {"1.", ""}, {"1.0.0+", ""}, {"..", ""}, {"1.0.0-é", ""}, {"１.0.0", ""},
	} {
		got, err := sources.ParseVersion(tt.in)
		sourcetest.Expect(t, got.String() == tt.want && (err == nil) == (tt.want != ""),
			"%q: got %q, %v, want %q", tt.in, got, err, tt.want)
	}
}

func TestVersionOrder(t *testing.T) {
	// The order of Semantic Versioning, then of the text of build metadata.
	ascending := strings.Fields(`0.0.0-a 0.0.0 0.0.1 0.10.0 1.0.0-1 1.0.0-9 1.0.0-10 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta
		1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0 1.0.0+a 1.0.0+b 1.0.1 1.9.0 1.10.0 2.0.0-rc 2.0.0 10.0.0`)
	for i, a := range ascending {
		for j, b := range ascending {
			got := version(t, a).Compare(version(t, b))
			sourcetest.Expect(t, (got < 0) == (i < j) && (got > 0) == (i > j), "%s compared with %s is %d", a, b, got)
		}
	}
}

// The engines parse versions and interpret constraints with go-versions. Larder
// must accept the same texts and give them the same meaning, apart from the
// exceptions that the functions below name.

// oracleVersion returns the version that the engines parse from s, and false if
// they reject it.
func oracleVersion(s string) (v versions.Version, ok bool) {
	defer func() {
		if recover() != nil { // a number was too large
			ok = false
		}
	}()
	v, err := versions.ParseVersion(s)
	return v, err == nil
}

// oracleConstraints returns the constraints that the engines parse from s with
// their two parsers.
func oracleConstraints(s string) (spec ruby.IntersectionSpec, ok bool) {
	if _, err := goversion.NewConstraint(s); err != nil {
		return nil, false
	}
	for item := range strings.SplitSeq(s, ",") {
		one, err := ruby.ParseRubyStyleMulti(item)
		if err != nil {
			return nil, false
		}
		spec = append(spec, one...)
	}
	return spec, true
}

// malformed reports whether s has an empty number or identifier. The engines
// accept those; Larder rejects them, because a version is used as the name of a
// directory.
func malformed(s string) bool {
	for item := range strings.SplitSeq(s, ",") {
		core, build, hasBuild := strings.Cut(strings.TrimSpace(item), "+")
		core, prerelease, _ := strings.Cut(core, "-")
		for _, text := range []string{core, prerelease, build} {
			if strings.HasPrefix(text, ".") || strings.HasSuffix(text, ".") || strings.Contains(text, "..") {
				return true
			}
		}
		if hasBuild && build == "" {
			return true
		}
	}
	return false
}

var versionSeeds = []string{
	"1.0", "1", "01.02.03", "1.0-beta1", "1.0.0-", "1.0.0--", "1.0.0-01", "1.0.0+meta", "1.0.0-alpha+001",
	"v1.0", "1.2.3.4", "1.0.0beta1", "1.0.0-~a", "", " ", "1.0.", ".1", "1..2", "1.0.0-a..b", "1.0.0-.a", "1.0.0-a.",
	"1.0.0+", "1.0.0-+a", "9223372036854775808", "18446744073709551615", "18446744073709551616", "0.0.0", "0.0.0-a",
	"0.0.0+x", "1.x", "*", " 1.0", "1.0 ", ">= 1.0", "1.0.0-a_b", "1.0.0+a+b", "1.0.0+a-b", "1.2.3-beta+foo.bar", "é",
	"1.0.0-9", "1.0.0-10", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0-rc.1", "2.0.0-beta1", "1.5.0-rc1", "1.4.9", "2",
}

func FuzzVersion(f *testing.F) {
	for _, s := range versionSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := sources.ParseVersion(s)
		want, ok := oracleVersion(s)
		sourcetest.Require(t, ok == (err == nil) || malformed(s),
			"%q: got error %v, but the engines' acceptance is %v", s, err, ok)
		if err != nil {
			return
		}
		sourcetest.Equal(t, v.String(), want.String(), s, v, want)
		sourcetest.Equal(t, v.Prerelease(), want.Prerelease != "", s, "pre-release is")
		again, err := sources.ParseVersion(v.String())
		sourcetest.Expect(t, err == nil && again == v, "%q: %s parsed again is %s, %v", s, v, again, err)
	})
}

var constraintSeeds = []string{
	"1.0", "=1.0", "= 1.0", " 1.0 ", "1", ">=1.0\n", ">= 1.0 , < 2.0", "~> 1", "~> 1.2", "~> 1.2.3", "~> 0", "~> 1-beta",
	"01.02.03", "1.0.0-", "1.0.0--", ">= 1.0.0+meta", ">=  1.0", ">=\t1.0", ">= v1.0", "~>1.2.3.4", "1.0.0-~a", ">= 1.0,",
	"9223372036854775807", "9223372036854775808", "==1.0", "=> 1.0", "=< 1.0", "<> 1.0", "~1.0", "^1.0", "1.*", "1.0 - 2.0",
	"= 1.5.0-rc1, >= 1.4.0", "= 2.0.0-beta1, ~> 1.0", "= 2.0.0-beta1, < 2.0.0", "!= 2.0.0-beta1, 2.0.0-beta1",
	"!= 1.0.0, >= 0", "1.0.0+b", "0.0.0", "0.0.0-a", "> 1.0.0-beta, 1.0.0-alpha.1", "~> 1.0.0-beta1", "> 1.0.0-a, = 2.0.0-1",
	"\u00a01.0", "\v1.0", "1.0\f", "!= 1.2, =1.2.5", "~> 9223372036854775807.9223372036854775807.1",
}

func FuzzConstraints(f *testing.F) {
	for i, s := range constraintSeeds {
		f.Add(s, versionSeeds[i%len(versionSeeds)])
	}
	f.Fuzz(func(t *testing.T, s, version string) {
		if len(s) > 200 {
			t.Skip("every item is tried against every other")
		}
		c, err := sources.ParseConstraints(s)
		spec, ok := oracleConstraints(s)
		sourcetest.Require(t, ok == (err == nil) || malformed(s),
			"%q: got error %v, but the engines' acceptance is %v", s, err, ok)
		if err != nil {
			return
		}
		canonical := c.String()
		again, err := sources.ParseConstraints(canonical)
		sourcetest.Expect(t, err == nil && again.String() == canonical, "%q: %q parsed again is %q, %v", s, canonical, again, err)
		checkAllowed(t, s, c, again, versions.MeetingConstraints(spec), version)
	})
}

// checkAllowed compares the versions that c and its canonical form allow with
// those that the engines allow.
func checkAllowed(t *testing.T, s string, c, again sources.Constraints, want versions.Set, version string) {
	t.Helper()
	candidates := append([]string{version}, versionSeeds...)
	for item := range strings.SplitSeq(s, ",") { // mistakes are most likely at the boundaries
		candidates = append(candidates, strings.TrimLeft(item, " =!<>~"))
	}
	for _, text := range candidates {
		v, err := sources.ParseVersion(text)
		if err != nil {
			continue
		}
		ov, ok := oracleVersion(text)
		sourcetest.Require(t, ok, "%q is no version to the engines", text)
		sourcetest.Equal(t, c.Allow(v), want.Has(ov), s, "allows", v)
		sourcetest.Expect(t, c.Allow(v) == again.Allow(v), "%q: canonical %q differs in whether it allows %s", s, again, v)
	}
}

func TestConstraintsMeanTheSameAsInTheEngines(t *testing.T) {
	operators := []string{"", "=", "!=", ">", ">= ", "<", "<=", "~> "}
	boundaries := []string{"0", "1", "1.0.0", "1.2", "1.2.3", "1.2.3-a", "1.2.3-a.1", "1.2.3-b", "1.2.3+x", "2-rc1", "0.0.0-a"}
	candidates := append([]string{"0.0.0", "0.0.0-a", "0.0.1", "1.2.4", "1.3.0", "2.0.0-rc1", "2", "1.3.0-a", "1.2.3+y"}, boundaries...)
	var items []string
	for _, op := range operators {
		for _, boundary := range boundaries {
			items = append(items, op+boundary)
		}
	}
	for _, a := range items {
		for _, b := range items {
			s := a + "," + b
			c, err := sources.ParseConstraints(s)
			sourcetest.Require(t, err == nil, "%q: %v", s, err)
			spec, _ := oracleConstraints(s)
			set := versions.MeetingConstraints(spec)
			for _, text := range candidates {
				v := sourcetest.Must(sources.ParseVersion(text))(t)
				ov, _ := oracleVersion(text)
				sourcetest.Equal(t, c.Allow(v), set.Has(ov), s, "allows", v)
			}
		}
	}
}
