package netmirror_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/netmirror"
	"github.com/larder-cli/larder/sources/sourcetest"
)

const evidenceURL = base + ".larder/evidence/example.com/acme/widget/1.0.0/"

// signed returns the evidence of the mirrors in these tests.
func signed() *sources.Signed {
	return &sources.Signed{
		Sums: []byte("abc  widget.zip\n"), Signature: []byte{0xc2, 0, '\n'},
		Keys: []sources.Key{{Armor: "-----BEGIN"}}, Origin: "https://example.com/SHA256SUMS",
	}
}

// A doc is a VERSION.json for two platforms.
type doc map[string]any

func newDoc(t testing.TB) doc {
	t.Helper()
	files, err := evidence.Pack(signed())
	check(t, err)
	sums := map[string]any{}
	for i, name := range evidence.Names {
		sums[name] = fmt.Sprintf("%x", sha256.Sum256(files[i]))
	}
	return doc{
		"archives": map[string]any{"linux_amd64": map[string]any{"url": "l.zip"}, "darwin_arm64": map[string]any{"url": "d.zip"}},
		"larder":   map[string]any{"evidence": map[string]any{"url": "../../../.larder/evidence/example.com/acme/widget/1.0.0/", "sha256": sums}},
	}
}

func (d doc) evidence() map[string]any {
	return d["larder"].(map[string]any)["evidence"].(map[string]any)
}

