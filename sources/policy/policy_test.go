package policy_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func patterns(t *testing.T, texts ...string) (all []sources.Pattern) {
	t.Helper()
	for _, text := range texts {
		pt := sourcetest.Must(sources.ParsePattern(text))(t)
		all = append(all, pt)
	}
	return all
}

func provider(t *testing.T, address string, e sources.Engine) sources.Provider {
	t.Helper()
	return sourcetest.Must(sources.ParseProvider(address, e))(t)
}

var version = sourcetest.Number

func constraints(t *testing.T, text string) sources.Constraints {
	t.Helper()
	return sourcetest.Must(sources.ParseConstraints(text))(t)
}

// An address can be spelled in several ways, and each engine has its own default registry. A rule holds for all of these.
func TestSpellings(t *testing.T) {
	for _, tt := range []struct {
		pattern, address string
		engine           sources.Engine
		want             bool
	}{
		{"hashicorp/aws", "hashicorp/aws", sources.Terraform, true},
		{"hashicorp/aws", "hashicorp/aws", sources.OpenTofu, true},
		{"hashicorp/aws", "aws", sources.Terraform, true},
		{"hashicorp/aws", "aws", sources.OpenTofu, true},
		{"hashicorp/aws", "HashiCorp/AWS", sources.Terraform, true},
		{"HashiCorp/AWS", "hashicorp/aws", sources.Terraform, true},
		{"hashicorp/aws", "registry.terraform.io/hashicorp/aws", sources.OpenTofu, true},
		{"hashicorp/aws", "registry.opentofu.org/hashicorp/aws", sources.Terraform, true},
		{"hashicorp/aws", "registry.terraform.io:443/hashicorp/aws", sources.Terraform, true},
		{"hashicorp/aws", "Registry.Terraform.IO:0443/hashicorp/aws", sources.Terraform, true},
		{"hashicorp/aws", "registry.terraform.io./hashicorp/aws", sources.Terraform, true},
		{"hashicorp/aws", "registry.opentofu.org.:443/hashicorp/aws", sources.OpenTofu, true},
		{"hashicorp/aws", "registry。terraform.io/ｈashicorp/aws", sources.Terraform, true},
		{"hashicorp/aws", "registry.terraform.io/hashi\u200bcorp/aws", sources.Terraform, true},
		{"registry.example.com:443/acme/*", "registry.example.com/acme/widget", sources.Terraform, true},
		{"registry.example.com./acme/*", "registry.example.com/acme/widget", sources.Terraform, true},
		{"registry.example.com:8443/acme/*", "registry.example.com.:8443/acme/widget", sources.Terraform, true},
		{"bücher.example/acme/*", "Bücher.example./acme/widget", sources.OpenTofu, true},
		{"registry.example.com/*/*", "registry.example.com/acme/widget", sources.OpenTofu, true},
		{"*/*/*", "registry.example.com/acme/widget", sources.OpenTofu, true},

		{"hashicorp/aws", "registry.example.com/hashicorp/aws", sources.Terraform, false},
		{"hashicorp/aws", "hashicorp/awscc", sources.Terraform, false},
		{"*/*", "registry.example.com/acme/widget", sources.Terraform, false},
		{"registry.terraform.io/acme/widget", "acme/widget", sources.OpenTofu, false},
		{"registry.example.com/acme/*", "registry.example.com:8443/acme/widget", sources.Terraform, false},
	} {
		p := provider(t, tt.address, tt.engine)
		allow := &policy.Policy{Rules: []policy.Rule{{Setting: policy.Allow, Providers: patterns(t, tt.pattern)}}}
		deny := &policy.Policy{Rules: []policy.Rule{{Setting: policy.Deny, Providers: patterns(t, tt.pattern)}}}
		keys := &policy.Policy{Rules: []policy.Rule{{Setting: policy.TrustedKeys, Keys: []sources.TrustedKeys{{Providers: patterns(t, tt.pattern)[0], Keys: []sources.Fingerprint{"AB"}}}}}}
		_, signed := keys.SignedBy(p)
		got := [3]bool{allow.CheckProvider(p) == nil, deny.CheckProvider(p) != nil, signed}
		sourcetest.Equal(t, got, [3]bool{tt.want, tt.want, tt.want}, tt.pattern, tt.address, string(tt.engine))
	}
}

