package sources_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var provider, version = sourcetest.Address, sourcetest.Number

func constraints(t *testing.T, s string) sources.Constraints {
	t.Helper()
	c, err := sources.ParseConstraints(s)
	check(t, err)
	return c
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

func TestAllow(t *testing.T) {
	for _, tt := range []struct{ constraints, allowed, refused string }{
		{"= 1.5.0-rc1, >= 1.4.0", "1.5.0-rc1", "1.5.0"},
		{"= 1.5.0-rc1, ~> 1.0", "1.5.0-rc1", ""},
		{"= 1.5.0-rc1, >= 1.5.0-rc1", "1.5.0-rc1", ""},
		{"= 1.5.0-rc1, ~> 1.5.0-rc1, != 1.5.0, < 2.0", "1.5.0-rc1", ""},
		{"= 1.5.0-rc1, >= 1.5.0", "", "1.5.0-rc1 1.5.0"},
		{"= 1.5.0-rc1, ~> 1.5.0", "", "1.5.0-rc1"},
		{"= 1.5.0-rc1, > 1.5.0-rc1", "", "1.5.0-rc1"},
		{"= 1.5.0-rc1, = 1.4.0", "", "1.5.0-rc1 1.4.0"},
		{"= 2.0.0-beta1, ~> 1.0", "2.0.0-beta1", ""},
		{"= 2.0.0-beta1, < 2.0.0", "2.0.0-beta1", ""},
		{">= 1.0.0-beta1", "1.0.0 1.0.1 2.0.0", "1.0.0-beta1 1.0.0-beta2 2.0.0-a"},
		{"~> 1.0.0-beta1", "1.0.0 1.0.1", "1.0.0-beta1 1.0.0-beta2 1.1.0"},
		{"< 1.0.0-beta2", "0.9.0", "1.0.0-beta1 1.0.0"},
		{"!= 1.0.0", "1.0.1 1.0.0+a", "1.0.0 1.0.0-a"},
		{"!= 2.0.0-beta1, 2.0.0-beta1", "", "2.0.0-beta1"},
		{"~> 1", "1.0.0 1.9.0", "0.9.0 2.0.0"},
		{"~> 0", "0.1.0 0.9.9", "1.0.0"},
		{"~> 0.1", "0.1.0 0.9.0", "1.0.0 0.0.9"},
		{"~> 1.2.3", "1.2.3 1.2.9", "1.3.0 1.2.2"},
		{"1.0.0", "1.0.0", "1.0.0+a 1.0.1"},
		{"1.0.0+b", "1.0.0+b", "1.0.0 1.0.0+a"},
		{">= 1.0.0+b", "1.0.0 1.0.0+a", "0.9.0"},
		{"0.0.0", "", "0.0.0"},
		{">= 0.0.0", "0.0.1 0.0.0+x", "0.0.0"},
		{"0.0.0-a", "0.0.0-a", "0.0.0"},
		{">= 2.0, < 1.0", "", "1.0.0 1.5.0 2.0.0"},
	} {
		checkAllow(t, constraints(t, tt.constraints), tt.allowed, tt.refused)
	}
	checkAllow(t, sources.Constraints{}, "1.0.0 0.0.1 0.0.0+x", "0.0.0 1.0.0-a")
	sourcetest.Expect(t, !(sources.Constraints{}).Allow(sources.Version{}), "no version at all is allowed")
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
