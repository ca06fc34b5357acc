package ui

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Tables fit the terminal: names are shortened first, then columns are omitted and named.
func TestTablesFit(t *testing.T) {
	columns := []Column{
		{Head: "PROVIDER", Shorten: true}, {Head: "PLATFORM", Keep: true, Drop: 1}, {Head: "SIZE", Right: true},
		{Head: "USED", Drop: 3}, {Head: "VERIFIED", Drop: 2}, {Head: "PART", Drop: 4},
	}
	rows := [][]Span{
		{{Text: "hashicorp/aws"}, {Text: "linux_arm"}, {Text: "641 MB"}, {Text: "4 days ago"}, {Text: "signed"}, {}},
		{{Text: "example.test/a-long-namespace/widget"}, {Text: "linux_arm"}, {Text: "4.1 kB"}, {Text: "just now"}, {Text: "self-signed"}, {}},
	}
	for _, test := range []struct {
		width int
		want  string
	}{
		{0, `
hashicorp/aws                         linux_arm  641 MB  4 days ago  signed
example.test/a-long-namespace/widget  linux_arm  4.1 kB  just now    self-signed
`},
		{70, `
PROVIDER                    PLATFORM     SIZE  USED        VERIFIED
hashicorp/aws               linux_arm  641 MB  4 days ago  signed
example.test…espace/widget  linux_arm  4.1 kB  just now    self-signed
`},
		{50, `
PROVIDER             SIZE  USED        VERIFIED
hashicorp/aws      641 MB  4 days ago  signed
example.…e/widget  4.1 kB  just now    self-signed
Not shown at this width: platform (linux_arm)
`},
		{36, `
PROVIDER           SIZE  VERIFIED
hashicorp/aws    641 MB  signed
example…/widget  4.1 kB  self-signed
Not shown at this width: platform
  (linux_arm), used
`},
		{20, `
PROVIDER        SIZE
hashi…rp/aws  641 MB
examp…widget  4.1 kB
Not shown at this
  width: platform
  (linux_arm), used,
  verified
`},
	} {
		got := "\n"
		for _, line := range Table(columns, clone(rows), test.width) {
			got += line.Plain() + "\n"
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

// A wider terminal shows all columns that a narrower one shows.
func TestWiderTablesShowMore(t *testing.T) {
	columns := []Column{
		{Head: "PROVIDER", Shorten: true}, {Head: "VERSION"}, {Head: "PLATFORM", Keep: true, Drop: 1}, {Head: "SIZE", Drop: 4},
		{Head: "LAST USED", Drop: 5}, {Head: "USED BY", Drop: 3}, {Head: "VERIFIED AS", Drop: 2},
	}
	rows := [][]Span{
		{{Text: "example.test/acme/widget"}, {Text: "1.0.0"}, {Text: "linux_amd64"}, {Text: "4 kB"}, {Text: "just now"}, {Text: "1 root module"}, {Text: "signed by its namespace's key"}},
		{{Text: "example.test/acme/salt"}, {Text: "1.0.0"}, {Text: "linux_arm64"}, {Text: "9 kB"}, {Text: "1 day ago"}, {Text: "unused"}, {Text: "hash only"}},
	}
	heads := 0
	for width := 20; width < 130; width++ {
		head := Table(columns, clone(rows), width)[0].Plain()
		shown := 0
		for i, c := range columns {
			if strings.Contains(head, c.Head) {
				shown |= 1 << i
			}
		}
		sourcetest.Expect(t, heads&^shown == 0, "%d columns: not shown any more: %s", width, head)
		heads = shown
	}
	sourcetest.Equal(t, heads, 1<<len(columns)-1)
}

// What a terminal shows of a table, whatever is in it: every column with text is shown or named, different
// names and keys stay different, and no line is too wide.
func TestTablesLoseNothingSilently(t *testing.T) {
	names := [][]string{
		{"a/b", "a/c"},
		{"registry.terraform.io/acme/gadget", "registry.opentofu.org/acme/gadget"},
		{"example.test/a-namespace-of-a-long-name/one", "example.test/a-namespace-of-a-long-name/two"},
	}
	optional := []string{"SIZE", "LAST USED", "USED BY", "VERIFIED AS"}
	for _, names := range names {
		for _, keys := range [][]string{{"linux_amd64", "linux_amd64"}, {"linux_amd64", "darwin_arm64"}} {
			for with := range 1 << len(optional) {
				columns := []Column{{Head: "PROVIDER", Shorten: true}, {Head: "PLATFORM", Keep: true, Drop: 1}}
				rows := [][]Span{{{Text: names[0]}, {Text: keys[0]}}, {{Text: names[1]}, {Text: keys[1]}}, {{Text: names[0]}, {Text: keys[0]}}}
				for i, head := range optional {
					columns = append(columns, Column{Head: head, Drop: i + 2})
					for j := range rows {
						text := ""
						if with&(1<<i) != 0 {
							text = fmt.Sprintf("signed by %d", j)
						}
						rows[j] = append(rows[j], Span{Text: text})
					}
				}
				for _, width := range []int{40, 60, 80, 120} {
					checkTable(t, columns, rows, width)
				}
			}
		}
	}
}

// checkTable checks what a terminal of a width shows of a table with heads.
func checkTable(t *testing.T, columns []Column, rows [][]Span, width int) {
	t.Helper()
	var lines []string
	for _, line := range Table(columns, clone(rows), width) {
		lines = append(lines, line.Plain())
		if utf8.RuneCountInString(line.Plain()) > width {
			t.Errorf("%q is wider than %d", line.Plain(), width)
		}
	}
	shown := strings.Join(lines, "\n")
	_, note, _ := strings.Cut(shown, "Not shown")
	note = strings.Join(strings.Fields(note), " ")
	for i, c := range columns {
		full := rows[0][i].Text != ""
		if visible := strings.Contains(shown, c.Head) || strings.Contains(note, c.label()); visible != full {
			t.Errorf("%d columns: column %s shown or named: %v, with text: %v\n%s", width, c.Head, visible, full, shown)
		}
	}
	differs := rows[0][0].Text != rows[1][0].Text || rows[0][1].Text != rows[1][1].Text
	name := func(line string) string {
		return strings.Join(strings.Fields(line)[:min(2, len(strings.Fields(line)))], " ")
	}
	if differs && name(lines[1]) == name(lines[2]) {
		t.Errorf("%d columns: the rows look alike\n%s", width, shown)
	}
}

// clone copies rows, whose cells [Table] may abbreviate.
func clone(rows [][]Span) (copied [][]Span) {
	for _, r := range rows {
		copied = append(copied, append([]Span{}, r...))
	}
	return copied
}

// TestLaidRows checks where rows continue that don't fit: in the column of the last cell, or after the label, or at
// the left if the terminal is narrow.
func TestLaidRows(t *testing.T) {
	const row = "Sources    1  filesystem_mirror /srv/providers  ~/.terraformrc:2  2 versions, newest 1.0.1"
	for _, tt := range []struct {
		row   string
		width int
		want  string
	}{
		{row, 100, row},
		{row, 80, "Sources    1  filesystem_mirror /srv/providers  ~/.terraformrc:2\n             2 versions, newest 1.0.1"},
		{"           " + row[11:], 80, "           1  filesystem_mirror /srv/providers  ~/.terraformrc:2\n             2 versions, newest 1.0.1"},
		{row, 30, "Sources    1\n      filesystem_mirror\n      /srv/providers\n      ~/.terraformrc:2\n      2 versions, newest 1.0.1"},
		{"Then       larder install  takes 1.0.1 from the plugin cache", 52, "Then       larder install  takes 1.0.1 from the\n                           plugin cache"},
	} {
		if got := Laid(tt.row, tt.width); got != tt.want {
			t.Errorf("%d columns: got\n%s\nwant\n%s", tt.width, got, tt.want)
		}
	}
}
