package cachedir_test

import (
	"archive/zip"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func writeZip(t *testing.T, path, text string) {
	f, err := os.Create(path)
	check(t, err)
	w := zip.NewWriter(f)
	e, err := w.Create("terraform-provider-widget")
	check(t, err)
	_, err = e.Write([]byte(text))
	check(t, err)
	check(t, w.Close())
	check(t, f.Close())
}

// The archive is replaced by rename after it is hashed and before it is unpacked.
func TestCopyOfReplacedArchive(t *testing.T) {
	sourcetest.SkipOnWindows(t, "an open file can't be replaced")
	dir := t.TempDir()
	d := openStore(t, filepath.Join(dir, "cache"), cachedir.Options{})
	at := filepath.Join(dir, "widget.zip")
	writeZip(t, at, "old")
	id := sourcetest.PackageID(t, "example.test/acme/widget", "1.0.0", "linux_amd64")
	_, tx, err := d.Begin(context.Background(), id, sources.ToStore)
	check(t, err)
	defer tx.Close()
	_, err = tx.Stage(nil)
	check(t, err)
	f, err := os.Open(at) // acquire.open hashes the archive at this point
	check(t, err)
	defer f.Close()
	writeZip(t, at+".new", "new")
	check(t, os.Rename(at+".new", at))
	_, err = tx.Unpack(context.Background(), sources.Payload{Archive: f})
	check(t, err)
	s, err := tx.Commit(context.Background(), sources.Provenance{Origin: at})
	check(t, err)
	if s.Seen.CopyOf(at) {
		t.Error("the package counts as a copy of what it is no copy of")
	}
}
