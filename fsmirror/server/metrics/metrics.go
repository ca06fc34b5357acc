// Package metrics counts what a server does, in the text format of Prometheus. It stores nothing.
//
// It writes the format itself: libraries for it do much when they are initialized, so each command of Larder would
// start more slowly.
package metrics

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/larder-cli/larder/fsmirror/server"
)

// Metrics are the counters of a server. They are an [http.Handler].
type Metrics struct {
	mu     sync.Mutex
	all    map[string]*metric // by name
	server *server.Server     // nil before Watch
}

// A metric has values by what follows the name, in the order in which they were added.
type metric struct {
	order  []string
	values map[string]float64
}

// kinds are the types of all metrics, in the order of the text.
var kinds = [][2]string{
	{"larder_build_info", "gauge"},
	{requests, "counter"}, {sentBytes, "counter"}, {duration, "histogram"}, {stale, "counter"}, {fetched, "counter"},
	{cuts, "counter"},
	{"larder_archives_arriving", "gauge"}, {"larder_upstream_answers", "gauge"}, {"larder_mirror_free_bytes", "gauge"},
	{"process_start_time_seconds", "gauge"}, {"go_goroutines", "gauge"},
	{"go_memstats_heap_alloc_bytes", "gauge"}, {"go_memstats_sys_bytes", "gauge"},
}

const (
	requests  = "larder_requests_total"
	sentBytes = "larder_response_bytes_total"
	duration  = "larder_request_duration_seconds"
	stale     = "larder_stale_responses_total"
	fetched   = "larder_archives_fetched_total"
	cuts      = "larder_cut_answers_total"

	stored, failed, noSpace = `{result="stored"}`, `{result="failed"}`, `{result="no_space"}`
)

// durations are the bounds of the histogram, in seconds: documents take milliseconds, and archives up to minutes.
var durations = []float64{0.001, 0.01, 0.1, 1, 10, 60, 600}

// New returns the counters of a server of a version of Larder.
func New(version string) *Metrics {
	m := &Metrics{all: map[string]*metric{}}
	m.add("larder_build_info", fmt.Sprintf("{version=%q}", version), 1)
	m.add("process_start_time_seconds", "", float64(time.Now().Unix()))
	m.add(fetched, stored, 0) // from the beginning, so that a rate counts the first one
	m.add(fetched, failed, 0)
	m.add(fetched, noSpace, 0)
	m.add(stale, "", 0)
	for _, cause := range server.Cuts {
		m.add(cuts, causedBy(cause), 0)
	}
	return m
}

// add adds n to a value, which is 0 at first. The caller holds the lock.
func (m *Metrics) add(name, labels string, n float64) {
	v := m.all[name]
	if v == nil {
		v = &metric{values: map[string]float64{}}
		m.all[name] = v
	}
	if _, known := v.values[labels]; !known {
		v.order = append(v.order, labels)
	}
	v.values[labels] += n
}

// causedBy returns the label of a cause.
func causedBy(cause server.Cut) string { return fmt.Sprintf("{cause=%q}", cause) }

// Watch adds what the server knows itself.
func (m *Metrics) Watch(s *server.Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server = s
}

// Count counts a request.
func (m *Metrics) Count(r server.Served) {
	m.mu.Lock()
	defer m.mu.Unlock()
	status := fmt.Sprint(r.Status)
	if r.Cut != "" {
		status = "cut"
		m.add(cuts, causedBy(r.Cut), 1)
	}
	m.add(requests, fmt.Sprintf("{kind=%q,status=%q}", r.Kind, status), 1)
	kind := fmt.Sprintf("{kind=%q}", r.Kind)
	m.add(sentBytes, kind, float64(r.Bytes))
	for _, bound := range durations {
		within := 0.0
		if r.Took.Seconds() <= bound {
			within = 1
		}
		m.add(duration, fmt.Sprintf("_bucket{kind=%q,le=%q}", r.Kind, number(bound)), within)
	}
	m.add(duration, fmt.Sprintf("_bucket{kind=%q,le=\"+Inf\"}", r.Kind), 1)
	m.add(duration, "_sum"+kind, r.Took.Seconds())
	m.add(duration, "_count"+kind, 1)
	if r.Stale {
		m.add(stale, "", 1)
	}
}

// Fetched counts an archive that was fetched, or could not be.
func (m *Metrics) Fetched(err error) {
	result := stored
	if err != nil {
		result = failed
	}
	if server.NoSpace(err) {
		result = noSpace
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(fetched, result, 1)
}

// measure sets what isn't counted. The caller holds the lock.
func (m *Metrics) measure() {
	set := func(name string, to float64) { m.all[name] = &metric{[]string{""}, map[string]float64{"": to}} }
	if m.server != nil {
		set("larder_archives_arriving", float64(m.server.Arriving()))
		set("larder_upstream_answers", float64(m.server.Remembered()))
		if free, ok := m.server.Free(); ok {
			set("larder_mirror_free_bytes", float64(free))
		}
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	set("go_goroutines", float64(runtime.NumGoroutine()))
	set("go_memstats_heap_alloc_bytes", float64(memory.HeapAlloc))
	set("go_memstats_sys_bytes", float64(memory.Sys))
}

// ServeHTTP implements [http.Handler].
func (m *Metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	text := m.text()
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // the client may be gone
}

func (m *Metrics) text() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.measure()
	var b bytes.Buffer
	for _, kind := range kinds {
		name, values := kind[0], m.all[kind[0]]
		if values == nil {
			continue
		}
		fmt.Fprintf(&b, "# TYPE %s %s\n", name, kind[1])
		for _, labels := range values.order {
			fmt.Fprintf(&b, "%s%s %s\n", name, labels, number(values.values[labels]))
		}
	}
	return b.Bytes()
}

// number returns a number without an exponent.
func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
