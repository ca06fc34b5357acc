package trust_test

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

const filename = "terraform-provider-widget_1.0.0_linux_amd64.zip"

var (
	sum  = sha256.Sum256([]byte("the archive"))
	zh   = sources.ZipHash(sum)
	sums = []byte(hex.EncodeToString(sum[:]) + "  " + filename + "\n")

	// Keys are made in 2020, and now is 2025.
	born = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	now  = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
)

const year = 365 * 24 * time.Hour

// at makes keys and signatures at t, that last for so long; 0 means for ever.
func at(t time.Time, life time.Duration) *packet.Config {
	return &packet.Config{
		Algorithm: packet.PubKeyAlgoEdDSA, Curve: packet.Curve25519,
		Time: func() time.Time { return t }, KeyLifetimeSecs: uint32(life.Seconds()),
	}
}

func newKey(t testing.TB, life time.Duration) *openpgp.Entity {
	t.Helper()
	key, err := openpgp.NewEntity("Acme", "", "acme@example.org", at(born, life))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func armored(t testing.TB, blockType string, write func(*bytes.Buffer) error) string {
	t.Helper()
	var raw, text bytes.Buffer
	if err := write(&raw); err != nil {
		t.Fatal(err)
	}
	w, err := armor.Encode(&text, blockType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(raw.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func public(t testing.TB, key *openpgp.Entity) sources.Key {
	return sources.Key{Armor: armored(t, openpgp.PublicKeyType, func(w *bytes.Buffer) error { return key.Serialize(w) })}
}

func sign(t testing.TB, key *openpgp.Entity, doc []byte, when time.Time) []byte {
	t.Helper()
	return signWith(t, key, doc, at(when, 0))
}

func signWith(t testing.TB, key *openpgp.Entity, doc []byte, config *packet.Config) []byte {
	t.Helper()
	var sig bytes.Buffer
	if err := openpgp.DetachSign(&sig, key, bytes.NewReader(doc), config); err != nil {
		t.Fatal(err)
	}
	return sig.Bytes()
}

func fingerprint(key *openpgp.Entity) string { return fmt.Sprintf("%X", key.PrimaryKey.Fingerprint) }

func verify(s *sources.Signed, opts trust.Options) (trust.Report, error) {
	if opts.Now == nil {
		opts.Now = func() time.Time { return now }
	}
	return trust.Verify(s, filename, zh, opts)
}

func TestGoodSignature(t *testing.T) {
	key := newKey(t, 0)
	r, err := verify(&sources.Signed{Sums: sums, Signature: sign(t, key, sums, born.Add(year)), Keys: []sources.Key{public(t, key)}}, trust.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := trust.Report{Verdict: sources.SelfSigned, KeyID: key.PrimaryKey.KeyIdString(), Signer: "Acme <acme@example.org>"}
	if r.Verdict != want.Verdict || r.KeyID != want.KeyID || r.Signer != want.Signer || len(r.Notes) != 0 {
		t.Errorf("got %+v, want %+v", r, want)
	}
}

var _ = []any{crypto.SHA1, errors.As, slices.Sort[[]int], strings.Cut}
