package cachedir_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A package that is in place needs no interrupted download: another process may have
// stored it from elsewhere, and an engine or a process that was killed may have put it
// there.
func TestPackagesInPlaceNeedNoDownload(t *testing.T) {
	interrupted := files{partialOf(widget): "half", partialOf(widget) + ".note": "zh:a\nnote"}
	other := packageID("example.test/acme/widget", "1.3.0")
	partials := func(t *testing.T, root string) []string {
		found, err := filepath.Glob(filepath.Join(root, ".larder", "partial", "*"))
		check(t, err)
		return found
	}
	t.Run("stored", func(t *testing.T) {
		root := t.TempDir()
		interrupted.unpack(t, root)
		put(t, open(t, root, cachedir.Options{}), widget, widgetFiles)
		sourcetest.EqualSlices(t, partials(t, root), nil)
	})
	t.Run("hashed", func(t *testing.T) {
		root := t.TempDir()
		interrupted.unpack(t, root)
		_, err := sourcetest.Put(context.Background(), open(t, root, cachedir.Options{}), widget, hashing(widgetFiles.zip(t)))
		check(t, err)
		sourcetest.EqualSlices(t, partials(t, root), nil)
	})
	t.Run("before", func(t *testing.T) {
		root := t.TempDir()
		d := open(t, root, cachedir.Options{})
		put(t, d, widget, widgetFiles)
		interrupted.unpack(t, root)
		files{partialOf(other): "half", partialOf(other) + ".note": "zh:a\nnote"}.unpack(t, root)
		usage, err := d.Usage(context.Background())
		check(t, err)
		sourcetest.Expect(t, usage.Interrupted.Count == 1 && usage.Abandoned.Count == 1, "got %+v", usage)
		put(t, open(t, root, cachedir.Options{}), packageID("example.test/acme/widget", "1.4.0"), widgetFiles)
		left := partials(t, root)
		sourcetest.Expect(t, len(left) == 2 && slices.Contains(left, filepath.Join(root, partialOf(other))), "left %q", left)
	})
	t.Run("being replaced", func(t *testing.T) {
		root := t.TempDir()
		d := open(t, root, cachedir.Options{})
		put(t, d, widget, widgetFiles)
		_, tx, err := d.Begin(context.Background(), widget, sources.ToStore)
		check(t, err)
		defer tx.Close()
		interrupted.unpack(t, root)
		put(t, open(t, root, cachedir.Options{}), other, widgetFiles)
		sourcetest.Equal(t, len(partials(t, root)), 2)
	})
}
