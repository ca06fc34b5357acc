package cachedir_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var errCut = errors.New("cut")

// half of an archive is long enough to be kept after an interruption.
var half = strings.Repeat("half", 1<<16)

// arriving is a delivery of the archive with the hash want. It stores in found the
// text that was kept, writes text with a note, and fails with err.
func arriving(t *testing.T, want sources.Hash, found *string, text, note string, err error) sourcetest.Supply {
	del := delivery(nil)
	del.Fetch = func(_ context.Context, s sources.Stage) (sourcetest.Supplied, error) {
		held, was, resumeErr := s.Resume(want)
		check(t, resumeErr)
		*found = was
		if was != "" {
			data, readErr := io.ReadAll(held)
			check(t, readErr)
			*found += ":" + string(data)
		}
		if was == "" {
			check(t, s.Begin(note))
		}
		_, writeErr := s.Write([]byte(text))
		check(t, writeErr)
		return sourcetest.Supplied{}, err
	}
	return del
}

func TestInterruptedDownloadIsKept(t *testing.T) {
	const zh, other = "zh:../../a", "zh:b" // a mirror may report any hash
	for _, test := range []struct {
		name  string
		first sources.Hash
		note  string
		then  sources.Hash
		want  string
	}{
		{"the same archive", zh, "note", zh, "note:" + half},
		{"another archive", zh, "note", other, ""},
		{"no note", zh, "", zh, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			var found string
			_, err := sourcetest.Put(context.Background(), open(t, root, cachedir.Options{}), widget, arriving(t, test.first, &found, half, test.note, errCut))
			if !errors.Is(err, errCut) || found != "" {
				t.Fatalf("got %v, found %q", err, found)
			}
			// Another process continues the download.
			_, err = sourcetest.Put(context.Background(), open(t, root, cachedir.Options{}), widget, arriving(t, test.then, &found, " the rest", "", nil))
			sourcetest.Expect(t, err != nil && found == test.want, "got %v, found %q, want %q", err, found, test.want)
			nothingStaged(t, root)
			left, err := filepath.Glob(filepath.Join(root, ".larder/partial/*"))
			sourcetest.Expect(t, err == nil && len(left) == 0, "left over: %v, %v", left, err)
		})
	}
}

func TestRefusedDownloadIsNotKept(t *testing.T) {
	root := t.TempDir()
	var found string
	del := arriving(t, "zh:a", &found, "bad", "note", nil)
	fetch := del.Fetch
	del.Fetch = func(ctx context.Context, s sources.Stage) (sourcetest.Supplied, error) {
		parcel, _ := fetch(ctx, s)
		check(t, s.Begin(""))
		return parcel, errCut
	}
	_, err := sourcetest.Put(context.Background(), open(t, root, cachedir.Options{}), widget, del)
	sourcetest.Require(t, errors.Is(err, errCut), "%v", err)
	if _, err := os.Stat(filepath.Join(root, partialOf(widget))); err == nil {
		t.Error("it is kept")
	}
}
