package trust_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

const filename = "terraform-provider-widget_1.0.0_linux_amd64.zip"

var (
	sum  = sha256.Sum256([]byte("the archive"))
	zh   = sources.ZipHash(sum)
	sums = []byte(hex.EncodeToString(sum[:]) + "  " + filename + "\n")

	// Keys are created in 2020, and the current year is 2025.
	born = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	now  = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
)

const year = 365 * 24 * time.Hour

// at returns the configuration for keys and signatures made at t with a
// lifetime; 0 means no limit.
func at(t time.Time, life time.Duration) *packet.Config {
	return &packet.Config{
		Algorithm: packet.PubKeyAlgoEdDSA, Curve: packet.Curve25519,
		Time: func() time.Time { return t }, KeyLifetimeSecs: uint32(life.Seconds()),
	}
}

func newKey(t testing.TB, life time.Duration) *openpgp.Entity {
	t.Helper()
	return sourcetest.Must(openpgp.NewEntity("Acme", "", "acme@example.org", at(born, life)))(t)
}

func armored(t testing.TB, blockType string, raw []byte) string {
	t.Helper()
	var text bytes.Buffer
	w := sourcetest.Must(armor.Encode(&text, blockType, nil))(t)
	sourcetest.Must(w.Write(raw))(t)
	check(t, w.Close())
	return text.String()
}

// public returns keys in a single block.
func public(t testing.TB, keys ...*openpgp.Entity) sources.Key {
	t.Helper()
	var raw bytes.Buffer
	for _, key := range keys {
		check(t, key.Serialize(&raw))
	}
	return sources.Key{Armor: armored(t, openpgp.PublicKeyType, raw.Bytes())}
}

func sign(t testing.TB, key *openpgp.Entity, doc []byte, when time.Time) []byte {
	t.Helper()
	return signWith(t, key, doc, at(when, 0))
}

func signWith(t testing.TB, key *openpgp.Entity, doc []byte, config *packet.Config) []byte {
	t.Helper()
	var sig bytes.Buffer
	check(t, openpgp.DetachSign(&sig, key, bytes.NewReader(doc), config))
	return sig.Bytes()
}

func fingerprint(key *openpgp.Entity) sources.Fingerprint {
	return sources.Fingerprint(fmt.Sprintf("%X", key.PrimaryKey.Fingerprint))
}

func verify(s *sources.Signed, opts trust.Options) (trust.Verified, error) {
	return verifyFor(widget.Provider, s, opts)
}

// verifyFor verifies evidence of the origin registry.
func verifyFor(p sources.Provider, s *sources.Signed, opts trust.Options) (trust.Verified, error) {
	if opts.Now == nil {
		opts.Now = func() time.Time { return now }
	}
	return trust.Judge{Options: opts}.VerifyFile(context.Background(), p, listed(s), filename, zh)
}

// signed returns sums signed by key one year after its creation, with the
// listed keys.
func signed(t testing.TB, key *openpgp.Entity, listed ...*openpgp.Entity) *sources.Signed {
	t.Helper()
	s := &sources.Signed{Sums: sums, Signature: sign(t, key, sums, born.Add(year))}
	for _, k := range listed {
		s.Keys = append(s.Keys, public(t, k))
	}
	return s
}

func TestGoodSignatures(t *testing.T) {
	key, other := newKey(t, 0), newKey(t, 0)
	withSubkey := newKey(t, 0)
	check(t, withSubkey.AddSigningSubkey(at(born, 0)))
	both := signed(t, key, key)
	both.Signature = slices.Concat(sign(t, other, sums, born.Add(year)), both.Signature)
	tests := []struct {
		name string
		s    *sources.Signed
		by   *openpgp.Entity
	}{
		{"one key", signed(t, key, key), key},
		{"second key of two", signed(t, key, other, key), key},
		{"signing subkey", signed(t, withSubkey, withSubkey), withSubkey},
		{"two signatures", both, key},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := sourcetest.Must(verify(test.s, trust.Options{}))(t)
			by := sources.SignedBy{
				Verdict: sources.SelfSigned, KeyID: test.by.PrimaryKey.KeyIdString(), UserID: "Acme <acme@example.org>",
				Fingerprint: fingerprint(test.by), From: sources.KeyFromRegistry,
			}
			want := sources.Report{Verdict: by.Verdict, Signed: filename, By: []sources.SignedBy{by}}
			sourcetest.Expect(t, reflect.DeepEqual(r.Report, want), "got %+v, want %+v", r.Report, want)
		})
	}
}

