package cliconfig

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/larder-cli/larder/cliconfig/syntax"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
)

// A policy block sets rules for a layer. All of its rules have its reason and its contact. A file with any
// problem in it is refused: without the rule, more would be allowed.

// policySettings are the names of rules, in the order of the documentation.
var policySettings = sources.Texts([]policy.Setting{
	policy.Allow, policy.Deny, policy.Versions, policy.MinAge,
	policy.RequireSigned, policy.TrustedKeys, policy.ApprovedBy, policy.Engines, policy.Platforms,
})

// policyBlockName is the name of the blocks with rules.
const policyBlockName = "policy"

// policy is a field for policy blocks, whose rules it appends.
func (l *loader) policy(layer policy.Layer, to *[]policy.Rule) field {
	return l.plain(func(e syntax.Entry) {
		var reason, contact string
		b := &policyBlock{loader: l}
		faults := len(l.diags)
		l.readOwn(e.Value, fields{
			string(policy.Allow):         b.providers(policy.Allow),
			string(policy.Deny):          b.providers(policy.Deny),
			string(policy.Versions):      b.versions(),
			string(policy.MinAge):        b.minAge,
			string(policy.RequireSigned): b.requireSigned,
			string(policy.TrustedKeys):   b.filled(b.trustedKeys),
			string(policy.ApprovedBy):    b.approvedBy,
			string(policy.Engines):       b.filled(b.engines),
			string(policy.Platforms):     b.platforms(*to),
			"except":                     l.ofMinAge,
			"strict":                     l.ofMinAge,
			"reason":                     l.parsed(words("reason", &reason), syntax.String),
			"contact":                    l.parsed(words("contact", &contact), syntax.String),
		}, "a policy has "+strings.Join(policySettings, ", ")+", reason and contact")
		isRule := func(e syntax.Entry) bool { return e.Key != "reason" && e.Key != "contact" }
		if len(l.diags) == faults && !slices.ContainsFunc(e.Value.Entries, isRule) {
			l.errorf(e.Place, `write one, such as deny = ["acme/legacy"], or remove the block`, "the policy has no rule")
		}
		for _, r := range b.rules {
			r.Layer, r.Reason, r.Contact = layer, reason, contact
			*to = append(*to, r)
		}
	})
}

// A policyBlock collects the rules of a block.
type policyBlock struct {
	*loader
	rules []policy.Rule
}

// add adds a rule that is at a place.
func (b *policyBlock) add(at Place, r policy.Rule) {
	r.File, r.Line = at.File, at.Line
	b.rules = append(b.rules, r)
}

// filled is a field for a list or a map that is not empty. An empty one looks like a rule that allows nothing.
func (b *policyBlock) filled(read field) field {
	return func(e syntax.Entry) {
		if v := e.Value; v.Kind == syntax.List && len(v.Items) == 0 || v.Kind == syntax.Object && len(v.Entries) == 0 {
			b.errorf(v.Place, "add one, or remove "+e.Key, "%s must have at least one item", e.Key)
			return
		}
		read(e)
	}
}

// providers is a field for a list of providers.
func (b *policyBlock) providers(s policy.Setting) field {
	return b.filled(func(e syntax.Entry) {
		r := policy.Rule{Setting: s}
		if b.patterns(&r.Providers)(e); r.Providers != nil {
			b.add(e.Place, r)
		}
	})
}

// versions is a field for constraints by provider.
func (b *policyBlock) versions() field {
	return b.filled(b.members("a map of strings", `{ "acme/widget" = "!= 1.2.3" }`, func(e syntax.Entry) {
		r := policy.Rule{Setting: policy.Versions, Text: e.Value.Text}
		if b.ok(e.Place, appending(&r.Providers, sources.ParsePattern)(e.Key)) && b.constraints(e, &r.Matching) {
			b.add(e.Place, r)
		}
	}))
}

// constraints reads the constraints in a string, and reports whether they have no errors.
func (l *loader) constraints(e syntax.Entry, to *sources.Constraints) (ok bool) {
	if l.is(e.Value, writeQuotes, "the versions of "+e.Key+" must be a string", syntax.String) {
		var err error
		*to, err = sources.ParseConstraints(e.Value.Text)
		ok = l.ok(e.Value.Place, err)
	}
	return ok
}

// ofMinAge refuses a setting of min_age beside it.
func (l *loader) ofMinAge(e syntax.Entry) {
	example := map[string]string{"except": `["acme/*"]`, "strict": "true"}[e.Key]
	l.errorf(e.Place, fmt.Sprintf(`write it in the block of min_age, as in min_age "7d" { %s = %s }`, e.Key, example),
		"%s is a setting of min_age", e.Key)
}

// minAge reads min_age "7d" { except = […], strict = true } or min_age = "7d".
func (b *policyBlock) minAge(e syntax.Entry) {
	r := policy.Rule{Setting: policy.MinAge, Text: e.Value.Text}
	labeled := e.Value.Kind == syntax.Object && e.Value.Labeled() && len(e.Value.Entries) == 1
	if labeled && !e.Value.Entries[0].Value.Labeled() {
		block := e.Value.Entries[0]
		r.Text = block.Key
		own := fields{"except": b.patterns(&r.Except), "strict": b.flag(&r.Strict)}
		b.readOwn(block.Value, own, "min_age has except and strict")
	} else if !b.is(e.Value, `write min_age = "7d", or min_age "7d" { except = ["hashicorp/*"] }`,
		"min_age must be a string or a block with a label", syntax.String) {
		return
	}
	var err error
	if r.Age, err = sources.ParseAge(r.Text); err != nil {
		err = fmt.Errorf("min_age: %.40q is %w", r.Text, err)
	}
	if b.ok(e.Place, err) {
		b.add(e.Place, r)
	}
}

