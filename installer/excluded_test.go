package installer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// fixedAges are the ages of versions, known once Learn has been called with them.
type fixedAges struct {
	mu    sync.Mutex
	ages  map[string]time.Duration
	known map[string]bool
}

func (*fixedAges) See(context.Context, sources.Provider, sources.Listing) {}

func (a *fixedAges) Learn(ctx context.Context, _ sources.Provider, versions ...sources.Version) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, v := range versions {
		a.known[v.String()] = true
	}
	return ctx.Err()
}

func (a *fixedAges) Of(_ sources.Provider, v sources.Version) policy.Age {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.known[v.String()] {
		return policy.Age{}
	}
	return policy.Age{Known: true, AtLeast: a.ages[v.String()], Stated: true}
}

// rules returns a policy, in the form "deny acme/gadget; versions >= 1.0".
func rules(text string) *policy.Policy {
	p := &policy.Policy{
		Now:  func() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.Local) },
		Ages: &fixedAges{known: map[string]bool{}, ages: map[string]time.Duration{"1.0.0": 100 * day, "1.1.0": 50 * day, "1.2.0": 9 * day, "1.3.0": 2 * day}},
	}
	for i, rule := range strings.Split(text, "; ") {
		setting, value, _ := strings.Cut(rule, " ")
		r := policy.Rule{Setting: policy.Setting(setting), Layer: policy.Site, File: "/policy", Line: i + 1, Text: value}
		all := sources.Pattern{Host: "*", Namespace: "*", Type: "*"}
		switch r.Setting {
		case policy.Versions:
			r.Providers, r.Matching = []sources.Pattern{all}, must(sources.ParseConstraints(value))
		case policy.MinAge:
			r.Age = must(time.ParseDuration(value))
		default:
			r.Providers = []sources.Pattern{must(sources.ParsePattern("example.test/" + value))}
		}
		p.Rules = append(p.Rules, r)
	}
	return p
}

const day = 24 * time.Hour

