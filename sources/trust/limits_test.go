package trust_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/dsa" //nolint:staticcheck // it is for reading old keys, which publishers still have
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/elgamal"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

// number returns a number with as many bits.
func number(bits int) *big.Int { return new(big.Int).SetBit(big.NewInt(1), bits-1, 1) }

func dsaKey(p, q int) *packet.PublicKey {
	return packet.NewDSAPublicKey(born, &dsa.PublicKey{
		Parameters: dsa.Parameters{P: number(p), Q: number(q), G: number(p - 1)}, Y: number(p - 2),
	})
}

func rsaKey(n int) *packet.PublicKey {
	return packet.NewRSAPublicKey(born, &rsa.PublicKey{N: number(n), E: 0xffffff})
}

// raw returns a packet with any contents.
func raw(tag uint8, contents ...byte) []byte {
	var b bytes.Buffer
	_ = (&packet.OpaquePacket{Tag: tag, Contents: contents}).Serialize(&b) // a buffer never fails
	return b.Bytes()
}

// of returns a key as a packet, with more behind its contents.
func of(key *packet.PublicKey, more ...byte) []byte {
	var b bytes.Buffer
	_ = key.Serialize(&b) // a buffer never fails
	if len(more) == 0 {
		return b.Bytes()
	}
	op, _ := packet.NewOpaqueReader(&b).Next()
	return raw(op.Tag, append(op.Contents, more...)...)
}

// forged returns a certification that names a key as its issuer. Checking it takes as long as checking a valid one.
func forged(key *packet.PublicKey, numbers ...*big.Int) []byte {
	b := []byte{4, byte(packet.SigTypePositiveCert), byte(key.PubKeyAlgo), 8, 0, 6, 5, 2, 0x5e, 0x0b, 0xe1, 0, 0, 10, 9, 16}
	for i := 56; i >= 0; i -= 8 {
		b = append(b, byte(key.KeyId>>i))
	}
	b = append(b, 0, 0)
	for _, n := range numbers {
		b = append(append(b, byte(n.BitLen()>>8), byte(n.BitLen())), n.Bytes()...)
	}
	return raw(2, b...)
}

// Keys that would take long to verify are refused before anything is verified.
func TestHostileKeys(t *testing.T) {
	const userID = 13
	user := raw(userID, []byte("Acme")...)
	small, big := dsaKey(1024, 160), dsaKey(4096, 512)
	signature := forged(big, number(500), number(500))
	largest := packet.NewElGamalPublicKey(born, &elgamal.PublicKey{P: number(5000), G: number(2), Y: number(9)})
	largest.IsSubkey = true
	odd := dsaKey(1024, 160).PublicKey.(*dsa.PublicKey)
	odd.Y = number(60000)
	hidden := of(dsaKey(32768, 32768))
	tests := []struct {
		name string
		raw  []byte
		want string
	}{
		{"DSA with a large prime", of(dsaKey(32768, 160)), "has 32768 bits, more than 4096"},
		{"DSA with a large subgroup", of(dsaKey(4096, 32768)), "has a subgroup of 32768 bits, more than 512"},
		{"DSA with a large public number", of(packet.NewDSAPublicKey(born, odd)), "has 60000 bits"},
		{"RSA with a large modulus", of(rsaKey(8193)), "the RSA key"},
		{"large ElGamal subkey", slices.Concat(of(small), of(largest)), "the ElGamal key"},
		{"large key after a good one", slices.Concat(of(small), user, of(dsaKey(32768, 160))), "has 32768 bits"},
		{"large key behind a packet", slices.Concat(of(small, hidden...), user), "contains more than it should"},
		{"large key behind a marker", slices.Concat(of(small), raw(10, append([]byte("PGP"), hidden...)...)), "contains more than it should"},
		{"packet of unknown length", slices.Concat([]byte{0x80 | 6<<2 | 3}, of(small)[3:], hidden), "contains more than it should"},
		{"signature with a large number", slices.Concat(of(small), user, forged(small, number(8193), number(9))), "a number of more than 8192 bits"},
		{"many signatures", slices.Concat(of(big), user, bytes.Repeat(signature, 100)), "would take too long"},
		{"many users", slices.Concat(of(big), bytes.Repeat(slices.Concat(user, signature), 100)), "would take too long"},
		{"more users", slices.Concat(of(small), bytes.Repeat(user, 129)), "more than 128 packets of type 13"},
		{"many keys", bytes.Repeat(slices.Concat(of(big), user, signature), 100), "more than 64 packets of type 6"},
		{"many subkeys", slices.Concat(of(small), bytes.Repeat(raw(14, of(small)[3:]...), 65)), "more than 64 packets of type 14"},
		{"many signatures by others", slices.Concat(of(small), user, bytes.Repeat(forged(big, number(9), number(9)), 2001)), "more than 2000 packets of type 2"},
		{"long user ID", slices.Concat(of(small), raw(userID, make([]byte, 4097)...)), "a user ID has more than 4096 bytes"},
		{"compressed data", slices.Concat(of(small), raw(8, 1, 2)), "a packet of type 8"},
		{"private key", slices.Concat(raw(5, of(dsaKey(32768, 160))[6:]...), user), "private key"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			key := armored(t, openpgp.PublicKeyType, test.raw)
			for name, read := range map[string]func() error{
				"a key": func() error { _, err := trust.PublicKey(key); return err },
				"a list": func() error {
					_, err := verify(&sources.Signed{Sums: sums, Signature: forged(small), Keys: []sources.Key{{Armor: key}}}, trust.Options{})
					return err
				},
			} {
				start := time.Now()
				err := read()
				sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), test.want), "%s: got %v, want %q", name, err, test.want)
				sourcetest.Expect(t, time.Since(start) < 5*time.Second, "%s: took %s", name, time.Since(start))
			}
		})
	}
}

