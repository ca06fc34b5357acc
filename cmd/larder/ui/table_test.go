package ui

import (
	"testing"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Tables fit the terminal: columns are dropped first, then the widest cells are shortened.
func TestTablesFit(t *testing.T) {
	columns := []Column{{Head: "PROVIDER", Shorten: true}, {Head: "SIZE", Right: true}, {Head: "USED", Drop: 2}, {Head: "VERIFIED", Drop: 1, Shorten: true}}
	rows := []Row{
		{Cells: []Span{{Text: "hashicorp/aws"}, {Text: "641 MB"}, {Text: "4 days ago"}, {Text: "signed by HashiCorp"}}},
		{Cells: []Span{{Text: "example.test/a-long-namespace/widget"}, {Text: "4.1 kB"}, {Text: "just now"}, {Text: "self-signed"}}},
	}
	for _, test := range []struct {
		width int
		want  string
	}{
		{0, `
hashicorp/aws                         641 MB  4 days ago  signed by HashiCorp
example.test/a-long-namespace/widget  4.1 kB  just now    self-signed
`},
		{70, `
hashicorp/aws                         641 MB  signed by HashiCorp
example.test/a-long-namespace/widget  4.1 kB  self-signed
`},
		{46, `
hashicorp/aws                         641 MB
example.test/a-long-namespace/widget  4.1 kB
`},
		{30, `
hashicorp/aws           641 MB
example.te…pace/widget  4.1 kB
`},
	} {
		got := "\n"
		for _, line := range layOut(columns, rows, test.width) {
			got += line.plain() + "\n"
			if n := len([]rune(line.plain())); test.width > 0 && n > test.width {
				t.Errorf("%d columns: %q has %d", test.width, line.plain(), n)
			}
		}
		sourcetest.Equal(t, got, test.want, test.width)
	}
}
