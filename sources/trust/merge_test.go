package trust_test

import (
	"bytes"
	"context"
	"crypto"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

// evidenceBy returns evidence for the archive, signed by key. The checksums
// also list the others.
func evidenceBy(t testing.TB, key *openpgp.Entity, others ...string) *sources.Signed {
	t.Helper()
	s := &sources.Signed{Sums: sums, Keys: []sources.Key{public(t, key)}}
	for _, name := range others {
		line := strings.Repeat("ab", 32) + "  " + name + "\n"
		s.Sums = append(slices.Clone(s.Sums), line...)
	}
	s.Signature = sign(t, key, s.Sums, born.Add(year))
	return s
}

func merge(a, b *sources.Signed, opts trust.Options) (*sources.Signed, error) {
	return trust.Judge{Options: opts}.Merge(context.Background(), widget.Provider, a, b)
}

func listed(s *sources.Signed) *sources.Signed {
	if s == nil {
		return nil
	}
	with := *s
	with.Keys = slices.Clone(s.Keys)
	for i, k := range with.Keys {
		with.Keys[i] = k.AsListed(true)
	}
	return &with
}

func stored(s *sources.Signed, opts trust.Options) sources.Verdict {
	return storedFor(widget.Provider, s, opts)
}

func storedFor(p sources.Provider, s *sources.Signed, opts trust.Options) sources.Verdict {
	opts.Now = func() time.Time { return now }
	r, err := trust.Judge{Options: opts}.Verify(context.Background(), p, s, zh)
	if err != nil {
		return sources.Unverified
	}
	return r.Verdict
}

func TestMergeKeepsTheBetterEvidence(t *testing.T) {
	hashicorp, trusted, registry, renewed, mirror, other := newKey(t, 0), newKey(t, 0), newKey(t, 0), newKey(t, 0), newKey(t, 0), newKey(t, 0)
	opts := trust.Options{
		HashiCorpKey: fingerprint(hashicorp), Accepted: []sources.Fingerprint{fingerprint(trusted)},
		Now: func() time.Time { return now },
	}
	ranked := []struct {
		name string
		make func(others ...string) *sources.Signed
	}{
		{"unsigned who is there", func(others ...string) *sources.Signed {
			s := evidenceBy(t, mirror, others...)
			s.Keys[0] = public(t, other)
			return s
		}},
		{"key from a mirror", func(others ...string) *sources.Signed { return evidenceBy(t, mirror, others...) }},
		{"key of a registry", func(others ...string) *sources.Signed { return listed(evidenceBy(t, registry, others...)) }},
		{"trusted key", func(others ...string) *sources.Signed { return evidenceBy(t, trusted, others...) }},
		{"HashiCorp", func(others ...string) *sources.Signed { return evidenceBy(t, hashicorp, others...) }},
	}
	for i, old := range ranked {
		for j, new := range ranked {
			t.Run(old.name+", then "+new.name, func(t *testing.T) {
				a, b := old.make(), new.make()
				best := max(stored(a, opts), stored(b, opts))
				kept, err := merge(a, b, opts)
				sourcetest.Expect(t, err == nil && stored(kept, opts) == best,
					"same checksums: got %v, %v", stored(kept, opts), err)
				if i > 0 && j > 0 && i != j {
					for _, s := range []*sources.Signed{a, b} {
						if !slices.ContainsFunc(kept.Keys, func(k sources.Key) bool { return k == s.Keys[0] }) {
							t.Error("same checksums: a key is lost")
						}
					}
					alone := (&sources.Signed{Sums: kept.Sums, Signature: kept.Signature, Keys: b.Keys})
					sourcetest.Expect(t, stored(alone, opts) == stored(b, opts), "same checksums: a signature is lost")
				}

				b = new.make("else.zip")
				kept, err = merge(a, b, opts)
				flagged := old.name == "key of a registry" && new.name == "trusted key" // only this run accepts it
				switch {
				case j >= i && !flagged:
					sourcetest.Expect(t, err == nil && bytes.Equal(kept.Sums, b.Sums) && stored(kept, opts) == stored(b, opts),
						"other checksums: got %v, %v", stored(kept, opts), err)
				case !errors.Is(err, trust.Downgraded) || kept != a:
					t.Errorf("other checksums: got %v, %v", stored(kept, opts), err)
				case !strings.Contains(err.Error(), string(fingerprint(map[int]*openpgp.Entity{1: mirror, 2: registry, 3: trusted, 4: hashicorp}[i]))):
					t.Errorf("the error does not say whose evidence is kept: %v", err)
				}
			})
		}
	}

	// If both are equally good, a key that signed both decides, otherwise the
	// registry.
	kept, err := merge(evidenceBy(t, mirror), evidenceBy(t, other, "else.zip"), opts)
	sourcetest.Expect(t, errors.Is(err, trust.Downgraded) && bytes.Equal(kept.Sums, sums), "another key from another mirror: %v", err)
	kept, err = merge(listed(evidenceBy(t, registry)), listed(evidenceBy(t, renewed, "else.zip")), opts)
	sourcetest.Expect(t, errors.Is(err, trust.KeyChanged) && !bytes.Equal(kept.Sums, sums), "another key of the registry: %v", err)
	for _, f := range []sources.Fingerprint{fingerprint(registry), fingerprint(renewed)} {
		sourcetest.Expect(t, err == nil || strings.Contains(err.Error(), string(f)), "%v lacks %s", err, f)
	}
	more := evidenceBy(t, mirror, "else.zip")
	kept, err = merge(more, evidenceBy(t, mirror), opts)
	sourcetest.Expect(t, err == nil && bytes.Equal(kept.Sums, more.Sums), "fewer checksums by the same key: %v", err)
	// New checksums from a mirror are accepted if they are signed by the
	// registry's key.
	if kept, err := merge(listed(evidenceBy(t, registry)), evidenceBy(t, registry, "else.zip"), opts); err != nil || bytes.Equal(kept.Sums, sums) || stored(kept, opts) != sources.SelfSigned {
		t.Errorf("the registry's key, by way of a mirror: %v, %v", stored(kept, opts), err)
	}
	s := evidenceBy(t, mirror)
	sourcetest.Expect(t, s == must(merge(nil, s, opts)) && s == must(merge(s, nil, opts)), "there is only one to keep")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// junk returns an invalid signature that claims to be made by a key.
func junk(t *testing.T, claimed, by *openpgp.Entity) []byte {
	t.Helper()
	return signRaw(t, claimed, by, crypto.SHA256, sums)
}

// No attack on the verdict succeeds without the key.
func TestAttacksOnTheVerdict(t *testing.T) {
	hashicorp, publisher, evil := newKey(t, 0), newKey(t, 0), newKey(t, 0)
	hc, pub, own := public(t, hashicorp), public(t, publisher), public(t, evil)
	opts := trust.Options{
		HashiCorpKey: fingerprint(hashicorp), Accepted: []sources.Fingerprint{fingerprint(publisher)},
		Now: func() time.Time { return now },
	}
	sameID := func(f sources.Fingerprint) sources.Fingerprint {
		return sources.Fingerprint(strings.Repeat("0", 24)) + f[24:]
	}
	attacks := []struct {
		name string
		opts func(*trust.Options)
		edit func(*sources.Signed) // of evidence by the attacker
	}{
		{"others' keys listed too", nil, func(s *sources.Signed) { s.Keys = []sources.Key{hc, pub, own} }},
		{"others' keys in the same block", nil, func(s *sources.Signed) {
			s.Keys = []sources.Key{public(t, hashicorp, publisher, evil)}
		}},
		{"a signature that names another key as its issuer", nil, func(s *sources.Signed) {
			s.Signature, s.Keys = slices.Concat(junk(t, hashicorp, evil), junk(t, publisher, evil), s.Signature), []sources.Key{hc, pub, own}
		}},
		{"others' signatures over other checksums", nil, func(s *sources.Signed) {
			other := []byte("other checksums")
			s.Signature = slices.Concat(sign(t, hashicorp, other, born.Add(year)), sign(t, publisher, other, born.Add(year)), s.Signature)
			s.Keys = []sources.Key{hc, pub, own}
		}},
		{"key ids of other keys", func(o *trust.Options) {
			o.HashiCorpKey, o.Accepted = sameID(fingerprint(evil)), []sources.Fingerprint{sameID(fingerprint(evil))}
		}, func(*sources.Signed) {}},
		{"a trusted key as subkey", nil, func(s *sources.Signed) {
			s.Keys = []sources.Key{withSubkeyOf(t, evil, publisher), withSubkeyOf(t, evil, hashicorp)}
		}},
		{"other packets around it", nil, func(s *sources.Signed) {
			var raw bytes.Buffer
			check(t, hashicorp.Serialize(&raw))
			s.Signature = slices.Concat(raw.Bytes(), s.Signature, raw.Bytes(), []byte{0xc2, 0xff})
			s.Keys = []sources.Key{hc, own}
		}},
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			opts := opts
			if a.opts != nil {
				a.opts(&opts)
			}
			s := evidenceBy(t, evil)
			a.edit(s)
			v := stored(s, opts)
			sourcetest.Expect(t, v <= sources.MirrorEvidence, "is %q", v)
			// Merging with valid evidence does not help the attack, and does
			// not harm the evidence.
			for name, good := range map[string]*sources.Signed{
				"HashiCorp's":    evidenceBy(t, hashicorp),
				"the registry's": listed(evidenceBy(t, publisher)),
			} {
				opts := opts
				opts.Accepted = nil
				want := stored(good, opts)
				kept, _ := merge(good, s, opts)
				if got := stored(kept, opts); got != want || !bytes.Equal(kept.Sums, sums) {
					t.Errorf("merged with %s evidence it is %q instead of %q", name, got, want)
				}
				kept, _ = merge(s, good, opts)
				got := stored(kept, opts)
				sourcetest.Expect(t, got == want, "with %s evidence merged into it it is %q instead of %q", name, got, want)
				theirs := *kept
				theirs.Sums = slices.Concat([]byte(hex.EncodeToString(bytes.Repeat([]byte{7}, 32))+"  evil.zip\n"), sums)
				theirs.Signature = slices.Concat(sign(t, evil, theirs.Sums, born.Add(year)), kept.Signature)
				if got := stored(&theirs, opts); got > sources.MirrorEvidence {
					t.Errorf("with other checksums, what was merged with %s is %q", name, got)
				}
			}
		})
	}
}

