package trust_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

func TestHashes(t *testing.T) {
	a, b := strings.Repeat("ab", 32), strings.Repeat("0c", 32)
	tests := []struct {
		name, doc string
		want      []sources.Hash
	}{
		{"nothing", "", nil},
		{"every line", a + "  x.zip\n" + b + "  manifest.json\n", []sources.Hash{sources.Hash("zh:" + a), sources.Hash("zh:" + b)}},
		{"in lower case", strings.ToUpper(a) + " *x.zip extra\n", []sources.Hash{sources.Hash("zh:" + a)}},
		{"blank lines", "\n\n" + a + " x\r\n \t \n", []sources.Hash{sources.Hash("zh:" + a)}},
		{"a line without a name", a + " x\n" + b + "\n", nil},
		{"a line with a short sum", a + " x\n" + b[2:] + " y\n", nil},
		{"a line that is not hexadecimal", a + " x\nxy" + b[2:] + " y\n", nil},
	}
	for _, test := range tests {
		sums, err := trust.ParseSums([]byte(test.doc))
		if got := sums.Hashes(); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, %v; want %v", test.name, got, err, test.want)
		}
	}
}

func FuzzParseSums(f *testing.F) {
	f.Add([]byte(strings.Repeat("ab", 32) + "  x.zip\n"))
	f.Add([]byte("\r\n\r\nab x\n"))
	f.Add([]byte(strings.Repeat("AB", 32) + " *x.zip y\n\v"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		sums, err := trust.ParseSums(doc)
		if err != nil {
			return
		}
		var printed strings.Builder
		for _, h := range sums.Hashes() {
			printed.WriteString(strings.TrimPrefix(string(h), "zh:") + "  name\n")
		}
		again, err := trust.ParseSums([]byte(printed.String()))
		if err != nil || !slices.Equal(again.Hashes(), sums.Hashes()) {
			t.Errorf("got %v, %v; want %v", again.Hashes(), err, sums.Hashes())
		}
	})
}