// ages has fixed ages of versions.
type ages map[string]time.Duration

// See notes nothing.
func (ages) See(context.Context, sources.Provider, sources.Listing) {}

// Learn makes the versions a hundred days old.
func (a ages) Learn(_ context.Context, _ sources.Provider, versions ...sources.Version) error {
	for _, v := range versions {
		a[v.String()] = 100 * 24 * time.Hour
	}
	return nil
}

func (a ages) Of(_ sources.Provider, v sources.Version) policy.Age {
	return policy.Age{Known: true, AtLeast: a[v.String()], Stated: true}
}

func TestCheck(t *testing.T) {
	day := 24 * time.Hour
	known := ages{"1.0.0": 100 * day, "1.1.0": 8 * day, "2.0.0": day}
	widget := policy.Rule{Setting: policy.Versions, Providers: patterns(t, "acme/widget")}
	with := func(text string) policy.Rule {
		r := widget
		r.Matching, r.Text = constraints(t, text), text
		return r
	}
	for _, tt := range []struct {
		name  string
		rules []policy.Rule
		want  string // the versions that are allowed
	}{
		{"no rule", nil, "1.0.0 1.1.0 1.1.0+x 2.0.0-rc1 2.0.0"},
		{"a blocked release", []policy.Rule{with("!= 1.1.0")}, "1.0.0 2.0.0-rc1 2.0.0"},
		{"a range", []policy.Rule{with(">= 1.1.0, < 2.0.0")}, "1.1.0 1.1.0+x 2.0.0-rc1"},
		{"two ranges", []policy.Rule{with(">= 1.1.0"), with("< 1.5.0")}, "1.1.0 1.1.0+x"},
		{"another provider", []policy.Rule{{Setting: policy.Versions, Providers: patterns(t, "acme/gadget"), Matching: constraints(t, "9.9.9")}}, "1.0.0 1.1.0 1.1.0+x 2.0.0-rc1 2.0.0"},
		{"an age", []policy.Rule{{Setting: policy.MinAge, Age: 7 * day}}, "1.0.0 1.1.0"},
		{"two ages", []policy.Rule{{Setting: policy.MinAge, Age: 7 * day}, {Setting: policy.MinAge, Age: 30 * day}}, "1.0.0"},
		{"an age with an exception", []policy.Rule{{Setting: policy.MinAge, Age: 30 * day, Except: patterns(t, "acme/*")}}, "1.0.0 1.1.0 1.1.0+x 2.0.0-rc1 2.0.0"},
		{"an exception of one of two rules", []policy.Rule{{Setting: policy.MinAge, Age: 30 * day, Except: patterns(t, "acme/*")}, {Setting: policy.MinAge, Age: 7 * day}}, "1.0.0 1.1.0"},
		{"allowed and denied", []policy.Rule{{Setting: policy.Allow, Providers: patterns(t, "acme/widget")}, {Setting: policy.Deny, Providers: patterns(t, "acme/*")}}, ""},
		{"not in one of two lists", []policy.Rule{{Setting: policy.Allow, Providers: patterns(t, "acme/widget")}, {Setting: policy.Allow, Providers: patterns(t, "hashicorp/*")}}, ""},
		{"platforms and engines", []policy.Rule{{Setting: policy.Platforms}, {Setting: policy.Engines}}, "1.0.0 1.1.0 1.1.0+x 2.0.0-rc1 2.0.0"},
	} {
		p := &policy.Policy{Rules: tt.rules, Ages: known}
		var allowed []string
		for _, v := range []string{"1.0.0", "1.1.0", "1.1.0+x", "2.0.0-rc1", "2.0.0"} {
			if p.Check(provider(t, "acme/widget", sources.Terraform), version(t, v)) == nil {
				allowed = append(allowed, v)
			}
		}
		sourcetest.Equal(t, strings.Join(allowed, " "), tt.want, tt.name)
	}
}

