package fetch_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A dated transport answers with the headers of the URL's path.
type dated map[string]http.Header

func (d *dated) RoundTrip(r *http.Request) (*http.Response, error) {
	header := (*d)[r.URL.Path]
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader("x")), Request: r}, nil
}

func TestDate(t *testing.T) {
	const noon = "Thu, 01 Jan 2026 12:00:00 GMT"
	date := func(date, age string) http.Header { return http.Header{"Date": {date}, "Age": {age}} }
	at := func(text string) time.Time {
		t.Helper()
		date, err := time.Parse(time.DateTime, text)
		sourcetest.Check(t, err)
		return date
	}
	client := fetch.New(fetch.Options{Transport: &dated{
		"/noon": date(noon, ""), "/earlier": date("Wed, 31 Dec 2025 12:00:00 GMT", ""), "/cached": date(noon, "3600"),
		"/invalid": date("today", "7200"), "/negative": date(noon, "-7200"), "/years": date(noon, "2000000000"), "/none": {},
		"/later": date("Sat, 01 Jan 2028 12:00:00 GMT", ""),
	}})
	for _, test := range []struct {
		url  string
		want time.Time // of the client's clock
		sent time.Time // of the document
	}{
		{"https://example.com/none", time.Time{}, time.Time{}},
		{"http://example.com/later", time.Time{}, at("2028-01-01 12:00:00")},
		{"https://example.com/invalid", time.Time{}, time.Time{}},
		{"https://example.com/noon", at("2026-01-01 12:00:00"), at("2026-01-01 12:00:00")},
		{"https://example.com/earlier", at("2026-01-01 12:00:00"), at("2025-12-31 12:00:00")},
		{"https://example.com/negative", at("2026-01-01 12:00:00"), at("2026-01-01 12:00:00")},
		{"https://example.com/cached", at("2026-01-01 13:00:00"), at("2026-01-01 12:00:00")},
		{"https://example.com/years", at("2027-01-02 12:00:00"), at("2026-01-01 12:00:00")},
		{"https://example.com/later", at("2028-01-01 12:00:00"), at("2028-01-01 12:00:00")},
	} {
		doc, err := client.Document(t.Context(), fetch.Request{URL: test.url})
		sourcetest.Check(t, err)
		sourcetest.Expect(t, doc.Date.Equal(test.sent), "%s: sent at %s, want %s", test.url, doc.Date, test.sent)
		got := client.Date()
		sourcetest.Expect(t, got.Truncate(time.Minute).Equal(test.want), "%s: got %s, want %s", test.url, got, test.want)
	}
	before := client.Date()
	time.Sleep(time.Millisecond)
	sourcetest.Expect(t, client.Date().After(before), "the clock stands still")
}
