package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/registry"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func packageID(t testing.TB) sources.PackageID {
	return sourcetest.PackageID(t, "example.com/acme/widget", "1.0.0+b", "linux_amd64")
}

const (
	sum         = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	versionsURL = "/p/acme/widget/versions"
	packageURL  = "/p/acme/widget/1.0.0+b/download/linux/amd64"
)

// document is a valid answer with some members changed. A nil value removes a
// member.
func document(changes map[string]any) string {
	doc := map[string]any{
		"protocols": []string{"5.0"}, "os": "linux", "arch": "amd64", "filename": "widget.zip",
		"download_url": "../../../files/widget.zip?sig=secret", "shasum": sum,
		"shasums_url": "https://cdn.example.com/SHA256SUMS?sig=secret", "shasums_signature_url": "https://cdn.example.com/SHA256SUMS.sig",
		"signing_keys": map[string]any{"gpg_public_keys": []any{
			map[string]any{"key_id": "1", "ascii_armor": "armor", "trust_signature": "trust"}, nil,
		}},
	}
	maps.Copy(doc, changes)
	maps.DeleteFunc(doc, func(_ string, v any) bool { return v == nil })
	text, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func packageNetwork(text string) *network {
	return &network{answers: answers{
		wellKnown:  services,
		packageURL: text,
		"https://cdn.example.com/SHA256SUMS?sig=secret": "sums",
		"https://cdn.example.com/SHA256SUMS.sig":        "signature",
	}}
}

func TestPackage(t *testing.T) {
	n := packageNetwork(document(nil))
	got := sourcetest.Must(n.registry(registry.Options{}).Package(t.Context(), packageID(t)))(t)
	want := sources.Package{
		ID:       packageID(t),
		Location: sources.Location{URL: "https://example.com/p/acme/widget/files/widget.zip?sig=secret"},
		Filename: "widget.zip",
		Hashes:   []sources.Hash{"zh:" + sum},
		Signed: &sources.Signed{
			Sums: []byte("sums"), Signature: []byte("signature"),
			Keys:   []sources.Key{sources.Key{Armor: "armor", TrustSignature: "trust"}.AsListed(true)},
			Origin: "https://cdn.example.com/SHA256SUMS",
		},
		Source: "registry example.com",
		Kind:   sources.FromRegistry,
	}
	sourcetest.Expect(t, reflect.DeepEqual(got, want), "got  %+v %+v\nwant %+v %+v", got, *got.Signed, want, *want.Signed)
	asked := []string{
		wellKnown + " Bearer secret", packageURL + " Bearer secret",
		"https://cdn.example.com/SHA256SUMS.sig", "https://cdn.example.com/SHA256SUMS?sig=secret",
	}
	sourcetest.EqualSlices(t, n.paths(), asked, "asked")
}

// The packages of a version share its checksums, even if they are requested at
// the same time.
func TestChecksumsAreFetchedOnce(t *testing.T) {
	n := packageNetwork(document(nil))
	platforms := []sources.Platform{packageID(t).Platform}
	for i := range 20 {
		p := sources.Platform{OS: "plan9", Arch: fmt.Sprint(i)}
		platforms = append(platforms, p)
		n.answers[fmt.Sprintf("/p/acme/widget/1.0.0+b/download/plan9/%d", i)] = document(map[string]any{"os": p.OS, "arch": p.Arch})
	}
	r := n.registry(registry.Options{})
	var group sync.WaitGroup
	for _, platform := range platforms {
		group.Go(func() {
			id := packageID(t)
			id.Platform = platform
			if p, err := r.Package(t.Context(), id); err != nil || string(p.Signed.Sums) != "sums" || string(p.Signed.Signature) != "signature" {
				t.Errorf("%s: got %+v, %v", platform, p.Signed, err)
			}
		})
	}
	group.Wait()
	sourcetest.Expect(t, len(n.asked) == 1+len(platforms)+2, "asked %d times: %q", len(n.asked), n.paths())
}

// URLs are relative to the document's URL after redirects.
func TestPackageRedirected(t *testing.T) {
	n := packageNetwork("307 https://b.example.com/x/y")
	n.answers["https://b.example.com/x/y"] = document(map[string]any{"download_url": "widget.zip"})
	got, err := n.registry(registry.Options{}).Package(t.Context(), packageID(t))
	sourcetest.Expect(t, err == nil && got.Location.URL == "https://b.example.com/x/widget.zip",
		"got %s, %v", got.Location.URL, err)
}

func TestRejectedPackages(t *testing.T) {
	for _, test := range []struct {
		name string
		text string
		says string
	}{
		{"null", "null", "describes no package"},
		{"cut", `{"os": `, "incomplete JSON"},
		{"invalid protocols", document(map[string]any{"protocols": []string{"5.0", "x"}}), "protocols: "},
		{"other system", document(map[string]any{"os": "plan9"}), "requested linux_amd64"},
		{"other architecture", document(map[string]any{"arch": nil}), "requested linux_amd64"},
		{"no URL", document(map[string]any{"download_url": nil}), "download_url: empty URL"},
		{"empty URL", document(map[string]any{"download_url": " "}), "download_url: empty URL"},
		{"invalid URL", document(map[string]any{"download_url": "https://u:sec/ret@x"}), "download_url: invalid URL"},
		{"other scheme", document(map[string]any{"download_url": "file:///x"}), `download_url: unsupported URL scheme "file"`},
		{"short sum", document(map[string]any{"shasum": "0123"}), "is not a SHA-256 sum"},
		{"no sum", document(map[string]any{"shasum": nil}), "is not a SHA-256 sum"},
		{"no URL of checksums", document(map[string]any{"shasums_url": ""}), "shasums_url: empty URL"},
		{"no URL of signature", document(map[string]any{"shasums_signature_url": ""}), "shasums_signature_url: empty URL"},
		{"checksums missing", document(map[string]any{"shasums_url": "https://cdn.example.com/x"}), "fetching checksums: https://cdn.example.com/x: 404"},
		{"signature missing", document(map[string]any{"shasums_signature_url": "https://cdn.example.com/x"}), "fetching signature: https://cdn.example.com/x: 404"},
		{"no file name", document(map[string]any{"filename": ""}), `filename "" is not`},
		{"escapes in file name", document(map[string]any{"filename": "\x1b[31m.zip"}), `filename "\x1b[31m.zip" is not`},
		{"endless file name", document(map[string]any{"filename": strings.Repeat("x", 256)}), "is not the name of a file"},
		{"first of two errors", document(map[string]any{"shasum": "", "download_url": "", "os": "x"}), "requested linux_amd64"},
		{"wrong type", document(map[string]any{"signing_keys": "x"}), "unexpected JSON string"},
		{"forbidden", "403", "403 Forbidden"},
	} {
		n := packageNetwork(test.text)
		_, err := n.registry(registry.Options{}).Package(t.Context(), packageID(t))
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, want %s", test.name, err, test.says)
			continue
		}
		sourcetest.Expect(t, !errors.Is(err, sources.ErrNotFound), "%s: %v is taken for an answer", test.name, err)
		if want := "example.com/acme/widget 1.0.0+b linux_amd64: registry example.com: "; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v does not say who was asked for what", test.name, err)
		}
	}
}

