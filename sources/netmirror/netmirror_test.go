package netmirror_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/netmirror"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var provider = sourcetest.Address

func packageID(t testing.TB, p, v string) sources.PackageID {
	return sourcetest.PackageID(t, p, v, "linux_amd64")
}

// An answer is the mirror's answer to a request for a URL.
type answer struct {
	status   int // 0 means 200
	kind     string
	location string
	body     string
}

// A network is a transport that answers from a table and records the requests.
// A missing URL is a 404.
type network struct {
	answers map[string]answer
	then    func(*http.Request) // called with each request; may be nil

	mu    sync.Mutex
	asked []*http.Request
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	n.asked = append(n.asked, r)
	n.mu.Unlock()
	if n.then != nil {
		n.then(r)
	}
	a, ok := n.answers[r.URL.String()]
	if !ok {
		a.status = http.StatusNotFound
	}
	rec := httptest.NewRecorder()
	rec.Header().Set("Location", a.location)
	rec.Header().Set("Content-Type", a.kind)
	rec.WriteHeader(max(a.status, http.StatusOK))
	rec.Body.WriteString(a.body)
	return rec.Result(), nil
}

func document(body string) answer { return answer{kind: "application/json", body: body} }

func (n *network) mirror(t testing.TB, base string, opts netmirror.Options) *netmirror.Mirror {
	t.Helper()
	m := sourcetest.Must(netmirror.New(fetch.New(fetch.Options{
		Transport: n,
		Token: func(_ context.Context, h sources.Host) (string, bool, error) {
			return "secret", h == "m.example.org", nil
		},
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}), base, opts))(t)
	return m
}

const (
	base       = "https://m.example.org/providers/"
	indexURL   = base + "example.com/acme/widget/index.json"
	versionURL = base + "example.com/acme/widget/1.0.0.json"
)

func TestBaseURLs(t *testing.T) {
	for _, test := range []struct{ in, name, says string }{
		{"https://m.example.org/", "network mirror https://m.example.org/", ""},
		{"https://m.example.org", "network mirror https://m.example.org/", ""},
		{"https://m.example.org/a/b", "network mirror https://m.example.org/a/b/", ""},
		{"https://m.example.org/a%2Fb", "network mirror https://m.example.org/a%2Fb/", ""},
		{"https://user:secret@m.example.org:8443/a/?secret#secret", "network mirror https://m.example.org:8443/a/", ""},
		{"http://m.example.org/", "", "network mirror http://m.example.org/: not an https URL"},
		{"https:///a/", "", "without a host"},
		{"m.example.org", "", "unsupported URL scheme"},
		{"https://u:sec/ret@m", "", "network mirror (invalid URL): invalid URL"},
		{"", "", "empty URL"},
	} {
		m, err := netmirror.New(fetch.New(fetch.Options{Offline: true}), test.in, netmirror.Options{})
		sourcetest.Expect(t, (err != nil) == (test.says != "") && (err == nil || strings.Contains(err.Error(), test.says)),
			"%q: got %v, want %q", test.in, err, test.says)
		sourcetest.Expect(t, err != nil || m.String() == test.name, "%q: got %q, want %q", test.in, m, test.name)
	}
}

func TestRequests(t *testing.T) {
	for _, test := range []struct{ base, provider, version, index, document string }{
		{base, "example.com/acme/widget", "1.0.0", "example.com/acme/widget/index.json", "example.com/acme/widget/1.0.0.json"},
		{base, "example.com/acme/widget", "1.0.0-rc.1+build", "example.com/acme/widget/index.json", "example.com/acme/widget/1.0.0-rc.1+build.json"},
		{base, "localhost:8443/acme/widget", "1.0.0", "localhost:8443/acme/widget/index.json", "localhost:8443/acme/widget/1.0.0.json"},
		{base, "café.example.com/acme/widget", "1.0.0", "xn--caf-dma.example.com/acme/widget/index.json", "xn--caf-dma.example.com/acme/widget/1.0.0.json"},
		{strings.TrimSuffix(base, "/"), "acme/widget", "1.0.0", "registry.terraform.io/acme/widget/index.json", "registry.terraform.io/acme/widget/1.0.0.json"},
	} {
		n := &network{answers: map[string]answer{base + test.document: document(`{}`)}}
		m := n.mirror(t, test.base, netmirror.Options{})
		_, _ = m.Versions(t.Context(), provider(t, test.provider))
		_, _ = m.Package(t.Context(), packageID(t, test.provider, test.version))
		for i, want := range []string{base + test.index, base + test.document} {
			sourcetest.Equal(t, n.asked[i].URL.String(), want, "asked for")
			sourcetest.Equal(t, n.asked[i].Header.Get("Authorization"), "Bearer secret", "credentials")
		}
	}
}