// The newest version that constraints and policy allow is chosen, and a locked one that the policy excludes is
// refused, wherever packages are.
func TestPolicy(t *testing.T) {
	for _, c := range []struct {
		name        string
		rules       string
		constraints string
		locked      string
		upgrade     bool
		here        string // packages in the store; no source is queried
		want        string // version; empty if there is none
		skipped     string
		fails       string // parts of the error and its hints
	}{
		{"nothing is excluded", "versions >= 1.0", "", "", false, "", "1.3.0", "", ""},
		{"the newest", "versions != 1.3.0", "", "", false, "", "1.2.0", `1.3.0 (the policy at /policy:1 allows only versions "!= 1.3.0")`, ""},
		{"several", "versions < 1.2; versions != 1.1.0", "", "", false, "", "1.0.0", `1.3.0 (the policy at /policy:1 allows only versions "< 1.2"), 1.2.0 (the policy at /policy:1 allows only versions "< 1.2"), 1.1.0 (the policy at /policy:2 allows only versions "!= 1.1.0")`, ""},
		{"an older one", "versions != 1.0.0", "", "", false, "", "1.3.0", "", ""},
		{"what the constraints exclude", "versions != 1.3.0", "< 1.3", "", false, "", "1.2.0", "", ""},
		{"too young", "min_age 168h", "", "", false, "", "1.2.0", "1.3.0 (published 2 days ago, and the policy at /policy:1 requires 168h; it will be allowed from 2026-01-06 12:00)", ""},
		{"the older of two ages", "min_age 24h; min_age 240h", "", "", false, "", "1.1.0", "1.3.0 (published 2 days ago, and the policy at /policy:2 requires 240h; it will be allowed from 2026-01-09 12:00), 1.2.0 (published 9 days ago, and the policy at /policy:2 requires 240h; it will be allowed from 2026-01-02 12:00)", ""},
		{"all", "versions > 2", "", "", false, "", "", "", `widget: no version is allowed: 1.3.0: the policy at /policy:1 allows only versions "> 2"; the administrator of this machine to change /policy:1; required by main.tf:3`},
		{"the provider", "deny acme/*", "", "", false, "", "", "", "widget: denied by the policy at /policy:1; required by main.tf:3"},
		{"another provider", "deny acme/gadget", "", "", false, "", "1.3.0", "", ""},
		{"not among the allowed", "allow acme/gadget", "", "", false, "", "", "", "not among the providers that the policy at /policy:1 allows"},
		{"a locked version", "versions != 1.2.0", "", "1.2.0", false, "", "", "", "the lock file selects 1.2.0: the policy at /policy:1 allows; instead 1.3.0"},
		{"a locked version within constraints", "versions != 1.2.0", "< 1.3", "1.2.0", false, "", "", "", "instead 1.1.0"},
		{"a locked version without another", "versions > 2", "", "1.2.0", false, "", "", "", "the lock file selects 1.2.0"},
		{"a young locked version", "min_age 240h", "", "1.2.0", false, "", "", "", "the lock file selects 1.2.0: published 9 days ago; instead 1.1.0"},
		{"an upgrade from an excluded version", "versions != 1.3.0", "", "1.3.0", true, "", "1.2.0", `1.3.0 (the policy at /policy:1 allows only versions "!= 1.3.0")`, ""},
		{"a locked version, offline", "versions != 1.2.0", "", "1.2.0", false, "1.2.0", "", "", "the lock file selects 1.2.0"},
		{"a choice offline", "versions != 1.2.0", "", "", false, "1.1.0 1.2.0", "1.1.0", "", ""},
		{"no choice offline", "versions != 1.2.0", "", "", false, "1.2.0", "", "", `this machine has 1.2.0 (the policy at /policy:1 allows only versions "!= 1.2.0")`},
		{"an upgrade offline", "versions != 1.2.0", "", "1.2.0", true, "1.1.0 1.2.0", "1.1.0", "", ""},
		{"ages offline", "min_age 240h", "", "", false, "1.1.0 1.2.0", "1.1.0", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.opts.Judge.Options.Policy, f.opts.Upgrade = rules(c.rules), c.upgrade
			f.require("widget", c.constraints)
			for _, v := range []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"} {
				f.source.add("widget "+v+" linux_amd64", signedAsPublished)
			}
			for v := range strings.FieldsSeq(c.here) {
				f.source.offline = true
				f.put("stored " + v + " linux_amd64 self-signed")
			}
			if c.locked != "" {
				f.lock("widget "+c.locked, h1("widget "+c.locked+" linux_amd64"), zh("widget "+c.locked+" linux_amd64"))
			}
			result, err := f.install()
			if c.want == "" {
				var violation *policy.Violation
				told := sources.Text(err) + strings.Join(sources.Hints(err), "; ")
				if excluded, ok := errors.AsType[*installer.ExcludedError](err); ok {
					told += "; instead " + excluded.Instead.String()
				}
				for part := range strings.SplitSeq(c.fails, "; ") {
					sourcetest.Expect(t, strings.Contains(told, part), "%s\nhas no %q", told, part)
				}
				sourcetest.Expect(t, errors.As(err, &violation) || c.here != "", "got %v", err)
				return
			}
			f.must(err)
			sourcetest.Expect(t, len(result.Packages) == 1 && result.Packages[0].Package.ID.Version.String() == c.want, "got %s", outcome(result))
			sourcetest.Expect(t, len(result.Behind) == 0 || c.skipped == "", "behind: %v", result.Behind)
			sourcetest.Equal(t, strings.Join(f.told(acquire.Skipped), ""), c.skipped)
		})
	}
}