// Nothing is asked about versions that are known to be old enough.
func TestLearn(t *testing.T) {
	known := ages{"1.0.0": 8 * 24 * time.Hour, "1.1.0": 2 * 24 * time.Hour}
	week, hour := policy.Rule{Setting: policy.MinAge, Age: 7 * 24 * time.Hour}, policy.Rule{Setting: policy.MinAge, Age: time.Hour}
	learn := func(rules ...policy.Rule) {
		p := &policy.Policy{Rules: rules, Ages: known}
		sourcetest.Check(t, p.Learn(t.Context(), provider(t, "acme/widget", sources.Terraform), version(t, "1.0.0"), version(t, "1.1.0")))
	}
	learn()
	learn(hour)
	sourcetest.Equal(t, known["1.1.0"], 2*24*time.Hour)
	learn(week, hour)
	sourcetest.Equal(t, known["1.0.0"], 8*24*time.Hour)
	sourcetest.Equal(t, known["1.1.0"], 100*24*time.Hour)
}

// one is the age of every version.
type one policy.Age

func (one) Learn(context.Context, sources.Provider, ...sources.Version) error { return nil }
func (one) See(context.Context, sources.Provider, sources.Listing)            {}
func (o one) Of(sources.Provider, sources.Version) policy.Age                 { return policy.Age(o) }

// A locked version passes a rule about ages only if it is known, no dates are stated, and no violated rule is strict. Only
// a lock file makes it pass, and its packages only after that.
func TestLocked(t *testing.T) {
	day := 24 * time.Hour
	rule := func(age time.Duration, strict bool) policy.Rule {
		return policy.Rule{Setting: policy.MinAge, Age: age, Strict: strict}
	}
	undated := policy.Age{Known: true, AtLeast: 2 * day, Undated: true}
	for _, tt := range []struct {
		name  string
		age   policy.Age
		rules []policy.Rule
		want  bool
	}{
		{"no dates are stated", undated, []policy.Rule{rule(7*day, false)}, true},
		{"no source vouches for it", policy.Age{Undated: true}, []policy.Rule{rule(7*day, false)}, false},
		{"other versions have dates", policy.Age{Known: true, AtLeast: 2 * day}, []policy.Rule{rule(7*day, false)}, false},
		{"it has a date", policy.Age{Known: true, AtLeast: 2 * day, Stated: true}, []policy.Rule{rule(7*day, false)}, false},
		{"strict", undated, []policy.Rule{rule(7*day, true)}, false},
		{"one is strict", undated, []policy.Rule{rule(9*day, false), rule(7*day, true)}, false},
		{"a strict one is met", undated, []policy.Rule{rule(7*day, false), rule(day, true)}, true},
		{"another rule", undated, []policy.Rule{rule(7*day, false), {Setting: policy.Deny, Providers: patterns(t, "acme/*")}}, false},
	} {
		p := &policy.Policy{Rules: tt.rules, Ages: one(tt.age), Accepted: new(policy.Accepted)}
		widget, v := provider(t, "acme/widget", sources.Terraform), version(t, "1.0.0")
		sourcetest.Expect(t, p.CheckPackage(widget, v) != nil, "%s: the package passes before the lock file is asked", tt.name)
		sourcetest.Equal(t, p.CheckLocked(widget, v) == nil, tt.want, tt.name)
		sourcetest.Expect(t, p.CheckPackage(widget, v) != nil && len(p.Accepted.All()) == 0, "%s: a question accepts it", tt.name)
		sourcetest.Equal(t, p.AcceptLocked(widget, v) == nil, tt.want, tt.name)
		sourcetest.Equal(t, p.CheckPackage(widget, v) == nil, tt.want, tt.name)
		sourcetest.Equal(t, len(p.Accepted.All()) == 1, tt.want, tt.name)
		sourcetest.Expect(t, p.Check(widget, v) != nil, "%s: it can be chosen", tt.name)
		sourcetest.Expect(t, p.CheckPackage(widget, version(t, "2.0.0")) != nil, "%s: another version passes", tt.name)
		other := &policy.Policy{Rules: append(tt.rules, rule(3*day, true)), Ages: p.Ages, Accepted: p.Accepted}
		sourcetest.Expect(t, other.CheckPackage(widget, v) != nil, "%s: a stricter policy of the run accepts it", tt.name)
	}
	strict := &policy.Policy{Rules: []policy.Rule{rule(7*day, false), rule(3*day, true)}, Ages: one(undated)}
	found, _ := errors.AsType[*policy.Violation](strict.CheckLocked(provider(t, "acme/widget", sources.Terraform), version(t, "1.0.0")))
	sourcetest.Equal(t, found.Rule.Age, 3*day)
}

