// Package policy decides which providers and versions may be installed, by rules from several files that
// apply together: each rule can only exclude more.
//
// It contains no defaults, reads no files and sends no requests: cliconfig reads the rules, and [Ages] knows
// how old versions are. It leaves nothing on disk. Package trust applies the rules about signatures.
package policy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/larder-cli/larder/sources"
)

// A Setting is the kind of a rule, by its name in files.
type Setting string

// The settings of a policy block.
const (
	Allow         Setting = "allow"          // only these providers
	Deny          Setting = "deny"           // none of these providers
	Versions      Setting = "versions"       // only versions of a provider that match a constraint
	MinAge        Setting = "min_age"        // only versions that were published long enough ago
	RequireSigned Setting = "require_signed" // only packages with a valid signature
	TrustedKeys   Setting = "trusted_keys"   // only packages that these keys signed
	ApprovedBy    Setting = "approved_by"    // only packages that a set lists which one of these keys signed
	Engines       Setting = "engines"        // only these engines and versions of them
	Platforms     Setting = "platforms"      // what lock files must have hashes for
)

// A Layer is who wrote a file with rules.
type Layer string

// The layers. The owner of the machine and the user can vouch for keys. A repository can't, because anyone
// who can change a checkout can write its file.
const (
	Site       Layer = "site"
	User       Layer = "user"
	Repository Layer = "repository"
)

// A Rule is one setting of a policy block, or one item of a setting that is a map. It has only the values of
// its Setting.
type Rule struct {
	Setting Setting
	Layer   Layer
	File    string // absolute path
	Line    int    // of the setting, or of the item of a map
	Reason  string // why the rule exists, in the words of those who wrote it; empty if they give none
	Contact string // whom to ask for an exception; empty if they don't say

	Providers []sources.Pattern     // of Allow and Deny, or the one of Versions
	Except    []sources.Pattern     // of MinAge
	Age       time.Duration         // of MinAge; more than 0
	Strict    bool                  // of MinAge: also for locked versions whose date no registry states
	Matching  sources.Constraints   // of Versions
	Text      string                // the value as written, for messages
	Keys      []sources.TrustedKeys // of TrustedKeys; several for one provider are alternatives
	Approvers []sources.Fingerprint // of ApprovedBy; alternatives
	Engines   map[sources.Engine]sources.Constraints
	Platforms []sources.Platform
}

// Place returns where the rule is, as FILE:LINE.
func (r Rule) Place() string { return fmt.Sprintf("%s:%d", r.File, r.Line) }

// Value returns the value of the rule for people, without the provider of a rule about versions.
func (r Rule) Value() string {
	var parts []string
	switch r.Setting {
	case Allow, Deny:
		parts = sources.Texts(r.Providers)
	case MinAge:
		parts = []string{r.Text}
		if len(r.Except) > 0 {
			parts[0] += " except " + strings.Join(sources.Texts(r.Except), ", ")
		}
		if r.Strict {
			parts = append(parts, "strict")
		}
	case Versions:
		parts = []string{r.Text}
	case TrustedKeys:
		for _, t := range r.Keys {
			parts = append(parts, t.Providers.String()+" "+strings.Join(sources.Texts(t.Keys), " "))
		}
	case ApprovedBy:
		parts = sources.Texts(r.Approvers)
	case Engines:
		for _, e := range slices.Sorted(maps.Keys(r.Engines)) {
			parts = append(parts, fmt.Sprintf("%s %s", e, r.Engines[e]))
		}
	case Platforms:
		parts = sources.Texts(r.Platforms)
	case RequireSigned:
		return "true"
	}
	return strings.Join(parts, ", ")
}

// appliesTo reports whether the rule is about a provider.
func (r Rule) appliesTo(p sources.Provider) bool {
	if p.BuiltIn() {
		return false
	}
	switch r.Setting {
	case Versions:
		return matches(r.Providers, p)
	case MinAge:
		return !matches(r.Except, p)
	case TrustedKeys:
		return slices.ContainsFunc(r.Keys, func(t sources.TrustedKeys) bool { return match(t.Providers, p) })
	}
	return true
}