func (d doc) String() string {
	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// serve returns a network with the document, and with the evidence in dir.
func (d doc) serve(t testing.TB, dir string) *network {
	t.Helper()
	files, err := evidence.Pack(signed())
	check(t, err)
	n := &network{answers: map[string]answer{versionURL: document(d.String())}}
	for i, name := range evidence.Names {
		n.answers[dir+name] = answer{kind: "text/plain", body: string(files[i])}
	}
	return n
}

// paths returns the requested URLs, sorted.
func (n *network) paths() []string {
	var paths []string
	for _, r := range n.asked {
		paths = append(paths, r.URL.String())
	}
	slices.Sort(paths)
	return paths
}

func TestEvidence(t *testing.T) {
	n := newDoc(t).serve(t, evidenceURL)
	m := n.mirror(t, base, netmirror.Options{})
	for _, platform := range []string{"linux", "darwin"} {
		id := packageID(t, "example.com/acme/widget", "1.0.0")
		if id.Platform.OS = platform; platform == "darwin" {
			id.Platform.Arch = "arm64"
		}
		p, err := m.Package(t.Context(), id)
		sourcetest.Expect(t, err == nil && reflect.DeepEqual(p.Signed, signed()) && len(p.Warnings) == 0,
			"%s: got %+v, %v", platform, p, err)
	}
	release, err := m.Release(t.Context(), provider(t, "example.com/acme/widget"), packageID(t, "a/b", "1.0.0").Version)
	if err != nil || !reflect.DeepEqual(release.Signed, signed()) || len(release.Archives) != 2 || len(release.Warnings) > 0 {
		t.Errorf("got %+v, %v", release, err)
	}
	want := []string{evidenceURL + "SHA256SUMS", evidenceURL + "SHA256SUMS.sig", evidenceURL + "keys.json", evidenceURL + "origin", versionURL, versionURL, versionURL}
	sourcetest.EqualSlices(t, n.paths(), want, "requested")
	for _, r := range n.asked {
		sourcetest.Expect(t, r.Header.Get("Authorization") != "", "%s: requested without the token", r.URL)
	}
}

// If the document is redirected to another host, the evidence is requested from
// that host, without the token.
func TestEvidenceAfterRedirect(t *testing.T) {
	n := newDoc(t).serve(t, "https://cdn.example.org/.larder/evidence/example.com/acme/widget/1.0.0/")
	n.answers["https://cdn.example.org/example.com/acme/widget/1.0.0.json"] = n.answers[versionURL]
	n.answers[versionURL] = answer{status: 302, location: "https://cdn.example.org/example.com/acme/widget/1.0.0.json"}
	p, err := n.mirror(t, base, netmirror.Options{}).Package(t.Context(), packageID(t, "example.com/acme/widget", "1.0.0"))
	sourcetest.Expect(t, err == nil && reflect.DeepEqual(p.Signed, signed()), "got %+v, %v", p, err)
	for _, r := range n.asked {
		sourcetest.Equal(t, r.Header.Get("Authorization") != "", r.URL.Host == "m.example.org", r.URL, "was the token sent")
	}
}

// The evidence for a host with characters outside ASCII is in a directory with
// the host's Unicode name.
func TestEvidenceOfUnicodeHosts(t *testing.T) {
	const name = "испытание.test/acme/widget"
	files, err := evidence.Pack(signed())
	check(t, err)
	id := packageID(t, name, "1.0.0+b")
	d := newDoc(t)
	d["larder"] = evidence.Extension{Evidence: evidence.Locate(id.Provider, id.Version, files)}
	n := d.serve(t, base+".larder/evidence/%D0%B8%D1%81%D0%BF%D1%8B%D1%82%D0%B0%D0%BD%D0%B8%D0%B5.test/acme/widget/1.0.0+b/")
	n.answers[base+"xn--80akhbyknj4f.test/acme/widget/1.0.0+b.json"] = n.answers[versionURL]
	p, err := n.mirror(t, base, netmirror.Options{}).Package(t.Context(), id)
	sourcetest.Expect(t, err == nil && reflect.DeepEqual(p.Signed, signed()),
		"got %+v, %v; requested %q", p, err, n.paths())
}

func TestNoEvidence(t *testing.T) {
	for name, member := range map[string]any{"none": nil, "empty": map[string]any{}, "null": map[string]any{"evidence": nil}, "other": map[string]any{"other": 1}} {
		d := newDoc(t)
		d["larder"] = member
		n := d.serve(t, evidenceURL)
		p, err := n.mirror(t, base, netmirror.Options{}).Package(t.Context(), packageID(t, "example.com/acme/widget", "1.0.0"))
		sourcetest.Expect(t, err == nil && p.Signed == nil && len(p.Warnings) == 0 && len(n.asked) == 1,
			"%s: got %+v, %v after %q", name, p, err, n.paths())
	}
}

// Evidence that differs from its reference is ignored, and is not requested
// from other hosts.
func TestIgnoredEvidence(t *testing.T) {
	at := func(text string) func(doc, *network) {
		return func(d doc, _ *network) { d.evidence()["url"] = text }
	}
	file := func(name string, a answer) func(doc, *network) {
		return func(_ doc, n *network) { n.answers[evidenceURL+name] = a }
	}
	state := func(name string, data any) func(doc, *network) {
		return func(d doc, _ *network) { d.evidence()["sha256"].(map[string]any)[name] = data }
	}
	for _, test := range []struct {
		name     string
		change   func(doc, *network)
		says     string
		requests bool // for evidence
	}{
		{"another file", file("SHA256SUMS", answer{body: "abd  widget.zip\n"}), "SHA256SUMS has the SHA-256 ", true},
		{"cut short", file("SHA256SUMS.sig", answer{body: "\xc2"}), "SHA256SUMS.sig has the SHA-256 ", true},
		{"other keys", file("keys.json", answer{body: "[]"}), "keys.json has the SHA-256 ", true},
		{"another origin", file("origin", answer{body: "https://elsewhere.example.com/"}), "origin has the SHA-256 ", true},
		{"missing", file("keys.json", answer{status: 404}), "keys.json: 404 Not Found", true},
		{"forbidden", file("SHA256SUMS", answer{status: 403}), "SHA256SUMS: 403 Forbidden", true},
		{"an outage", file("origin", answer{status: 503}), "origin: 503 Service Unavailable", true},
		{"huge", file("keys.json", answer{body: strings.Repeat(" ", evidence.Max+1)}), "too large", true},
		{"redirected", file("origin", answer{status: 302, location: "https://evil.example.org/origin"}), "redirect to another host refused: https://evil.example.org/origin", true},
		{"redirected to another port", file("origin", answer{status: 302, location: "https://m.example.org:8443/origin"}), "redirect to another host refused", true},
		{"redirected without end", file("origin", answer{status: 302, location: evidenceURL + "origin"}), "more than 5 redirects", true},
		{"no such keys", func(d doc, n *network) {
			d.evidence()["sha256"].(map[string]any)["keys.json"] = fmt.Sprintf("%x", sha256.Sum256([]byte("{")))
			n.answers[evidenceURL+"keys.json"] = answer{body: "{"}
		}, "keys.json: unexpected end", true},

		{"another host", at("https://evil.example.org/providers/.larder/"), "is not a relative path", false},
		{"another host, shorter", at("//evil.example.org/providers/.larder/"), "is not a relative path", false},
		{"this host, in full", at(evidenceURL), "is not a relative path", false},
		{"a user", at("//user:password@m.example.org/providers/.larder/"), "is not a relative path", false},
		{"another scheme", at("file:///etc/"), "is not a relative path", false},
		{"a query", at("../../../.larder/evidence/example.com/acme/widget/1.0.0/?x"), "is not a relative path", false},
		{"out of the mirror", at("../../../../other/"), "is not a directory in the mirror", false},
		{"out of the mirror from the root", at("/other/"), "is not a directory in the mirror", false},
		{"out of the mirror, encoded", at("../../../%2e%2e/other/"), "is not a directory in the mirror", false},
		{"out of the mirror, encoded twice", at("../../../.larder%2f..%2f..%2fother/"), "is not a directory in the mirror", false},
		{"a file", at("../../../.larder/evidence"), "is not a directory in the mirror", false},
		{"nothing", at(""), "is not a directory in the mirror", false},
		{"no URL", at(":"), "its URL is invalid", false},
		{"a long URL", at(strings.Repeat("x/", 4<<10)), "its URL is too long (8192 bytes)", false},
		{"a number", func(d doc, _ *network) { d["larder"] = 1 }, "cannot unmarshal number", false},
		{"a checksum that is a number", state("origin", 1), "cannot unmarshal number", false},
		{"a checksum missing", func(d doc, _ *network) { delete(d.evidence()["sha256"].(map[string]any), "origin") }, "states no SHA-256 of origin", true},
		{"a checksum in capitals", state("origin", strings.Repeat("AB", 32)), "origin has the SHA-256 ", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDoc(t)
			n := d.serve(t, evidenceURL)
			test.change(d, n)
			n.answers[versionURL] = document(d.String())
			p, err := n.mirror(t, base, netmirror.Options{}).Package(t.Context(), packageID(t, "example.com/acme/widget", "1.0.0"))
			sourcetest.Expect(t, err == nil && p.Signed == nil && p.Location.URL == base+"example.com/acme/widget/l.zip",
				"got %+v, %v", p, err)
			if got := strings.Join(p.Warnings, "\n"); len(p.Warnings) != 1 || !strings.HasPrefix(got, "the mirror's evidence for 1.0.0 is ignored: ") || !strings.Contains(got, test.says) {
				t.Errorf("warnings %q, want %q", p.Warnings, test.says)
			}
			sourcetest.Expect(t, (len(n.asked) > 1) == test.requests, "requested %q", n.paths())
			for _, r := range n.asked {
				sourcetest.Equal(t, r.URL.Host, "m.example.org", "requested", r.URL)
			}
		})
	}
}

