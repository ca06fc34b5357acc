package fetch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A look at an archive reads its beginning, and returns its size.
func TestPeekReadsTheBeginning(t *testing.T) {
	w := sourcetest.New(t)
	w.Add("example.test/acme/widget", "1.0.0", sourcetest.Release{Size: 3_000_000})
	client := fetch.New(fetch.Options{Transport: w.Client().Transport, Sleep: noSleep})
	const at = "https://example.test/archives/example.test/acme/widget/1.0.0/" +
		"terraform-provider-widget_1.0.0_linux_amd64.zip"

	size := sourcetest.Must(client.Peek(t.Context(), at))(t)
	sourcetest.Require(t, size > 3_000_000, "%d", size)
	for file, bytes := range w.Registry.ArchiveBytes() {
		sourcetest.Require(t, bytes < 1000, "%s: %d bytes were sent", file, bytes)
	}
	w.Registry.Fault(sourcetest.Fault{Path: "*/moved", Redirect: at})
	w.Registry.Fault(sourcetest.Fault{Path: "*.zip", Times: 1, NoRange: true})
	moved, err := client.Peek(t.Context(), "https://example.test/moved")
	sourcetest.Check(t, err)
	sourcetest.Equal(t, moved, size)

	for want, fault := range map[string]sourcetest.Fault{
		"403 Forbidden":          {Path: "*.zip", Status: 403},
		"an HTML page":           {Path: "*.zip", ContentType: "text/html", Body: "<!doctype html><title>Log in</title>"},
		"asked for bytes from 0": {Path: "*.zip", Range: "bytes 5-9/10"},
	} {
		w.Registry.Mend()
		w.Registry.Fault(fault)
		_, err = client.Peek(t.Context(), at)
		sourcetest.Require(t, err != nil && strings.Contains(err.Error(), want), "%v", err)
	}
}

// A trace has every request of its context, those after redirects and retries too, and no other.
func TestTraceReportsRequests(t *testing.T) {
	w := sourcetest.New(t)
	w.Registry.Fault(sourcetest.Fault{Path: "*/old", Redirect: "https://other.test/.well-known/terraform.json?secret=1"})
	w.Registry.Fault(sourcetest.Fault{Path: "*/terraform.json", Times: 1, Status: 503})
	var all []string
	ctx := fetch.Trace(t.Context(), func(e fetch.Exchange) {
		sourcetest.Expect(t, e.Took > 0, "%+v", e)
		all = append(all, fmt.Sprint(e.Method, " ", e.URL, " ", e.Status))
	})
	client := fetch.New(fetch.Options{Transport: w.Client().Transport, Tries: 2})
	sourcetest.Must(client.Document(ctx, fetch.Request{URL: "https://user:password@example.test/old"}))(t)
	sourcetest.Must(client.Document(t.Context(), fetch.Request{URL: "https://example.test/.well-known/terraform.json"}))(t)
	w.Registry.Stop()
	_, err := client.Document(ctx, fetch.Request{URL: "https://example.test/old", Tries: 1})
	sourcetest.Require(t, err != nil, "a stopped server answered")
	const old, moved = "GET https://example.test/old ", "GET https://other.test/.well-known/terraform.json "
	sourcetest.EqualSlices(t, all[:4], []string{old + "302", moved + "503", old + "302", moved + "200"})
	failed := slices.Compact(all[4:]) // a connection that was open may be tried first
	sourcetest.EqualSlices(t, failed, []string{old + "0"})
}
