package uitest_test

import (
	"fmt"
	"testing"

	"github.com/larder-cli/larder/cmd/larder/ui/uitest"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A terminal shows the end of a text that is longer than the screen, and remembers the rest.
func TestTerminal(t *testing.T) {
	for _, test := range []struct {
		name, output string
		seen, wide   []string
		text         string
	}{
		{"lines", "a\nb\n", []string{"a", "b", ""}, nil, "a\nb"},
		{"a line is overwritten", "abc\rx\x1b[K\n", []string{"x", ""}, nil, "x"},
		{"a line wraps", "abcdefgh\n", []string{"abcdef", "gh", ""}, []string{"abcdefgh"}, "abcdefgh"},
		{"lines scroll off the top", "a\nb\nc\nd", []string{"b", "c", "d"}, nil, "a\nb\nc\nd"},
	} {
		t.Run(test.name, func(t *testing.T) {
			terminal := uitest.New(t, 6, 3)
			terminal.Read()
			sourcetest.Must(fmt.Fprint(terminal.TTY, test.output))(t)
			terminal.Settle()
			sourcetest.EqualSlices(t, terminal.Seen(), test.seen)
			sourcetest.EqualSlices(t, terminal.Wide(), test.wide)
			sourcetest.Equal(t, terminal.Text(), test.text)
		})
	}
}