func TestBadSignatures(t *testing.T) {
	key, other := newKey(t, 0), newKey(t, 0)
	tests := []struct {
		name   string
		change func(*sources.Signed)
		want   error
		text   string
	}{
		{"no keys", func(s *sources.Signed) { s.Keys = nil }, trust.UnknownIssuer, "unknown key " + key.PrimaryKey.KeyIdString()},
		{"another key", func(s *sources.Signed) { s.Keys[0] = public(t, other) }, trust.UnknownIssuer, "unknown key"},
		{"garbage for a key", func(s *sources.Signed) { s.Keys[0].Armor = "garbage" }, trust.BadKey, "signing key 1"},
		{"corrupt key", func(s *sources.Signed) { s.Keys[0].Armor = corrupt(t, s.Keys[0].Armor) }, trust.BadKey, "signing key 1"},
		{"corrupt key before the valid one", func(s *sources.Signed) {
			s.Keys = []sources.Key{{Armor: corrupt(t, s.Keys[0].Armor)}, s.Keys[0]}
		}, trust.BadKey, "signing key 1"},
		{"huge key", func(s *sources.Signed) { s.Keys[0].Armor += strings.Repeat("\n", 256<<10) }, trust.BadKey, "more than 262144 bytes"},
		{"many keys", func(s *sources.Signed) { s.Keys = slices.Repeat(s.Keys, 65) }, nil, "65 signing keys"},
		{"checksums changed", func(s *sources.Signed) { s.Sums = append(slices.Clone(s.Sums), '\n') }, trust.BadSignature, "bad signature"},
		{"no signature", func(s *sources.Signed) { s.Signature = nil }, trust.BadSignature, "empty"},
		{"garbage for a signature", func(s *sources.Signed) { s.Signature = []byte("<html>") }, trust.BadSignature, "bad signature"},
		{"huge signature", func(s *sources.Signed) { s.Signature = make([]byte, 65<<10) }, trust.BadSignature, "more than 65536 bytes"},
		{"armored signature", func(s *sources.Signed) {
			s.Signature = []byte(armored(t, openpgp.SignatureType, s.Signature))
		}, trust.BadSignature, "ASCII-armored"},
		{"many signatures", func(s *sources.Signed) { s.Signature = bytes.Repeat(s.Signature, 65) }, trust.BadSignature, "more than 64 signatures"},
		{"SHA-1", func(s *sources.Signed) { s.Signature = signRaw(t, key, key, crypto.SHA1, s.Sums) }, trust.BadSignature, "weak digest SHA-1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := signed(t, key, key)
			test.change(s)
			_, err := verify(s, trust.Options{})
			if err == nil || !strings.Contains(err.Error(), test.text) || test.want != nil && !errors.Is(err, test.want) {
				t.Errorf("got error %v, want %q with %q", err, test.want, test.text)
			}
		})
	}
}

// signRaw signs what the library refuses to sign: with SHA-1, or in the name of another key.
func signRaw(t *testing.T, claimed, by *openpgp.Entity, hash crypto.Hash, doc []byte) []byte {
	t.Helper()
	sig := &packet.Signature{
		Version: 4, SigType: packet.SigTypeBinary, PubKeyAlgo: by.PrimaryKey.PubKeyAlgo,
		Hash: hash, CreationTime: born.Add(year), IssuerKeyId: &claimed.PrimaryKey.KeyId,
	}
	h := hash.New()
	h.Write(doc)
	unsalted := false
	config := &packet.Config{NonDeterministicSignaturesViaNotation: &unsalted}
	check(t, sig.Sign(h, by.PrivateKey, config))
	var out bytes.Buffer
	check(t, sig.Serialize(&out))
	return out.Bytes()
}

