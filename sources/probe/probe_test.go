package probe_test

import (
	"context"
	"crypto/tls"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/probe"
	"github.com/larder-cli/larder/sources/sourcetest"
)

const widget = "example.test/acme/widget"

// options are those for a world, with a token for each host whose name begins with "token".
func options(t *testing.T, w *sourcetest.World) probe.Options {
	t.Helper()
	client := fetch.New(fetch.Options{
		Transport: w.Client().Transport,
		Tries:     1, DownloadTries: 1, Timeout: 5 * time.Second,
		Token: func(_ context.Context, h sources.Host) (string, bool, error) {
			return "secret-of-" + string(h), strings.HasPrefix(string(h), "token") || h == "example.test", nil
		},
	})
	return probe.Options{
		Client: client, Platform: sources.Platform{OS: "linux", Arch: "amd64"},
		Candidates: []probe.Candidate{{Provider: sourcetest.Address(t, widget)}},
		Others:     []probe.Candidate{{Provider: sourcetest.Address(t, widget)}},
	}
}

// outcome describes the steps of a report: the name of each, and its trap if it has one. A step that was not
// tried is in parentheses.
func outcome(r probe.Report) string {
	var words []string
	for _, s := range r.Steps {
		word := s.Step
		for _, f := range s.Findings {
			word += ":" + f.Trap
		}
		if !s.Tried {
			word = "(" + word + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestRegistryIsTried(t *testing.T) {
	w := sourcetest.New(t)
	w.Add(widget, "1.0.0")
	w.Add(widget, "1.1.0", sourcetest.Release{Size: 20_000_000})
	r := probe.Registry(t.Context(), options(t, w), "example.test")
	sourcetest.Equal(t, outcome(r), "discovery versions package checksums archive")
	sourcetest.Equal(t, r.ID.Version.String(), "1.1.0")
	sourcetest.EqualSlices(t, r.Served, []string{probe.Signatures, probe.Ranges, probe.Resumption})
	sourcetest.EqualSlices(t, r.NotServed, []string{probe.Conditional})
	sourcetest.Require(t, r.Rate > 0 && r.Latency > 0, "rate %d, latency %s", r.Rate, r.Latency)
	for file, bytes := range w.Registry.ArchiveBytes() {
		sourcetest.Require(t, bytes < 9_000_000, "%s: %d bytes were sent", file, bytes)
	}
	for _, s := range r.Steps {
		sourcetest.Require(t, s.URL != "" && (s.Status == 200 || s.Status == 206) && s.Bytes > 0 && s.Found != "", "%s: %+v", s.Step, s)
	}
}

// A registry whose archives are somewhere else, behind a redirect, as those on GitHub are.
func TestArchiveBehindARedirect(t *testing.T) {
	w := sourcetest.New(t)
	w.Add(widget, "1.0.0", sourcetest.Release{Size: 3_000_000})
	const at = "/archives/example.test/acme/widget/1.0.0/terraform-provider-widget_1.0.0_linux_amd64.zip"
	w.Registry.Fault(sourcetest.Fault{Path: "*/download/*", Edit: sourcetest.Replace(at, "/moved")})
	w.Registry.Fault(sourcetest.Fault{Path: "/moved", Redirect: "https://example.test" + at})
	r := probe.Registry(t.Context(), options(t, w), "example.test")
	sourcetest.Equal(t, outcome(r), "discovery versions package checksums archive")
	sourcetest.EqualSlices(t, r.Served, []string{probe.Signatures, probe.Ranges, probe.Resumption})
	archive := r.Steps[len(r.Steps)-1]
	sourcetest.Require(t, archive.Status == 206 && archive.Bytes > 0, "%+v", archive)
}

func TestLockedVersionIsTried(t *testing.T) {
	w := sourcetest.New(t)
	w.Add(widget, "1.0.0")
	w.Add(widget, "1.1.0")
	o := options(t, w)
	o.Candidates[0].Locked = sourcetest.Number(t, "1.0.0")
	sourcetest.Equal(t, probe.Registry(t.Context(), o, "example.test").ID.Version.String(), "1.0.0")
}

func mirrorURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	sourcetest.Check(t, err)
	return u
}

// A mirror of files supports everything, and is tried with the first provider that it has.
func TestMirrorIsTried(t *testing.T) {
	w := sourcetest.New(t)
	w.Add(widget, "1.0.0", sourcetest.Release{Size: 400_000})
	dir := t.TempDir()
	w.WritePacked(dir)
	w.WriteMirrorJSON(dir)
	w.Mirror.ServeDir(dir)
	past := time.Now().Add(-time.Hour)
	sourcetest.Check(t, touch(dir, past))
	o := options(t, w)
	o.Candidates = append([]probe.Candidate{{Provider: sourcetest.Address(t, "example.test/acme/absent")}}, o.Candidates...)
	r := probe.Mirror(t.Context(), o, mirrorURL(t, "https://mirror.test/providers/"))
	sourcetest.Equal(t, outcome(r), "index version evidence archive")
	sourcetest.Equal(t, r.ID.Provider.String(), widget)
	sourcetest.EqualSlices(t, r.Served, []string{probe.Conditional, probe.Ranges, probe.Resumption})
	sourcetest.EqualSlices(t, r.NotServed, []string{probe.Evidence})
}

func TestFaultsAreRecognized(t *testing.T) {
	const page = "<!doctype html><title>Log in</title>"
	rest := func(steps string) string { // the steps after a failed one
		_, after, _ := strings.Cut("discovery versions package checksums archive", steps)
		return strings.NewReplacer("versions", "(versions)", "package", "(package)", "checksums", "(checksums)", "archive", "(archive)").Replace(after)
	}
	for name, c := range map[string]struct {
		fault sourcetest.Fault
		want  string
	}{
		"login page at discovery": {sourcetest.Fault{Path: "*terraform.json", ContentType: "text/html", Body: page}, "discovery:html-page" + rest("discovery")},
		"no discovery":            {sourcetest.Fault{Path: "*terraform.json", Status: 404}, "discovery:no-registry" + rest("discovery")},
		"discovery as text":       {sourcetest.Fault{Path: "*terraform.json", ContentType: "text/plain"}, "discovery:content-type" + rest("discovery")},
		"another service":         {sourcetest.Fault{Path: "*terraform.json", Edit: sourcetest.Replace("providers.v1", "modules.v1")}, "discovery:no-registry" + rest("discovery")},
		"forbidden":               {sourcetest.Fault{Path: "*/versions", Status: 403}, "discovery versions:unauthorized" + rest("discovery versions")},
		"overloaded":              {sourcetest.Fault{Path: "*/versions", Status: 503}, "discovery versions:refused" + rest("discovery versions")},
		"no such provider":        {sourcetest.Fault{Path: "*/versions", Status: 404}, "discovery versions:not-found" + rest("discovery versions")},
		"broken list":             {sourcetest.Fault{Path: "*/versions", Body: `{"versions":`}, "discovery versions:invalid" + rest("discovery versions")},
		"slow list":               {sourcetest.Fault{Path: "*/versions", Delay: 2100 * time.Millisecond}, "discovery versions:slow-answer package checksums archive"},
		"package is missing":      {sourcetest.Fault{Path: "*/download/*", Status: 404}, "discovery versions package:no-platform" + rest("discovery versions package")},
		"checksums are missing":   {sourcetest.Fault{Path: "*SHA256SUMS", Status: 404}, "discovery versions package checksums:not-found" + rest("discovery versions package checksums")},
		"signature needs a token": {sourcetest.Fault{Path: "*.sig", Status: 401}, "discovery versions package checksums:unauthorized" + rest("discovery versions package checksums")},
		"archive is missing":      {sourcetest.Fault{Path: "*.zip", Status: 404}, "discovery versions package checksums archive:not-found"},
		"archive needs a token":   {sourcetest.Fault{Path: "*.zip", Status: 401}, "discovery versions package checksums archive:unauthorized"},
		"page for the archive":    {sourcetest.Fault{Path: "*.zip", ContentType: "text/html", Body: page}, "discovery versions package checksums archive:html-page"},
		"no ranges":               {sourcetest.Fault{Path: "*.zip", NoRange: true}, "discovery versions package checksums archive:no-ranges"},
		"wrong range":             {sourcetest.Fault{Path: "*.zip", Range: "bytes 5-9/10"}, "discovery versions package checksums archive:invalid"},
		"redirect to http":        {sourcetest.Fault{Path: "*/versions", Times: 1, Redirect: "http://elsewhere.test{path}"}, "discovery versions:redirect-to-http package checksums archive"},
		"silent":                  {sourcetest.Fault{Path: "*/versions", Stall: -1}, "discovery versions:timeout" + rest("discovery versions")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := sourcetest.New(t)
			w.Add(widget, "1.0.0")
			w.Registry.Fault(c.fault)
			o := options(t, w)
			o.Others = nil
			r := probe.Registry(t.Context(), o, "example.test")
			sourcetest.Equal(t, outcome(r), c.want)
			for _, s := range r.Steps {
				for _, f := range s.Findings {
					sourcetest.Require(t, f.Text != "" && !strings.Contains(f.Text+f.Why+f.Fix, "secret"), "%+v", f)
				}
			}
		})
	}
}

// The same for a mirror.
func TestFaultsOfMirrorsAreRecognized(t *testing.T) {
	for name, c := range map[string]struct {
		fault sourcetest.Fault
		at    string
		want  string
	}{
		"no slash":            {sourcetest.Fault{Path: "none"}, "https://mirror.test/providers", "index:no-slash version evidence archive"},
		"wrong path":          {sourcetest.Fault{Path: "none"}, "https://mirror.test/files/", "index:not-found (version) (evidence) (archive)"},
		"no version document": {sourcetest.Fault{Path: "*/1.0.0.json", Status: 404}, "https://mirror.test/providers/", "index version:not-found (evidence) (archive)"},
		"index as text":       {sourcetest.Fault{Path: "*/index.json", ContentType: "text/plain"}, "https://mirror.test/providers/", "index:content-type (version) (evidence) (archive)"},
		"archive is missing":  {sourcetest.Fault{Path: "*.zip", Status: 404}, "https://mirror.test/providers/", "index version evidence archive:not-found"},
		"bad evidence": {
			sourcetest.Fault{Path: "*/1.0.0.json", Edit: sourcetest.Replace(`"archives"`, `"larder": {"evidence": {"url": "https://elsewhere.test/"}}, "archives"`)},
			"https://mirror.test/providers/", "index version evidence:evidence-ignored archive",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := sourcetest.New(t)
			w.Add(widget, "1.0.0")
			w.Mirror.Fault(c.fault)
			sourcetest.Equal(t, outcome(probe.Mirror(t.Context(), options(t, w), mirrorURL(t, c.at))), c.want)
		})
	}
}