func TestVersions(t *testing.T) {
	for _, test := range []struct {
		name                     string
		answer                   answer
		versions, warnings, says string
	}{
		{"some", document(`{"versions": {"1.10.0": {}, "1.2.0": null, "1.0.0+b": {"x": 1}}}`), "[1.0.0+b 1.2.0 1.10.0]", "[]", ""},
		{"short", document(`{"versions": {"0.9": {}, "0.9.0": {}}}`), "[0.9.0]", "[]", ""},
		{"none", document(`{"versions": {}}`), "[]", "[]", ""},
		{"missing", document(`{}`), "[]", "[]", ""},
		{"null", document(`null`), "[]", "[]", ""},
		{"a key that is not a version", document(`{"versions": {"latest": {}, "1.0.0": {}, "v1": {}}}`), "[1.0.0]", `[ignored invalid versions: "latest", "v1"]`, ""},
		{"text after the object", document(`{"versions": {"1.0.0": {}}} x`), "[1.0.0]", "[]", ""},
		{"parameters", answer{kind: "application/json; charset=utf-8; x", body: `{"versions": {"1.0.0": {}}}`}, "[1.0.0]", "[]", ""},
		{"texts", document(`{"versions": {"1.0.0": "x"}}`), "[]", "[]", "unexpected JSON string"},
		{"lists", document(`{"versions": {"1.0.0": []}}`), "[]", "[]", "unexpected JSON array"},
		{"a list", document(`{"versions": ["1.0.0"]}`), "[]", "[]", "unexpected JSON array"},
		{"cut", document(`{"versions": {"1.0.0"`), "[]", "[]", "incomplete JSON"},
		{"other type", answer{kind: "text/plain", body: `{}`}, "[]", "[]", `content type "text/plain", expected application/json`},
		{"no type", answer{body: `{}`}, "[]", "[]", `content type ""`},
		{"redirected too often", answer{status: 302, location: indexURL}, "[]", "[]", "more than 5 redirects"},
		{"broken", answer{status: 500}, "[]", "[]", "500 Internal Server Error (6 tries"},
		{"gone", answer{status: 410}, "[]", "[]", "410 Gone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := &network{answers: map[string]answer{indexURL: test.answer}}
			l, err := n.mirror(t, base, netmirror.Options{}).Versions(t.Context(), provider(t, "example.com/acme/widget"))
			sourcetest.Require(t, (err != nil) == (test.says != "") && (err == nil || strings.Contains(err.Error(), test.says)),
				"got %v, want %q", err, test.says)
			sourcetest.Expect(t, !errors.Is(err, sources.ErrNotFound), "%v is taken for an answer", err)
			sourcetest.Equal(t, fmt.Sprint(l.Versions), test.versions, "versions")
			sourcetest.Equal(t, fmt.Sprint(l.Warnings), test.warnings, "warnings")
		})
	}
}