// All keys of one evidence share a budget. Keys from other evidence can't use it up.
func TestWorkOfAllKeys(t *testing.T) {
	key := newKey(t, 0)
	var dear []sources.Key
	for i := range 60 {
		big := packet.NewDSAPublicKey(born.Add(time.Duration(i)*time.Second), dsaKey(4096, 512).PublicKey.(*dsa.PublicKey))
		one := slices.Concat(of(big), raw(13, 'a'), bytes.Repeat(forged(big, number(500), number(500)), 20))
		dear = append(dear, sources.Key{Armor: armored(t, openpgp.PublicKeyType, one)})
	}
	own, each, err := trust.Work(dear[0].Armor)
	sourcetest.Expect(t, own*2 > trust.MaxWork/2 && each*20 == own && err != nil && !strings.Contains(err.Error(), "too long"), "%d %d %v", own, each, err)
	s := signed(t, key)
	s.Keys = append(slices.Clone(dear), public(t, key))
	start := time.Now()
	_, err = verify(s, trust.Options{})
	sourcetest.Expect(t, errors.Is(err, trust.BadKey), "%v", err)
	good := listed(signed(t, key, key))
	s.Keys = dear
	kept, err := merge(good, s, trust.Options{})
	sourcetest.Expect(t, kept == good && errors.Is(err, trust.Downgraded) || slices.Equal(kept.Keys, good.Keys), "%v %v", kept, err)

	ids := trust.KeyIDs(t.Context(), s.Keys)
	sourcetest.Expect(t, len(ids) == len(s.Keys) && ids[0] == "", "%q", ids)
	ids = trust.KeyIDs(t.Context(), []sources.Key{{Armor: "garbage"}, public(t, key)})
	sourcetest.Expect(t, slices.Equal(ids, []string{"", key.PrimaryKey.KeyIdString()}), "%q", ids)

	// The same key many times, with as many signatures of large checksums, costs little.
	s = signed(t, key, slices.Repeat([]*openpgp.Entity{key}, 60)...)
	s.Sums = append(slices.Clone(sums), bytes.Repeat([]byte("\n"), 256<<10-len(sums))...)
	s.Signature = bytes.Repeat(sign(t, key, s.Sums, born.Add(year)), 64)
	sourcetest.Must(verify(s, trust.Options{}))(t)
	sourcetest.Expect(t, time.Since(start) < 20*time.Second, "took %s", time.Since(start))
}

// A signature with a large number, and one with compressed data beside it, are refused.
func TestHostileSignatures(t *testing.T) {
	key := newKey(t, 0)
	for text, more := range map[string][]byte{
		"a number of more than 8192 bits": forged(dsaKey(1024, 160), number(8193), number(9)),
		"a packet of type 8":              raw(8, 1, 2),
		"contains more than it should":    raw(2, append(forged(dsaKey(1024, 160), number(9), number(9))[2:], 9)...),
	} {
		s := signed(t, key, key)
		s.Signature = append(more, s.Signature...)
		_, err := verify(s, trust.Options{})
		sourcetest.Expect(t, errors.Is(err, trust.BadSignature) && strings.Contains(err.Error(), text), "got %v, want %q", err, text)
	}
}

