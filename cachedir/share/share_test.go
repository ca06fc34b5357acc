package share_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/larder-cli/larder/cachedir/share"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// memory is a place in memory.
type memory map[string][]byte

func (m memory) String() string { return "memory" }

func (m memory) Get(_ context.Context, name string) ([]byte, error) {
	data, ok := m[name]
	if !ok {
		return nil, sources.ErrNotFound
	}
	return data, nil
}

func (m memory) Put(_ context.Context, name string, data []byte) error {
	m[name] = data
	return nil
}

func (m memory) Has(_ context.Context, name string) (bool, error) {
	_, ok := m[name]
	return ok, nil
}

func (m memory) Upload(_ context.Context, name string, from io.ReaderAt, size int64, _ [32]byte, _ func(int64)) error {
	m[name] = make([]byte, size)
	_, err := from.ReadAt(m[name], 0)
	return err
}

func (m memory) Locate(_ context.Context, name string) (string, error) {
	if _, ok := m[name]; !ok {
		return "", sources.ErrNotFound
	}
	return "memory://" + name, nil
}

// stored returns a package with a file.
func stored(t *testing.T, text string) sources.Stored {
	t.Helper()
	dir := t.TempDir()
	sourcetest.Check(t, os.WriteFile(filepath.Join(dir, "terraform-provider-widget"), []byte(text), 0o755))
	h1, err := dirhash.HashDir(dir, "", dirhash.Hash1)
	sourcetest.Check(t, err)
	return sources.Stored{ID: sourcetest.PackageID(t, "example.test/acme/widget", "1.0.0", "linux_amd64"), Dir: dir, H1: sources.Hash(h1)}
}

func TestPackedContents(t *testing.T) {
	s := stored(t, strings.Repeat("the provider ", 1000))
	var object bytes.Buffer
	sourcetest.Check(t, share.Pack(t.Context(), &object, s))
	sourcetest.Expect(t, object.Len() < 2000, "%d bytes", object.Len())
	e, done, err := share.Unpack(&object)
	sourcetest.Check(t, err)
	defer done()
	c, err := e.Next()
	sourcetest.Check(t, err)
	sourcetest.Expect(t, c.H1 == s.H1 && len(c.Packages) == 1 && c.Packages[0].ID == s.ID, "got %+v", c)
	for f, err := range c.Files {
		sourcetest.Check(t, err)
		data, err := io.ReadAll(f.Data)
		sourcetest.Expect(t, err == nil && len(data) == 13000 && f.Executable, "%d bytes, %v", len(data), err)
	}
}

// A damaged package isn't stored.
func TestPackedDamage(t *testing.T) {
	s := stored(t, "the provider")
	sourcetest.Check(t, os.WriteFile(filepath.Join(s.Dir, "terraform-provider-widget"), []byte("another"), 0o755))
	sourcetest.Expect(t, share.Pack(t.Context(), io.Discard, s) != nil, "no error")
}

func TestLists(t *testing.T) {
	in := memory{}
	one, two := stored(t, "one"), stored(t, "two")
	first, second := share.Package{ID: one.ID, H1: one.H1}, share.Package{ID: two.ID, H1: two.H1}
	_, err := share.Find(t.Context(), in, one.ID)
	sourcetest.ErrorIs(t, err, sources.ErrNotFound)
	for _, p := range []share.Package{first, first, second, first} {
		sourcetest.Check(t, share.List(t.Context(), in, p))
	}
	found, err := share.Find(t.Context(), in, one.ID)
	sourcetest.Check(t, err)
	sourcetest.EqualSlices(t, found, []share.Package{first, second}, "packages")

	_, err = share.Key(t.Context(), in, "larder1-x")
	sourcetest.ErrorIs(t, err, sources.ErrNotFound)
	sourcetest.Check(t, share.ListKey(t.Context(), in, "larder1-x", found))
	byKey, err := share.Key(t.Context(), in, "larder1-x")
	sourcetest.Check(t, err)
	sourcetest.EqualSlices(t, byKey, found, "packages")

	has, err := share.Has(t.Context(), in, one.H1)
	sourcetest.Expect(t, err == nil && !has, "there already: %v", err)
	_, err = share.Locate(t.Context(), in, first)
	sourcetest.ErrorIs(t, err, sources.ErrNotFound)
	sourcetest.Check(t, share.Store(t.Context(), in, first, strings.NewReader("abc"), 3, [32]byte{}, nil))
	url, err := share.Locate(t.Context(), in, first)
	sourcetest.Expect(t, err == nil && strings.HasPrefix(url, "memory://contents/"), "got %s, %v", url, err)
}

