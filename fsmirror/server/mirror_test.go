package server

import (
	"fmt"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A document names archives beside it, for platforms as engines write them. What else it names is left out.
func TestParseDocument(t *testing.T) {
	p := sourcetest.Address(t, "example.test/acme/widget")
	for _, c := range []struct {
		platform, url string
		ok            bool
	}{
		{"linux_amd64", "a.zip", true},
		{"linux_amd64", "a.zip?signature=x", true},
		{"linux_amd64", "", false},
		{"linux_amd64", "?a.zip", false},
		{"linux_amd64", "sub/a.zip", false},
		{"linux_amd64", "../gadget/a.zip", false},
		{"linux_amd64", "/a.zip", false},
		{"linux_amd64", "file:a.zip", false},
		{"linux_amd64", "https://other.test/a.zip", false},
		{"linux_amd64", "//other.test", false},
		{"linux_amd64", "%zz", false},
		{"linux", "a.zip", false},
	} {
		d, err := parseDocument(p, fmt.Appendf(nil, `{"archives": {%q: {"url": %q}}}`, c.platform, c.url))
		sourcetest.Check(t, err)
		got := d.archives[sources.Platform{OS: "linux", Arch: "amd64"}].path
		sourcetest.Expect(t, len(d.archives) == 1 == c.ok && (got == p.String()+"/a.zip") == c.ok, "%+v: %+v", c, d.archives)
	}
}