// Cancellation returns an error, so that the caller does not continue without
// evidence.
func TestEvidenceInterrupted(t *testing.T) {
	n := newDoc(t).serve(t, evidenceURL)
	for _, name := range evidence.Names {
		n.answers[evidenceURL+name] = answer{status: http.StatusServiceUnavailable}
	}
	ctx, cancel := context.WithCancel(t.Context())
	n.then = func(r *http.Request) {
		if strings.HasPrefix(r.URL.String(), evidenceURL) {
			cancel()
		}
	}
	m := n.mirror(t, base, netmirror.Options{})
	p, err := m.Package(ctx, packageID(t, "example.com/acme/widget", "1.0.0"))
	sourcetest.ErrorIs(t, err, context.Canceled, p)
	maps.Copy(n.answers, newDoc(t).serve(t, evidenceURL).answers)
	n.then = nil
	p, err = m.Package(t.Context(), packageID(t, "example.com/acme/widget", "1.0.0"))
	sourcetest.Expect(t, err == nil && p.Signed != nil, "again: got %+v, %v", p, err)
}

func FuzzLocation(f *testing.F) {
	for _, text := range []string{
		"../../../.larder/evidence/example.com/acme/widget/1.0.0/", "/providers/x/", "//evil/", "..%2f/", `..\..\x/`, "a;b/", "./",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := newDoc(t)
		d.evidence()["url"] = text
		n := d.serve(t, evidenceURL)
		p, err := n.mirror(t, base, netmirror.Options{}).Package(t.Context(), packageID(t, "example.com/acme/widget", "1.0.0"))
		sourcetest.Expect(t, err == nil && (len(p.Warnings) == 1 || p.Signed != nil), "%q: got %+v, %v", text, p, err)
		for _, r := range n.asked {
			if !strings.HasPrefix(r.URL.Path, "/providers/") || strings.Contains(r.URL.Path, "/../") || r.URL.Host != "m.example.org" {
				t.Errorf("%q: requested %s", text, r.URL)
			}
		}
	})
}