func TestMixedUpServersAreRecognized(t *testing.T) {
	w := sourcetest.New(t)
	w.Add(widget, "1.0.0")
	o := options(t, w)
	for at, want := range map[string]string{
		"https://example.test/v1/providers/example.test/": "is the base URL of a registry",
		"https://example.test/":                           "is a registry, and has no network mirror",
	} {
		r := probe.Mirror(t.Context(), o, mirrorURL(t, at))
		sourcetest.Equal(t, outcome(r), "index:registry-as-mirror (version) (evidence) (archive)")
		sourcetest.Require(t, strings.Contains(r.Steps[0].Findings[0].Text, want), "%+v", r.Steps[0].Findings)
	}
	r := probe.Registry(t.Context(), o, "mirror.test")
	sourcetest.Equal(t, outcome(r), "discovery:mirror-as-registry (versions) (package) (checksums) (archive)")
	sourcetest.Require(t, strings.Contains(r.Steps[0].Findings[0].Fix, `network_mirror { url = "https://mirror.test/providers/" }`), "%+v", r.Steps[0].Findings)
	sourcetest.Equal(t, r.Steps[0].URL, "https://mirror.test/.well-known/terraform.json")
}

// No request to a host has the token of another one, however its address was mixed up.
func TestTokensStayWithTheirHosts(t *testing.T) {
	w := sourcetest.New(t)
	w.Add(widget, "1.0.0")
	o := options(t, w)
	probe.Mirror(t.Context(), o, mirrorURL(t, "https://other.test/v1/providers/example.test/"))
	probe.Mirror(t.Context(), o, mirrorURL(t, "https://token.test/v1/providers/example.test/"))
	w.Registry.Fault(sourcetest.Fault{Path: "*/versions", Redirect: "https://other.test{path}"})
	probe.Registry(t.Context(), o, "example.test")
	tokens := 0
	for _, r := range w.Registry.Requests() {
		if got := r.Header.Get("Authorization"); got != "" {
			tokens++
			sourcetest.Equal(t, got, "Bearer secret-of-"+r.Host)
		}
	}
	sourcetest.Require(t, tokens > 2, "only %d requests had tokens", tokens)
}