func TestUnauthorized(t *testing.T) {
	const elsewhere = "https://n.example.org/there"
	for _, test := range []struct {
		base   string
		answer answer
		hint   string
	}{
		{"https://m.example.org/", answer{status: 401}, "check that the token for m.example.org"},
		{"https://n.example.org/", answer{status: 401}, "configure credentials for n.example.org"},
		{"https://m.example.org/", answer{status: 302, location: elsewhere}, "no token was sent: m.example.org redirected the request to n.example.org"},
	} {
		n := &network{answers: map[string]answer{test.base + "example.com/acme/widget/index.json": test.answer, elsewhere: {status: 401}}}
		_, err := n.mirror(t, test.base, netmirror.Options{}).Versions(t.Context(), provider(t, "example.com/acme/widget"))
		if !errors.Is(err, fetch.ErrUnauthorized) || !strings.Contains(strings.Join(sources.Hints(err), "\n"), test.hint) {
			t.Errorf("got %v with hints %q, want %q", err, sources.Hints(err), test.hint)
		}
	}
}

func TestPackage(t *testing.T) {
	const doc = `{"archives": {
		"linux_amd64": {"url": "../w%20x.zip?sig=secret", "hashes": ["h1:a", "zh:b", "new:c"]},
		"darwin_arm64": {"url": "x", "hashes": ["zh:d", "zh:b"]}, "plan9_386": null}}`
	n := &network{answers: map[string]answer{
		versionURL:                           {status: 302, location: "https://cdn.example.org/x/y/1.json"},
		"https://cdn.example.org/x/y/1.json": document(doc),
	}}
	got, err := n.mirror(t, base, netmirror.Options{TrustAllHashes: true}).Package(t.Context(), packageID(t, "example.com/acme/widget", "1.0.0"))
	want := sources.Package{
		ID:       packageID(t, "example.com/acme/widget", "1.0.0"),
		Location: sources.Location{URL: "https://cdn.example.org/x/w%20x.zip?sig=secret"},
		Filename: "w x.zip",
		Hashes:   []sources.Hash{"h1:a", "zh:b", "new:c"},
		Others:   []sources.Hash{"zh:b", "zh:d"},
		Source:   "network mirror " + base,
		Kind:     sources.FromNetwork,
	}
	sourcetest.Expect(t, err == nil && reflect.DeepEqual(got, want), "got  %+v, %v\nwant %+v", got, err, want)
	sourcetest.Equal(t, n.asked[1].Header.Get("Authorization"), "", "credentials went elsewhere")
}

func TestDetail(t *testing.T) {
	n := &network{answers: map[string]answer{versionURL: document(`{"archives": {"linux_amd64": {"url": "x"}, "darwin_arm64": {"url": "y"}, "plan9_386": null, "bad": {"url": "z"}}}`)}}
	id := packageID(t, "example.com/acme/widget", "1.0.0")
	got := sourcetest.Must(n.mirror(t, base, netmirror.Options{}).Detail(t.Context(), id.Release()))(t)
	sourcetest.Equal(t, fmt.Sprint(got), "{[darwin_arm64 linux_amd64] []}", "detail")
	_, err := n.mirror(t, base, netmirror.Options{}).Detail(t.Context(), packageID(t, "example.com/acme/widget", "2.0.0").Release())
	sourcetest.Expect(t, errors.Is(err, sources.ErrNotFound), "got %v", err)
}

func TestTrustAllHashes(t *testing.T) {
	const stated = `{"archives": {"linux_amd64": {"url": "x.zip", "hashes": ["zh:a"]}, "darwin_arm64": {"url": "y.zip", "hashes": ["zh:b", "zh:a"]}, "plan9_386": null}}`
	const others = `{"archives": {"linux_amd64": {"url": "x.zip"}, "darwin_arm64": {"url": "y.zip", "hashes": ["zh:b"]}}}`
	for _, tt := range []struct {
		doc, host      string
		trust          bool
		hashes, offers string
	}{
		{stated, "registry.opentofu.org", true, "[zh:a]", "[zh:a zh:b]"},
		{stated, "registry.opentofu.org", false, "[zh:a]", "[]"},
		{stated, "example.test", true, "[zh:a]", "[]"},
		{others, "registry.opentofu.org", true, "[zh:b]", "[zh:b]"},
		{others, "registry.opentofu.org", false, "[]", "[]"},
		{others, "example.test", true, "[zh:b]", "[]"},
	} {
		id := tt.host + "/acme/widget"
		n := &network{answers: map[string]answer{base + id + "/1.0.0.json": document(tt.doc)}}
		p := sourcetest.Must(n.mirror(t, base, netmirror.Options{TrustAllHashes: tt.trust}).Package(t.Context(), packageID(t, id, "1.0.0")))(t)
		sourcetest.Equal(t, fmt.Sprint(p.Hashes, p.Offered), tt.hashes+" "+tt.offers, fmt.Sprintf("%s, trusted: %t, %s", tt.host, tt.trust, tt.doc))
	}
}

