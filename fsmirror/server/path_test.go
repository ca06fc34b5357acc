package server

import (
	"net/url"
	"strings"
	"testing"
)

// Each path has one meaning, and each file one path.
func TestPaths(t *testing.T) {
	for _, c := range []struct {
		path string
		kind kind
		id   string
	}{
		{"/", page, ""},
		{"", page, ""},
		{"/healthz", health, ""},
		{"/metrics", metrics, ""},
		{"/.well-known/terraform.json", discovery, ""},
		{"/example.test/acme/widget/index.json", index, "example.test/acme/widget"},
		{"/example.test:8443/acme/widget/index.json", index, "example.test:8443/acme/widget"},
		{"/example.test%3A8443/acme/widget/index.json", index, "example.test:8443/acme/widget"},
		{"/xn--bcher-kva.test/acme/widget/index.json", index, "bücher.test/acme/widget"},
		{"/b%C3%BCcher.test/acme/widget/index.json", index, "bücher.test/acme/widget"},
		{"/example.test/acme/widget/1.2.0.json", release, "example.test/acme/widget 1.2.0"},
		{"/example.test/acme/widget/1.2.0-rc.1+b.json", release, "example.test/acme/widget 1.2.0-rc.1+b"},
		{"/example.test/acme/widget/terraform-provider-widget_1.2.0_linux_amd64.zip", archive, "example.test/acme/widget 1.2.0 linux_amd64"},
		{"/.larder/evidence/example.test/acme/widget/1.2.0/SHA256SUMS", proof, "example.test/acme/widget 1.2.0"},
		{"/v1/providers/acme/widget/versions", versions, "/acme/widget"},
		{"/v1/providers/acme/widget/1.2.0/download/linux/amd64", download, "/acme/widget 1.2.0 linux_amd64"},
		{"/v1/providers/acme/widget/1.2.0/SHA256SUMS.sig", sums, "/acme/widget 1.2.0"},

		{"/example.test/acme/widget", unknown, ""},
		{"/example.test/acme/widget/", unknown, ""},
		{"//example.test/acme/widget/index.json", unknown, ""},
		{"/example.test/acme/./widget/index.json", unknown, ""},
		{"/example.test/acme/x/../widget/index.json", unknown, ""},
		{"/example.test%2Facme/widget/index.json", unknown, ""},
		{"/example.test/acme/widget%2Findex.json", unknown, ""},
		{"/example.test/acme/widget/%2e%2e/index.json", unknown, ""},
		{"/example.test/acme/widget/index.json%00", unknown, ""},
		{"/example.test/acme\\widget/index.json", unknown, ""},
		{"/Example.test/acme/widget/index.json", unknown, ""},
		{"/example.test/Acme/widget/index.json", unknown, ""},
		{"/example.test:443/acme/widget/index.json", unknown, ""},
		{"/XN--bcher-kva.test/acme/widget/index.json", unknown, ""},
		{"/example.test/acme/widget/INDEX.json", unknown, ""},
		{"/example.test/acme/widget/1.2.json", unknown, ""},
		{"/example.test/acme/widget/v1.2.0.json", unknown, ""},
		{"/example.test/acme/widget/01.2.0.json", unknown, ""},
		{"/example.test/acme/widget/other.json", unknown, ""},
		{"/example.test/acme/widget/terraform-provider-other_1.2.0_linux_amd64.zip", unknown, ""},
		{"/example.test/acme/widget/terraform-provider-widget_1.2_linux_amd64.zip", unknown, ""},
		{"/example.test/acme/widget/terraform-provider-widget_1.2.0_linux_amd64_extra.zip", unknown, ""},
		{"/.larder/evidence/example.test/acme/widget/1.2.0/keys.pem", unknown, ""},
		{"/.larder/evidence/example.test/acme/widget/SHA256SUMS", unknown, ""},
		{"/.larder/removed/example.test/acme/widget.json", unknown, ""},
		{"/.larder/mirror.lock", unknown, ""},
		{"/v1/providers/acme/widget", unknown, ""},
		{"/v1/providers/acme/widget/1.2.0", unknown, ""},
		{"/v1/providers/acme/widget/1.2.0/download/linux", unknown, ""},
		{"/v1/providers/acme/widget/1.2.0/upload/linux/amd64", unknown, ""},
		{"/v1/modules/acme/widget/versions", unknown, ""},
		{"/" + strings.Repeat("a", 2000), unknown, ""},
	} {
		u, err := url.ParseRequestURI("http://localhost" + c.path)
		if err != nil {
			u = &url.URL{Path: c.path}
		}
		got := parsePath(u)
		id := ""
		if got.id.Provider.Type != "" && got.kind != unknown {
			id = string(got.id.Provider.Host) + "/" + got.id.Provider.Namespace + "/" + got.id.Provider.Type
			if text := got.id.Version.String(); text != "" && got.kind != index && got.kind != versions {
				id += " " + text
			}
			if got.id.Platform.OS != "" {
				id += " " + got.id.Platform.String()
			}
		}
		if got.kind != c.kind || id != c.id {
			t.Errorf("%s: %s %q, want %s %q", c.path, got.kind, id, c.kind, c.id)
		}
	}
}

// What a path names is always in the layout of a mirror.
func FuzzPath(f *testing.F) {
	f.Add("/example.test/acme/widget/index.json")
	f.Add("/v1/providers/acme/widget/1.2.0/download/linux/amd64")
	f.Add("/.larder/evidence/example.test/acme/widget/1.2.0/SHA256SUMS")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.ParseRequestURI(text)
		if err != nil {
			return
		}
		got := parsePath(u)
		p := got.id.Provider
		for _, part := range []string{string(p.Host), p.Namespace, p.Type, got.file} {
			if got.kind != unknown && got.kind != health && (strings.ContainsAny(part, "/\\\x00") || part == ".." || part == ".") {
				t.Fatalf("%q names %+v", text, got)
			}
		}
	})
}
