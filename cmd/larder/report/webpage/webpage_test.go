package webpage_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/larder-cli/larder/cmd/larder/report/webpage"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// pageWith returns a page with n packages, at most ten for each provider.
func pageWith(t *testing.T, n int) []byte {
	t.Helper()
	p := webpage.Page{
		Title: "Provider mirror", URL: "https://providers.infrastructure.example.com:8443/", Upstream: true, Made: time.Now(),
		Tokens: true, Authority: true, Plain: true,
		Notes:  []string{"The server can't fetch new packages now."},
		Listed: func(sources.Provider) (time.Time, bool) { return time.Now(), true },
	}
	for i := range n {
		provider := fmt.Sprintf("registry.platform-engineering.example-corporation.com:8443/a-namespace-with-a-long-name/provider-%d-of-a-team-with-many-of-them", i/10)
		id := sourcetest.PackageID(t, provider, fmt.Sprintf("1.%d.0-rc.1", i%10), "linux_amd64")
		stored := sources.Stored{Report: sources.Report{Verdict: sources.HashOnly}}
		if i%2 == 0 {
			by := sources.SignedBy{Verdict: sources.SelfSigned, KeyID: "62CF2F485EDF9A4B", From: sources.KeyFromMirror}
			stored.Report = sources.Report{Verdict: sources.SelfSigned, By: []sources.SignedBy{by}}
		}
		p.Entries = append(p.Entries, builder.Entry{ID: id, Size: 90e6, Since: time.Now(), Stored: stored})
	}
	return sourcetest.Must(p.HTML())(t)
}

var (
	pageLine = regexp.MustCompile(`<p class="faint">.*|<summary>.*|<tr><th scope="row">.*`)
	pageTags = regexp.MustCompile(`(<[^>]*> ?)+`)
)

// Each version has one row about all its packages, with the earliest date. It is good if all of them were verified by
// signatures with a key that didn't come along. Without a record, a package isn't called unverified.
func TestPageRows(t *testing.T) {
	p := webpage.Page{Upstream: true, Made: time.Date(2026, 1, 9, 3, 4, 5, 0, time.UTC)}
	p.Listed = func(q sources.Provider) (time.Time, bool) { return time.Time{}, q.Type == "two" }
	add := func(address, version, os string, day int, verdict sources.Verdict, err error) {
		var known []sources.Hash
		if verdict > 0 {
			known = []sources.Hash{"zh:"}
		}
		id := sourcetest.PackageID(t, address, version, os+"_amd64")
		stored := sources.Stored{Report: sources.Report{Verdict: verdict}}
		p.Entries = append(p.Entries, builder.Entry{ID: id, Size: 90e6, Since: time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC), Stored: stored, Err: err, Hashes: known})
	}
	add("example.com/acme/two", "1.0.0", "linux", 5, sources.SelfSigned, nil)
	add("example.com/acme/one", "1.9.0", "windows", 4, sources.SelfSigned, nil)
	add("example.com/acme/one", "1.9.0", "linux", 2, sources.SelfSigned, nil)
	add("example.com/acme/one", "1.10.0", "linux", 3, sources.SelfSigned, nil)
	add("example.com/acme/one", "1.10.0", "windows", 3, sources.HashOnly, nil)
	add("example.com/acme/one", "1.11.0", "linux", 3, sources.Unverified, nil)
	add("example.com/acme/one", "1.12.0", "linux", 3, sources.SelfSigned, errors.New("changed"))
	add("example.com/acme/two", "0.9.0", "linux", 5, sources.MirrorEvidence, nil)
	add("example.com/acme/two", "0.8.0", "linux", 5, 0, nil)
	p.Entries[len(p.Entries)-1].Hashes = []sources.Hash{"zh:"}
	add("example.com/acme/one", "1.13.0", "linux", 3, sources.SelfSigned, nil)
	p.Entries[len(p.Entries)-1].Unpacked = true
	text := sourcetest.Must(p.HTML())(t)
	page := strings.NewReplacer(`class="good">`, ">good: ").Replace(html.UnescapeString(string(text)))
	var got []string
	for _, line := range pageLine.FindAllString(page, -1) {
		got = append(got, strings.Trim(pageTags.ReplaceAllString(line, "|"), "|"))
	}
	sourcetest.EqualSlices(t, got, []string{
		"9 packages, 810 MB. Other versions are fetched when they are requested. Lists of versions are fresh unless marked stale.",
		"Not verified here: the user who serves this page, or wrote it as a file, hasn't verified the package. " +
			"To verify all packages of a mirror, run |larder mirror verify DIR|as that user. " +
			"To write a file again, run |larder mirror index DIR|after that.",
		"example.com/|acme/|one|4 versions, newest 1.12.0, 540 MB",
		"1.12.0|linux_amd64|damaged|90 MB|2026-01-03",
		"1.11.0|linux_amd64|not verified here|90 MB|2026-01-03",
		"1.10.0|linux_amd64, windows_amd64|self-signed; hash only|180 MB|2026-01-03",
		"1.9.0|linux_amd64, windows_amd64|good: self-signed|180 MB|2026-01-02",
		"example.com/|acme/|two|3 versions, newest 1.0.0, 270 MB|stale: upstream doesn't answer",
		"1.0.0|linux_amd64|good: self-signed|90 MB|2026-01-05",
		"0.9.0|linux_amd64|signed, key from the mirror|90 MB|2026-01-05",
		"0.8.0|linux_amd64|unverified|90 MB|2026-01-05",
		"Last updated 2026-01-09 03:04 UTC by Larder",
	})
}