// Selections for the cache and for mirrors follow the same rules.
func TestSelectByPolicy(t *testing.T) {
	f := newFixture(t)
	f.opts.Judge.Options.Policy = rules("versions != 1.2.0; deny acme/gadget")
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"} {
		f.source.add("widget "+v+" linux_amd64", nil)
		f.source.add("gadget "+v+" linux_amd64", nil)
	}
	locked := want("b.tf", "widget")
	locked.Locked.Provider, locked.Locked.Version = locked.Provider, must(sources.ParseVersion("1.2.0"))
	for _, c := range []struct {
		name  string
		want  installer.Want
		opts  installer.SelectOptions
		got   string
		fails string
	}{
		{"the newest", want("a.tf", "widget < 1.3"), installer.SelectOptions{}, "1.1.0", ""},
		{"three", want("a.tf", "widget"), installer.SelectOptions{Newest: 3}, "1.0.0 1.1.0 1.3.0", ""},
		{"all", want("a.tf", "widget"), installer.SelectOptions{All: true}, "1.0.0 1.1.0 1.3.0", ""},
		{"exactly the excluded one", want("a.tf", "widget 1.2.0"), installer.SelectOptions{}, "", "no version is allowed: 1.2.0"},
		{"locked", locked, installer.SelectOptions{}, "", "the lock file selects 1.2.0"},
		{"the provider", want("a.tf", "gadget"), installer.SelectOptions{}, "", "gadget: denied by the policy at /policy:2"},
	} {
		selected, err := f.installer().Select(t.Context(), []installer.Want{c.want}, c.opts)
		f.failsWith(err, c.fails)
		var got []string
		for _, s := range selected {
			got = append(got, s.ID.Version.String())
		}
		sourcetest.Equal(t, strings.Join(got, " "), c.got, c.name)
	}
}

var published = []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"}

// A situation is a provider with the published versions, and what decides which of them a root module gets.
type situation struct {
	packages    [4]string // how each is signed, or "missing"
	stored      [4]bool
	rules       string
	keys        string // whose key the policy trusts; empty if it has no such rule
	signed      bool   // the policy requires signatures
	constraints string
	locked      string
	badLock     bool // the lock file has the hash of other contents
	upgrade     bool
	offline     bool
}

func oneOf(r *rand.Rand, all ...string) string { return all[r.IntN(len(all))] }

func randomSituation(r *rand.Rand) (s situation) {
	for i := range s.packages {
		s.packages[i] = oneOf(r, "publisher", "publisher", "stranger", "unsigned", "missing")
		s.stored[i] = r.IntN(3) == 0
	}
	s.rules = oneOf(r, "", "", "versions != 1.3.0", "versions < 1.2", "versions > 2", "min_age 168h", "min_age 240h", "deny acme/widget")
	s.keys = oneOf(r, "", "", "publisher", "stranger")
	s.signed = r.IntN(4) == 0
	s.constraints = oneOf(r, "", "", "~> 1.1", "< 1.3", "1.2.0", "> 2")
	s.locked = oneOf(r, "", "", "", "1.1.0", "1.2.0", "1.3.0")
	s.badLock = s.locked != "" && r.IntN(5) == 0
	s.upgrade, s.offline = r.IntN(4) == 0, r.IntN(5) == 0
	return s
}

// key returns the key of a signer.
func (s situation) key(name string) *sourcetest.Key {
	if name == "stranger" {
		return stranger
	}
	return sourcetest.Publisher()
}

var stranger = sourcetest.NewKey("Stranger")