// claiming returns owner's key with a subkey of another owner. The subkey is not
// for signing, because that would require a signature of the other owner.
func claiming(t *testing.T, owner *openpgp.Entity, pub packet.PublicKey) *openpgp.Entity {
	t.Helper()
	key := copyOf(owner)
	pub.IsSubkey = true
	binding := &packet.Signature{
		Version: 4, SigType: packet.SigTypeSubkeyBinding, PubKeyAlgo: owner.PrimaryKey.PubKeyAlgo, Hash: crypto.SHA256,
		CreationTime: born, IssuerKeyId: &owner.PrimaryKey.KeyId, FlagsValid: true, FlagEncryptStorage: true,
	}
	check(t, binding.SignKey(&pub, owner.PrivateKey, &packet.Config{}))
	key.Subkeys = append(key.Subkeys, openpgp.Subkey{PublicKey: &pub, Sig: binding})
	return key
}

// withSubkeyOf returns owner's key with another owner's key as a subkey.
func withSubkeyOf(t *testing.T, owner, other *openpgp.Entity) sources.Key {
	t.Helper()
	armor := public(t, claiming(t, owner, *other.PrimaryKey))
	ring, err := openpgp.ReadArmoredKeyRing(strings.NewReader(armor.Armor))
	sourcetest.Require(t, err == nil && len(ring[0].Subkeys) != 0, "the key is not as it should be: %v", err)
	return armor
}

