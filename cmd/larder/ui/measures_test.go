package ui

import (
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestHumanSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 9949: "9.9 kB", 9950: "10 kB", 999_499: "999 kB", 999_500: "1.0 MB",
		20_000_000_000: "20.0 GB", 1 << 62: "4612 PB",
	} {
		sourcetest.Equal(t, Size(n), want, n)
	}
}

func TestSince(t *testing.T) {
	now := time.Now()
	for age, want := range map[time.Duration]string{
		0: "just now", -time.Hour: "just now", time.Hour: "1 hour ago", 25 * time.Hour: "1 day ago", 720 * time.Hour: "30 days ago",
	} {
		sourcetest.Equal(t, Since(now.Add(-age), now), want, age, "ago is")
	}
	sourcetest.Equal(t, Since(time.Time{}, now), "never", "no time is")
}

func TestLeft(t *testing.T) {
	for _, test := range []struct {
		bytes, rate int64
		want        time.Duration
	}{{0, 5, 0}, {5, 0, 0}, {-5, 5, 0}, {1, 5, time.Second}, {1000, 10, 100 * time.Second}, {1 << 62, 1, 0}, {1 << 62, 1 << 61, 2 * time.Second}} {
		sourcetest.Equal(t, Left(test.bytes, test.rate), test.want, test.bytes, "bytes at", test.rate)
	}
}
