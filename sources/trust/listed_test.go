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

func TestListed(t *testing.T) {
	a, b := strings.Repeat("ab", 32), strings.Repeat("0c", 32)
	tests := []struct {
		name, doc string
		want      []sources.Hash
	}{
		{"nothing", "", nil},
		{"every line", a + "  x.zip\n" + strings.ToUpper(b) + "  manifest.json\n", []sources.Hash{sources.Hash("zh:" + a), sources.Hash("zh:" + b)}},
		{"a malformed line is skipped", a[2:] + "  x.zip\n" + a + "\n" + b + "  y.zip\n", []sources.Hash{sources.Hash("zh:" + b)}},
	}
	for _, test := range tests {
		sums, err := trust.ParseSums([]byte(test.doc))
		if got := sums.Listed(); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, %v; want %v", test.name, got, err, test.want)
		}
	}
}

func TestPlatforms(t *testing.T) {
	p, err := sources.ParseProvider("example.test/acme/widget", sources.Terraform)
	check(t, err)
	v, err := sources.ParseVersion("1.2.0-rc.1")
	check(t, err)
	var doc strings.Builder
	for _, name := range []string{
		"terraform-provider-widget_1.2.0-rc.1_linux_arm64.zip",
		"terraform-provider-widget_1.2.0-rc.1_darwin_arm64.zip",
		"terraform-provider-widget_1.2.0-rc.1_linux_arm64.zip", // twice
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
	if got := fmt.Sprint(sums.Platforms(p, v)); got != "[darwin_arm64 linux_arm64]" {
		t.Errorf("got %s", got)
	}
}
