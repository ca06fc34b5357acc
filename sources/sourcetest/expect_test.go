package sourcetest_test

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// A reporter is a test that records its error messages.
type reporter struct {
	testing.TB
	errors []string
}

func (r *reporter) Helper() {}

func (r *reporter) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *reporter) Fatalf(format string, args ...any) { r.Errorf("fatal: "+format, args...) }

func TestExpectations(t *testing.T) {
	r := &reporter{TB: t}
	sourcetest.Expect(r, true, "unused")
	sourcetest.Require(r, true, "unused")
	sourcetest.Equal(r, 1, 1)
	sourcetest.EqualSlices(r, nil, []int{})
	sourcetest.ErrorIs(r, fmt.Errorf("reading: %w", io.EOF), io.EOF)
	if len(r.errors) > 0 {
		t.Errorf("got %q", r.errors)
	}
	sourcetest.Expect(r, false, "%d bytes", 3)
	sourcetest.Require(r, false, "%s", "missing")
	sourcetest.Equal(r, 1, 2, "size of", "file")
	sourcetest.EqualSlices(r, []int{1}, nil)
	sourcetest.ErrorIs(r, io.EOF, fs.ErrExist)
	sourcetest.Equal(r, "a\n", "b")
	want := `3 bytes|fatal: missing|size of file: got "1", want "2"|got "[1]", want "[]"|got "EOF", want "file already exists"|got` + "\na\n\nwant\nb"
	if got := strings.Join(r.errors, "|"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