// A nil policy and one without rules allow everything, and nothing is about providers that are part of an engine.
func TestNothingToCheck(t *testing.T) {
	builtIn := provider(t, "terraform.io/builtin/terraform", sources.Terraform)
	denied := &policy.Policy{Rules: []policy.Rule{{Setting: policy.Deny, Providers: patterns(t, "*/*/*")}}}
	sourcetest.Check(t, denied.Check(builtIn, version(t, "1.0.0")))
	for _, p := range []*policy.Policy{nil, {}} {
		widget := provider(t, "acme/widget", sources.Terraform)
		sourcetest.Check(t, p.Check(widget, version(t, "1.0.0")))
		sourcetest.Check(t, p.CheckOverride(widget))
		sourcetest.Check(t, p.CheckEngine(sources.OpenTofu, sources.Version{}))
		_, about := p.AboutProviders()
		sourcetest.Expect(t, !about && len(p.DeclaredPlatforms()) == 0 && !p.Has(policy.Allow), "a policy without rules has rules")
	}
}

func TestCheckEngine(t *testing.T) {
	rule := func(engines map[sources.Engine]string) policy.Rule {
		r := policy.Rule{Setting: policy.Engines, Engines: map[sources.Engine]sources.Constraints{}, File: "/p", Line: 1}
		for e, text := range engines {
			r.Engines[e] = constraints(t, text)
		}
		return r
	}
	newer := rule(map[sources.Engine]string{sources.Terraform: ">= 1.11"})
	older := rule(map[sources.Engine]string{sources.Terraform: "< 1.12", sources.OpenTofu: ">= 1.6"})
	for _, tt := range []struct {
		engine  sources.Engine
		version string
		rules   []policy.Rule
		want    string
	}{
		{sources.Terraform, "1.11.4", []policy.Rule{newer, older}, ""},
		{sources.Terraform, "1.12.0", []policy.Rule{newer, older}, `the policy at /p:1 allows only terraform "< 1.12"`},
		{sources.Terraform, "1.10.0", []policy.Rule{newer, older}, `the policy at /p:1 allows only terraform ">= 1.11"`},
		{sources.Terraform, "1.11.0-beta1", []policy.Rule{newer}, `the policy at /p:1 allows only terraform ">= 1.11"`},
		{sources.Terraform, "", []policy.Rule{newer}, `the policy at /p:1 allows only terraform ">= 1.11"`},
		{sources.OpenTofu, "1.10.0", []policy.Rule{newer}, `the policy at /p:1 allows only terraform ">= 1.11"`},
		{sources.OpenTofu, "1.10.0", []policy.Rule{older}, ""},
		{sources.OpenTofu, "1.10.0", []policy.Rule{older, newer}, `the policy at /p:1 allows only terraform ">= 1.11"`},
	} {
		var v sources.Version
		if tt.version != "" {
			v = version(t, tt.version)
		}
		got := ""
		if err := (&policy.Policy{Rules: tt.rules}).CheckEngine(tt.engine, v); err != nil {
			got = err.Error()
		}
		sourcetest.Equal(t, strings.ReplaceAll(got, ".0\"", "\""), tt.want, string(tt.engine), tt.version)
	}
}

