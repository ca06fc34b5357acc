package ui

import (
	"slices"
	"strings"
	"time"
)

// An Amount is the received and the total size, in the cells of a line.
type Amount struct{ Bytes, Rate, Left string }

// AmountOf returns an amount, as far as it is known. The rate is in bytes per second.
func AmountOf(done, size int64, known bool, rate int64) (a Amount) {
	if a.Bytes = Size(done); known {
		a.Bytes = sizeOf(done, size)
	}
	if rate > 0 {
		a.Rate = Size(rate) + "/s"
	}
	if d := Left(size-done, rate); known && d > 0 {
		a.Left = d.String() + " left"
	}
	return a
}

// String returns the amount for use in a sentence.
func (a Amount) String() string {
	return Together(a.Bytes, a.Rate, a.Left)
}

// Together joins the texts that are not empty.
func Together(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), ", ")
}

// sizeOf formats done and size, with a common unit only once: 84/145 MB.
func sizeOf(done, size int64) string {
	a, b := Size(done), Size(size)
	number, unit, _ := strings.Cut(a, " ")
	if strings.HasSuffix(b, " "+unit) {
		a = number
	}
	return a + "/" + b
}

// rateWindow is the period for measuring a rate.
const rateWindow = 5 * time.Second

// A Meter measures a transfer rate.
type Meter struct {
	Since   time.Time // Start of the measurement; zero if stopped
	samples []sample
}

// A sample is the number of bytes in a short period.
type sample struct {
	at    time.Time
	bytes int64
}

// Start resets the meter and starts measuring.
func (m *Meter) Start(now time.Time) { *m = Meter{Since: now} }

// Add counts bytes received since the last call.
func (m *Meter) Add(now time.Time, bytes int64) {
	m.forget(now)
	if last := len(m.samples) - 1; last >= 0 && now.Sub(m.samples[last].at) < rateWindow/50 {
		m.samples[last].bytes += bytes
		return
	}
	m.samples = append(m.samples, sample{now, bytes})
}

// forget removes samples older than rateWindow.
func (m *Meter) forget(now time.Time) {
	for len(m.samples) > 0 && now.Sub(m.samples[0].at) >= rateWindow {
		m.samples = m.samples[1:]
	}
}

// Rate returns bytes per second, or 0 if there were none or it is too early.
func (m *Meter) Rate(now time.Time) int64 {
	m.forget(now)
	span := min(rateWindow, now.Sub(m.Since))
	if m.Since.IsZero() || span < time.Second/2 {
		return 0
	}
	var sum int64
	for _, s := range m.samples {
		sum += s.bytes
	}
	return int64(float64(sum) / span.Seconds())
}

// Left returns the time for bytes at a rate in bytes per second, or 0 if it is unknown.
func Left(bytes, rate int64) time.Duration {
	const most = 100 * 60 * 60 // seconds; a longer time is not worth showing
	if bytes <= 0 || rate <= 0 || bytes/rate >= most {
		return 0
	}
	return time.Duration(max(1, bytes/rate)) * time.Second
}
