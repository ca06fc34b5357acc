package sources_test

import (
	"strings"
	"testing"

	"github.com/apparentlymart/go-versions/versions"
	ruby "github.com/apparentlymart/go-versions/versions/constraints"
	goversion "github.com/hashicorp/go-version"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

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
		if got, want := c.Allow(v), want.Has(ov); got != want {
			t.Errorf("%q allows %s: got %v, want %v", s, v, got, want)
		}
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
				v, err := sources.ParseVersion(text)
				check(t, err)
				ov, _ := oracleVersion(text)
				sourcetest.Equal(t, c.Allow(v), set.Has(ov), s, "allows", v)
			}
		}
	}
}
