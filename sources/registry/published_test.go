package registry_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/registry"
	"github.com/larder-cli/larder/sources/sourcetest"
)

const (
	now      = "Thu, 01 Jan 2026 12:00:00 GMT"
	timesURL = "/v2/providers/acme/widget?include=provider-versions"
	listURL  = "/registry/docs/providers/acme/widget/index.json"

	included = `{"data": {"type": "providers"}, "included": [
		{"type": "provider-versions", "attributes": {"version": "1.0.0", "published-at": "2025-05-25T20:07:05Z"}}]}`
	listed = `{"addr": {}, "versions": [{"id": "v1.0.0", "published": "2025-05-25T20:07:05Z"}]}`
)

// shown returns publication times in the order of versions.
func shown(times map[sources.Version]time.Time) string {
	var texts []string
	for _, v := range slices.SortedFunc(maps.Keys(times), sources.Version.Compare) {
		texts = append(texts, fmt.Sprintf("%s %s", v, times[v].Format(time.RFC3339)))
	}
	return strings.Join(texts, ", ")
}

func TestPublished(t *testing.T) {
	const one = "1.0.0 2025-05-25T20:07:05Z"
	tofu := func(path string) string { return "https://registry.opentofu.org" + path }
	for _, test := range []struct {
		name     string
		host     string
		services map[string]string // in the CLI configuration
		answers  answers
		want     string
		asked    string // for the times
	}{
		{"Terraform's", "example.com", nil, answers{wellKnown: services, timesURL: included}, one, timesURL + " Bearer secret"},
		{"at the host of the services", "example.com", nil, answers{wellKnown: `{"providers.v1": "https://b.example.com/x/y/"}`, "https://b.example.com" + timesURL: included}, one, "https://b.example.com" + timesURL},
		{"at the host of configured services", "example.com", map[string]string{"providers.v1": "https://b.example.com/x/y/"}, answers{"https://b.example.com" + timesURL: included}, one, "https://b.example.com" + timesURL + " Bearer secret"},
		{"OpenTofu's", "registry.opentofu.org", nil, answers{tofu(wellKnown): services, "https://api.opentofu.org" + listURL: listed}, one, "https://api.opentofu.org" + listURL},
		{"OpenTofu's elsewhere", "registry.opentofu.org", nil, answers{tofu(wellKnown): `{"providers.v1": "https://b.example.com/p/"}`, "https://b.example.com" + listURL: listed}, one, "https://b.example.com" + listURL},
		{"OpenTofu's with configured services", "registry.opentofu.org", map[string]string{"providers.v1": "https://example.com/p/"}, answers{listURL: listed}, one, listURL},
		{"not stated", "example.com", nil, answers{wellKnown: services}, "", timesURL + " Bearer secret"},
		{"forbidden", "example.com", nil, answers{wellKnown: services, timesURL: "403"}, "", timesURL + " Bearer secret"},
		{"without TLS", "example.com", nil, answers{wellKnown: `{"providers.v1": "http://b.example.com/p/"}`, "http://b.example.com" + timesURL: included}, "", ""},
		{"redirected to a host without TLS", "example.com", nil, answers{wellKnown: services, timesURL: "302 http://b.example.com/", "http://b.example.com/": included}, "", ""},
		{"redirected", "example.com", nil, answers{wellKnown: services, timesURL: "302 https://b.example.com/", "https://b.example.com/": included}, one, ""},
	} {
		n := &network{answers: test.answers, date: now}
		opts := registry.Options{}
		if test.services != nil {
			opts.Services = map[sources.Host]map[string]string{sources.Host(test.host): test.services}
		}
		times, err := n.registry(opts).Published(t.Context(), provider(t, test.host+"/acme/widget"))
		sourcetest.Equal(t, shown(times), test.want, test.name)
		if test.want != "" {
			sourcetest.Check(t, err)
		} else if err == nil {
			t.Errorf("%s: no error", test.name)
		}
		sourcetest.Expect(t, test.asked == "" || slices.Contains(n.paths(), test.asked),
			"%s: asked %q, want %q", test.name, n.paths(), test.asked)
		if test.asked == "" && test.want == "" && slices.ContainsFunc(n.paths(), func(path string) bool { return strings.HasPrefix(path, "http:") && strings.Contains(path, "Bearer") }) {
			t.Errorf("%s: sent a token to %q", test.name, n.paths())
		}
	}
}

