package archive_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// arriving returns files given as "PATH" or "PATH=TEXT".
func arriving(files ...string) sources.Files {
	return func(yield func(sources.Incoming, error) bool) {
		for _, f := range files {
			path, text, _ := strings.Cut(f, "=")
			if !yield(sources.Incoming{Path: path, Data: strings.NewReader(text)}, nil) {
				return
			}
		}
	}
}

func TestReceive(t *testing.T) {
	files := []string{"terraform-provider-x=" + strings.Repeat("text", 1<<18), "docs/a=a", "docs-b=b", "LICENSE="}
	dir := t.TempDir()
	got, err := archive.Receive(t.Context(), arriving(files...), to(t, dir), archive.Limits{})
	check(t, err)
	want, err := archive.Hash(t.Context(), dir)
	check(t, err)
	hashed, err := archive.Receive(t.Context(), arriving(files...), archive.Dest{}, archive.Limits{})
	if err != nil || got.H1 != want.H1 || hashed.H1 != want.H1 || got.Size != want.Size || len(got.Files) != len(files) {
		t.Errorf("got %+v, %+v and %v, want %+v", got, hashed, err, want)
	}
	info, err := os.Stat(filepath.Join(dir, "terraform-provider-x"))
	sourcetest.Expect(t, err == nil && (info.Mode()&0o111 != 0 || !sourcetest.HasModes), "the provider: %v, %v", info, err)
}

func TestReceiveRejects(t *testing.T) {
	tests := []struct{ files, want string }{
		{"", "no files"},
		{"../x", `".." element`},
		{"/x", "not relative"},
		{"./x", "not in its shortest form"},
		{"d//x", "not in its shortest form"},
		{"d/", "not in its shortest form"},
		{".", "that of a directory"},
		{"x x", "occurs twice"},
		{"X x", "only in case"},
		{"x x/y", "both a file and a directory"},
		{"a b c d/e", "limit of 4 files"},
		{"a=12345 b=123456", "limit of 10 bytes"},
	}
	archive.SetMaxFiles(t, 4)
	for _, test := range tests {
		for _, to := range []archive.Dest{{}, to(t, t.TempDir())} {
			_, err := archive.Receive(t.Context(), arriving(strings.Fields(test.files)...), to, archive.Limits{Size: 10})
			sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), test.want),
				"%s: got %v, want %s", test.files, err, test.want)
		}
	}
	cut := errors.New("cut short")
	_, err := archive.Receive(t.Context(), func(yield func(sources.Incoming, error) bool) {
		_ = yield(sources.Incoming{Path: "x", Data: strings.NewReader("")}, nil) && yield(sources.Incoming{}, cut)
	}, to(t, t.TempDir()), archive.Limits{})
	sourcetest.ErrorIs(t, err, cut)
}