// corrupt changes a block so that its checksum is valid and its packets are
// not.
func corrupt(t *testing.T, block string) string {
	t.Helper()
	b := sourcetest.Must(armor.Decode(strings.NewReader(block)))(t)
	raw := sourcetest.Must(io.ReadAll(b.Body))(t)
	raw[len(raw)/2] ^= 1
	return armored(t, b.Type, raw)
}

func TestChecksums(t *testing.T) {
	key := newKey(t, 0)
	hexSum, otherSum := hex.EncodeToString(sum[:]), strings.Repeat("ab", 32)
	tests := []struct {
		name, doc string
		want      string // part of the error or of its hints; empty means no error
	}{
		{"alone", hexSum + "  " + filename, ""},
		{"upper case", strings.ToUpper(hexSum) + " " + filename, ""},
		{"in binary mode", hexSum + " *" + filename + "\r\n", ""},
		{"carriage returns and blank lines", "\r\n\r\n" + hexSum + "  " + filename + "\r\n", ""},
		{"among malformed lines", "x y\nz\n" + hexSum + "\t" + filename + "\n", ""},
		{"twice, the first one right", hexSum + "  " + filename + "\n" + otherSum + "  " + filename, ""},
		{"twice, the first one wrong", otherSum + "  " + filename + "\n" + hexSum + "  " + filename, "signed as zh:" + otherSum},
		{"missing", hexSum + "  another.zip", "no signed checksum for " + filename},
		{"of another name", hexSum + "  another.zip", `listed for "another.zip"`},
		{"in a directory", hexSum + "  ./" + filename, `listed for "./` + filename},
		{"of another package", strings.Repeat("0", 64) + "  another.zip", "did not sign a package for this platform"},
		{"in the form of BSD", "SHA256 (" + filename + ") = " + hexSum, "the publisher of this version did not sign"},
		{"UTF-16", "\xff\xfe" + strings.Join(strings.Split(hexSum+"  "+filename, ""), "\x00"), "the publisher of this version did not sign"},
		{"empty", "", "no signed checksum for " + filename},
		{"malformed", hexSum[1:] + "  " + filename, "not a SHA-256"},
		{"not hexadecimal", "g" + hexSum[1:] + "  " + filename, "not a SHA-256"},
		{"too long", strings.Repeat("\n", 5<<20), "more than 262144 bytes"},
		{"too many lines", strings.Repeat("x\n", 2001), "more than 2000 lines"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := signed(t, key, key)
			s.Sums = []byte(test.doc)
			s.Signature = sign(t, key, s.Sums, born.Add(year))
			_, err := verify(s, trust.Options{})
			says := fmt.Sprint(err, sources.Hints(err))
			sourcetest.Expect(t, (err == nil) == (test.want == "") && strings.Contains(says, test.want), "got error %s, want %q", says, test.want)
		})
	}
}

func TestVerifyArchive(t *testing.T) {
	key := newKey(t, 0)
	judge := trust.Judge{Options: trust.Options{Now: func() time.Time { return now }}}
	s := signed(t, key, key)
	for listed, want := range map[bool]sources.Verdict{true: sources.SelfSigned, false: sources.MirrorEvidence} {
		s.Keys[0] = s.Keys[0].AsListed(listed)
		r, err := judge.Verify(context.Background(), widget.Provider, s, zh)
		sourcetest.Expect(t, err == nil && r.Verdict == want, "listed %v: got %v, %v", listed, r, err)
	}
	_, err := judge.Verify(context.Background(), widget.Provider, signed(t, key, key), "zh:00")
	sourcetest.Expect(t, errors.Is(err, trust.WrongChecksum) && strings.Contains(err.Error(), "archive is zh:00"), "got error %v", err)
	_, err = judge.Verify(context.Background(), widget.Provider, signed(t, key), zh)
	sourcetest.Expect(t, errors.Is(err, trust.UnknownIssuer), "got error %v", err)
}