// Ages knows how old versions are. Its methods are safe for concurrent use.
type Ages interface {
	// Learn finds out how old versions of a provider are, as far as its registry states it. They need not exist. It
	// fails only if the context is done.
	Learn(ctx context.Context, p sources.Provider, versions ...sources.Version) error

	// See notes the versions that a listing vouches for: each is known to exist from now on.
	See(ctx context.Context, p sources.Provider, listing sources.Listing)

	// Of returns how old a version is, as far as Learn and See have found that out.
	Of(p sources.Provider, v sources.Version) Age
}

// An Age is for how long a version has certainly existed.
type Age struct {
	Known   bool          // otherwise nothing is recorded about the version, and it doesn't become older
	AtLeast time.Duration // 0 if it is unknown
	Stated  bool          // the origin registry states when it was published; otherwise the time since it was seen here
	Undated bool          // no registry that is asked states a date of any version of the provider
}

// A Policy is all rules of a run, in the order in which their files were read. A nil Policy allows everything.
type Policy struct {
	Rules []Rule
	Ages  Ages             // if nil, every version is new
	Now   func() time.Time // for dates in messages; nil means time.Now

	Accepted *Accepted // what AcceptLocked accepts; nil means nothing more than CheckLocked
}

// Accepted are the locked versions that the policies of a run have accepted although they may be too young.
type Accepted struct {
	mu  sync.Mutex
	all map[sources.Release]*Violation
}

// All returns how each of the versions violates a rule.
func (a *Accepted) All() []*Violation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.all))
}

func (a *Accepted) add(v *Violation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[sources.Release]*Violation{}
	}
	a.all[sources.Release{Provider: v.Provider, Version: v.Version}] = v
}

func (a *Accepted) has(r sources.Release) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[r] != nil
}

// rules returns all rules. The other methods use it, so that a nil Policy has none.
func (p *Policy) rules() []Rule {
	if p == nil {
		return nil
	}
	return p.Rules
}

// of returns the rules of a setting that apply to a provider. None applies to a part of the engine.
func (p *Policy) of(s Setting, provider sources.Provider) (rules []Rule) {
	for _, r := range p.rules() {
		if r.Setting == s && r.appliesTo(provider) {
			rules = append(rules, r)
		}
	}
	return rules
}

// Learn finds out how old versions of a provider are, if a rule requires an age that they may not have. It asks nothing
// about those that are old enough as the registry has stated: they only become older.
func (p *Policy) Learn(ctx context.Context, provider sources.Provider, versions ...sources.Version) error {
	if young := p.young(provider, versions); len(young) > 0 {
		return p.Ages.Learn(ctx, provider, young...)
	}
	return nil
}

// See notes what a listing of a provider vouches for, if a rule requires an age.
func (p *Policy) See(ctx context.Context, provider sources.Provider, listing sources.Listing) {
	if len(p.young(provider, listing.Vouched)) > 0 {
		p.Ages.See(ctx, provider, listing)
	}
}

// young returns the versions that don't have the age that rules require, or not as a registry states it.
func (p *Policy) young(provider sources.Provider, versions []sources.Version) []sources.Version {
	rules := p.of(MinAge, provider)
	if len(rules) == 0 || p.Ages == nil {
		return nil
	}
	most := slices.MaxFunc(rules, func(a, b Rule) int { return cmp.Compare(a.Age, b.Age) }).Age
	return slices.DeleteFunc(slices.Clone(versions), func(v sources.Version) bool {
		age := p.Ages.Of(provider, v)
		return age.Stated && age.AtLeast >= most
	})
}

// With returns the violation as an error with its hints. It is nil for nil.
func (v *Violation) With() error {
	if v == nil {
		return nil
	}
	err := sources.WithLastHint(v, "%s", v.Hint())
	if v.Rule.Setting == MinAge && !v.Age.Known {
		err = sources.WithHint(err, "an age begins when a registry, or a mirror outside of the checkout, lists the version")
	}
	if from := v.From(); from != "" {
		err = sources.WithHint(err, "%s %s will be allowed from %s", v.Provider, v.Version, from)
	}
	return err
}