// Names in a page contain no characters that show nothing.
func TestPageShowsAllCharacters(t *testing.T) {
	const name = "a\u202e\u009b\u200b\u2028\x7f\x1b\ufeff\U000e0001"
	page := webpage.Page{Title: name, URL: "https://" + name + "/", Search: name, Notes: []string{name}, Tokens: true}
	text := sourcetest.Must(page.HTML())(t)
	hidden := func(r rune) bool { return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }
	sourcetest.Expect(t, !strings.ContainsFunc(string(text), hidden), "%q", text)
	const shown = `<h1>a\u202e\u009b\u200b\u2028\u007f\u001b\ufeff\udb40\udc01</h1>`
	sourcetest.Expect(t, strings.Contains(string(text), shown), "%q", text)
}

// probe shows the page in a frame of a width, and replaces itself with what it finds.
const probe = `<!DOCTYPE html><meta charset="utf-8"><body style="margin:0"><iframe src="page.html" style="border:0;height:2000px;width:%dpx"></iframe><script>
const frame = document.querySelector("iframe");
function numbers(color) { return color.match(/[\d.]+/g).map(Number); }
function light(color) {
  const [r, g, b] = numbers(color).map(c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
addEventListener("load", () => {
  const page = frame.contentDocument, view = frame.contentWindow, faint = [];
  page.querySelectorAll("details").forEach(d => d.open = true);
  const width = page.documentElement.scrollWidth;
  for (const e of [...page.body.querySelectorAll("*")].slice(0, 300)) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) || !e.offsetParent) continue;
    let back = e;
    while (back && numbers(view.getComputedStyle(back).backgroundColor)[3] === 0) back = back.parentElement;
    const a = light(view.getComputedStyle(e).color), b = light(view.getComputedStyle(back || page.body).backgroundColor);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faint.push(e.tagName + " " + ratio.toFixed(1));
  }
  const unnamed = [...page.querySelectorAll("input, button, a, summary")].filter(e => !(e.labels?.length || e.textContent.trim())).length;
  const field = page.querySelector("input"), providers = page.querySelectorAll("details").length;
  field.value = "provider-0-"; // the first of them
  field.dispatchEvent(new view.Event("input"));
  const found = [...page.querySelectorAll("details")].filter(d => !d.hidden).length;
  const small = [...page.querySelectorAll("summary, input, button")].filter(e => e.offsetParent && e.offsetHeight < 24).length;
  document.body.textContent = JSON.stringify({width, faint, unnamed, providers, found, small, dark: matchMedia("(prefers-color-scheme: dark)").matches});
});
</script>`