func TestEvidenceIsLimited(t *testing.T) {
	for what, size := range map[string]int{"checksums": 4<<20 + 1, "signature": 1<<20 + 1} {
		n := packageNetwork(document(nil))
		url := map[string]string{
			"checksums": "https://cdn.example.com/SHA256SUMS?sig=secret", "signature": "https://cdn.example.com/SHA256SUMS.sig",
		}[what]
		n.answers[url] = strings.Repeat("x", size)
		_, err := n.registry(registry.Options{}).Package(t.Context(), packageID(t))
		if !errors.Is(err, fetch.ErrTooLarge) || !strings.Contains(err.Error(), "fetching "+what) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func TestProtocols(t *testing.T) {
	const versions = `{"versions": [
		{"version": "0.1.0", "protocols": ["1.0"]}, {"version": "2.0.0", "protocols": ["99.0"]}, {"version": "x", "protocols": ["5.0"]},
		{"version": "3.0.0"}, {"version": "1.2.0", "protocols": ["x", "5.0"]}, {"version": "1.0.0", "protocols": ["5.0"]}]}`
	for _, test := range []struct {
		protocols []string
		versions  string
		closest   string // if the protocols are not supported
		hint      string
	}{
		{nil, versions, "", ""},
		{[]string{"6"}, versions, "", ""},
		{[]string{"4.0", "5.1"}, versions, "", ""},
		{[]string{"6.99"}, versions, "", ""},
		{[]string{"4.0"}, versions, "1.2.0", "1.2.0 or a newer version"},
		{[]string{"7.0"}, strings.ReplaceAll(versions, "1.2.0", "0.9.0"), "1.0.0", "1.0.0 or an older version"},
		{[]string{"99.0"}, `{"versions": []}`, "", "no version"},
		{[]string{"99.0"}, `500`, "", ""},
	} {
		n := packageNetwork(document(map[string]any{"protocols": test.protocols}))
		n.answers[versionsURL] = test.versions
		_, err := n.registry(registry.Options{}).Package(t.Context(), packageID(t))
		var unsupported *registry.ProtocolError
		if !errors.As(err, &unsupported) {
			sourcetest.Expect(t, err == nil && test.closest == "" && test.hint == "", "%v: got %v", test.protocols, err)
			continue
		}
		if unsupported.Closest.String() != test.closest || !slices.Equal(unsupported.Protocols, test.protocols) {
			t.Errorf("%v: got %+v, want closest %q", test.protocols, unsupported, test.closest)
		}
		hints := strings.Join(sources.Hints(err), "\n")
		sourcetest.Expect(t, strings.Contains(hints, test.hint), "%v: hints %q, want %q", test.protocols, hints, test.hint)
	}
}

func TestMissingPackage(t *testing.T) {
	for _, test := range []struct {
		name       string
		versions   string
		noPlatform bool
		hint       string
	}{
		{"other platforms", `{"versions": [{"version": "1.0.0+b", "platforms": [{"os": "windows", "arch": "386"}, {"os": "darwin", "arch": "arm64"}]}]}`, true, "darwin_arm64, windows_386"},
		{"platforms unknown", `{"versions": [{"version": "1.0.0+b"}]}`, true, ""},
		{"platforms broken", `{"versions": [{"version": "1.0.0+b", "platforms": "x"}]}`, true, ""},
		{"other versions", `{"versions": [{"version": "1.0.0"}]}`, false, ""},
		{"unknown provider", `404`, false, ""},
		{"versions broken", `500`, true, ""},
	} {
		n := packageNetwork("404")
		n.answers[versionsURL] = test.versions
		_, err := n.registry(registry.Options{}).Package(t.Context(), packageID(t))
		sourcetest.Expect(t, errors.Is(err, sources.ErrNotFound) && errors.Is(err, sources.ErrNoPlatform) == test.noPlatform,
			"%s: got %v", test.name, err)
		if hints := strings.Join(sources.Hints(err), "\n"); (hints == "") != (test.hint == "") || !strings.Contains(hints, test.hint) {
			t.Errorf("%s: hints %q, want %q", test.name, hints, test.hint)
		}
	}
}

func TestOffers(t *testing.T) {
	offer := func(size int, hashes ...string) map[string]any {
		return map[string]any{"package_size": size, "hashes": hashes}
	}
	zh := "zh:" + sum
	for _, test := range []struct {
		name     string
		packages any
		offered  string
		size     int64
		says     string // the error for OpenTofu; Terraform ignores the member
	}{
		{"none", nil, "[]", 0, ""},
		{"empty", map[string]any{}, "[]", 0, ""},
		{"all", map[string]any{"linux_amd64": offer(7, zh, "h1:a"), "darwin_arm64": offer(8, "zh:b", "h1:a")}, "[h1:a " + zh + " zh:b]", 7, ""},
		{"capitals", map[string]any{"linux_amd64": offer(7, "zh:"+strings.ToUpper(sum))}, "[zh:" + strings.ToUpper(sum) + "]", 7, ""},
		{"ours missing", map[string]any{"darwin_arm64": offer(8, "zh:b")}, "", 0, "linux_amd64 is missing"},
		{"ours null", map[string]any{"linux_amd64": nil}, "", 0, "invalid size 0"},
		{"no size", map[string]any{"linux_amd64": offer(0, zh)}, "", 0, "invalid size 0"},
		{"negative size", map[string]any{"linux_amd64": offer(-1, zh)}, "", 0, "invalid size -1"},
		{"no zh:", map[string]any{"linux_amd64": offer(7, "h1:a")}, "", 0, "no zh: hash"},
		{"other zh:", map[string]any{"linux_amd64": offer(7, zh, "zh:b")}, "", 0, "hash differs from shasum"},
		{"bad platform", map[string]any{"linux_amd64": offer(7, zh), "linux": offer(7, zh)}, "", 0, "linux"},
		{"bad hash", map[string]any{"linux_amd64": offer(7, zh), "darwin_arm64": offer(7, "x")}, "", 0, "darwin_arm64"},
		{"not an object", "x", "", 0, "not an object"},
	} {
		for _, engine := range []sources.Engine{sources.OpenTofu, sources.Terraform} {
			n := packageNetwork(document(map[string]any{"packages": test.packages}))
			p, err := n.registry(registry.Options{Engine: engine}).Package(t.Context(), packageID(t))
			if engine == sources.Terraform {
				sourcetest.Expect(t, err == nil && p.Size == 0 && p.Offered == nil,
					"%s: Terraform got %v, %v, %v", test.name, p.Size, p.Offered, err)
				continue
			}
			if test.says != "" {
				sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), test.says),
					"%s: got %v, want %s", test.name, err, test.says)
				continue
			}
			sourcetest.Expect(t, err == nil && p.Size == test.size && fmt.Sprint(p.Offered) == test.offered,
				"%s: got %d, %v, %v", test.name, p.Size, p.Offered, err)
		}
	}
}

