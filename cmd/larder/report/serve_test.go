package report_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/server"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestAccessLog(t *testing.T) {
	for want, s := range map[string]server.Served{
		"info #7 192.0.2.1 GET /a 200 700 B 1.5s":                         {},
		"info #7 192.0.2.1 GET /a 200 700 B 1.5s: no answer":              {Error: "no answer"},
		"info #7 192.0.2.1 GET /a 200 700 B 1.5s stale for 1m30s":         {Stale: true, StaleSeconds: 90},
		"info #7 192.0.2.1 GET /a 200 700 B 1.5s without upstream":        {Stale: true},
		"warning #7 192.0.2.1 GET /a 200 700 B 1.5s cut (slow): too slow": {Cut: server.CutForOthers, Error: "too slow"},
		"info #7 192.0.2.1 ci GET /a 200 700 B 1.5s fetched from there (hash only)": {
			Token: "ci", Fetched: true, From: "there", Package: new(sources.PackageID), Report: &sources.Report{Verdict: sources.HashOnly},
		},
	} {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		report.Clock = func() time.Time { return now }
		defer func() { report.Clock = time.Now }()
		s.Request, s.Client, s.Method, s.Path = 7, "192.0.2.1", "GET", "/a"
		s.Status, s.Bytes, s.Milliseconds = 200, 700, 1500
		var text, object bytes.Buffer
		report.New(&text, io.Discard).Served(s)
		sourcetest.Equal(t, text.String(), "2026-01-02T03:04:05.000Z "+want+"\n")
		o := report.New(&object, io.Discard)
		o.JSON = true
		o.KeepLog(true)
		o.Served(s)
		level, _, _ := strings.Cut(want, " ")
		head := `{"type":"request","time":"2026-01-02T03:04:05.000Z","level":"` + level + `","request":7,"client":"192.0.2.1",`
		sourcetest.Expect(t, strings.HasPrefix(object.String(), head), "%s", object.String())
	}
}

func TestServeSum(t *testing.T) {
	var sum report.ServeSum
	for _, status := range []int{200, 404, 500, 502} {
		sum.Add(server.Served{Status: status, Bytes: 10})
	}
	sum.Add(server.Served{Status: 200, Cut: server.CutByClient})
	sourcetest.Equal(t, sum, report.ServeSum{Requests: 5, Failed: 2, Cut: 1, Bytes: 40})
}

func TestEvicted(t *testing.T) {
	for _, c := range []struct {
		json bool
		want string
	}{
		{false, "Z info - removed registry.terraform.io/acme/one 1.2.0 linux_amd64 (90 MB), to make room within --max-size\n"},
		{true, `{"type":"removal","provider":"registry.terraform.io/acme/one","version":"1.2.0",`},
	} {
		var text bytes.Buffer
		o := report.New(&text, io.Discard)
		o.JSON = c.json
		o.Evicted([]builder.Entry{{ID: sourcetest.PackageID(t, "acme/one", "1.2.0", "linux_amd64"), Size: 90e6}})
		sourcetest.Expect(t, strings.Contains(text.String(), c.want), "%s", text.String())
	}
}