// fixture returns the situation. With exactly, a constraint, that replaces its constraints and its lock file.
func (s situation) fixture(t *testing.T, exactly string) *fixture {
	f := newFixture(t)
	f.opts.Upgrade = s.upgrade
	p := &policy.Policy{}
	if s.rules != "" {
		p = rules(s.rules)
	}
	if s.keys != "" {
		fingerprint := s.key(s.keys).Fingerprint()
		p.Rules = append(p.Rules, policy.Rule{
			Setting: policy.TrustedKeys, Layer: policy.User, File: "/policy", Line: 8,
			Keys: []sources.TrustedKeys{{Providers: must(sources.ParsePattern("example.test/*/*")), Keys: []sources.Fingerprint{fingerprint}}},
		})
	}
	if s.signed {
		p.Rules = append(p.Rules, policy.Rule{Setting: policy.RequireSigned, Layer: policy.User, File: "/policy", Line: 9})
	}
	f.opts.Judge.Options.Policy = p
	for i, v := range published {
		text := "widget " + v + " linux_amd64"
		switch s.packages[i] {
		case "missing":
			f.source.add(text, nil)
			delete(f.source.packages, id(text))
		case "unsigned":
			f.source.add(text, nil)
		default:
			f.source.add(text, func(p *sources.Package) { signWith(s.key(s.packages[i]), p, p.Filename) })
		}
		if pkg := f.source.packages[id(text)]; s.stored[i] && s.packages[i] != "missing" {
			f.store.entries[id(text)] = sources.Stored{ID: id(text), Dir: "somewhere", H1: h1(text), ZH: zh(text), Signed: pkg.Signed, Proof: sources.Proof{Matched: true}}
		}
	}
	f.source.offline = s.offline
	constraints := s.constraints
	if exactly != "" {
		constraints = exactly
	}
	f.require("widget", constraints)
	if s.locked != "" && exactly == "" {
		text := "widget " + s.locked + " linux_amd64"
		if s.badLock {
			text = "something else"
		}
		f.lock("widget "+s.locked, h1(text), zh(text))
	}
	return f
}

// foretold returns what a plan says, and done what an installation does: the version, or the reasons of the failure.
func (s situation) foretold(t *testing.T, exactly string) (foretold, done string) {
	f := s.fixture(t, exactly)
	plan, err := f.plan()
	if err = errors.Join(err, plan.Fails); err != nil {
		foretold = "fails: " + sources.Text(err)
	} else {
		foretold = "takes " + plan.Version.String()
	}
	f = s.fixture(t, exactly)
	result, err := f.install()
	if _, ok := errors.AsType[*acquire.HashMismatchError](err); ok && plan.How == installer.Planned {
		return foretold, foretold // only the download shows it
	}
	if err != nil {
		return foretold, "fails: " + sources.Text(err)
	}
	return foretold, "takes " + result.Packages[0].Package.ID.Version.String()
}

// What explain foretells is what install does: for the version that is chosen, and for each other one if it is required.
func TestForetoldIsDone(t *testing.T) {
	outcomes := map[string]int{}
	for seed := range uint64(200) {
		s := randomSituation(rand.New(rand.NewPCG(seed, 45)))
		foretold, done := s.foretold(t, "")
		kind, _, _ := strings.Cut(done, " ")
		outcomes[strings.Trim(kind, ":")]++
		sourcetest.Require(t, foretold == done, "seed %d: %+v\nforetold %s\ndone     %s", seed, s, foretold, done)
		f := s.fixture(t, "")
		locked, _ := f.root.Lock.Entry(provider("widget"))
		check := installer.Rules{Requirement: f.root.Requirements[0], Locked: locked.Version, Policy: f.opts.Judge.Options.Policy}
		sourcetest.Check(t, check.Policy.Learn(t.Context(), provider("widget"), f.source.versions[provider("widget")].Versions...))
		for _, c := range check.Candidates(f.source.versions[provider("widget")].Versions) {
			foretold, done := s.foretold(t, "= "+c.Version.String())
			sourcetest.Require(t, foretold == done, "seed %d: %+v\n%s: foretold %s\ndone %s", seed, s, c.Version, foretold, done)
			taken := done == "takes "+c.Version.String()
			sourcetest.Require(t, c.Excluded == nil || !taken, "seed %d: %+v\n%s is excluded, but installed", seed, s, c)
		}
	}
	sourcetest.Expect(t, outcomes["takes"] > 50 && outcomes["fails"] > 50, "one-sided: %v", outcomes)
}
