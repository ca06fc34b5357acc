package fetch_test

import (
	"errors"
	"testing"

	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A trial reads no more than its limit, and tells whether the server sent the range.
func TestTrialReadsAPart(t *testing.T) {
	w := sourcetest.New(t)
	w.Add("example.test/acme/widget", "1.0.0", sourcetest.Release{Size: 3_000_000})
	client := fetch.New(fetch.Options{Transport: w.Client().Transport})
	const at = "https://example.test/archives/example.test/acme/widget/1.0.0/terraform-provider-widget_1.0.0_linux_amd64.zip"

	first, err := client.Try(t.Context(), fetch.Trial{URL: at, Last: 99, Limit: 100})
	sourcetest.Check(t, err)
	sourcetest.Equal(t, first.Status, 206)
	sourcetest.Equal(t, first.Bytes, 100)
	sourcetest.Equal(t, string(first.Head[:2]), "PK")
	sourcetest.Require(t, first.Total > 3_000_000 && first.Validator != "", "%+v", first)

	middle, err := client.Try(t.Context(), fetch.Trial{URL: at, First: 5000, Last: 5009, IfRange: first.Validator, Limit: 100})
	sourcetest.Check(t, err)
	sourcetest.Equal(t, middle.First, 5000)
	sourcetest.Equal(t, middle.Bytes, 10)

	other, err := client.Try(t.Context(), fetch.Trial{URL: at, First: 5000, Last: 5009, IfRange: `"another"`, Limit: 100})
	sourcetest.Check(t, err)
	sourcetest.Equal(t, other.Status, 200)
	sourcetest.Equal(t, other.Bytes, 100)

	w.Registry.Fault(sourcetest.Fault{Path: "*/moved", Redirect: at})
	moved, err := client.Try(t.Context(), fetch.Trial{URL: "https://example.test/moved", Last: 99, Limit: 100})
	sourcetest.Check(t, err)
	sourcetest.Equal(t, moved.Total, first.Total)

	w.Registry.Fault(sourcetest.Fault{Path: "*.zip", Status: 403})
	_, err = client.Try(t.Context(), fetch.Trial{URL: at, Last: 99, Limit: 100})
	sourcetest.Require(t, errors.Is(err, fetch.ErrUnauthorized), "%v", err)
}

// A trace has every request of its context, those after redirects too, and no other.
func TestTraceRecordsRequests(t *testing.T) {
	w := sourcetest.New(t)
	w.Add("example.test/acme/widget", "1.0.0")
	w.Registry.Fault(sourcetest.Fault{Path: "*/old", Redirect: "https://other.test/.well-known/terraform.json?secret=1"})
	client := fetch.New(fetch.Options{Transport: w.Client().Transport})
	var trace fetch.Trace
	doc, err := client.Document(trace.Record(t.Context()), fetch.Request{URL: "https://user:password@example.test/old"})
	sourcetest.Check(t, err)
	_, err = client.Document(t.Context(), fetch.Request{URL: "https://example.test/.well-known/terraform.json"})
	sourcetest.Check(t, err)
	all := trace.Exchanges()
	sourcetest.Equal(t, len(all), 2)
	sourcetest.Equal(t, all[0].URL, "https://example.test/old")
	sourcetest.Equal(t, all[0].Location, "https://other.test/.well-known/terraform.json")
	sourcetest.Equal(t, all[0].Status, 302)
	sourcetest.Equal(t, all[0].Credentials, true)
	sourcetest.Equal(t, all[1].Host, "other.test")
	sourcetest.Equal(t, all[1].Credentials, false)
	sourcetest.Equal(t, all[1].Bytes, int64(len(doc.Body)))
	sourcetest.Equal(t, all[1].Authority, "Larder test authority")

	w.Registry.Stop()
	var failed fetch.Trace
	impatient := fetch.New(fetch.Options{Transport: w.Client().Transport, Tries: 1})
	_, err = impatient.Document(failed.Record(t.Context()), fetch.Request{URL: "https://example.test/old"})
	sourcetest.Require(t, err != nil && len(failed.Exchanges()) == 1 && failed.Exchanges()[0].Status == 0, "%v, %+v", err, failed.Exchanges())
}
