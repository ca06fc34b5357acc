// Package metrics counts what a server does, in the text format of Prometheus. It stores nothing.
//
// It uses a library with few dependencies: the client library of Prometheus makes every command of Larder start a fifth
// slower, because its packages do much when they are initialized.
package metrics

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/VictoriaMetrics/metrics"

	"github.com/larder-cli/larder/fsmirror/server"
)

// Metrics are the counters of a server. They are an [http.Handler].
type Metrics struct{ set *metrics.Set }

// durations are the bounds of the histogram, in seconds: documents take milliseconds, and archives up to minutes.
var durations = []float64{0.001, 0.01, 0.1, 1, 10, 60, 600}

// New returns the counters of a server of a version of Larder.
func New(version string) *Metrics {
	metrics.ExposeMetadata(true)
	m := &Metrics{set: metrics.NewSet()}
	m.set.GetOrCreateGauge(fmt.Sprintf("larder_build_info{version=%q}", version), func() float64 { return 1 })
	for _, result := range []string{stored, failed} { // from the beginning, so that a rate counts the first one
		m.fetched(result)
	}
	return m
}

// Watch adds what the server knows itself.
func (m *Metrics) Watch(s *server.Server) {
	m.set.GetOrCreateGauge("larder_archives_arriving", func() float64 { return float64(s.Arriving()) })
	m.set.GetOrCreateGauge("larder_upstream_answers", func() float64 { return float64(s.Remembered()) })
}

// Count counts a request.
func (m *Metrics) Count(r server.Served) {
	m.set.GetOrCreateCounter(fmt.Sprintf("larder_requests_total{kind=%q,status=\"%d\"}", r.Kind, r.Status)).Inc()
	m.set.GetOrCreateCounter(fmt.Sprintf("larder_response_bytes_total{kind=%q}", r.Kind)).AddInt64(r.Bytes)
	took := fmt.Sprintf("larder_request_duration_seconds{kind=%q}", r.Kind)
	m.set.GetOrCreatePrometheusHistogramExt(took, durations).Update(r.Took.Seconds())
	if r.Stale {
		m.set.GetOrCreateCounter("larder_stale_responses_total").Inc()
	}
}

// Fetched counts an archive that was fetched, or could not be.
func (m *Metrics) Fetched(err error) {
	result := stored
	if err != nil {
		result = failed
	}
	m.fetched(result).Inc()
}

const stored, failed = "stored", "failed"

func (m *Metrics) fetched(result string) *metrics.Counter {
	return m.set.GetOrCreateCounter(fmt.Sprintf("larder_archives_fetched_total{result=%q}", result))
}

// ServeHTTP implements [http.Handler].
func (m *Metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	var b bytes.Buffer // the library writes some lines one by one
	m.set.WritePrometheus(&b)
	metrics.WriteProcessMetrics(&b)
	_, _ = w.Write(b.Bytes()) // the client may be gone
}
