package metrics_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/fsmirror/server"
	"github.com/larder-cli/larder/fsmirror/server/metrics"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestMetrics(t *testing.T) {
	m := metrics.New("1.2.3")
	m.Watch(server.New(t.Context(), "", server.Options{}))
	m.Count(server.Served{Kind: "archive", Status: 200, Bytes: 700, Took: 2 * time.Second})
	m.Count(server.Served{Kind: "archive", Status: 200, Bytes: 300, Took: time.Hour})
	m.Count(server.Served{Kind: "index", Status: 502, Stale: true})
	m.Count(server.Served{Kind: "archive", Status: 200, Cut: server.CutByUpstream})
	m.Fetched(nil)
	m.Fetched(fmt.Errorf("fetching: %w", server.ErrTooLarge))
	m.Fetched(errors.New("failed"))
	m.Fetched(errors.New("failed"))
	answer := httptest.NewRecorder()
	m.ServeHTTP(answer, nil)
	text := answer.Body.String()
	for _, line := range []string{
		`larder_build_info{version="1.2.3"} 1`,
		`larder_requests_total{kind="archive",status="200"} 2`,
		`larder_requests_total{kind="index",status="502"} 1`,
		`larder_requests_total{kind="archive",status="cut"} 1`,
		`larder_cut_answers_total{cause="upstream"} 1`,
		`larder_cut_answers_total{cause="slow"} 0`,
		`larder_response_bytes_total{kind="archive"} 1000`,
		`larder_request_duration_seconds_bucket{kind="archive",le="1"} 1`,
		`larder_request_duration_seconds_bucket{kind="archive",le="10"} 2`,
		`larder_request_duration_seconds_bucket{kind="archive",le="+Inf"} 3`,
		`larder_request_duration_seconds_count{kind="archive"} 3`,
		`larder_stale_responses_total 1`,
		`larder_archives_fetched_total{result="stored"} 1`,
		`larder_archives_fetched_total{result="failed"} 2`,
		`larder_archives_fetched_total{result="no_space"} 1`,
		`larder_archives_arriving 0`,
		`larder_upstream_answers 0`,
		`# TYPE larder_request_duration_seconds histogram`,
		`# TYPE larder_requests_total counter`,
	} {
		sourcetest.Expect(t, strings.Contains(text, line+"\n"), "no %s in:\n%s", line, text)
	}
}