// CheckProvider returns a [Violation] if no version of a provider is allowed.
func (p *Policy) CheckProvider(provider sources.Provider) error {
	return p.ofProvider(provider).With()
}

// ofProvider returns how a rule excludes all versions of a provider. It is nil if none does.
func (p *Policy) ofProvider(provider sources.Provider) *Violation {
	for _, r := range append(p.of(Deny, provider), p.of(Allow, provider)...) {
		if matches(r.Providers, provider) == (r.Setting == Deny) {
			return &Violation{Rule: r, Provider: provider}
		}
	}
	return nil
}

// Check returns a [Violation] if a version of a provider must not be chosen. Rules about ages use what Learn and See
// have found out.
func (p *Policy) Check(provider sources.Provider, v sources.Version) error {
	return p.violation(provider, v, false).With()
}

// CheckLocked is Check for the version that a lock file selects. Since when this machine knows it proves nothing. So if
// a source vouches for it, and no dates are stated, only a strict rule about ages excludes it.
func (p *Policy) CheckLocked(provider sources.Provider, v sources.Version) error {
	return p.violation(provider, v, true).With()
}

// AcceptLocked is CheckLocked for a version that is used. CheckPackage then accepts its packages.
func (p *Policy) AcceptLocked(provider sources.Provider, v sources.Version) error {
	err := p.CheckLocked(provider, v)
	if ignored := p.violation(provider, v, false); err == nil && ignored != nil && p.Accepted != nil {
		p.Accepted.add(ignored)
	}
	return err
}

// CheckPackage is Check for a package of a version that was chosen, or CheckLocked for one that AcceptLocked of any
// policy of the run has accepted.
func (p *Policy) CheckPackage(provider sources.Provider, v sources.Version) error {
	accepted := p != nil && p.Accepted != nil && p.Accepted.has(sources.Release{Provider: provider, Version: v})
	return p.violation(provider, v, accepted).With()
}

// violation returns how a rule excludes a version, which a lock file may select. It is nil if none does.
func (p *Policy) violation(provider sources.Provider, v sources.Version, locked bool) *Violation {
	if found := p.ofProvider(provider); found != nil {
		return found
	}
	for _, r := range p.of(Versions, provider) {
		if !r.Matching.Contain(v) {
			return &Violation{Rule: r, Provider: provider, Version: v}
		}
	}
	return p.tooYoung(provider, v, locked)
}

// tooYoung returns the violation of the rule that allows the version last.
func (p *Policy) tooYoung(provider sources.Provider, v sources.Version, locked bool) *Violation {
	rules := p.of(MinAge, provider)
	if len(rules) == 0 {
		return nil
	}
	found := &Violation{Provider: provider, Version: v}
	if p.Ages != nil {
		found.Age = p.Ages.Of(provider, v)
	}
	locked = locked && found.Age.Known && found.Age.Undated && !found.Age.Stated
	rules = slices.DeleteFunc(rules, func(r Rule) bool { return r.Age <= found.Age.AtLeast || locked && !r.Strict })
	if len(rules) == 0 {
		return nil
	}
	found.Rule = slices.MaxFunc(rules, func(a, b Rule) int { return cmp.Compare(a.Age, b.Age) })
	if found.Age.Known {
		found.Until = p.now().Add(found.Rule.Age - found.Age.AtLeast)
	}
	return found
}

func (p *Policy) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

// CheckOverride returns a [Violation] if a directory or a running program must not replace a provider: if
// any rule is about the provider, as there is neither a version nor a signature to hold it to.
func (p *Policy) CheckOverride(provider sources.Provider) error {
	if err := p.CheckProvider(provider); err != nil {
		return err
	}
	for _, s := range []Setting{Versions, MinAge, RequireSigned, TrustedKeys, ApprovedBy} {
		for _, r := range p.of(s, provider) {
			return (&Violation{Rule: r, Provider: provider, Override: true}).With()
		}
	}
	return nil
}

