package cachedir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// An interrupted download is kept for a day. The next process that stores a package
// after that removes it.
func TestInterruptedDownloadsAreSwept(t *testing.T) {
	for later, kept := range map[time.Duration]bool{0: true, 23 * time.Hour: true, 25 * time.Hour: false} {
		root := t.TempDir()
		var found string
		_, err := sourcetest.Put(context.Background(), open(t, root, cachedir.Options{}), widget, arriving(t, "zh:a", &found, half, "note", errCut))
		if !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		d := open(t, root, cachedir.Options{Now: func() time.Time { return time.Now().Add(later) }})
		put(t, d, packageID("other.test/acme/widget", "1.2.0"), widgetFiles)
		_, err = os.Stat(filepath.Join(root, partialOf(widget)))
		sourcetest.Expect(t, (err == nil) == kept, "%s later: kept is %t, want %t", later, err == nil, kept)
	}
}
