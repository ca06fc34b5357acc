package trust_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/trust"
)

var check = sourcetest.Check

func TestHashes(t *testing.T) {
	a, b := strings.Repeat("ab", 32), strings.Repeat("0c", 32)
	both := []sources.Hash{sources.Hash("zh:" + a), sources.Hash("zh:" + b)}
	tests := []struct {
		name, doc      string
		hashes, listed []sources.Hash
	}{
		{"nothing", "", nil, nil},
		{"every line", a + "  x.zip\n" + b + "  manifest.json\n", both, both},
		{"in lower case", strings.ToUpper(a) + " *x.zip extra\n", both[:1], both[:1]},
		{"blank lines", "\n\n" + a + " x\r\n \t \n", both[:1], both[:1]},
		{"a line without a name", a + " x\n" + b + "\n", nil, both[:1]},
		{"a line with a short sum", a + " x\n" + b[2:] + " y\n", nil, both[:1]},
		{"a line that is not hexadecimal", a + " x\nxy" + b[2:] + " y\n", nil, both[:1]},
		{"malformed lines before a good one", a[2:] + "  x.zip\n" + a + "\n" + b + "  y.zip\n", nil, both[1:]},
	}
	for _, test := range tests {
		sums, err := trust.ParseSums([]byte(test.doc))
		if got := sums.Hashes(); err != nil || !slices.Equal(got, test.hashes) {
			t.Errorf("%s: got %v, %v; want %v", test.name, got, err, test.hashes)
		}
		sourcetest.EqualSlices(t, sums.Listed(), test.listed, test.name, "listed are")
	}
}

func TestPlatforms(t *testing.T) {
	p, v := sourcetest.Address(t, "example.test/acme/widget"), sourcetest.Number(t, "1.2.0-rc.1")
	var doc strings.Builder
	for _, name := range []string{
		"terraform-provider-widget_1.2.0-rc.1_linux_arm64.zip",
		"terraform-provider-widget_1.2.0-rc.1_darwin_arm64.zip",
		"terraform-provider-widget_1.2.0-rc.1_linux_arm64.zip", // a duplicate
		"terraform-provider-widget_1.2.0-rc.1_manifest.json",
		"terraform-provider-widget_1.2.0-rc.1_linux_amd64.tar",
		"terraform-provider-widget_1.2.0-rc.1_.._up.zip",
		"terraform-provider-widget_1.2.0-rc.1_linux.zip",
		"terraform-provider-widget_1.2.0_linux_386.zip",
		"terraform-provider-gadget_1.2.0-rc.1_linux_386.zip",
		"other.zip",
	} {
		fmt.Fprintf(&doc, "%s  %s\n", strings.Repeat("ab", 32), name)
	}
	doc.WriteString("short  terraform-provider-widget_1.2.0-rc.1_linux_386.zip\n")
	sums, err := trust.ParseSums([]byte(doc.String()))
	check(t, err)
	sourcetest.Equal(t, fmt.Sprint(sums.Platforms(p, v)), "[darwin_arm64 linux_arm64]")
}

func FuzzParseSums(f *testing.F) {
	f.Add([]byte(strings.Repeat("ab", 32) + "  x.zip\n"))
	for mutant := range sourcetest.Mutants(sums) {
		f.Add(mutant)
	}
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
		sourcetest.Expect(t, err == nil && slices.Equal(again.Hashes(), sums.Hashes()),
			"got %v, %v; want %v", again.Hashes(), err, sums.Hashes())
	})
}
