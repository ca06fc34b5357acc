package line

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// units are the units of sizes, by suffix.
var units = map[string]float64{
	"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
	"KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30, "TI": 1 << 40,
}

// ParseSize parses a size such as 20G, 1.5GB or 512MiB. It refuses a number without a unit:
// few people mean bytes.
func ParseSize(s string) (int64, error) {
	if _, err := strconv.ParseUint(s, 10, 63); err == nil && strings.Trim(s, "0") != "" {
		return 0, sources.WithHint(errors.New("not a size"), "did you mean %sG? For bytes, write %sB", s, s)
	}
	upper := strings.TrimSuffix(strings.ToUpper(s), "B")
	number := strings.TrimRight(upper, "KMGTI")
	unit, ok := units[upper[len(number):]]
	value, err := strconv.ParseFloat(number, 64)
	if size := value * unit; ok && err == nil && size >= 1 && size < math.MaxInt64 {
		return int64(size), nil
	}
	return 0, sources.WithHint(errors.New("not a size"), "write a number greater than 0 and a unit, as in 500M or 20G")
}

// ParseAge parses an age such as 30d, 2w or 12h.
func ParseAge(s string) (time.Duration, error) {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		number, ok := strings.CutSuffix(s, unit)
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(number, 10, 16); err == nil && n > 0 {
			return time.Duration(n) * length, nil
		}
	}
	if age, err := time.ParseDuration(s); err == nil && age > 0 {
		return age, nil
	}
	err := errors.New("not an age")
	if meant := likelyAge(s); meant != "" {
		return 0, sources.WithHint(err, "did you mean %q?", meant)
	}
	return 0, sources.WithHint(err, "write a number greater than 0 and a unit, as in 12h, 30d or 2w")
}

// likelyAge returns the most likely age for a number with an unknown unit or none, or "" if s
// is not a number with a unit. Months have 30 days.
func likelyAge(s string) string {
	rest := strings.TrimLeft(s, "0123456789")
	n, err := strconv.ParseUint(strings.TrimSuffix(s, rest), 10, 16)
	if err != nil || n == 0 {
		return ""
	}
	switch strings.TrimSuffix(strings.Trim(strings.ToLower(rest), " -"), "s") {
	case "", "d", "day":
		return fmt.Sprintf("%dd", n)
	case "w", "week", "wk":
		return fmt.Sprintf("%dw", n)
	case "mo", "mon", "month":
		return fmt.Sprintf("%dd", 30*n)
	case "y", "yr", "year":
		return fmt.Sprintf("%dd", 365*n)
	case "h", "hr", "hour":
		return fmt.Sprintf("%dh", n)
	}
	return ""
}