// Any rule about a provider excludes an override of it, because nothing is known about an override.
func TestCheckOverride(t *testing.T) {
	widget := provider(t, "acme/widget", sources.Terraform)
	for _, tt := range []struct {
		rule policy.Rule
		want bool // allowed
	}{
		{policy.Rule{Setting: policy.Allow, Providers: patterns(t, "acme/*")}, true},
		{policy.Rule{Setting: policy.Allow, Providers: patterns(t, "hashicorp/*")}, false},
		{policy.Rule{Setting: policy.Deny, Providers: patterns(t, "acme/*")}, false},
		{policy.Rule{Setting: policy.Deny, Providers: patterns(t, "hashicorp/*")}, true},
		{policy.Rule{Setting: policy.Versions, Providers: patterns(t, "acme/widget")}, false},
		{policy.Rule{Setting: policy.Versions, Providers: patterns(t, "acme/gadget")}, true},
		{policy.Rule{Setting: policy.MinAge, Age: time.Hour}, false},
		{policy.Rule{Setting: policy.MinAge, Age: time.Hour, Except: patterns(t, "acme/*")}, true},
		{policy.Rule{Setting: policy.RequireSigned}, false},
		{policy.Rule{Setting: policy.TrustedKeys, Keys: []sources.TrustedKeys{{Providers: patterns(t, "acme/*")[0]}}}, false},
		{policy.Rule{Setting: policy.TrustedKeys, Keys: []sources.TrustedKeys{{Providers: patterns(t, "hashicorp/*")[0]}}}, true},
		{policy.Rule{Setting: policy.Platforms}, true},
		{policy.Rule{Setting: policy.Engines}, true},
	} {
		err := (&policy.Policy{Rules: []policy.Rule{tt.rule}}).CheckOverride(widget)
		sourcetest.Equal(t, err == nil, tt.want, string(tt.rule.Setting))
	}
}

// A violation names the rule's place and reason, and says whom to ask.
func TestViolation(t *testing.T) {
	rule := policy.Rule{Setting: policy.Deny, Providers: patterns(t, "acme/*"), File: "/etc/larder/config.hcl", Line: 3, Layer: policy.Site}
	check := func(r policy.Rule) error {
		return (&policy.Policy{Rules: []policy.Rule{r}}).CheckProvider(provider(t, "acme/widget", sources.Terraform))
	}
	err := check(rule)
	sourcetest.Equal(t, err.Error(), "denied by the policy at /etc/larder/config.hcl:3")
	sourcetest.Equal(t, strings.Join(sources.Hints(err), ""), "for an exception, ask the administrator of this machine to change /etc/larder/config.hcl:3")
	rule.Reason, rule.Contact = "not maintained", "ask in #platform"
	err = check(rule)
	sourcetest.Equal(t, err.Error(), "denied by the policy at /etc/larder/config.hcl:3: not maintained")
	sourcetest.Equal(t, strings.Join(sources.Hints(err), ""), "for an exception: ask in #platform")
	v, ok := errors.AsType[*policy.Violation](err)
	sourcetest.Expect(t, ok && v.Rule.Line == 3, "the error is not a violation: %v", err)
}

// Whatever rules there are, their order doesn't matter, and another rule never allows what others exclude.
func TestRulesOnlyExclude(t *testing.T) {
	addresses := []string{"acme/widget", "acme/gadget", "hashicorp/aws", "registry.example.com/acme/widget"}
	versions := []string{"1.0.0", "1.1.0", "2.0.0-rc1", "2.0.0"}
	known := ages{"1.0.0": 90 * time.Hour, "1.1.0": 50 * time.Hour, "2.0.0": 10 * time.Hour}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		pick := func(all ...string) string { return all[r.IntN(len(all))] }
		some := func() []sources.Pattern {
			all := []string{"acme/*", "acme/widget", "*/*", "*/*/*", "hashicorp/*", "registry.example.com/*/*"}
			return patterns(t, all[r.IntN(len(all))], all[r.IntN(len(all))])
		}
		rule := func() policy.Rule {
			rule := policy.Rule{Setting: policy.Setting(pick("allow", "deny", "versions", "min_age", "require_signed", "trusted_keys", "engines"))}
			switch rule.Setting {
			case policy.Allow, policy.Deny:
				rule.Providers = some()
			case policy.Versions:
				rule.Providers, rule.Matching = some()[:1], constraints(t, pick("!= 1.0.0", ">= 1.1.0", "< 2.0.0", "~> 1.0"))
			case policy.MinAge:
				rule.Age, rule.Except = time.Duration(r.IntN(100)+1)*time.Hour, some()
				rule.Strict = r.IntN(2) == 0
			case policy.TrustedKeys:
				rule.Keys = []sources.TrustedKeys{{Providers: some()[0], Keys: []sources.Fingerprint{"AB"}}}
			case policy.Engines:
				rule.Engines = map[sources.Engine]sources.Constraints{sources.Engine(pick("terraform", "tofu")): constraints(t, pick(">= 1.1.0", "< 2.0.0"))}
			}
			return rule
		}
		// allowed returns what some rules allow.
		allowed := func(rules []policy.Rule) (all []string) {
			p := &policy.Policy{Rules: rules, Ages: known}
			for _, address := range addresses {
				at := provider(t, address, sources.Terraform)
				if p.CheckOverride(at) == nil {
					all = append(all, "override "+address)
				}
				if _, signed := p.SignedBy(at); !signed {
					all = append(all, "unsigned "+address)
				}
				for _, v := range versions {
					if p.Check(at, version(t, v)) == nil {
						all = append(all, address+" "+v)
					}
					if p.CheckLocked(at, version(t, v)) == nil {
						all = append(all, "locked "+address+" "+v)
					}
				}
			}
			for _, v := range versions {
				for _, e := range []sources.Engine{sources.Terraform, sources.OpenTofu} {
					if p.CheckEngine(e, version(t, v)) == nil {
						all = append(all, string(e)+" "+v)
					}
				}
			}
			return all
		}
		var rules []policy.Rule
		before := allowed(nil)
		for range 5 {
			rules = append(rules, rule())
			after := allowed(rules)
			for _, one := range after {
				sourcetest.Expect(t, slices.Contains(before, one), "seed %d: %s is allowed only with another rule: %v", seed, one, rules)
			}
			before = after
		}
		r.Shuffle(len(rules), func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
		sourcetest.Equal(t, strings.Join(allowed(rules), "\n"), strings.Join(before, "\n"), "seed", seed)
	}
}

