// Package seal authenticates Larder's records, so that Larder accepts only
// records that it has created for the same user. Caches, mirrors and restored
// backups may contain records that other users, other machines or attackers
// created.
//
// It writes one file, the user's key, as record.key with mode 0600 in the
// directory that it is given.
package seal

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// A Key authenticates records. Only records with a code under the same key are
// accepted. The zero Key is valid only for this run.
type Key struct{ user *userKey }

// A userKey is read from its file when the first record is read, and created
// when the first record is written.
type userKey struct {
	dir    string // directory of the file; empty if there is none
	mu     sync.Mutex
	secret []byte // nil until it is read or created
	err    error  // why the secret is not available
}

const (
	keyFile    = "record.key"
	keySize    = 32 // bytes
	leastBytes = 16 // in a secret shared by several users or machines
)

// ParseKey returns a key for a secret that several users or machines share. It
// ignores white space around the secret.
func ParseKey(secret string) (Key, error) {
	secret = strings.TrimSpace(secret)
	if len(secret) < leastBytes {
		err := fmt.Errorf("the record key has %d bytes, fewer than %d", len(secret), leastBytes)
		return Key{}, sources.WithHint(err, "use a random secret, such as the output of openssl rand -hex 32")
	}
	sum := sha256.Sum256([]byte("larder record key\n" + secret))
	return Key{&userKey{secret: sum[:]}}, nil
}

// UserKey returns the user's key in the directory dir. It is created when the
// first record is sealed.
func UserKey(dir string) Key { return Key{&userKey{dir: dir}} }

// Shared reports whether several users may have the key.
func (k Key) Shared() bool { return k.user != nil && k.user.dir == "" }

// Check returns an error if the user's key exists and cannot be used: other
// users may be able to read or write it, or it is not a key.
func (k Key) Check() error {
	_, err := k.find(false)
	return err
}

// Derive returns a code for a text, in hexadecimal digits, that only holders of the key can compute. Codes of records
// are never among them.
func (k Key) Derive(text string) string {
	secret, _ := k.find(true) // or this run's
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("derived\n" + text))
	return hex.EncodeToString(mac.Sum(nil))
}

// find returns the secret. If there is none, it creates one or returns this
// run's secret.
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

// readKey reads the key in a directory. It returns nil if there is none.
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

// createKey creates a key in a directory. If another process creates it first,
// createKey returns that key.
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
		return nil, sources.WithHint(err, "remove it: larder creates a new one, and hashes each package once more")
	}
	return secret, nil
}

// ofThisRun returns the secret of this run, for when the user has none.
var ofThisRun = sync.OnceValue(func() []byte {
	secret := make([]byte, keySize)
	rand.Read(secret)
	return secret
})

// A sealed record is a JSON object with these parts around the authentication code, which is the HMAC-SHA256, in
// hexadecimal, of the record and its subject, and around the record. It has no other form, so opening it takes no
// parser.
const head, middle, tail = `{"mac":"`, `","record":`, `}`

func code(secret []byte, about string, record []byte) string {
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "larder record\n%s\n", about)
	mac.Write(record)
	return hex.EncodeToString(mac.Sum(nil))
}

// Seal returns the text of an authenticated record. About is its subject: the
// record is rejected with any other subject. If the key cannot be stored, only
// this run accepts the record.
func (k Key) Seal(about string, record any) ([]byte, error) {
	text, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	return k.SealText(about, text), nil
}

// SealText is [Key.Seal] for a record that is already encoded.
func (k Key) SealText(about string, record []byte) []byte {
	secret, _ := k.find(true) // Check returns the error
	return slices.Concat([]byte(head+code(secret, about, record)+middle), record, []byte(tail))
}

// ErrForeign is the error for a record that was created under another key, or
// changed since.
var ErrForeign = errors.New("not made with this user's record key")

// Open verifies and returns a record, still encoded. The error matches
// [ErrForeign], except for text that is not a record.
func (k Key) Open(about string, text []byte) (json.RawMessage, error) {
	const size = len(head) + 2*sha256.Size // the code is hexadecimal
	if len(text) < size || !bytes.HasPrefix(text, []byte(head)) {
		return nil, errors.New("no authentication code")
	}
	record, found := bytes.CutPrefix(text[size:], []byte(middle))
	record, ended := bytes.CutSuffix(record, []byte(tail))
	if !found || !ended {
		return nil, errors.New("no record")
	}
	secret, _ := k.find(false)
	if !hmac.Equal(text[len(head):size], []byte(code(secret, about, record))) {
		return nil, ErrForeign
	}
	return record, nil
}
