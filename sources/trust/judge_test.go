package trust_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

// widget is the package of filename.
var widget = must(sources.ParsePackageID("example.test/acme/widget", "1.0.0", "linux_amd64"))

// recorded returns a proof after it was written to a record and read again.
func recorded(t *testing.T, p sources.Proof) sources.Proof {
	t.Helper()
	text := sourcetest.Must(json.Marshal(p))(t)
	var read sources.Proof
	check(t, json.Unmarshal(text, &read))
	return read
}

// What was proved does not depend on the settings, and what it is worth depends on nothing else
// but the settings of the run that asks.
func TestVerdictsOnRecordedProofs(t *testing.T) {
	key, mortal := newKey(t, 0), newKey(t, 2*year)
	own, other := fingerprint(key), fingerprint(newKey(t, 0))
	pinned := func(f sources.Fingerprint) *policy.Policy {
		return pinning(sources.TrustedKeys{Providers: sources.Pattern{Host: "*", Namespace: "acme", Type: "*"}, Keys: []sources.Fingerprint{f}})
	}
	settings := []struct {
		name            string
		options         trust.Options
		carried, listed sources.Verdict
		mortal          sources.Verdict // of a listed key that has expired since
	}{
		{"none", trust.Options{}, sources.MirrorEvidence, sources.SelfSigned, sources.SelfSigned},
		{"accepted", trust.Options{Accepted: []sources.Fingerprint{own}}, sources.SignedByTrusted, sources.SignedByTrusted, sources.SelfSigned},
		{"another accepted", trust.Options{Accepted: []sources.Fingerprint{other}}, sources.MirrorEvidence, sources.SelfSigned, sources.SelfSigned},
		{"pinned", trust.Options{Policy: pinned(own)}, sources.SignedByTrusted, sources.SignedByTrusted, sources.MirrorEvidence},
		{"another pinned", trust.Options{Policy: pinned(other)}, sources.MirrorEvidence, sources.MirrorEvidence, sources.MirrorEvidence},
		{"HashiCorp's", trust.Options{HashiCorpKey: own}, sources.SignedByHashiCorp, sources.SignedByHashiCorp, sources.SelfSigned},
		{"enforced expiry", trust.Options{EnforceGPGExpiration: true}, sources.MirrorEvidence, sources.SelfSigned, sources.HashOnly},
		{"a clock behind", trust.Options{Now: func() time.Time { return born }}, sources.HashOnly, sources.HashOnly, sources.HashOnly},
	}
	at1 := born.Add(year)
	expired := signed(t, mortal, mortal)
	expired.Signature = signWith(t, immortal(mortal), sums, at(at1, 0))
	for _, then := range settings {
		for _, asking := range settings {
			t.Run(then.name+", "+asking.name, func(t *testing.T) {
				judge := func(o trust.Options) trust.Judge {
					if o.Now == nil {
						o.Now = atNow
					}
					return trust.Judge{Options: o}
				}
				for _, c := range []struct {
					s    *sources.Signed
					want sources.Verdict
				}{{signed(t, key, key), asking.carried}, {listed(signed(t, key, key)), asking.listed}, {listed(expired), asking.mortal}} {
					storing := judge(then.options)
					storing.Options.Now = atNow
					proof := sourcetest.Must(storing.Prove(context.Background(), widget.Provider, c.s, zh))(t)
					r := judge(asking.options).Report(widget.Provider, recorded(t, proof))
					sourcetest.Expect(t, r.Verdict == c.want, "got %q, want %q", r.Verdict, c.want)
				}
			})
		}
	}
}

func atNow() time.Time { return now }