// A token that only Larder sends with requests for archives is a finding if the server requires it.
func TestTokenForArchivesIsAFinding(t *testing.T) {
	w := sourcetest.New(t)
	w.Add(widget, "1.0.0")
	w.Registry.RequireTokenEverywhere("secret-of-example.test")
	o := options(t, w)
	o.Client = fetch.New(fetch.Options{
		Transport: w.Client().Transport, Tries: 1,
		Hosts: map[sources.Host]fetch.HostOptions{"example.test": {TokenForArchives: true}},
		Token: func(context.Context, sources.Host) (string, bool, error) { return "secret-of-example.test", true, nil },
	})
	o.TokenForArchives = func(string) bool { return true }
	sourcetest.Equal(t, outcome(probe.Registry(t.Context(), o, "example.test")), "discovery versions package checksums archive:token-for-archives")
}

func TestCertificatesAreExamined(t *testing.T) {
	w := sourcetest.New(t)
	w.Add(widget, "1.0.0")
	o := options(t, w)
	r := probe.Registry(t.Context(), o, "example.test")
	sourcetest.Equal(t, r.Steps[0].Exchanges[0].Authority, "Larder test authority")
	w.Registry.OwnAuthority()
	w.Registry.ChangeTLS(func(c *tls.Config) { c.SessionTicketsDisabled = true })
	o.Client.CloseIdleConnections()
	w.Client().Transport.(*http.Transport).CloseIdleConnections()
	fresh := options(t, w)
	sourcetest.Equal(t, outcome(probe.Registry(t.Context(), fresh, "example.test")), "discovery:certificate-authority (versions) (package) (checksums) (archive)")
}

func TestInterruptedWalkTriesNothing(t *testing.T) {
	w := sourcetest.New(t)
	w.Add(widget, "1.0.0")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := probe.Registry(ctx, options(t, w), "example.test")
	sourcetest.Require(t, !slices.ContainsFunc(r.Steps, func(s probe.Result) bool { return s.Tried }), "%s", outcome(r))
	sourcetest.Equal(t, len(w.Registry.Requests()), 0)
}

// touch sets the modification time of all files in a directory.
func touch(dir string, at time.Time) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chtimes(path, at, at)
	})
}
