package seal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

type record struct{ H1 string }

func sealed(t *testing.T, k seal.Key, about string) []byte {
	t.Helper()
	return sourcetest.Must(k.Seal(about, record{"h1:<&>"}))(t)
}

func parseKey(t *testing.T, secret string) seal.Key {
	t.Helper()
	return sourcetest.Must(seal.ParseKey(secret))(t)
}

func TestOpen(t *testing.T) {
	here, there := t.TempDir(), t.TempDir()
	shared := strings.Repeat("s", 16)
	for name, k := range map[string]struct{ by, reader seal.Key }{
		"the same user, another run": {seal.UserKey(here), seal.UserKey(here)},
		"a shared secret":            {parseKey(t, shared), parseKey(t, shared+"\n")},
		"no key, the same run":       {seal.Key{}, seal.Key{}},
	} {
		text := sealed(t, k.by, "package a")
		got, err := k.reader.Open("package a", text)
		want := `{"H1":"h1:\u003c\u0026\u003e"}`
		sourcetest.Expect(t, err == nil && string(got) == want, "%s: got %s, error %v; want %s", name, got, err, want)
	}

	own := seal.UserKey(here)
	text := sealed(t, own, "package a")
	for name, open := range map[string]func() error{
		"another user": func() error {
			sealed(t, seal.UserKey(there), "x")
			_, err := seal.UserKey(there).Open("package a", text)
			return err
		},
		"a user who has no key yet": func() error { _, err := seal.UserKey(t.TempDir()).Open("package a", text); return err },
		"a shared secret":           func() error { _, err := parseKey(t, shared).Open("package a", text); return err },
		"another subject":           func() error { _, err := own.Open("package b", text); return err },
		"altered": func() error {
			_, err := own.Open("package a", bytes.Replace(text, []byte("h1:"), []byte("h2:"), 1))
			return err
		},
		"another code": func() error {
			forged := []byte(`{"mac":"` + strings.Repeat("0", 64) + `","record":{"H1":"x"}}`)
			_, err := own.Open("package a", forged)
			return err
		},
	} {
		sourcetest.ErrorIs(t, open(), seal.ErrForeign, name, "ErrForeign")
	}
	for _, text := range []string{"", "{", `{"H1":"x"}`, `{"mac":"","record":{}}`, `{"mac":"00","record":{}}`} {
		if _, err := own.Open("package a", []byte(text)); err == nil || errors.Is(err, seal.ErrForeign) {
			t.Errorf("%q: got %v, want an error that says it is no record", text, err)
		}
	}
}

func TestParseKeyRejectsShortSecrets(t *testing.T) {
	for _, secret := range []string{strings.Repeat("s", 15), strings.Repeat(" ", 32)} {
		_, err := seal.ParseKey(secret)
		sourcetest.Expect(t, err != nil, "%q was accepted", secret)
	}
}

// Reading creates no key, and concurrent writers get the same key.
func TestUserKeyIsCreatedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	_, err := seal.UserKey(dir).Open("x", sealed(t, parseKey(t, strings.Repeat("s", 16)), "x"))
	sourcetest.Expect(t, errors.Is(err, seal.ErrForeign), "got %v", err)
	_, err = os.Stat(dir)
	sourcetest.Require(t, err != nil, "reading created the key's directory")
	texts := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range texts {
		wg.Go(func() { texts[i], _ = seal.UserKey(dir).Seal("x", record{"a"}) })
	}
	wg.Wait()
	for i := range texts {
		sourcetest.Require(t, bytes.Equal(texts[i], texts[0]), "writers used different keys:\n%s\n%s", texts[0], texts[i])
	}
	info, err := os.Stat(filepath.Join(dir, "record.key"))
	sourcetest.Expect(t, err == nil && (runtime.GOOS == "windows" || info.Mode() == 0o600), "got %v, error %v", info, err)
}

// A key that other users may be able to read is not used, and records under it
// are rejected.
func TestUnusableKeys(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"readable by others": func(path string) error { return os.Chmod(path, 0o644) },
		"not a key":          func(path string) error { return os.WriteFile(path, []byte("0123\n"), 0o600) },
		"empty":              func(path string) error { return os.Truncate(path, 0) },
		"a link": func(path string) error {
			return errors.Join(os.Rename(path, path+"2"), sourcetest.Symlink(t, path+"2", path))
		},
	} {
		if runtime.GOOS == "windows" && name != "not a key" {
			continue
		}
		dir := t.TempDir()
		text := sealed(t, seal.UserKey(dir), "x")
		check(t, spoil(filepath.Join(dir, "record.key")))
		k := seal.UserKey(dir)
		sourcetest.Expect(t, k.Check() != nil, "%s: the key was accepted", name)
		_, err := k.Open("x", text)
		sourcetest.ErrorIs(t, err, seal.ErrForeign, name, "the record was believed")
	}
}
