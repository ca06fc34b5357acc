package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/sourcetest"
)

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