func TestRejectedPackages(t *testing.T) {
	linux := func(archive string) answer { return document(`{"archives": {"linux_amd64": ` + archive + `}}`) }
	for _, test := range []struct {
		name   string
		answer answer
		says   string
	}{
		{"no URL", linux(`{}`), "url of linux_amd64: empty URL"},
		{"other scheme", linux(`{"url": "file:///x"}`), "unsupported URL scheme"},
		{"no scheme of hash", linux(`{"url": "x.zip", "hashes": ["abc"]}`), "no scheme"},
		{"null hash", linux(`{"url": "x.zip", "hashes": [null]}`), "no scheme"},
		{"unknown hashes", linux(`{"url": "x.zip", "hashes": ["a:b", "c:d"]}`), "only hashes with unknown schemes"},
		{"wrong type", linux(`["x"]`), "unexpected JSON array"},
		{"HTML", answer{kind: "text/html", body: "<html>"}, "an HTML page"},
		{"other type", answer{kind: "text/plain", body: "{}"}, "content type"},
		{"forbidden", answer{status: 403}, "403"},
	} {
		n := &network{answers: map[string]answer{versionURL: test.answer}}
		_, err := n.mirror(t, base, netmirror.Options{}).Package(t.Context(), packageID(t, "example.com/acme/widget", "1.0.0"))
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), test.says) && !errors.Is(err, sources.ErrNotFound),
			"%s: got %v, want %s", test.name, err, test.says)
	}
}

// With SecureArchives, archives are downloaded over https only.
func TestSecureArchives(t *testing.T) {
	id := packageID(t, "example.com/acme/widget", "1.0.0")
	for url, secure := range map[string]bool{"http://archives.test/x.zip": false, "https://archives.test/x.zip": true, "x.zip": true} {
		n := &network{answers: map[string]answer{versionURL: document(`{"archives": {"linux_amd64": {"url": "` + url + `"}}}`)}}
		sourcetest.Must(n.mirror(t, base, netmirror.Options{}).Package(t.Context(), id))(t)
		m := n.mirror(t, base, netmirror.Options{SecureArchives: true})
		_, err := m.Package(t.Context(), id)
		sourcetest.Expect(t, (err == nil) == secure, "%s: %v", url, err)
		_, err = m.Release(t.Context(), id.Provider, id.Version)
		sourcetest.Expect(t, (err == nil) == secure, "%s: %v", url, err)
	}
}

