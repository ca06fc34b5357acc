package cliconfig

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
)

// A policy block sets rules for a layer. All of its rules have its reason and its contact. A file with any
// problem in it is refused: without the rule, more would be allowed.

// policySettings are the names of rules, in the order of the documentation.
var policySettings = sources.Texts([]policy.Setting{
	policy.Allow, policy.Deny, policy.Versions, policy.MinAge, policy.RequireSigned, policy.TrustedKeys, policy.Engines, policy.Platforms,
})

// policy is a field for policy blocks, whose rules it appends.
func (l *loader) policy(layer policy.Layer, to *[]policy.Rule) field {
	return func(e entry) {
		if e.assigned || e.value.kind != isObject || labeled(e.value) {
			l.errorf(e.place, "write policy { … }", "policy must be a block without labels")
			return
		}
		var reason, contact string
		b := &policyBlock{loader: l, layer: layer}
		faults := len(l.diags)
		l.readOwn(e.value, fields{
			string(policy.Allow):         b.filled(b.patterns(policy.Allow)),
			string(policy.Deny):          b.filled(b.patterns(policy.Deny)),
			string(policy.Versions):      b.filled(b.versions()),
			string(policy.MinAge):        b.minAge,
			string(policy.RequireSigned): b.requireSigned,
			string(policy.TrustedKeys):   b.filled(b.trustedKeys),
			string(policy.Engines):       b.filled(b.engines),
			string(policy.Platforms):     b.filled(func(e entry) { b.platforms(e, *to) }),
			"reason":                     l.words(&reason),
			"contact":                    l.words(&contact),
		}, "a policy has "+strings.Join(policySettings, ", ")+", reason and contact")
		if len(l.diags) == faults && !slices.ContainsFunc(e.value.entries, func(e entry) bool { return e.key != "reason" && e.key != "contact" }) {
			l.errorf(e.place, `write one, such as deny = ["acme/legacy"], or remove the block`, "the policy has no rule")
		}
		for _, r := range b.rules {
			r.Reason, r.Contact = reason, contact
			*to = append(*to, r)
		}
	}
}

// A policyBlock collects the rules of a block.
type policyBlock struct {
	*loader
	layer policy.Layer
	rules []policy.Rule
}

// add adds a rule that is at a place.
func (b *policyBlock) add(at place, r policy.Rule) {
	r.Layer, r.File, r.Line = b.layer, at.file, at.line
	b.rules = append(b.rules, r)
}

// filled is a field for a list or a map that is not empty. An empty one looks like a rule that allows nothing.
func (b *policyBlock) filled(read field) field {
	return func(e entry) {
		if v := e.value; v.kind == isList && len(v.items) == 0 || v.kind == isObject && len(v.entries) == 0 {
			b.errorf(v.place, "add one, or remove "+e.key, "%s must have at least one item", e.key)
			return
		}
		read(e)
	}
}

// patterns is a field for a list of providers.
func (b *policyBlock) patterns(s policy.Setting) field {
	return func(e entry) {
		if patterns := b.patternList(e); patterns != nil {
			b.add(e.place, policy.Rule{Setting: s, Providers: patterns})
		}
	}
}

// patternList reads a list of patterns.
func (b *policyBlock) patternList(e entry) (all []sources.Pattern) {
	b.list(func(n *node) {
		pattern, err := sources.ParsePattern(n.text)
		if b.ok(n.place, err) {
			all = append(all, pattern)
		}
	})(e)
	return all
}

// versions is a field for constraints by provider.
func (b *policyBlock) versions() field {
	return b.members("a map of strings", `{ "acme/widget" = "!= 1.2.3" }`, func(e entry) {
		pattern, err := sources.ParsePattern(e.key)
		if !b.ok(e.place, err) || !b.is(e.value, writeQuotes, "the versions of "+e.key+" must be a string", isString) {
			return
		}
		allowed, err := sources.ParseConstraints(e.value.text)
		if b.ok(e.value.place, err) {
			b.add(e.place, policy.Rule{Setting: policy.Versions, Providers: []sources.Pattern{pattern}, Matching: allowed, Text: e.value.text})
		}
	})
}

// minAge reads min_age "7d" { except = […] } or min_age = "7d".
func (b *policyBlock) minAge(e entry) {
	r := policy.Rule{Setting: policy.MinAge, Text: e.value.text}
	if e.value.kind == isObject && labeled(e.value) && len(e.value.entries) == 1 && !labeled(e.value.entries[0].value) {
		block := e.value.entries[0]
		r.Text = block.key
		b.readOwn(block.value, fields{"except": func(e entry) { r.Except = b.patternList(e) }}, "min_age has except")
	} else if !b.is(e.value, `write min_age = "7d", or min_age "7d" { except = ["hashicorp/*"] }`, "min_age must be a string or a block with a label", isString) {
		return
	}
	var err error
	if r.Age, err = parseAge(r.Text); b.ok(e.place, err) {
		b.add(e.place, r)
	}
}

// age is a number with a unit.
var age = regexp.MustCompile(`^([0-9]{1,4})([hdw])$`)