func TestAgeInWords(t *testing.T) {
	for _, tt := range []struct {
		age    time.Duration
		stated bool
		want   string
	}{
		{0, false, "first seen here less than an hour ago"},
		{time.Hour - 1, true, "published less than an hour ago"},
		{time.Hour, true, "published 1 hour ago"},
		{24*time.Hour - 1, false, "first seen here 23 hours ago"},
		{24 * time.Hour, true, "published 1 day ago"},
		{49 * time.Hour, true, "published 2 days ago"},
	} {
		sourcetest.Equal(t, policy.Age{Known: true, AtLeast: tt.age, Stated: tt.stated}.String(), tt.want)
	}
}

// Every kind of rule has its text in lists, its text in errors, and a hint for each layer.
func TestRulesInWords(t *testing.T) {
	widget, one := provider(t, "acme/widget", sources.Terraform), version(t, "1.0.0")
	key := sources.Fingerprint("C874011F0AB405110D02105534365D9472D7468F")
	for _, tt := range []struct {
		rule        policy.Rule
		value, told string
	}{
		{policy.Rule{Setting: policy.Deny, Providers: patterns(t, "acme/*", "other/*")}, "acme/*, other/*", "denied by the policy at /f:1"},
		{policy.Rule{Setting: policy.Allow, Providers: patterns(t, "other/*")}, "other/*", "not among the providers that the policy at /f:1 allows"},
		{policy.Rule{Setting: policy.Versions, Providers: patterns(t, "acme/*"), Matching: constraints(t, "> 1"), Text: "> 1"}, "> 1", `the policy at /f:1 allows only versions "> 1"`},
		{policy.Rule{Setting: policy.MinAge, Age: time.Hour, Text: "1h"}, "1h", "its age is unknown, and the policy at /f:1 requires 1h"},
		{policy.Rule{Setting: policy.MinAge, Age: time.Hour, Text: "1h", Except: patterns(t, "other/*")}, "1h except other/*", "its age is unknown, and the policy at /f:1 requires 1h"},
		{policy.Rule{Setting: policy.MinAge, Age: time.Hour, Text: "1h", Strict: true}, "1h, strict", "its age is unknown, and the policy at /f:1 requires 1h"},
		{policy.Rule{Setting: policy.TrustedKeys, Keys: []sources.TrustedKeys{{Providers: patterns(t, "acme/*")[0], Keys: []sources.Fingerprint{key}}}}, "acme/* " + string(key), ""},
		{policy.Rule{Setting: policy.RequireSigned}, "true", ""},
		{policy.Rule{Setting: policy.Platforms, Platforms: []sources.Platform{{OS: "linux", Arch: "amd64"}, {OS: "darwin", Arch: "arm64"}}}, "linux_amd64, darwin_arm64", ""},
		{policy.Rule{Setting: policy.Engines, Engines: map[sources.Engine]sources.Constraints{"tofu": constraints(t, ">= 1.10"), "terraform": {}}}, "terraform , tofu >= 1.10.0", ""},
	} {
		tt.rule.File, tt.rule.Line = "/f", 1
		sourcetest.Equal(t, tt.rule.Value(), tt.value, string(tt.rule.Setting))
		err := (&policy.Policy{Rules: []policy.Rule{tt.rule}}).Check(widget, one)
		sourcetest.Expect(t, (err == nil) == (tt.told == ""), "%s: got %v", tt.rule.Setting, err)
		if err != nil {
			sourcetest.Equal(t, err.Error(), tt.told)
		}
	}
	for layer, want := range map[policy.Layer]string{
		policy.Site: "ask the administrator of this machine to change /f:1", policy.Repository: "ask the maintainers of this repository to change /f:1",
		policy.User: "for an exception, change /f:1",
	} {
		v := policy.Violation{Rule: policy.Rule{Setting: policy.Deny, File: "/f", Line: 1, Layer: layer}}
		sourcetest.Expect(t, strings.Contains(v.Hint(), want), "%s: %s", layer, v.Hint())
	}
}

