package ui

import "time"

// rateWindow is how far back a rate looks.
const rateWindow = 5 * time.Second

// A meter measures how fast something comes.
type meter struct {
	since   time.Time // it runs; zero before it does
	samples []sample
}

// A sample is how many bytes came in a short time.
type sample struct {
	at    time.Time
	bytes int64
}

// start forgets everything and measures from now on.
func (m *meter) start(now time.Time) { *m = meter{since: now} }

// add counts bytes that came since the last time.
func (m *meter) add(now time.Time, bytes int64) {
	m.forget(now)
	if last := len(m.samples) - 1; last >= 0 && now.Sub(m.samples[last].at) < rateWindow/50 {
		m.samples[last].bytes += bytes
		return
	}
	m.samples = append(m.samples, sample{now, bytes})
}

// forget drops samples that are too old to count.
func (m *meter) forget(now time.Time) {
	for len(m.samples) > 0 && now.Sub(m.samples[0].at) >= rateWindow {
		m.samples = m.samples[1:]
	}
}

// rate is bytes a second, 0 if there are none or too little is known.
func (m *meter) rate(now time.Time) int64 {
	m.forget(now)
	span := min(rateWindow, now.Sub(m.since))
	if m.since.IsZero() || span < time.Second/2 {
		return 0
	}
	var sum int64
	for _, s := range m.samples {
		sum += s.bytes
	}
	return int64(float64(sum) / span.Seconds())
}

// left is how long bytes take at a rate of so many a second, 0 if that cannot be
// told.
func left(bytes, rate int64) time.Duration {
	const most = 100 * 60 * 60 // seconds; more than that is as good as never
	if bytes <= 0 || rate <= 0 || bytes/rate >= most {
		return 0
	}
	return time.Duration(max(1, bytes/rate)) * time.Second
}