func TestRequirements(t *testing.T) {
	key := newKey(t, 0)
	by := func(from sources.KeyOrigin, name string) sources.Proof {
		return sources.Proof{Matched: true, Name: name, Signers: []sources.Signer{{Fingerprint: fingerprint(key), From: from, Signed: born}}}
	}
	trusted := trust.Options{Accepted: []sources.Fingerprint{fingerprint(key)}}
	others := trust.Options{Policy: pinning(sources.TrustedKeys{Providers: sources.Pattern{Host: "*", Namespace: "*", Type: "*"}, Keys: []sources.Fingerprint{"another"}})}
	for _, test := range []struct {
		name            string
		proof           sources.Proof
		options         trust.Options
		signed, trusted string // in the error; empty if there is none
		hint            string
	}{
		{"nothing", sources.Proof{}, trust.Options{}, `a signature is required, but the package has none`, `a signature by a trusted key is required, but the package has none`, "mirror sync"},
		{"a hash", sources.Proof{Matched: true}, trust.Options{}, `but the package has none`, `but the package has none`, "use the origin registry"},
		{"from the mirror", by(sources.KeyFromMirror, filename), trust.Options{}, "", "but the package is signed with the key " + string(fingerprint(key)) + " from the mirror", "announced this key"},
		{"from the registry", by(sources.KeyFromRegistry, filename), trust.Options{}, "", `but the package is "self-signed", with the key`, "with --trust-key"},
		{"trusted", by(sources.KeyFromMirror, filename), trusted, "", "", ""},
		{"known", by(sources.KeyFromMirror, filename), trust.Options{HashiCorpKey: fingerprint(key)}, "", "", ""},
		{"another name", by(sources.KeyFromRegistry, "terraform-provider-widget_0.9.0_linux_amd64.zip"), trusted, `the signed checksums are for "terraform-provider-widget_0.9.0_linux_amd64.zip"`, "the signed checksums are for", ""},
		{"other keys pinned", by(sources.KeyFromRegistry, filename), others, "the only trusted keys for this provider are another", "the only trusted keys for this provider are another", "add its fingerprint to trusted_keys"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for require, want := range map[trust.Requirement]string{trust.RequireNothing: "", trust.RequireSigned: test.signed, trust.RequireTrusted: test.trusted} {
				j := trust.Judge{Options: test.options, Require: require}
				if _, ok := j.Options.Policy.SignedBy(widget.Provider); ok && require == trust.RequireNothing {
					want, require = test.signed, trust.RequireSigned
				}
				err := j.Check(widget, j.Report(widget.Provider, test.proof))
				sourcetest.Expect(t, (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want)),
					"%v: got %v, want %q", require, err, want)
				if err == nil || test.hint == "" {
					continue
				}
				refused, ok := errors.AsType[*trust.NotSignedError](err)
				sourcetest.Expect(t, ok && refused.Required == require, "got a %T", err)
				sourcetest.Expect(t, strings.Contains(strings.Join(sources.Hints(err), ""), test.hint), "hints: %q", sources.Hints(err))
			}
		})
	}
}

// OpenTofu's registry lists no keys for some providers. Their checksums prove only the hash.
func TestEvidenceWithoutKeys(t *testing.T) {
	s := signed(t, newKey(t, 0))
	proof, err := trust.Judge{}.Prove(context.Background(), sources.Provider{Host: "registry.opentofu.org"}, s, zh)
	sourcetest.Expect(t, err == nil && proof.Matched && !proof.Signed() && proof.Name == filename, "got %+v, %v", proof, err)
	_, err = trust.Judge{}.Prove(context.Background(), widget.Provider, s, zh)
	sourcetest.Expect(t, err != nil, "evidence without keys is accepted")
	_, err = trust.Judge{}.Prove(context.Background(), widget.Provider, s, "zh:00")
	sourcetest.Expect(t, errors.Is(err, trust.WrongChecksum), "got %v", err)
	_, err = trust.Judge{}.Prove(context.Background(), widget.Provider, nil, zh)
	sourcetest.Expect(t, err != nil, "no evidence is accepted")
}

