package line

import (
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

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