// Only so many contents of a package are listed, the newest.
func TestManyContents(t *testing.T) {
	in := memory{}
	var all []share.Package
	for _, text := range []string{"1", "2", "3", "4", "5", "6"} {
		s := stored(t, text)
		all = append([]share.Package{{ID: s.ID, H1: s.H1}}, all...)
		sourcetest.Check(t, share.List(t.Context(), in, all[0]))
	}
	found, err := share.Find(t.Context(), in, all[0].ID)
	sourcetest.Check(t, err)
	sourcetest.EqualSlices(t, found, all[:4], "packages")
}

func TestInvalidDocuments(t *testing.T) {
	id := sourcetest.PackageID(t, "example.test/acme/widget", "1.0.0", "linux_amd64")
	const h1 = "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	for name, text := range map[string]string{
		"no JSON":        `{`,
		"another format": `{"format": 2}`,
		"no provider":    `{"format": 1, "packages": [{"provider": "..", "version": "1.0.0", "platform": "linux_amd64", "h1": "` + h1 + `"}]}`,
		"no version":     `{"format": 1, "packages": [{"provider": "example.test/acme/widget", "version": "../1", "platform": "linux_amd64", "h1": "` + h1 + `"}]}`,
		"no hash":        `{"format": 1, "packages": [{"provider": "example.test/acme/widget", "version": "1.0.0", "platform": "linux_amd64", "h1": "h1:../../x"}]}`,
		"another scheme": `{"format": 1, "packages": [{"provider": "example.test/acme/widget", "version": "1.0.0", "platform": "linux_amd64", "h1": "zh:00"}]}`,
	} {
		_, err := share.Find(t.Context(), memory{"packages/" + id.Path(): []byte(text)}, id)
		sourcetest.Expect(t, err != nil && !errors.Is(err, sources.ErrNotFound) && strings.HasPrefix(err.Error(), "memory/packages/"), "%s: %v", name, err)
	}
	others, err := share.Find(t.Context(), memory{"packages/" + id.Path(): []byte(`{"format": 1, "packages": [{"provider": "example.test/acme/other", "version": "1.0.0", "platform": "linux_amd64", "h1": "` + h1 + `"}]}`)}, id)
	sourcetest.Expect(t, err == nil && len(others) == 0, "another package: %v, %v", others, err)
}

// down is a place that doesn't answer.
type down struct{ memory }

var errDown = errors.New("down")

func (down) Get(context.Context, string) ([]byte, error) { return nil, errDown }

func TestErrorsOfPlace(t *testing.T) {
	p := share.Package{ID: sourcetest.PackageID(t, "example.test/acme/widget", "1.0.0", "linux_amd64"), H1: "zh:no"}
	_, err := share.Find(t.Context(), down{}, p.ID)
	sourcetest.ErrorIs(t, err, errDown)
	sourcetest.ErrorIs(t, share.List(t.Context(), down{}, p), errDown)
	_, err = share.Key(t.Context(), down{}, "key")
	sourcetest.ErrorIs(t, err, errDown)

	// Only h1: hashes name contents.
	_, err = share.Has(t.Context(), memory{}, p.H1)
	sourcetest.Expect(t, err != nil, "Has: no error")
	_, err = share.Locate(t.Context(), memory{}, p)
	sourcetest.Expect(t, err != nil && !errors.Is(err, sources.ErrNotFound), "Locate: %v", err)
	err = share.Store(t.Context(), memory{}, p, strings.NewReader(""), 0, [32]byte{}, nil)
	sourcetest.Expect(t, err != nil, "Store: no error")
	_, _, err = share.Unpack(strings.NewReader("not compressed"))
	sourcetest.Expect(t, err != nil, "Unpack: no error")
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte("\x28\xb5\x2f\xfd\x04\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, done, err := share.Unpack(bytes.NewReader(data))
		if err != nil {
			return
		}
		defer done()
		if c, err := e.Next(); err == nil {
			for _, err := range c.Files {
				if err != nil {
					return
				}
			}
		}
	})
}