// A trusted subkey does not make its primary key trusted.
func TestTrustedFingerprintsAreThoseOfPrimaryKeys(t *testing.T) {
	key := newKey(t, 0)
	check(t, key.AddSigningSubkey(at(born, 0)))
	sub := sources.Fingerprint(fmt.Sprintf("%X", key.Subkeys[len(key.Subkeys)-1].PublicKey.Fingerprint))
	s := evidenceBy(t, key)
	v := stored(s, trust.Options{Accepted: []sources.Fingerprint{sub}})
	sourcetest.Expect(t, v == sources.MirrorEvidence, "by the subkey's fingerprint: %q", v)
	v = stored(s, trust.Options{Accepted: []sources.Fingerprint{fingerprint(key)}})
	sourcetest.Expect(t, v == sources.SignedByTrusted, "by the primary key's: %q", v)
}

// A key that is revoked in one place is invalid everywhere, and stays invalid.
func TestMergeAndRevokedKeys(t *testing.T) {
	for name, revoke := range map[string]func(*openpgp.Entity) error{
		"key": func(k *openpgp.Entity) error {
			return k.RevokeKey(packet.KeyCompromised, "stolen", at(born.Add(2*year), 0))
		},
		"subkey": func(k *openpgp.Entity) error {
			return k.RevokeSubkey(&k.Subkeys[len(k.Subkeys)-1], packet.KeyCompromised, "stolen", at(born.Add(2*year), 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			stolen, fresh := newKey(t, 0), newKey(t, 0)
			check(t, stolen.AddSigningSubkey(at(born, 0)))
			opts := trust.Options{HashiCorpKey: fingerprint(stolen), Now: func() time.Time { return now }}
			old := listed(evidenceBy(t, stolen))
			sourcetest.Require(t, stored(old, opts) == sources.SignedByHashiCorp, "the key is not good for anything")
			check(t, revoke(stolen))
			new := evidenceBy(t, fresh)
			new.Keys = append(new.Keys, public(t, stolen))
			kept, err := merge(old, listed(new), opts)
			sourcetest.Expect(t, err == nil && stored(kept, opts) == sources.SelfSigned, "got %q, %v", stored(kept, opts), err)
			again, err := merge(kept, old, opts)
			sourcetest.Expect(t, err == nil && stored(again, opts) == sources.SelfSigned,
				"the revoked key is back: %q, %v", stored(again, opts), err)
			both := *old
			both.Keys = append(slices.Clone(old.Keys), public(t, stolen))
			sourcetest.Equal(t, stored(&both, opts), sources.Unverified, "listed as it was and revoked")
		})
	}
}

// A key can claim another key's subkey and revoke it, but that does not affect
// the other key.
func TestRevokingTheSubkeyOfAnotherKeyHasNoEffect(t *testing.T) {
	key, evil := newKey(t, 0), newKey(t, 0)
	check(t, key.AddSigningSubkey(at(born, 0)))
	s := evidenceBy(t, key)
	claimed := claiming(t, evil, *key.Subkeys[len(key.Subkeys)-1].PublicKey)
	check(t, claimed.RevokeSubkey(&claimed.Subkeys[len(claimed.Subkeys)-1], packet.KeyCompromised, "", at(born, 0)))
	s.Keys = append(s.Keys, public(t, claimed))
	sourcetest.Equal(t, stored(s, trust.Options{}), sources.MirrorEvidence)
}

// Another state of a key in a mirror, expired or renewed, does not invalidate
// other signatures.
func TestMergeAndExpiredKeys(t *testing.T) {
	mortal, fresh := newKey(t, 2*year), newKey(t, 0)
	opts := trust.Options{Now: func() time.Time { return now }}
	old := listed(evidenceBy(t, mortal))
	late := &sources.Signed{Sums: sums, Signature: signWith(t, immortal(mortal), sums, at(born.Add(3*year), 0)), Keys: old.Keys}
	v := stored(late, opts)
	sourcetest.Require(t, v == sources.Unverified, "signed after the key expired, and is %q", v)
	for name, new := range map[string]*sources.Signed{"too late": late, "another": evidenceBy(t, fresh)} {
		if kept, err := merge(old, new, opts); err != nil || stored(kept, opts) != sources.SelfSigned {
			t.Errorf("%s: got %q, %v", name, stored(kept, opts), err)
		}
		if kept, err := merge(new, old, opts); err != nil || stored(kept, opts) != sources.SelfSigned {
			t.Errorf("%s before: got %q, %v", name, stored(kept, opts), err)
		}
	}
}

// Evidence cannot be filled with keys or signatures so that valid ones no
// longer fit.
func TestMergeHasLimits(t *testing.T) {
	hashicorp, evil := newKey(t, 0), newKey(t, 0)
	opts := trust.Options{HashiCorpKey: fingerprint(hashicorp), Now: func() time.Time { return now }}
	good := evidenceBy(t, hashicorp)
	huge := evidenceBy(t, evil)
	huge.Keys = slices.Repeat(huge.Keys, 5000)
	begun := time.Now()
	kept, err := merge(good, huge, opts)
	sourcetest.Expect(t, err == nil && len(kept.Keys) == 1, "thousands of keys: %d kept, %v", len(kept.Keys), err)
	if kept, err := merge(huge, good, opts); err != nil || stored(kept, opts) != sources.SignedByHashiCorp {
		t.Errorf("thousands of keys before: %q, %v", stored(kept, opts), err)
	}
	took := time.Since(begun)
	sourcetest.Expect(t, took <= 5*time.Second, "it took %s", took)
	kept = good
	for range 40 {
		kept = must(merge(kept, evidenceBy(t, newKey(t, 0)), opts))
	}
	n := len(kept.Keys)
	sourcetest.Expect(t, n <= 16 && stored(kept, opts) == sources.SignedByHashiCorp, "%d keys, %q", n, stored(kept, opts))
	for range 3 {
		full := kept
		if kept = must(merge(evidenceBy(t, evil), full, opts)); stored(kept, opts) != sources.SignedByHashiCorp {
			t.Errorf("is %q", stored(kept, opts))
		}
	}
	many := evidenceBy(t, evil)
	many.Signature = bytes.Repeat(many.Signature, 100)
	sourcetest.Equal(t, stored(many, opts), sources.Unverified, "100 signatures")
}

// A block with the registry's key and another key is not the block that the
// registry listed.
func TestOnlyTheListedKeyCountsAsListed(t *testing.T) {
	publisher, evil := newKey(t, 0), newKey(t, 0)
	opts := trust.Options{Now: func() time.Time { return now }}
	old := listed(evidenceBy(t, publisher))
	new := evidenceBy(t, evil)
	new.Keys = []sources.Key{public(t, publisher, evil)}
	kept := must(merge(old, new, opts))
	for _, k := range kept.Keys {
		sourcetest.Equal(t, k.Listed(), k == old.Keys[0], "a block is listed that is not the registry's")
	}
	kept.Sums = append(slices.Clone(sums), "x y\n"...)
	kept.Signature = sign(t, evil, kept.Sums, born.Add(year))
	sourcetest.Equal(t, stored(kept, opts), sources.MirrorEvidence)
}

func TestPinnedKeys(t *testing.T) {
	hashicorp, trusted, other := newKey(t, 0), newKey(t, 0), newKey(t, 0)
	widget, _ := sources.ParseProvider("acme/widget", sources.Terraform)
	elsewhere, _ := sources.ParseProvider("else/widget", sources.Terraform)
	acme, _ := sources.ParsePattern("acme/*")
	base := trust.Options{
		HashiCorpKey: fingerprint(hashicorp), Now: func() time.Time { return now },
		Policy: pinning(sources.TrustedKeys{Providers: acme, Keys: []sources.Fingerprint{fingerprint(trusted)}}),
	}
	for _, tt := range []struct {
		name       string
		s          *sources.Signed
		at, beyond sources.Verdict // for a provider with trusted keys, and for another one
	}{
		{"trusted", evidenceBy(t, trusted), sources.SignedByTrusted, sources.MirrorEvidence},
		{"HashiCorp", evidenceBy(t, hashicorp), sources.MirrorEvidence, sources.SignedByHashiCorp},
		{"a registry's", listed(evidenceBy(t, other)), sources.MirrorEvidence, sources.SelfSigned},
		{"a mirror's", evidenceBy(t, other), sources.MirrorEvidence, sources.MirrorEvidence},
	} {
		opts := base
		r, err := trust.Judge{Options: opts}.Verify(context.Background(), widget, tt.s, zh)
		sourcetest.Expect(t, err == nil && r.Verdict == tt.at, "%s: got %q, %v", tt.name, r.Verdict, err)
		sourcetest.Expect(t, errors.Is(r.Refused, trust.UntrustedKey) == (tt.at != sources.SignedByTrusted),
			"%s: got %v", tt.name, r.Refused)
		if r.Refused != nil && (!strings.Contains(r.Refused.Error(), string(r.Best().Fingerprint)) || !strings.Contains(r.Refused.Error(), string(fingerprint(trusted)))) {
			t.Errorf("%s: %v lacks a fingerprint", tt.name, r.Refused)
		}
		sourcetest.Equal(t, storedFor(elsewhere, tt.s, base), tt.beyond, tt.name, "for another provider")
		opts.Accepted = []sources.Fingerprint{r.Best().Fingerprint}
		sourcetest.Equal(t, storedFor(widget, tt.s, opts), tt.at, tt.name, "whatever the flag says")
	}
	r, err := trust.Judge{Options: base}.VerifyFile(context.Background(), widget, listed(evidenceBy(t, other)), filename, zh)
	sourcetest.Expect(t, err == nil && r.Verdict == sources.MirrorEvidence && r.Best().From == sources.KeyFromRegistry,
		"straight from the registry: %v, %v", r, err)
}

// Evidence of a registry that lists no keys is better than evidence with an invalid signature.
func TestMergeWithoutKeys(t *testing.T) {
	key, other := newKey(t, 0), newKey(t, 0)
	keyless, invalid := evidenceBy(t, key), evidenceBy(t, key, "else.zip")
	keyless.Keys, invalid.Keys = nil, []sources.Key{public(t, other)}
	kept, err := merge(keyless, invalid, trust.Options{Now: atNow})
	sourcetest.Expect(t, kept == keyless && errors.Is(err, trust.Downgraded), "got %v", err)
	kept, err = merge(invalid, keyless, trust.Options{Now: atNow})
	sourcetest.Expect(t, err == nil && bytes.Equal(kept.Sums, keyless.Sums), "got %v", err)
	again := evidenceBy(t, key, "else.zip")
	again.Keys = nil
	kept, err = merge(keyless, again, trust.Options{Now: atNow})
	sourcetest.Expect(t, err == nil && bytes.Equal(kept.Sums, again.Sums), "got %v", err)
}

func TestCompareKeys(t *testing.T) {
	a, b := newKey(t, 0), newKey(t, 0)
	opts := trust.Options{Now: func() time.Time { return now }}
	both := must(merge(evidenceBy(t, a), evidenceBy(t, b), opts))
	for _, tt := range []struct {
		name     string
		was, now *sources.Signed
		changed  bool
	}{
		{"same", evidenceBy(t, a), evidenceBy(t, a, "x.zip"), false},
		{"changed", evidenceBy(t, a), evidenceBy(t, b, "x.zip"), true},
		{"one of two", both, evidenceBy(t, b, "x.zip"), false},
		{"not signed", &sources.Signed{Sums: sums}, evidenceBy(t, b), false},
	} {
		err := trust.Judge{Options: opts}.CompareKeys(context.Background(), widget.Provider, sources.Version{}, tt.was, tt.now)
		sourcetest.Expect(t, errors.Is(err, trust.KeyChanged) == tt.changed, "%s: got %v", tt.name, err)
	}
}