// What is invalid in a document is skipped. A document without times states nothing.
func TestPublishedDocuments(t *testing.T) {
	for _, test := range []struct{ name, terraform, tofu, want string }{
		{"two", `{"included": [` + item("1.0.0", "2025-01-01T00:00:00Z") + `,` + item("v2.0.0", "2025-02-01T01:00:00+01:00") + `]}`,
			`{"versions": [{"id": "1.0.0", "published": "2025-01-01T00:00:00Z"}, {"id": "v2.0.0", "published": "2025-02-01T00:00:00Z"}]}`,
			"1.0.0 2025-01-01T00:00:00Z, 2.0.0 2025-02-01T00:00:00Z"},
		{"invalid ones", `{"included": [null, 1, {}, {"type": 1}, ` + item("x", "2025-01-01T00:00:00Z") + `,` + item("3.0.0", "today") + `,` + item("4.0.0", "0001-01-01T00:00:00Z") + `,
			{"type": "provider-docs", "attributes": {"version": "5.0.0", "published-at": "2025-01-01T00:00:00Z"}}, ` + item("1.0.0", "2025-01-01T00:00:00Z") + `]}`,
			`{"versions": [null, 1, {}, {"id": 1}, {"id": "x", "published": "2025-01-01T00:00:00Z"}, {"id": "v3.0.0", "published": ""}, {"id": "v1.0.0", "published": "2025-01-01T00:00:00Z"}]}`,
			"1.0.0 2025-01-01T00:00:00Z"},
		{"twice", `{"included": [` + item("1.0.0", "2025-01-01T00:00:00Z") + `,` + item("1.0.0", "2025-03-01T00:00:00Z") + `,` + item("1.0.0", "2025-02-01T00:00:00Z") + `]}`,
			`{"versions": [{"id": "1.0.0", "published": "2025-01-01T00:00:00Z"}, {"id": "v1.0.0", "published": "2025-03-01T00:00:00Z"}]}`,
			"1.0.0 2025-03-01T00:00:00Z"},
		{"empty", `{}`, `{}`, ""},
		{"null", `null`, `null`, ""},
		{"other types", `{"included": {}}`, `{"versions": "x"}`, ""},
		{"not JSON", `<html>`, `{"versions": [`, ""},
		{"too large", `{"included": "` + strings.Repeat("x", 16<<20) + `"}`, `{"versions": "` + strings.Repeat("x", 16<<20) + `"}`, ""},
	} {
		for host, text := range map[string]string{"example.com": test.terraform, "registry.opentofu.org": test.tofu} {
			n := &network{date: now, answers: answers{
				wellKnown: services, timesURL: text, "https://registry.opentofu.org" + wellKnown: services, "https://api.opentofu.org" + listURL: text,
			}}
			times, err := n.registry(registry.Options{}).Published(t.Context(), provider(t, host+"/acme/widget"))
			sourcetest.Equal(t, shown(times), test.want, test.name, host)
			sourcetest.Expect(t, (err == nil) == (test.want != ""), "%s: got %v", test.name, err)
		}
	}
}

func item(version, published string) string {
	return fmt.Sprintf(`{"type": "provider-versions", "attributes": {"version": %q, "published-at": %q}}`, version, published)
}

// Times don't matter enough to try often. Only a registry that doesn't have the document states none.
func TestPublishedFailures(t *testing.T) {
	for text, undated := range map[string]bool{
		"404": true, "410": true, "401": false, "403": false, "400": false, "500": false, "429": false, "408": false, "<html>": false, "{}": false,
		`{"included": []}`: false,
	} {
		n := &network{date: now, answers: answers{wellKnown: services, timesURL: text}}
		_, err := n.registry(registry.Options{}).Published(t.Context(), provider(t, "example.com/acme/widget"))
		sourcetest.Expect(t, err != nil && errors.Is(err, sources.ErrUndated) == undated, "%s: got %v", text, err)
		sourcetest.Expect(t, len(n.asked) <= 3, "%s: asked %d times", text, len(n.asked))
	}
}

func FuzzPublished(f *testing.F) {
	sourcetest.AddSeeds[string](f, included, listed, `{}`, `null`, `{"included": [null]}`)
	f.Fuzz(func(t *testing.T, text string) {
		for host, url := range map[string]string{"example.com": timesURL, "registry.opentofu.org": "https://api.opentofu.org" + listURL} {
			read := func(text string) map[sources.Version]time.Time {
				n := &network{date: now, answers: answers{wellKnown: services, "https://registry.opentofu.org" + wellKnown: services}}
				times, err := fuzzed(n, url, text, sources.Terraform).Published(t.Context(), provider(t, host+"/acme/widget"))
				sourcetest.Expect(t, (err == nil) == (len(times) > 0), "%q: %v, %v", text, times, err)
				return times
			}
			times := read(text)
			var terraform, tofu []string
			for v, at := range times {
				terraform = append(terraform, item(v.String(), at.Format(time.RFC3339Nano)))
				tofu = append(tofu, fmt.Sprintf(`{"id": %q, "published": %q}`, "v"+v.String(), at.Format(time.RFC3339Nano)))
			}
			again := read(fmt.Sprintf(`{"included": [%s], "versions": [%s]}`, strings.Join(terraform, ","), strings.Join(tofu, ",")))
			sourcetest.Expect(t, maps.EqualFunc(times, again, time.Time.Equal), "%q: %v, and again %v", text, times, again)
		}
	})
}