// requireSigned reads require_signed. False is the same as leaving it out.
func (b *policyBlock) requireSigned(e syntax.Entry) {
	var on bool
	b.flag(&on)(e)
	if on {
		b.add(e.Place, policy.Rule{Setting: policy.RequireSigned})
	}
}

// trustedKeys reads the only keys that may sign the providers that match a pattern. Those of several patterns that
// match a provider are alternatives.
func (b *policyBlock) trustedKeys(e syntax.Entry) {
	first := map[sources.Pattern]Place{}
	r := policy.Rule{Setting: policy.TrustedKeys}
	b.members("a map of lists", `{ "acme/*" = ["FINGERPRINT"] }`, func(e syntax.Entry) {
		pattern, err := sources.ParsePattern(e.Key)
		at, again := first[pattern]
		switch {
		case !b.ok(e.Place, err):
		case again:
			b.errorf(e.Place, "put all keys into one list",
				"second list of trusted keys for %s; the first is at line %d", e.Key, at.Line)
		default:
			first[pattern] = e.Place
			keys := b.fingerprints(e, "the trusted keys for "+e.Key)
			r.Keys = append(r.Keys, sources.TrustedKeys{Providers: pattern, Keys: keys})
		}
	})(e)
	n := 0
	for _, t := range r.Keys {
		n += len(t.Keys)
	}
	if n > maxKeys {
		b.errorf(e.Place, "", "trusted_keys has more than %d keys", maxKeys)
	} else if r.Keys != nil {
		b.add(e.Place, r)
	}
}

// approvedBy reads the keys that approve sets of packages.
func (b *policyBlock) approvedBy(e syntax.Entry) {
	r := policy.Rule{Setting: policy.ApprovedBy, Approvers: b.fingerprints(e, e.Key)}
	if len(r.Approvers) > maxKeys {
		b.errorf(e.Place, "", "%s has more than %d keys", e.Key, maxKeys)
	} else if r.Approvers != nil {
		b.add(e.Place, r)
	}
}

// fingerprints returns the fingerprints in the list of a subject.
func (l *loader) fingerprints(e syntax.Entry, subject string) (keys []sources.Fingerprint) {
	if e.Value.Kind != syntax.List || len(e.Value.Items) == 0 {
		l.errorf(e.Value.Place, "write a list of fingerprints, in double quotes",
			"%s must be a list with at least one item", subject)
		return nil
	}
	for _, n := range e.Value.Items {
		if l.is(n, writeQuotes, subject+" must be strings", syntax.String) {
			l.ok(n.Place, appending(&keys, sources.ParseFingerprint)(n.Text))
		}
	}
	return keys
}

// engines reads the versions of engines that may run.
func (b *policyBlock) engines(e syntax.Entry) {
	r := policy.Rule{Setting: policy.Engines, Engines: map[sources.Engine]sources.Constraints{}}
	b.members("a map of strings", `{ terraform = ">= 1.11", tofu = ">= 1.10" }`, func(e syntax.Entry) {
		engine, err := parseEngine(e.Key)
		if _, again := r.Engines[engine]; again {
			err = fmt.Errorf("%s is set twice", e.Key)
			err = sources.WithHint(err, `write all conditions into one string, as in ">= 1.11, < 2.0"`)
		}
		var allowed sources.Constraints
		if b.ok(e.Place, err) && b.constraints(e, &allowed) {
			r.Engines[engine] = allowed
		}
	})(e)
	b.add(e.Place, r)
}

// MaxPlatforms limits the platforms that a policy may declare, because each is work. There are about twenty that
// anyone uses.
const MaxPlatforms = 50

// maxKeys limits the keys of one setting.
const maxKeys = 200

// platforms is a field for the platforms that lock files are for. The limit is for all blocks of the file.
func (b *policyBlock) platforms(before []policy.Rule) field {
	return b.filled(func(e syntax.Entry) {
		r := policy.Rule{Setting: policy.Platforms}
		b.list(appending(&r.Platforms, sources.ParseKnownPlatform))(e)
		n := len(r.Platforms)
		for _, other := range before {
			n += len(other.Platforms)
		}
		if n > MaxPlatforms {
			b.errorf(e.Place, "", "platforms has more than %d items in this file", MaxPlatforms)
			return
		}
		b.add(e.Place, r)
	})
}

// maxWords limits text for people, in characters.
const maxWords = 500

// words returns a function that reads a line of text for people. A file in a checkout can have any text, and a terminal
// obeys some.
func words(setting string, to *string) func(text string) error {
	return func(text string) error {
		text = strings.TrimSpace(text)
		bad := func(r rune) bool { return !unicode.IsGraphic(r) || r == utf8.RuneError }
		switch {
		case strings.ContainsFunc(text, bad):
			err := fmt.Errorf("%s has characters that cannot be shown", setting)
			return sources.WithHint(err, "write it as one line")
		case utf8.RuneCountInString(text) > maxWords:
			err := fmt.Errorf("%s has more than %d characters", setting, maxWords)
			return sources.WithHint(err, "put the details into a document and name it here")
		}
		*to = text
		return nil
	}
}