// shownBy returns the document that a browser shows, and the text in it that a pattern finds.
func shownBy(t *testing.T, pattern *regexp.Regexp, args ...string) (page, text string) {
	t.Helper()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium on PATH to show the page in")
	}
	args = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + t.TempDir(), "--dump-dom"}, args...)
	out := sourcetest.Must(exec.CommandContext(t.Context(), browser, args...).Output())(t)
	shown := pattern.FindSubmatch(out)
	sourcetest.Require(t, shown != nil, "%s: no page: %s", args, out)
	return string(out), html.UnescapeString(string(shown[1]))
}

var shownBody = regexp.MustCompile(`(?s)<body[^>]*>(.*)</body>`)

// The page fits on a phone, can be read in both color schemes, has names for what can be operated, and is searchable.
func TestPageInBrowser(t *testing.T) {
	for _, c := range []struct {
		packages, width, scheme int
	}{{3, 360, light}, {3000, 1280, dark}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			dir := t.TempDir()
			sourcetest.Check(t, os.WriteFile(filepath.Join(dir, "page.html"), pageWith(t, c.packages), 0o644))
			sourcetest.Check(t, os.WriteFile(filepath.Join(dir, "probe.html"), fmt.Appendf(nil, probe, c.width), 0o644))
			_, body := shownBy(t, shownBody, "--allow-file-access-from-files", fmt.Sprintf("--blink-settings=preferredColorScheme=%d", c.scheme),
				"--virtual-time-budget=60000", "file://"+filepath.Join(dir, "probe.html"))
			var got struct {
				Width, Unnamed, Providers, Found, Small int
				Faint                                   []string
				Dark                                    bool
			}
			sourcetest.Check(t, json.Unmarshal([]byte(body), &got))
			sourcetest.Expect(t, got.Width <= c.width && got.Dark == (c.scheme == dark), "%+v", got)
			sourcetest.Expect(t, len(got.Faint) == 0 && got.Unnamed == 0 && got.Small == 0, "%+v", got)
			sourcetest.Expect(t, got.Providers == (c.packages+9)/10 && got.Found == 1, "%+v", got)
		})
	}
}

var shownText = regexp.MustCompile(`(?s)<pre[^>]*>(.*)</pre>`)

// A page that doesn't know its address shows the one that the browser has, if engines can use it.
func TestPageNamesItsAddress(t *testing.T) {
	dir := t.TempDir()
	text := sourcetest.Must(webpage.Page{Title: "Provider mirror", Tokens: true, Plain: true}.HTML())(t)
	sourcetest.Check(t, os.MkdirAll(filepath.Join(dir, "a $& b"), 0o755))
	sourcetest.Check(t, os.WriteFile(filepath.Join(dir, "a $& b", "index.html"), text, 0o644))
	secure, plain := httptest.NewTLSServer(http.FileServer(http.Dir(dir))), httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer secure.Close()
	defer plain.Close()
	at := secure.Listener.Addr().String()
	for _, c := range []struct{ opened, url, host string }{
		{"https://name:password@" + at + "/a%20$&%20b/?q=x", "https://" + at + "/a%20$&%20b/", at},
		{plain.URL + "/a%20$&%20b/", "https://HOST/", "HOST"},
	} {
		out, got := shownBy(t, shownText, "--ignore-certificate-errors", c.opened)
		want := fmt.Sprintf("provider_installation {\n  network_mirror {\n    url = %q\n  }\n}\n\ncredentials %q {\n  token = \"TOKEN\"\n}", c.url, c.host)
		sourcetest.Expect(t, got == want, "%s: %s", c.opened, got)
		unknown := strings.Contains(out, `id="host"`) && strings.Contains(out, `id="plain"`)
		sourcetest.Expect(t, unknown == (c.host == "HOST"), "%s: %s", c.opened, out)
	}
}

// The color schemes, as Chromium numbers them.
const (
	dark  = 0
	light = 1
)