func TestExpiry(t *testing.T) {
	mortal, subkeyMortal := newKey(t, 2*year), newKey(t, 0)
	check(t, subkeyMortal.AddSigningSubkey(at(born, 2*year)))
	renewed := renew(t, mortal)
	brief := at(born.Add(year), 0)
	brief.SigLifetimeSecs = uint32(year.Seconds())
	critical := at(born.Add(year), 0)
	critical.SignatureNotations = []*packet.Notation{{Name: "new@example.org", IsCritical: true, IsHumanReadable: true}}
	at1, at3, at6 := at(born.Add(year), 0), at(born.Add(3*year), 0), at(born.Add(6*year), 0)
	early := at(born.Add(-time.Second), 0)
	newSubkey := newKey(t, 0)
	check(t, newSubkey.AddSigningSubkey(at(born.Add(2*year), 0)))
	tofu := trust.Options{Engine: sources.OpenTofu, EnforceGPGExpiration: true}
	tests := []struct {
		name   string
		key    *openpgp.Entity
		config *packet.Config // of the signature
		listed []*openpgp.Entity
		opts   trust.Options
		note   string
		want   error // nil means no error
	}{
		{"signed before", mortal, at1, []*openpgp.Entity{mortal}, trust.Options{}, "expired on 2021-12-31", nil},
		{"signed before by subkey", subkeyMortal, at1, []*openpgp.Entity{subkeyMortal}, trust.Options{}, "expired on 2021-12-31", nil},
		{"signed before, with enforced expiry", mortal, at1, []*openpgp.Entity{mortal}, tofu, "", trust.KeyExpired},
		{"signed after", mortal, at3, []*openpgp.Entity{mortal}, trust.Options{}, "", trust.KeyExpired},
		{"signed after by subkey", subkeyMortal, at3, []*openpgp.Entity{subkeyMortal}, trust.Options{}, "", trust.KeyExpired},
		{"signed after by a key renewed", mortal, at3, []*openpgp.Entity{renewed}, trust.Options{}, "", nil},
		{"old and renewed listed", mortal, at3, []*openpgp.Entity{mortal, renewed}, trust.Options{}, "", nil},
		{"old and renewed listed, signed before", mortal, at1, []*openpgp.Entity{mortal, renewed}, trust.Options{}, "", nil},
		{"old listed last", mortal, at1, []*openpgp.Entity{renewed, mortal}, trust.Options{}, "", nil},
		{"signature expired", mortal, brief, []*openpgp.Entity{renewed}, trust.Options{}, "", trust.SignatureExpired},
		{"signature and key expired", mortal, brief, []*openpgp.Entity{mortal}, trust.Options{}, "", trust.SignatureExpired},
		{"key expired, and signature with an unknown notation", mortal, critical, []*openpgp.Entity{mortal}, trust.Options{}, "", trust.BadSignature},
		{"signed when created", mortal, at(born, 0), []*openpgp.Entity{renewed}, trust.Options{}, "", nil},
		{"signed before created", mortal, early, []*openpgp.Entity{mortal}, trust.Options{}, "", trust.SignedTooEarly},
		{"signed before created, renewed", mortal, early, []*openpgp.Entity{renewed}, trust.Options{}, "", trust.SignedTooEarly},
		{"signed before created, trusted", mortal, early, []*openpgp.Entity{mortal}, trust.Options{Accepted: []sources.Fingerprint{fingerprint(mortal)}}, "", trust.SignedTooEarly},
		{"signed before the subkey was created", newSubkey, at1, []*openpgp.Entity{newSubkey}, trust.Options{}, "", trust.SignedTooEarly},
		{"signature from the future", mortal, at6, []*openpgp.Entity{renewed}, trust.Options{}, "", trust.SignatureExpired},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := signed(t, test.key, test.listed...)
			// The library signs neither with expired keys nor before a key was created.
			s.Signature = signWith(t, immortal(test.key), sums, test.config)
			r, err := verify(s, test.opts)
			if test.want != nil {
				sourcetest.Expect(t, errors.Is(err, test.want), "got error %v, want one that %s", err, test.want)
				return
			}
			sourcetest.Require(t, err == nil && r.Verdict == sources.SelfSigned, "got %v, %v", r, err)
			if notes := strings.Join(r.Notes, ""); (notes == "") != (test.note == "") || !strings.Contains(notes, test.note) {
				t.Errorf("got notes %q, want %q", notes, test.note)
			}
		})
	}
}

