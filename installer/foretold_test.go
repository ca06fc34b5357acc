package installer_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/sourcetest"
)

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
