package cachedir_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// The archive is replaced by rename after it is hashed and before it is unpacked.
func TestCopyOfReplacedArchive(t *testing.T) {
	sourcetest.SkipOnWindows(t, "an open file can't be replaced")
	dir := t.TempDir()
	d := openStore(t, filepath.Join(dir, "cache"), cachedir.Options{})
	at := filepath.Join(dir, "widget.zip")
	check(t, os.WriteFile(at, widgetFiles.zip(t), 0o644))
	_, tx, err := d.Begin(context.Background(), widget, sources.ToStore)
	check(t, err)
	defer tx.Close()
	_, err = tx.Stage(nil)
	check(t, err)
	f, err := os.Open(at) // acquire.open hashes the archive at this point
	check(t, err)
	defer f.Close()
	check(t, os.WriteFile(at+".new", files{executable: "new"}.zip(t), 0o644))
	check(t, os.Rename(at+".new", at))
	_, err = tx.Unpack(context.Background(), sources.Payload{Archive: f})
	check(t, err)
	s, err := tx.Commit(context.Background(), sources.Provenance{Origin: at})
	check(t, err)
	sourcetest.Expect(t, !s.Seen.CopyOf(at), "the package counts as a copy of what it is no copy of")
}