// renew returns key with a newer self-signature without an expiry.
func renew(t *testing.T, key *openpgp.Entity) *openpgp.Entity {
	t.Helper()
	renewed := copyOf(key)
	for _, id := range renewed.Identities {
		self := *id.SelfSignature
		self.CreationTime, self.KeyLifetimeSecs = born.Add(4*year), nil
		check(t, self.SignUserId(id.Name, key.PrimaryKey, key.PrivateKey, at(born.Add(4*year), 0)))
		id.SelfSignature, id.Signatures = &self, []*packet.Signature{&self}
	}
	return renewed
}

// immortal returns key created long ago and without its expiry, so that it can
// sign.
func immortal(key *openpgp.Entity) *openpgp.Entity {
	c := copyOf(key)
	longAgo := born.Add(-10 * year)
	primary := *c.PrimaryKey
	primary.CreationTime, c.PrimaryKey = longAgo, &primary
	for _, id := range c.Identities {
		self := *id.SelfSignature
		self.KeyLifetimeSecs, self.CreationTime = nil, longAgo
		id.SelfSignature = &self
	}
	for i := range c.Subkeys {
		binding := *c.Subkeys[i].Sig
		binding.KeyLifetimeSecs, binding.CreationTime = nil, longAgo
		c.Subkeys[i].Sig = &binding
		public := *c.Subkeys[i].PublicKey
		public.CreationTime, c.Subkeys[i].PublicKey = longAgo, &public
	}
	return c
}

func copyOf(key *openpgp.Entity) *openpgp.Entity {
	c := *key
	c.Identities, c.Subkeys = map[string]*openpgp.Identity{}, slices.Clone(key.Subkeys)
	for name, id := range key.Identities {
		id := *id
		c.Identities[name] = &id
	}
	return &c
}

func TestRevokedKeys(t *testing.T) {
	tests := []struct {
		name   string
		revoke func(*openpgp.Entity) error
	}{
		{"compromised", func(k *openpgp.Entity) error {
			return k.RevokeKey(packet.KeyCompromised, "stolen", at(born.Add(2*year), 0))
		}},
		{"retired", func(k *openpgp.Entity) error {
			return k.RevokeKey(packet.KeyRetired, "stolen", at(born.Add(2*year), 0))
		}},
		{"revoked in the future", func(k *openpgp.Entity) error { return k.RevokeKey(packet.KeyRetired, "stolen", at(now.Add(year), 0)) }},
		{"subkey", func(k *openpgp.Entity) error {
			return k.RevokeSubkey(&k.Subkeys[len(k.Subkeys)-1], packet.KeySuperseded, "stolen", at(born.Add(2*year), 0))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			key := newKey(t, 0)
			check(t, key.AddSigningSubkey(at(born, 0)))
			s := signed(t, key)
			check(t, test.revoke(key))
			s.Keys = []sources.Key{public(t, key)}
			_, err := verify(s, trust.Options{})
			if !errors.Is(err, sources.ErrRevoked) || !strings.HasSuffix(err.Error(), `revoked: "stolen"`) || len(sources.Hints(err)) == 0 {
				t.Errorf("got error %v", err)
			}
		})
	}
}

