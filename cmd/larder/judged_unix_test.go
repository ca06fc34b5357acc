//go:build unix

package main_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/legacy"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A judgedStore changes an archive after it was hashed, before or while it is unpacked.
type judgedStore struct {
	acquire.Store
	change, restore func()
}

func (s judgedStore) Begin(
	ctx context.Context, id sources.PackageID, purpose sources.Purpose,
) (sources.Held, sources.Tx, error) {
	held, tx, err := s.Store.Begin(ctx, id, purpose)
	return held, judgedTx{tx, s}, err
}

type judgedTx struct {
	sources.Tx
	store judgedStore
}

func (t judgedTx) Unpack(ctx context.Context, from sources.Payload) (sources.Contents, error) {
	t.store.change()
	defer t.store.restore()
	return t.Tx.Unpack(ctx, from)
}

// storedZip returns an archive with a provider that isn't compressed. Archives of texts of
// the same length differ in these texts and their checksums only.
func storedZip(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	h := &zip.FileHeader{Name: "terraform-provider-widget_v1.2.0", Method: zip.Store}
	h.SetMode(0o755)
	out, err := w.CreateHeader(h)
	sourcetest.Check(t, err)
	_, err = out.Write([]byte(text))
	sourcetest.Check(t, errors.Join(err, w.Close()))
	return b.Bytes()
}

// rewrite writes data into a file in place, and resets its time.
func rewrite(t *testing.T, path string, data []byte) {
	t.Helper()
	before, err := os.Stat(path)
	sourcetest.Check(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	sourcetest.Check(t, err)
	_, err = f.WriteAt(data, 0)
	sourcetest.Check(t, errors.Join(err, f.Close(), os.Chtimes(path, before.ModTime(), before.ModTime())))
}

func openCache(t *testing.T, dir string) acquire.Store {
	return sourcetest.Must(cachedir.Open(dir, cachedir.Options{}))(t)
}

func mirrorOpener(unpacked bool) func(*testing.T, string) acquire.Store {
	return func(t *testing.T, dir string) acquire.Store {
		b, err := builder.Open(t.Context(), dir, builder.Options{Unpacked: unpacked})
		sourcetest.Check(t, err)
		t.Cleanup(func() { b.Close() })
		return b
	}
}

// The bytes that are stored are those that were hashed: an archive that another user can
// change between the two is refused, even if nothing shows that it changed and the lock
// file has its hash.
func TestJudgedArchivesAreUsed(t *testing.T) {
	good, evil := storedZip(t, strings.Repeat("good ", 200_000)), storedZip(t, strings.Repeat("evil ", 200_000))
	id := sourcetest.PackageID(t, "example.test/acme/widget", "1.2.0", "linux_amd64")
	acquired := func(purpose sources.Purpose) func(*testing.T, judgedStore, string) error {
		return func(t *testing.T, into judgedStore, mirror string) error {
			slot := acquire.Slot{}
			defer slot.Leave()
			a := acquire.New(fsmirror.New(mirror, fsmirror.Options{}), into, nil, acquire.Options{})
			req := acquire.Request{ID: id, Purpose: purpose, Slot: &slot, By: acquire.TheLockFile}
			req.Locked = []sources.Hash{sources.ZipHash(sha256.Sum256(good))}
			_, err := a.Acquire(t.Context(), req, sources.Stored{})
			return err
		}
	}
	imported := func(t *testing.T, into judgedStore, mirror string) error {
		dirs := []string{filepath.Join(mirror, filepath.FromSlash(id.Provider.String()))}
		found, err := legacy.Find(t.Context(), dirs, legacy.Options{Prefix: "example.test/acme"})
		sourcetest.Check(t, err)
		sourcetest.Require(t, len(found.Candidates) == 1, "found %+v", found)
		_, err = found.Candidates[0].Put(t.Context(), into)
		return err
	}
	for name, c := range map[string]struct {
		open func(*testing.T, string) acquire.Store
		put  func(*testing.T, judgedStore, string) error
	}{
		"install":                {openCache, acquired(sources.ToStore)},
		"lock":                   {openCache, acquired(sources.ToHash)},
		"mirror sync":            {mirrorOpener(false), acquired(sources.ToStore)},
		"mirror sync --unpacked": {mirrorOpener(true), acquired(sources.ToStore)},
		"import":                 {mirrorOpener(false), imported},
		"import --unpacked":      {mirrorOpener(true), imported},
	} {
		for _, how := range []string{"unchanged", "changed", "changed and restored"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				from, to := t.TempDir(), t.TempDir()
				path := filepath.Join(from, filepath.FromSlash(id.Provider.String()), id.Filename())
				sourcetest.Check(t, os.MkdirAll(filepath.Dir(path), 0o755))
				sourcetest.Check(t, errors.Join(os.WriteFile(path, good, 0o644), os.Chmod(path, 0o666)))
				store := judgedStore{c.open(t, to), func() {}, func() {}}
				if how != "unchanged" {
					store.change = func() { rewrite(t, path, evil) }
				}
				if how == "changed and restored" {
					store.restore = func() { rewrite(t, path, good) }
				}
				err := c.put(t, store, from)
				if how == "unchanged" {
					sourcetest.Check(t, err)
				} else {
					sourcetest.ErrorIs(t, err, disk.ErrChanged)
				}
				nothingEvil(t, to)
			})
		}
	}
}

// nothingEvil checks that no file below dir has contents that were never judged.
func nothingEvil(t *testing.T, dir string) {
	t.Helper()
	sourcetest.Check(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && bytes.Contains(sourcetest.ReadFile(t, path), []byte("evil evil")) {
			t.Errorf("%s has contents that were never judged", path)
		}
		return err
	}))
}

// Both hashes of an archive in a mirror are those of the same bytes, whichever of them an
// attacker shows first.
func TestHashesOfOneArchive(t *testing.T) {
	good, evil := storedZip(t, strings.Repeat("good ", 200_000)), storedZip(t, strings.Repeat("evil ", 200_000))
	path := filepath.Join(t.TempDir(), "widget.zip")
	sourcetest.Check(t, errors.Join(os.WriteFile(path, good, 0o644), os.Chmod(path, 0o666)))
	stop, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				rewrite(t, path, [][]byte{good, evil}[i%2])
			}
		}
	}()
	known := map[sources.Hash]sources.Hash{}
	for _, data := range [][]byte{good, evil} {
		c, err := archive.Sum(t.Context(), bytes.NewReader(data), int64(len(data)))
		sourcetest.Check(t, err)
		known[sources.ZipHash(sha256.Sum256(data))] = c.H1
	}
	for range 300 {
		c, zh, err := archive.Read(t.Context(), path)
		if err != nil {
			continue
		}
		if h1, ok := known[zh]; ok && h1 != c.H1 {
			t.Errorf("%s has the contents %s, got %s", zh, h1, c.H1)
		}
	}
	close(stop)
	<-done
}
