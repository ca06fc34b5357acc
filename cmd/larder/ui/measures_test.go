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

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"20G": 20e9, "1.5gb": 1.5e9, "512MiB": 512 << 20, "2Ti": 2 << 40, "7": 0, "7B": 7, "1k": 1000,
		"": 0, "0": 0, "-1G": 0, "G": 0, "1X": 0, "1GG": 0, "NaN": 0, "Inf": 0, "1e30": 0, "0.1": 0,
	} {
		got, err := ParseSize(text)
		sourcetest.Expect(t, got == want && (err == nil) == (want > 0), "%q is %d, %v; want %d", text, got, err, want)
	}
}

func TestParseAge(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 30 * 24 * time.Hour, "2w": 14 * 24 * time.Hour, "90m": 90 * time.Minute, "1h30m": 90 * time.Minute,
		"": 0, "d": 0, "0d": 0, "-1d": 0, "30": 0, "1.5d": 0, "99999999d": 0, "-2h": 0,
	} {
		got, err := ParseAge(text)
		sourcetest.Expect(t, got == want && (err == nil) == (want > 0), "%q is %s, %v; want %s", text, got, err, want)
	}
}

// A number with another unit, or none, gets the right form as a hint.
func TestLikelyAge(t *testing.T) {
	for text, want := range map[string]string{
		"30": "30d", "1month": "30d", "2 months": "60d", "1y": "365d", "3days": "3d", "2 Weeks": "2w", "12hours": "12h",
		"0": "", "month": "", "1.5d": "", "7 moons": "",
	} {
		sourcetest.Equal(t, likelyAge(text), want, text)
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