// Several keys may have signed, and may have several states. The best one that is valid counts.
func TestSeveralSigners(t *testing.T) {
	old := sources.Signer{Fingerprint: "OLD", From: sources.KeyFromRegistry, Signed: born, KeyEnds: born.Add(year)}
	valid := sources.Signer{Fingerprint: "VALID", From: sources.KeyFromRegistry, Signed: born}
	over := sources.Signer{Fingerprint: "OVER", From: sources.KeyFromRegistry, Signed: born, SignatureEnds: born.Add(year)}
	carried := sources.Signer{Fingerprint: "CARRIED", From: sources.KeyFromMirror, Signed: born}
	judge := trust.Judge{Options: trust.Options{Now: func() time.Time { return now }}}
	for _, order := range [][]sources.Signer{{carried, old, over, valid}, {valid, old, carried, over}} {
		r := judge.Report(widget.Provider, sources.Proof{Name: filename, Signers: order})
		var by []string
		for _, s := range r.By {
			by = append(by, string(s.Fingerprint))
		}
		sourcetest.Equal(t, strings.Join(by, " "), "VALID OLD CARRIED")
		sourcetest.Expect(t, r.Verdict == sources.SelfSigned && r.Signed == filename && len(r.Notes) == 0, "got %+v", r)
	}
	r := judge.Report(widget.Provider, sources.Proof{Name: filename, Signers: []sources.Signer{old}})
	sourcetest.Expect(t, len(r.Notes) == 1 && strings.Contains(r.Notes[0], "expired on 2020-12-31"), "notes: %q", r.Notes)
	r = judge.Report(widget.Provider, sources.Proof{Signers: []sources.Signer{over}})
	sourcetest.Expect(t, r.Verdict == sources.Unverified && strings.Contains(r.Refused.Error(), "signature expired on 2020-12-31"), "got %+v", r)
}

// pinning returns the policy of a user with trusted keys.
func pinning(keys ...sources.TrustedKeys) *policy.Policy {
	return &policy.Policy{Rules: []policy.Rule{{Setting: policy.TrustedKeys, Layer: policy.User, Keys: keys}}}
}

// A key in a repository's file excludes others, but is not trusted: anyone who can change a checkout can name it.
func TestKeysOfARepository(t *testing.T) {
	key, other := newKey(t, 0), newKey(t, 0)
	proof := sources.Proof{Matched: true, Name: filename, Signers: []sources.Signer{{Fingerprint: fingerprint(key), From: sources.KeyFromMirror, Signed: born}}}
	any := sources.Pattern{Host: "*", Namespace: "*", Type: "*"}
	rule := func(layer policy.Layer, keys ...sources.Fingerprint) policy.Rule {
		return policy.Rule{Setting: policy.TrustedKeys, Layer: layer, Keys: []sources.TrustedKeys{{Providers: any, Keys: keys}}}
	}
	for _, tt := range []struct {
		name    string
		rules   []policy.Rule
		flag    []sources.Fingerprint
		verdict sources.Verdict
		ok      bool
	}{
		{"repository", []policy.Rule{rule(policy.Repository, fingerprint(key))}, nil, sources.MirrorEvidence, true},
		{"site", []policy.Rule{rule(policy.Site, fingerprint(key))}, nil, sources.SignedByTrusted, true},
		{"another key of the repository", []policy.Rule{rule(policy.Repository, fingerprint(other))}, nil, sources.MirrorEvidence, false},
		{"and a flag", []policy.Rule{rule(policy.Repository, fingerprint(other))}, []sources.Fingerprint{fingerprint(key)}, sources.MirrorEvidence, false},
		{"site, and the user another", []policy.Rule{rule(policy.Site, fingerprint(key)), rule(policy.User, fingerprint(other))}, nil, sources.MirrorEvidence, false},
		{"both, and the user more", []policy.Rule{rule(policy.Site, fingerprint(key)), rule(policy.User, fingerprint(other), fingerprint(key))}, nil, sources.SignedByTrusted, true},
	} {
		j := trust.Judge{Options: trust.Options{Policy: &policy.Policy{Rules: tt.rules}, Accepted: tt.flag, Now: atNow}}
		r := j.Report(widget.Provider, proof)
		err := j.Check(widget, r)
		sourcetest.Expect(t, r.Verdict == tt.verdict && (err == nil) == tt.ok, "%s: got %s, %v", tt.name, r.Verdict, err)
	}
}