// What others ask about a policy as a whole.
func TestWholePolicy(t *testing.T) {
	linux, mac := sources.Platform{OS: "linux", Arch: "amd64"}, sources.Platform{OS: "darwin", Arch: "arm64"}
	p := &policy.Policy{Rules: []policy.Rule{
		{Setting: policy.Engines, Layer: policy.Site, Line: 1},
		{Setting: policy.Platforms, Layer: policy.Site, Line: 2, Platforms: []sources.Platform{linux}},
		{Setting: policy.Deny, Layer: policy.User, Line: 3, Providers: patterns(t, "denied.example/*/*")},
		{Setting: policy.MinAge, Layer: policy.Repository, Line: 4, Except: patterns(t, "except.example/*/*")},
		{Setting: policy.Platforms, Layer: policy.Repository, Line: 5, Platforms: []sources.Platform{mac, linux}},
		{Setting: policy.TrustedKeys, Layer: policy.Repository, Line: 6, Keys: []sources.TrustedKeys{
			{Providers: patterns(t, "keys.example/*/*")[0], Keys: []sources.Fingerprint{"A"}}, {Providers: patterns(t, "keys.example/acme/*")[0], Keys: []sources.Fingerprint{"B"}},
		}},
	}}
	sourcetest.Equal(t, strings.Join(sources.Texts(p.DeclaredPlatforms()), " "), "linux_amd64 darwin_arm64")
	var hosts []string
	for _, h := range p.NamedHosts() {
		hosts = append(hosts, string(h))
	}
	sourcetest.Equal(t, strings.Join(hosts, " "), "except.example keys.example keys.example")
	first, ok := p.AboutProviders()
	sourcetest.Expect(t, ok && first.Line == 3, "got %d", first.Line)
	_, ok = (&policy.Policy{Rules: p.Rules[:2]}).AboutProviders()
	sourcetest.Expect(t, !ok, "engines and platforms are not about providers")
	for layer, want := range map[policy.Layer]int{policy.Site: 2, policy.User: 1, policy.Repository: 3} {
		sourcetest.Equal(t, len(p.From(layer)), want, string(layer))
	}
	sourcetest.Expect(t, p.AboutSignatures() && !(&policy.Policy{Rules: p.Rules[:5]}).AboutSignatures(), "about signatures")
	for address, want := range map[string]string{"keys.example/acme/x": "A B", "keys.example/other/x": "A", "else.example/acme/x": ""} {
		var keys []string
		for _, k := range p.Rules[5].KeysFor(provider(t, address, sources.Terraform)) {
			keys = append(keys, string(k))
		}
		sourcetest.Equal(t, strings.Join(keys, " "), want, address)
		sourcetest.Equal(t, len(p.KeyRules(provider(t, address, sources.Terraform))) == 1, want != "", address)
	}
	var none *policy.Policy
	_, ok = none.AboutProviders()
	sourcetest.Expect(t, !ok && none.DeclaredPlatforms() == nil && none.NamedHosts() == nil && none.From(policy.Site) == nil && !none.Has(policy.Deny), "a nil policy has rules")
}