// parseAge parses a number of hours, days or weeks, such as 7d.
func parseAge(text string) (time.Duration, error) {
	m := age.FindStringSubmatch(text)
	if m == nil {
		err := fmt.Errorf("min_age is a number of hours, days or weeks, not %.40q", text)
		return 0, sources.WithHint(err, `write it as in "12h", "7d" or "2w"`)
	}
	n, _ := strconv.Atoi(m[1]) // up to four digits
	unit := map[string]time.Duration{"h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}[m[2]]
	if n == 0 {
		return 0, sources.WithHint(fmt.Errorf("min_age must be more than %s", text), "leave min_age out to allow every age")
	}
	return time.Duration(n) * unit, nil
}

// requireSigned reads require_signed. False is the same as leaving it out.
func (b *policyBlock) requireSigned(e entry) {
	var on bool
	b.flag(&on)(e)
	if on {
		b.add(e.place, policy.Rule{Setting: policy.RequireSigned})
	}
}

// trustedKeys reads the only keys that may sign the providers that match a pattern. Those of several patterns that
// match a provider are alternatives.
func (b *policyBlock) trustedKeys(e entry) {
	first := map[sources.Pattern]place{}
	r := policy.Rule{Setting: policy.TrustedKeys}
	b.members("a map of lists", `{ "acme/*" = ["FINGERPRINT"] }`, func(e entry) {
		pattern, err := sources.ParsePattern(e.key)
		at, again := first[pattern]
		switch {
		case !b.ok(e.place, err):
		case again:
			b.errorf(e.place, "put all keys into one list", "second list of trusted keys for %s; the first is at line %d", e.key, at.line)
		default:
			first[pattern] = e.place
			r.Keys = append(r.Keys, sources.TrustedKeys{Providers: pattern, Keys: b.fingerprints(e)})
		}
	})(e)
	n := 0
	for _, t := range r.Keys {
		n += len(t.Keys)
	}
	if n > maxKeys {
		b.errorf(e.place, "", "trusted_keys has more than %d keys", maxKeys)
	} else if r.Keys != nil {
		b.add(e.place, r)
	}
}

// fingerprints returns the fingerprints in the list for a pattern.
func (l *loader) fingerprints(e entry) []sources.Fingerprint {
	subject := "the trusted keys for " + e.key
	if e.value.kind != isList || len(e.value.items) == 0 {
		l.errorf(e.value.place, `write a list of fingerprints, in double quotes`, "%s must be a list with at least one item", subject)
		return nil
	}
	var keys []sources.Fingerprint
	for _, n := range e.value.items {
		if !l.is(n, writeQuotes, subject+" must be strings", isString) {
			continue
		}
		key, err := sources.ParseFingerprint(n.text)
		if l.ok(n.place, err) {
			keys = append(keys, key)
		}
	}
	return keys
}

// engines reads the versions of engines that may run.
func (b *policyBlock) engines(e entry) {
	r := policy.Rule{Setting: policy.Engines, Engines: map[sources.Engine]sources.Constraints{}}
	b.members("a map of strings", `{ terraform = ">= 1.11", tofu = ">= 1.10" }`, func(e entry) {
		engine := sources.Engine(e.key)
		_, again := r.Engines[engine]
		switch {
		case engine != sources.Terraform && engine != sources.OpenTofu:
			b.errorf(e.place, `write "terraform" or "tofu"`, "engine is terraform or tofu, not %.40q", e.key)
		case again:
			b.errorf(e.place, `write all conditions into one string, as in ">= 1.11, < 2.0"`, "%s is set twice", e.key)
		case b.is(e.value, writeQuotes, "the versions of "+e.key+" must be a string", isString):
			allowed, err := sources.ParseConstraints(e.value.text)
			if b.ok(e.value.place, err) {
				r.Engines[engine] = allowed
			}
		}
	})(e)
	b.add(e.place, r)
}

// MaxPlatforms limits the platforms that a policy may declare, because each is work. There are about twenty that
// anyone uses.
const MaxPlatforms = 50

// maxKeys limits the keys of one setting.
const maxKeys = 200

// platforms reads the platforms that lock files are for. The limit is for all blocks of the file.
func (b *policyBlock) platforms(e entry, before []policy.Rule) {
	r := policy.Rule{Setting: policy.Platforms}
	b.list(func(n *node) {
		platform, err := sources.ParsePlatform(n.text)
		if b.ok(n.place, err) {
			r.Platforms = append(r.Platforms, platform)
		}
	})(e)
	n := len(r.Platforms)
	for _, other := range before {
		n += len(other.Platforms)
	}
	if n > MaxPlatforms {
		b.errorf(e.place, "", "platforms has more than %d items in this file", MaxPlatforms)
		return
	}
	b.add(e.place, r)
}

// maxWords limits text for people, in characters.
const maxWords = 500

// words is a field for a line of text for people. A file in a checkout can have any text, and a terminal obeys some.
func (l *loader) words(to *string) field {
	return func(e entry) {
		if !l.is(e.value, writeQuotes, e.key+" must be a string", isString) {
			return
		}
		text := strings.TrimSpace(e.value.text)
		bad := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) || r == utf8.RuneError })
		switch {
		case bad >= 0:
			l.errorf(e.value.place, "write it as one line", "%s has characters that cannot be shown", e.key)
		case utf8.RuneCountInString(text) > maxWords:
			l.errorf(e.value.place, "put the details into a document and name it here", "%s has more than %d characters", e.key, maxWords)
		default:
			*to = text
		}
	}
}