// A verbatim network answers with the fuzzed text, even if it begins with a
// digit.
type verbatim struct {
	*network
	url, text string
}

func (v verbatim) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.TrimPrefix(r.URL.String(), "https://example.com") == v.url {
		v.network = &network{answers: answers{}, date: v.date}
		v.network.answers[v.url] = " " + v.text
		if strings.TrimSpace(v.text) != "" && strings.ContainsRune("+-0123456789", rune(strings.TrimSpace(v.text)[0])) {
			v.network.answers[v.url] = "{" // in this network's answers, a number would be a status
		}
	}
	return v.network.RoundTrip(r)
}

func fuzzed(n *network, url, text string, engine sources.Engine) *registry.Registry {
	token := func(_ context.Context, h sources.Host) (string, bool, error) { return h.ASCII(), true, nil }
	client := fetch.New(fetch.Options{Transport: verbatim{n, url, text}, Tries: 1, Token: token})
	return registry.New(client, registry.Options{Engine: engine})
}

func FuzzDiscovery(f *testing.F) {
	sourcetest.AddSeeds[string](f, services, `{"providers.v1": "https://x/"}`, `{"providers.v1": 1}`, `null`, `[]`, `{"providers.v1": "//x:y/"}`, `{"providers.v1": ":"}`)
	f.Fuzz(func(t *testing.T, text string) {
		n := &network{answers: answers{}}
		_, err := fuzzed(n, wellKnown, text, sources.Terraform).Versions(t.Context(), provider(t, "example.com/acme/widget"))
		sourcetest.Expect(t, err != nil, "%q: found a missing package", text)
		for _, r := range n.asked {
			sent := r.Header.Get("Authorization")
			if !strings.HasSuffix(r.URL.Path, "/versions") || sent != "" && (r.URL.Scheme != "https" || sent != "Bearer "+host(t, r.URL)) {
				t.Errorf("%q: asked for %s with %q", text, r.URL, sent)
			}
		}
	})
}

