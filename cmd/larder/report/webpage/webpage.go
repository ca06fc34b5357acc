// Package webpage shows people in a browser what a mirror has.
package webpage

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
)

// A Page shows people in a browser what a mirror has.
type Page struct {
	Title     string
	URL       string          // of the mirror, with https; empty if it isn't known, as in a page that is a file in it
	Plain     bool            // the page is sent over plain HTTP
	Tokens    bool            // clients must have a token
	Authority bool            // the server has a certificate authority of its own
	Search    string          // what was searched for; empty shows everything
	Notes     []string        // what is wrong with the server
	Entries   []builder.Entry // packages; those that network mirrors can't serve are left out
	Upstream  bool            // what the mirror lacks is fetched
	Made      time.Time       // zero for a page without times

	// Listed returns when upstream last listed the versions of a provider, and whether it has failed since. The time is
	// zero if it never did. Listed is nil if there is no upstream.
	Listed func(sources.Provider) (at time.Time, failed bool)
}

// pageText is the template of a page. Its pageScript filters it without the server, and writes the address that the
// browser has into the configuration, if engines can use it.
//
//go:embed page.html
var pageText string

//go:embed page.js
var pageScript string

var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Parse(pageText))
})

// Policy is the content security policy of pages: nothing but what they contain.
var Policy = sync.OnceValue(func() string {
	sum := sha256.Sum256([]byte(pageScript))
	script := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	return "default-src 'none'; style-src 'unsafe-inline'; script-src " + script +
		"; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
})

// pageMark is near the beginning of pages, by which they are recognized.
const pageMark = `<meta name="generator" content="Larder">`

// HeadSize is how many bytes of a file [IsPage] needs.
const HeadSize = 512

// IsPage reports whether a file that begins with text is a page.
func IsPage(text []byte) bool {
	return bytes.Contains(text[:min(len(text), HeadSize)], []byte(pageMark))
}

type pageProvider struct {
	sources.Provider
	Summary, Stale string // Stale is empty if nothing is
	Versions       []pageVersion
}

type pageVersion struct {
	Version, Platforms, Verified, Class, Size, Since string
}

// HTML returns the page.
func (p Page) HTML() ([]byte, error) {
	p.Entries = slices.DeleteFunc(slices.Clone(p.Entries), func(e builder.Entry) bool { return e.Unpacked })
	all := p.providers()
	summary := ui.Count(len(p.Entries), "package") + ", " + report.BytesOf(p.Entries)
	if p.Upstream {
		summary += ". Other versions are fetched when they are requested. Lists of versions are fresh unless marked stale."
	}
	var b bytes.Buffer
	err := pageTemplate().Execute(&b, map[string]any{
		"Title": p.Title, "Summary": summary, "Notes": p.Notes, "Configuration": p.configuration(), "Search": p.Search,
		"Plain": p.Plain, "AnyHost": p.URL == "", "Tokens": p.Tokens, "Authority": p.Authority,
		"Found": ui.Count(len(all), "provider"), "Providers": all, "Open": len(all) <= 3,
		"Unknown": slices.ContainsFunc(p.Entries, isUnknown),
		"Made":    timeText(p.Made, "2006-01-02 15:04 UTC"),
		"Script":  template.JS(pageScript),
	})
	return []byte(ui.Escaped(b.String())), err
}

// configuration returns the CLI configuration for clients.
func (p Page) configuration() string {
	base := cmp.Or(p.URL, "https://HOST/")
	text := fmt.Sprintf("provider_installation {\n  network_mirror {\n    url = %q\n  }\n}", base)
	if p.Tokens {
		host := strings.TrimSuffix(strings.TrimPrefix(base, "https://"), "/")
		text += fmt.Sprintf("\n\ncredentials %q {\n  token = \"TOKEN\"\n}", host)
	}
	return text
}

// providers returns the providers that the search finds, each with its versions, the newest first.
func (p Page) providers() (all []pageProvider) {
	words := strings.Fields(strings.ToLower(p.Search))
	entries := slices.DeleteFunc(slices.Clone(p.Entries), func(e builder.Entry) bool {
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e.ID.Provider.String(), w) })
	})
	slices.SortStableFunc(entries, func(a, b builder.Entry) int {
		return cmp.Or(a.ID.Provider.Compare(b.ID.Provider), b.ID.Version.Compare(a.ID.Version))
	})
	for _, of := range report.GroupBy(entries, func(e builder.Entry) sources.Provider { return e.ID.Provider }) {
		id, versions := of[0].ID, report.GroupBy(of, func(e builder.Entry) sources.Version { return e.ID.Version })
		one := pageProvider{Provider: id.Provider}
		one.Summary = fmt.Sprintf("%s, newest %s, %s", ui.Count(len(versions), "version"), id.Version, report.BytesOf(of))
		if p.Listed != nil {
			one.Stale = stale(p.Listed(id.Provider))
		}
		for _, entries := range versions {
			one.Versions = append(one.Versions, pageRow(entries))
		}
		all = append(all, one)
	}
	return all
}

// stale says that a list of versions may lack new ones, if it may.
func stale(at time.Time, failed bool) string {
	switch {
	case !failed:
		return ""
	case at.IsZero():
		return "stale: upstream doesn't answer"
	}
	return "stale: upstream last answered at " + at.UTC().Format("2006-01-02 15:04 UTC")
}

// isUnknown reports whether this user has no record of a package, as after the mirror was carried to another machine.
func isUnknown(e builder.Entry) bool {
	return e.Err == nil && len(e.Hashes) == 0 && e.Stored.Report.Verdict <= sources.Unverified
}

// timeText formats a time. It returns nothing for the zero time.
func timeText(at time.Time, layout string) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(layout)
}

// pageRow returns the row of a version.
func pageRow(entries []builder.Entry) pageVersion {
	class, since := "good", entries[0].Since
	var platforms, verified []string
	for _, e := range entries {
		platforms = append(platforms, e.ID.Platform.String())
		if e.Since.Before(since) {
			since = e.Since
		}
		text := report.VerificationOf(e.Stored.Report).As()
		switch {
		case e.Err != nil:
			text, class = "damaged", "bad"
		case isUnknown(e):
			text, class = "not verified here", strings.TrimPrefix(class, "good")
		case e.Stored.Report.Verdict <= sources.MirrorEvidence:
			class = strings.TrimPrefix(class, "good")
		}
		verified = append(verified, text)
	}
	slices.Sort(platforms)
	return pageVersion{
		entries[0].ID.Version.String(), strings.Join(platforms, ", "), strings.Join(report.Unique(verified), "; "), class,
		report.BytesOf(entries), timeText(since, time.DateOnly),
	}
}