func TestMissingPackage(t *testing.T) {
	for _, test := range []struct {
		name           string
		index, version answer
		is             error // nil if the error is no answer
		hint           string
	}{
		{"platform", answer{}, document(`{"archives": {"darwin_arm64": {"url": "x"}, "a_b": null}}`), sources.ErrNoPlatform, "has example.com/acme/widget 1.0.0 for darwin_arm64"},
		{"null", answer{}, document(`{"archives": {"linux_amd64": null}}`), sources.ErrNoPlatform, "1.0.0.json lists no archives"},
		{"no archives", answer{}, document(`null`), sources.ErrNoPlatform, "1.0.0.json lists no archives"},
		{"removed", document(`{"versions": {"2.0.0": {}}}`), document(`{"archives": {}}`), sources.ErrNotFound, "does not have this version"},
		{"removed, but listed", document(`{"versions": {"1.0.0": {}}}`), document(`{"archives": {}}`), sources.ErrNoPlatform, "1.0.0.json lists no archives"},
		{"version", document(`{"versions": {"2.0.0": {}}}`), answer{status: 404}, sources.ErrNotFound, "does not have this version"},
		{"provider", answer{status: 404}, answer{status: 404}, sources.ErrNotFound, "does not have this version"},
		{"version listed in the index", document(`{"versions": {"1.0": {}}}`), answer{status: 404}, nil, "names this version"},
		{"index broken", answer{status: 500}, answer{status: 404}, nil, ""},
	} {
		n := &network{answers: map[string]answer{indexURL: test.index, versionURL: test.version}}
		_, err := n.mirror(t, base, netmirror.Options{}).Package(t.Context(), packageID(t, "example.com/acme/widget", "1.0.0"))
		if err == nil || errors.Is(err, sources.ErrNotFound) != (test.is != nil) || test.is != nil && !errors.Is(err, test.is) {
			t.Errorf("%s: got %v", test.name, err)
		}
		if hints := strings.Join(sources.Hints(err), "\n"); (hints == "") != (test.hint == "") || !strings.Contains(hints, test.hint) {
			t.Errorf("%s: hints %q, want %q", test.name, hints, test.hint)
		}
	}
}

func FuzzIndex(f *testing.F) {
	sourcetest.AddSeeds[string](f, `{"versions": {"1.0": {}, "2.0.0": null}}`, `{"versions": {"x": {}}}`, `null`, `[]`, `{"versions": {"1.0.0": 1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		list := func(text string) (sources.Listing, error) {
			n := &network{answers: map[string]answer{indexURL: document(text)}}
			return n.mirror(t, base, netmirror.Options{}).Versions(t.Context(), provider(t, "example.com/acme/widget"))
		}
		l, err := list(text)
		if err != nil {
			return
		}
		versions := map[string]struct{}{}
		for _, v := range l.Versions {
			versions[v.String()] = struct{}{}
		}
		again := sourcetest.Must(json.Marshal(map[string]any{"versions": versions}))(t)
		if m, err := list(string(again)); err != nil || !slices.Equal(l.Versions, m.Versions) || len(m.Warnings) > 0 {
			t.Errorf("%q: %v, and again %v, %v", text, l.Versions, m, err)
		}
	})
}

func FuzzVersion(f *testing.F) {
	sourcetest.AddSeeds[string](f, `{"archives": {"linux_amd64": {"url": "x.zip", "hashes": ["h1:a"]}}}`, `{"archives": {"linux_amd64": null}}`, `{"archives": []}`, `{"archives": {"linux_amd64": {"url": "//"}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		ask := func(text string) (sources.Package, error) {
			n := &network{answers: map[string]answer{base + "registry.opentofu.org/acme/widget/1.0.0.json": document(text)}}
			return n.mirror(t, base, netmirror.Options{TrustAllHashes: true}).Package(t.Context(), packageID(t, "registry.opentofu.org/acme/widget", "1.0.0"))
		}
		p, err := ask(text)
		if err != nil {
			return
		}
		own := map[string]any{"url": p.Location.URL, "hashes": p.Hashes}
		again := sourcetest.Must(json.Marshal(map[string]any{"archives": map[string]any{"linux_amd64": own}}))(t)
		q, err := ask(string(again))
		if p.Offered, q.Offered = nil, nil; err != nil || !reflect.DeepEqual(p, q) {
			t.Errorf("%q: %+v, and again %+v, %v", text, p, q, err)
		}
	})
}

func TestContract(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T, w *sourcetest.World) (sources.Source, func()) {
		client := fetch.New(fetch.Options{Transport: w.Client().Transport, Tries: 1})
		m := sourcetest.Must(netmirror.New(client, w.Mirror.MirrorURL(), netmirror.Options{}))(t)
		return m, w.Mirror.Stop
	})
}

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
	files := evidence.Pack(signed())
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
	files := evidence.Pack(signed())
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
	files := evidence.Pack(signed())
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