// CheckEngine returns a [Violation] if an engine must not run. The zero Version is unknown, and not allowed
// if a rule is about versions of the engine.
func (p *Policy) CheckEngine(e sources.Engine, v sources.Version) error {
	for _, r := range p.rules() {
		if r.Setting != Engines {
			continue
		}
		if allowed, ok := r.Engines[e]; !ok || !allowed.Empty() && !allowed.Contain(v) {
			return (&Violation{Rule: r, Engine: e, Version: v}).With()
		}
	}
	return nil
}

// Has reports whether the policy has a rule of one of the settings.
func (p *Policy) Has(settings ...Setting) bool {
	return slices.ContainsFunc(p.rules(), func(r Rule) bool { return slices.Contains(settings, r.Setting) })
}

// AboutSignatures reports whether a rule requires signatures, of packages or of sets.
func (p *Policy) AboutSignatures() bool { return p.Has(RequireSigned, TrustedKeys, ApprovedBy) }

// AboutProviders returns the first rule that can exclude a provider or a package.
func (p *Policy) AboutProviders() (Rule, bool) {
	for _, r := range p.rules() {
		if r.Setting != Engines && r.Setting != Platforms {
			return r, true
		}
	}
	return Rule{}, false
}

// NamedHosts returns the hosts that patterns of rules name, except those of Deny. They are not sorted.
func (p *Policy) NamedHosts() (hosts []sources.Host) {
	for _, r := range p.rules() {
		if r.Setting == Deny {
			continue
		}
		patterns := slices.Concat(r.Providers, r.Except)
		for _, k := range r.Keys {
			patterns = append(patterns, k.Providers)
		}
		for _, pt := range patterns {
			hosts = append(hosts, sources.Host(pt.Host))
		}
	}
	return hosts
}

// From returns the rules of a layer.
func (p *Policy) From(layer Layer) (rules []Rule) {
	for _, r := range p.rules() {
		if r.Layer == layer {
			rules = append(rules, r)
		}
	}
	return rules
}

// SignedBy returns the first rule that requires a signature for a provider's packages.
func (p *Policy) SignedBy(provider sources.Provider) (Rule, bool) {
	for _, s := range []Setting{RequireSigned, TrustedKeys} {
		if rules := p.of(s, provider); len(rules) > 0 {
			return rules[0], true
		}
	}
	return Rule{}, false
}

// KeyRules returns the rules about the keys that may sign a provider's packages.
func (p *Policy) KeyRules(provider sources.Provider) []Rule { return p.of(TrustedKeys, provider) }

// Approvals returns the rules about the keys that may approve packages.
func (p *Policy) Approvals() (rules []Rule) {
	return slices.DeleteFunc(slices.Clone(p.rules()), func(r Rule) bool { return r.Setting != ApprovedBy })
}

// ApproversOf returns the rules about the keys that may approve a provider's packages.
func (p *Policy) ApproversOf(provider sources.Provider) []Rule { return p.of(ApprovedBy, provider) }

// KeysFor returns the keys of a rule that may sign a provider's packages.
func (r Rule) KeysFor(p sources.Provider) (keys []sources.Fingerprint) {
	for _, t := range r.Keys {
		if match(t.Providers, p) {
			keys = append(keys, t.Keys...)
		}
	}
	return keys
}

// DeclaredPlatforms returns the platforms that rules declare, in their order, without duplicates.
func (p *Policy) DeclaredPlatforms() (all []sources.Platform) {
	for _, r := range p.rules() {
		for _, platform := range r.Platforms {
			if !slices.Contains(all, platform) {
				all = append(all, platform)
			}
		}
	}
	return all
}

func matches(patterns []sources.Pattern, p sources.Provider) bool {
	return slices.ContainsFunc(patterns, func(pt sources.Pattern) bool { return match(pt, p) })
}

// match reports whether a pattern matches a provider. A dot at the end of a host's name makes another address for
// engines, but leads to the same server.
func match(pt sources.Pattern, p sources.Provider) bool {
	pt.Host, p.Host = withoutDot(pt.Host), sources.Host(withoutDot(string(p.Host)))
	return pt.Match(p)
}

func withoutDot(host string) string {
	name, port, ok := strings.Cut(host, ":")
	if name = strings.TrimRight(name, "."); ok {
		name += ":" + port
	}
	return name
}