// Keys of the kinds that publishers have use a small part of the budget.
func TestKeysOfPublishers(t *testing.T) {
	config := func(algorithm packet.PublicKeyAlgorithm, curve packet.Curve, bits int) func(*testing.T) *openpgp.Entity {
		return func(t *testing.T) *openpgp.Entity {
			c := at(born, 0)
			c.Algorithm, c.Curve, c.RSABits = algorithm, curve, bits
			key := sourcetest.Must(openpgp.NewEntity("Acme", "", "acme@example.org", c))(t)
			check(t, key.AddSigningSubkey(c))
			return key
		}
	}
	for name, newEntity := range map[string]func(*testing.T) *openpgp.Entity{
		"RSA 2048": config(packet.PubKeyAlgoRSA, "", 2048), "RSA 4096": config(packet.PubKeyAlgoRSA, "", 4096),
		"EdDSA": config(packet.PubKeyAlgoEdDSA, packet.Curve25519, 0), "Ed25519": config(packet.PubKeyAlgoEd25519, "", 0),
		"P-256": config(packet.PubKeyAlgoECDSA, packet.CurveNistP256, 0), "P-521": config(packet.PubKeyAlgoECDSA, packet.CurveNistP521, 0),
		"Brainpool": config(packet.PubKeyAlgoECDSA, packet.CurveBrainpoolP512, 0), "DSA and ElGamal": oldKey,
	} {
		if slow := name == "RSA 4096" || name == "DSA and ElGamal"; slow && !sourcetest.Drawn(name, 5) {
			continue // making such a key takes a second
		}
		key := newEntity(t)
		k := public(t, key)
		own, each, err := trust.Work(k.Armor)
		check(t, err)
		sourcetest.Expect(t, own > 0 && each > 0 && own+each < trust.MaxWork/8, "%s: %d, %d", name, own, each)
		r, err := verify(signed(t, key, key), trust.Options{})
		sourcetest.Expect(t, err == nil && r.Verdict == sources.SelfSigned, "%s: %v, %v", name, r, err)
	}
}

// oldKey returns a key as GnuPG made them long ago, which many other people have signed.
func oldKey(t *testing.T) *openpgp.Entity {
	t.Helper()
	secret := new(dsa.PrivateKey)
	check(t, dsa.GenerateParameters(&secret.Parameters, rand.Reader, dsa.L1024N160))
	check(t, dsa.GenerateKey(secret, rand.Reader))
	primary := packet.NewDSAPrivateKey(born, secret)
	key := &openpgp.Entity{PrimaryKey: &primary.PublicKey, PrivateKey: primary, Identities: map[string]*openpgp.Identity{}}
	check(t, key.AddUserId("Acme", "", "acme@example.org", at(born, 0)))
	other := newKey(t, 0)
	for _, id := range key.Identities {
		for range 500 {
			by := &packet.Signature{
				Version: 4, SigType: packet.SigTypeGenericCert, PubKeyAlgo: other.PrimaryKey.PubKeyAlgo, Hash: crypto.SHA256,
				CreationTime: born, IssuerKeyId: &other.PrimaryKey.KeyId,
			}
			check(t, by.SignUserId(id.Name, key.PrimaryKey, other.PrivateKey, at(born, 0)))
			id.Signatures = append(id.Signatures, by)
		}
	}
	elGamal := &elgamal.PublicKey{P: number(4096), G: number(2), Y: number(4000)}
	return claiming(t, key, *packet.NewElGamalPublicKey(born, elGamal))
}

// When the context ends, nothing is verified, and the evidence that is kept stays.
func TestContextEndsVerification(t *testing.T) {
	key, other := newKey(t, 0), newKey(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j := trust.Judge{Options: trust.Options{Now: atNow}}
	_, err := j.VerifyFile(ctx, widget.Provider, signed(t, key, key), filename, zh)
	sourcetest.ErrorIs(t, err, context.Canceled, "VerifyFile", "canceled")
	_, err = j.Prove(ctx, widget.Provider, signed(t, key, key), zh)
	sourcetest.ErrorIs(t, err, context.Canceled, "Prove", "canceled")
	old := signed(t, key, key)
	kept, err := j.Merge(ctx, widget.Provider, old, listed(signed(t, other, other)))
	sourcetest.Expect(t, kept == old && errors.Is(err, context.Canceled), "got %v, %v", kept, err)
}
