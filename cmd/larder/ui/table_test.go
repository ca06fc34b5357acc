package ui

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Tables fit the terminal: the columns that have no room are below their rows.
func TestTablesFit(t *testing.T) {
	columns := []Column{{Head: "PROVIDER"}, {Head: "PLATFORM"}, {Head: "SIZE", Right: true}, {Head: "USED"}, {Head: "VERIFIED AS"}, {Head: "PART"}}
	rows := [][]Span{
		{{Text: "live/a"}},
		{{Text: "hashicorp/aws"}, {Text: "linux_arm"}, {Text: "641 MB"}, {Text: "4 days ago"}, {Text: "signed"}, {}},
		{{Text: "example.test/acme/widget"}, {Text: "linux_arm"}, {Text: "4.1 kB"}, {Text: "just now"}, {Text: "self-signed"}, {}},
	}
	for _, test := range []struct {
		width int
		want  string
	}{
		{0, `
live/a
hashicorp/aws             linux_arm  641 MB  4 days ago  signed
example.test/acme/widget  linux_arm  4.1 kB  just now    self-signed
`},
		{60, `
PROVIDER                  PLATFORM     SIZE  USED
live/a
hashicorp/aws             linux_arm  641 MB  4 days ago
  verified as signed
example.test/acme/widget  linux_arm  4.1 kB  just now
  verified as self-signed
`},
		{26, `
PROVIDER
live/a
hashicorp/aws
  platform linux_arm, size
  641 MB, used 4 days ago,
  verified as signed
example.test/acme/widget
  platform linux_arm, size
  4.1 kB, used just now,
  verified as self-signed
`},
	} {
		got := "\n"
		for _, line := range Table(columns, rows, test.width) {
			got += line.Render(false) + "\n"
		}
		sourcetest.Equal(t, got, test.want, test.width)
	}
}

// A command line in a text is on one line at any width, so that users can paste it.
func TestCommandLinesAreNotWrapped(t *testing.T) {
	for _, test := range []struct{ before, command, after string }{
		{"add the hashes of other platforms: run ", "larder lock -R --platform linux_amd64 --platform darwin_arm64", ""},
		{"to require a signature by a known key, add ", "--trust-key KEY", ", which is a file or a directory of files"},
		{"name the providers that are required: ", "larder bundle create ../usb.tar hashicorp/aws@6.2.0 hashicorp/random", ""},
		{"to fetch the damaged packages again, use this: ", "larder cache repair", ", then run the command again"},
	} {
		text := test.before + test.command + test.after
		for _, width := range []int{40, 60, 80} {
			got := wrapped(text, width, 6, 2)
			sourcetest.Expect(t, strings.Contains(got, test.command), "%d columns: %s", width, got)
			sourcetest.Equal(t, strings.Join(strings.Fields(got), " "), text)
			for _, line := range strings.Split(got, "\n") {
				sourcetest.Expect(t, utf8.RuneCountInString(line) <= width || strings.Contains(line, test.command), "%d columns: %q", width, line)
			}
		}
	}
}

// TestLaidRows checks where rows continue that don't fit: in the column of the last cell, or at the left if the terminal is
// narrow.
func TestLaidRows(t *testing.T) {
	const row = "Sources    1  filesystem_mirror /srv/providers  ~/.terraformrc:2  2 versions, newest 1.0.1"
	for _, tt := range []struct {
		row   string
		width int
		want  string
	}{
		{row, 100, row},
		{row, 80, "Sources    1  filesystem_mirror /srv/providers  ~/.terraformrc:2\n      2 versions, newest 1.0.1"},
		{"           " + row[11:], 80, "           1  filesystem_mirror /srv/providers  ~/.terraformrc:2\n      2 versions, newest 1.0.1"},
		{row, 30, "Sources    1\n      filesystem_mirror\n      /srv/providers\n      ~/.terraformrc:2\n      2 versions, newest 1.0.1"},
		{"Then       larder install  takes 1.0.1 from the plugin cache", 52, "Then       larder install  takes 1.0.1 from the\n                           plugin cache"},
	} {
		sourcetest.Equal(t, Laid(tt.row, tt.width), tt.want, tt.width, "columns")
	}
}