// A key without a valid self-signature for any of its user ids must not cause a
// panic.
func TestKeyWithoutSelfSignature(t *testing.T) {
	key := newKey(t, 0)
	check(t, key.AddSigningSubkey(at(born, 0)))
	s := signed(t, key)
	for _, id := range key.Identities {
		revocation := *id.SelfSignature
		revocation.SigType = packet.SigTypeCertificationRevocation
		check(t, revocation.SignUserId(id.Name, key.PrimaryKey, key.PrivateKey, at(born, 0)))
		id.Signatures = []*packet.Signature{&revocation}
	}
	s.Keys = []sources.Key{public(t, key)}
	_, err := verify(s, trust.Options{})
	sourcetest.Expect(t, errors.Is(err, trust.BadKey) && strings.Contains(err.Error(), "no self-signature"), "got error %v", err)
}

func TestNoKeys(t *testing.T) {
	const tofuHost, otherHost = sources.Host("registry.opentofu.org"), sources.Host("registry.example.org")
	tests := []struct {
		host sources.Host
		opts trust.Options
		ok   bool
	}{
		{tofuHost, trust.Options{Engine: sources.OpenTofu}, true},
		{tofuHost, trust.Options{Engine: sources.OpenTofu, EnforceGPGValidation: true}, false},
		{otherHost, trust.Options{Engine: sources.OpenTofu}, false},
		{tofuHost, trust.Options{Engine: sources.Terraform}, false},
		{"", trust.Options{}, false},
	}
	s := signed(t, newKey(t, 0))
	for _, test := range tests {
		r, err := verifyFor(sources.Provider{Host: test.host}, s, test.opts)
		if !test.ok {
			hinted := errors.Is(err, trust.UnknownIssuer) && len(sources.Hints(err)) != 0
			sourcetest.Expect(t, hinted, "%+v: got error %v", test.opts, err)
			continue
		}
		sourcetest.Expect(t, err == nil && r.Verdict == sources.HashOnly && len(r.Notes) == 1,
			"%+v: got %v, %v", test.opts, r, err)
	}
	_, err := verify(nil, trust.Options{})
	sourcetest.Expect(t, err != nil, "nothing is signed checksums")
}

func TestBinary(t *testing.T) {
	signature := sign(t, newKey(t, 0), sums, born)
	for _, form := range []string{string(signature), armored(t, openpgp.SignatureType, signature)} {
		got, err := trust.Binary([]byte(form))
		sourcetest.Expect(t, err == nil && bytes.Equal(got, signature), "got %x, %v", got, err)
	}
	_, err := trust.Binary([]byte(public(t, newKey(t, 0)).Armor))
	sourcetest.Expect(t, err != nil, "a key is a signature")
}

func FuzzVerify(f *testing.F) {
	key := newKey(f, 2*year)
	s := signed(f, key, key)
	var raw bytes.Buffer
	check(f, key.Serialize(&raw))
	f.Add(s.Signature, raw.Bytes())
	f.Add([]byte("-----BEGIN PGP SIGNATURE-----"), []byte{})
	f.Add(s.Signature[:20], raw.Bytes()[:200])
	for mutant := range sourcetest.Mutants(s.Signature) {
		f.Add(mutant, raw.Bytes())
	}
	for mutant := range sourcetest.Mutants(raw.Bytes()) {
		f.Add(s.Signature, mutant)
	}
	f.Fuzz(func(t *testing.T, signature, rawKey []byte) {
		s := &sources.Signed{Sums: sums, Signature: signature, Keys: []sources.Key{{
			Armor: armored(t, openpgp.PublicKeyType, rawKey),
		}}}
		for _, opts := range []trust.Options{{}, {Engine: sources.OpenTofu}} {
			r, err := verify(s, opts)
			if err != nil {
				continue
			}
			tampered := *s
			tampered.Sums = append(slices.Clone(sums), '\n')
			_, err = verify(&tampered, opts)
			sourcetest.Expect(t, err != nil, "accepted as %+v for other checksums too", r)
		}
	})
}

