// Package seal authenticates Larder's records, so that a record is accepted only if this
// user's own Larder made it. Caches, mirrors and restored backups may contain records of
// other users, other machines or attackers.
//
// It leaves on disk the user's key, record.key in the directory it is given, with
// mode 0600.
package seal

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A Key is what records are authenticated with. Only records that carry a code
// under the same key are believed. The zero Key is that of this run alone.
type Key struct{ user *userKey }

// A userKey is read from its file when a record is read, and created when one is
// written.
type userKey struct {
	dir    string // of the file; empty if there is none
	mu     sync.Mutex
	secret []byte // nil until it is known
	err    error  // why it cannot be
}

const (
	keyFile    = "record.key"
	keySize    = 32 // bytes
	leastBytes = 16 // of a secret that fleets share
)

// ParseKey makes a key of a secret that several users or machines share. Spaces around
// it do not count.
func ParseKey(secret string) (Key, error) {
	secret = strings.TrimSpace(secret)
	if len(secret) < leastBytes {
		err := fmt.Errorf("the record key has %d bytes, fewer than %d", len(secret), leastBytes)
		return Key{}, sources.WithHint(err, "use a random secret, such as the output of openssl rand -hex 32")
	}
	sum := sha256.Sum256([]byte("larder record key\n" + secret))
	return Key{&userKey{secret: sum[:]}}, nil
}

// UserKey is the user's key in the directory dir. It is created when the first record
// is sealed.
func UserKey(dir string) Key { return Key{&userKey{dir: dir}} }

// Check returns why the user's key cannot be used, if it exists: other users may read
// it or could have written it, or it is no key.
func (k Key) Check() error {
	_, err := k.find(false)
	return err
}

// find returns the secret, that of this run if there is none yet.
func (k Key) find(create bool) ([]byte, error) {
	u := k.user
	if u == nil {
		return ofThisRun(), nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.secret == nil && u.err == nil {
		u.secret, u.err = readKey(u.dir)
	}
	if u.secret == nil && u.err == nil && create {
		u.secret, u.err = createKey(u.dir)
	}
	if u.secret == nil {
		return ofThisRun(), u.err
	}
	return u.secret, nil
}

// readKey reads the key in a directory. It is nil if there is none.
func readKey(dir string) ([]byte, error) {
	d, err := disk.Open(dir)
	var text []byte
	if err == nil {
		defer d.Close()
		text, err = d.ReadSecret(keyFile, 1<<10)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parse(d, text)
}

// createKey creates a key in a directory, unless another process does.
func createKey(dir string) ([]byte, error) {
	d, err := disk.Make(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	secret := make([]byte, keySize)
	rand.Read(secret)
	text, err := d.KeepSecret(keyFile, []byte(hex.EncodeToString(secret)+"\n"))
	if err != nil {
		return nil, err
	}
	return parse(d, text)
}

func parse(d *disk.Dir, text []byte) ([]byte, error) {
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != keySize {
		err := fmt.Errorf("%s is not a record key", d.Path(keyFile))
		return nil, sources.WithHint(err, "remove it: a new one is created, and packages are hashed once")
	}
	return secret, nil
}

// ofThisRun returns the secret of this run, for users who have none.
var ofThisRun = sync.OnceValue(func() []byte {
	secret := make([]byte, keySize)
	rand.Read(secret)
	return secret
})

// An envelope is a record with its authentication code: the HMAC-SHA256, in
// hexadecimal, over what the record is about and what it says.
type envelope struct {
	MAC    string          `json:"mac"`
	Record json.RawMessage `json:"record"`
}

func code(secret []byte, about string, record []byte) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "larder record\n%s\n", about)
	mac.Write(record)
	return hex.EncodeToString(mac.Sum(nil))
}

// Seal returns the text of a record. About names what it is about: the same record
// about something else is not believed. Where the key cannot be kept, only this run
// believes the record.
func (k Key) Seal(about string, record any) ([]byte, error) {
	text, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	secret, _ := k.find(true) // Check says what is wrong
	return json.Marshal(envelope{code(secret, about, text), text})
}

// ErrForeign is why a record is not believed that was made under another key, or
// altered since.
var ErrForeign = errors.New("not made under this user's record key")

// Open returns what a record says, unread. The error matches [ErrForeign] unless the
// text is no record at all.
func (k Key) Open(about string, text []byte) (json.RawMessage, error) {
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, err
	}
	if len(e.MAC) != hex.EncodedLen(sha256.Size) {
		return nil, errors.New("no authentication code")
	}
	secret, _ := k.find(false)
	if !hmac.Equal([]byte(e.MAC), []byte(code(secret, about, e.Record))) {
		return nil, ErrForeign
	}
	return e.Record, nil
}