func host(t *testing.T, u *url.URL) string {
	t.Helper()
	h := sourcetest.Must(sources.ParsePunycodeHost(u.Host))(t)
	return h.ASCII()
}

func FuzzVersions(f *testing.F) {
	sourcetest.AddSeeds[string](f, `{"versions": [{"version": "1.0"}]}`, `{"versions": [null, {"version": "x"}], "warnings": ["a"]}`, `{}`, `[]`, `{"versions": {}}`)
	p := "example.com/acme/widget"
	f.Fuzz(func(t *testing.T, text string) {
		n := &network{answers: answers{wellKnown: services}}
		l, err := fuzzed(n, versionsURL, text, sources.Terraform).Versions(t.Context(), provider(t, p))
		if err != nil {
			return
		}
		type entry struct{ Version string }
		entries := []entry{}
		for _, v := range l.Versions {
			entries = append(entries, entry{v.String()})
		}
		again := sourcetest.Must(json.Marshal(map[string]any{"versions": entries}))(t)
		m, err := fuzzed(n, versionsURL, string(again), sources.Terraform).Versions(t.Context(), provider(t, p))
		sourcetest.Expect(t, err == nil && slices.Equal(l.Versions, m.Versions),
			"%q: %v, and again %v, %v", text, l.Versions, m.Versions, err)
	})
}

func FuzzPackage(f *testing.F) {
	sourcetest.AddSeeds[string](f,
		document(nil), `{}`, `null`, document(map[string]any{"download_url": "//"}),
		document(map[string]any{"packages": map[string]any{"linux_amd64": map[string]any{"package_size": 1, "hashes": []string{"zh:" + sum}}}}),
	)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := fuzzed(packageNetwork(""), packageURL, text, sources.OpenTofu).Package(t.Context(), packageID(t))
		if err != nil {
			return
		}
		if !strings.HasPrefix(p.Location.URL, "http") || len(p.Hashes) != 1 || len(p.Hashes[0]) != len("zh:")+64 || p.Signed == nil || p.Size < 0 {
			t.Errorf("%q: accepted as %+v", text, p)
		}
	})
}
