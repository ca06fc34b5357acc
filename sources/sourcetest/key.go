package sourcetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/larder-cli/larder/sources"
)

// A Key is an OpenPGP key pair that signs releases. It is derived from its
// name, so it protects nothing, and is the same in every run.
type Key struct {
	entity *openpgp.Entity
	public []byte
	signs  time.Time // time of all its signatures
}

// The usual keys. Expired and Revoked signed before they expired or were
// revoked.
var (
	Publisher = sync.OnceValue(func() *Key { return NewKey("publisher") })
	Stranger  = sync.OnceValue(func() *Key { return NewKey("stranger") })
	Expired   = sync.OnceValue(func() *Key { return newKey("expired", 48*time.Hour) })
	Revoked   = sync.OnceValue(newRevoked)
)

var keyCreated = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// NewKey returns the key with this name.
func NewKey(name string) *Key { return newKey(name, 0) }

func newRevoked() *Key {
	k := newKey("revoked", 0)
	check(k.entity.RevokeKey(packet.KeyCompromised, "for testing", k.config("")))
	k.public = k.serialized()
	k.entity.Revocations = nil // otherwise the library refuses to sign
	return k
}

func newKey(name string, lifetime time.Duration) *Key {
	k := &Key{signs: keyCreated}
	config := k.config(name)
	config.KeyLifetimeSecs = uint32(lifetime / time.Second)
	k.entity = must(openpgp.NewEntity("Test "+name, "", name+"@example.test", config))
	k.public = k.serialized()
	k.signs = keyCreated.Add(24 * time.Hour)
	return k
}

// config returns a configuration whose random data is derived from seed.
func (k *Key) config(seed string) *packet.Config {
	return &packet.Config{
		Rand:      rand.NewChaCha8(sha256.Sum256([]byte(seed))),
		Time:      func() time.Time { return k.signs },
		Algorithm: packet.PubKeyAlgoEdDSA,
	}
}

// ID returns the key's id as listed by registries: 16 hexadecimal digits.
func (k *Key) ID() string { return k.entity.PrimaryKey.KeyIdString() }

// Fingerprint returns the key's fingerprint.
func (k *Key) Fingerprint() sources.Fingerprint {
	return sources.Fingerprint(fmt.Sprintf("%X", k.entity.PrimaryKey.Fingerprint))
}

// Binary returns the public key without armour.
func (k *Key) Binary() []byte { return k.public }

func (k *Key) serialized() []byte {
	var b bytes.Buffer
	check(k.entity.Serialize(&b))
	return b.Bytes()
}

// Armor returns the public key, ASCII-armoured.
func (k *Key) Armor() string { return armored(openpgp.PublicKeyType, k.Binary()) }

// PrivateArmor returns the private key, ASCII-armored.
func (k *Key) PrivateArmor() string {
	var b bytes.Buffer
	check(k.entity.SerializePrivate(&b, k.config("")))
	return armored(openpgp.PrivateKeyType, b.Bytes())
}

// Sign returns a detached binary signature of data.
func (k *Key) Sign(data []byte) []byte {
	var b bytes.Buffer
	check(openpgp.DetachSign(&b, k.entity, bytes.NewReader(data), k.config(string(data))))
	return b.Bytes()
}

func armored(kind string, data []byte) string {
	var text strings.Builder
	w := must(armor.Encode(&text, kind, nil))
	must(w.Write(data))
	check(w.Close())
	return text.String()
}