var check = sourcetest.Check

func TestHashes(t *testing.T) {
	a, b := strings.Repeat("ab", 32), strings.Repeat("0c", 32)
	both := []sources.Hash{sources.Hash("zh:" + a), sources.Hash("zh:" + b)}
	tests := []struct {
		name, doc      string
		hashes, listed []sources.Hash
	}{
		{"nothing", "", nil, nil},
		{"every line", a + "  x.zip\n" + b + "  manifest.json\n", both, both},
		{"in lower case", strings.ToUpper(a) + " *x.zip extra\n", both[:1], both[:1]},
		{"blank lines", "\n\n" + a + " x\r\n \t \n", both[:1], both[:1]},
		{"a line without a name", a + " x\n" + b + "\n", nil, both[:1]},
		{"a line with a short sum", a + " x\n" + b[2:] + " y\n", nil, both[:1]},
		{"a line that is not hexadecimal", a + " x\nxy" + b[2:] + " y\n", nil, both[:1]},
		{"malformed lines before a good one", a[2:] + "  x.zip\n" + a + "\n" + b + "  y.zip\n", nil, both[1:]},
	}
	for _, test := range tests {
		sums, err := trust.ParseSums([]byte(test.doc))
		if got := sums.Hashes(); err != nil || !slices.Equal(got, test.hashes) {
			t.Errorf("%s: got %v, %v; want %v", test.name, got, err, test.hashes)
		}
		sourcetest.EqualSlices(t, sums.Listed(), test.listed, test.name, "listed are")
	}
}

func TestPlatforms(t *testing.T) {
	p, v := sourcetest.Address(t, "example.test/acme/widget"), sourcetest.Number(t, "1.2.0-rc.1")
	var doc strings.Builder
	for _, name := range []string{
		"terraform-provider-widget_1.2.0-rc.1_linux_arm64.zip",
		"terraform-provider-widget_1.2.0-rc.1_darwin_arm64.zip",
		"terraform-provider-widget_1.2.0-rc.1_linux_arm64.zip", // a duplicate
		"terraform-provider-widget_1.2.0-rc.1_manifest.json",
		"terraform-provider-widget_1.2.0-rc.1_linux_amd64.tar",
		"terraform-provider-widget_1.2.0-rc.1_.._up.zip",
		"terraform-provider-widget_1.2.0-rc.1_linux.zip",
		"terraform-provider-widget_1.2.0_linux_386.zip",
		"terraform-provider-gadget_1.2.0-rc.1_linux_386.zip",
		"other.zip",
	} {
		fmt.Fprintf(&doc, "%s  %s\n", strings.Repeat("ab", 32), name)
	}
	doc.WriteString("short  terraform-provider-widget_1.2.0-rc.1_linux_386.zip\n")
	sums := sourcetest.Must(trust.ParseSums([]byte(doc.String())))(t)
	sourcetest.Equal(t, fmt.Sprint(sums.Platforms(p, v)), "[darwin_arm64 linux_arm64]")
}

func FuzzParseSums(f *testing.F) {
	f.Add([]byte(strings.Repeat("ab", 32) + "  x.zip\n"))
	for mutant := range sourcetest.Mutants(sums) {
		f.Add(mutant)
	}
	f.Add([]byte("\r\n\r\nab x\n"))
	f.Add([]byte(strings.Repeat("AB", 32) + " *x.zip y\n\v"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		sums, err := trust.ParseSums(doc)
		if err != nil {
			return
		}
		var printed strings.Builder
		for _, h := range sums.Hashes() {
			printed.WriteString(strings.TrimPrefix(string(h), "zh:") + "  name\n")
		}
		again, err := trust.ParseSums([]byte(printed.String()))
		sourcetest.Expect(t, err == nil && slices.Equal(again.Hashes(), sums.Hashes()),
			"got %v, %v; want %v", again.Hashes(), err, sums.Hashes())
	})
}
