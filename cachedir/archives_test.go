package cachedir_test

import (
	"context"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A cache keeps its downloads for a day if it is told to. Everyone who may write to it finds them.
func TestKeepsRecentDownloads(t *testing.T) {
	zh := sources.ZipHash(sha256.Sum256(widgetFiles.zip(t)))
	for _, c := range []struct {
		name        string
		first, then cachedir.Options
		kept        int
		found       bool
	}{
		{"kept", cachedir.Options{Archives: 1 << 20, KeepArchives: true}, cachedir.Options{Archives: 1 << 20}, 1, true},
		{"not kept", cachedir.Options{Archives: 1 << 20}, cachedir.Options{Archives: 1 << 20}, 0, false},
		{"too large", cachedir.Options{Archives: 1, KeepArchives: true}, cachedir.Options{Archives: 1}, 0, false},
		{"turned off", cachedir.Options{KeepArchives: true}, cachedir.Options{Archives: 1 << 20}, 0, false},
		{"turned off later", cachedir.Options{Archives: 1 << 20, KeepArchives: true}, cachedir.Options{}, 1, false},
		{"read-only", cachedir.Options{Archives: 1 << 20, KeepArchives: true}, cachedir.Options{Archives: 1 << 20, ReadOnly: true}, 1, false},
		{"a day later", cachedir.Options{Archives: 1 << 20, KeepArchives: true}, cachedir.Options{
			Archives: 1 << 20, Now: func() time.Time { return time.Now().Add(25 * time.Hour) },
		}, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			d := open(t, root, c.first)
			put(t, d, widget, widgetFiles)
			usage, err := d.Usage(context.Background())
			check(t, err)
			sourcetest.Equal(t, usage.Archives.Count, c.kept, "archives")
			sourcetest.Equal(t, usage.Interrupted.Count, 0, "interrupted downloads")
			f, err := open(t, root, c.then).Archives().Find(t.Context(), zh)
			sourcetest.Equal(t, err == nil, c.found, "found")
			if err == nil {
				check(t, f.Close())
			}
		})
	}
}
