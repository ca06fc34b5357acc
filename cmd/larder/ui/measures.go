package ui

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// Size formats a number of bytes in powers of 1000: 29 MB, 1.9 GB. It has a decimal where
// rounding would change it by more than a few percent.
func Size(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), 0
	for value >= 999.5 && unit < 5 {
		value, unit = value/1000, unit+1
	}
	digits := 0
	if value < 9.95 || unit > 2 && value < 99.95 { // one decimal for tens of gigabytes
		digits = 1
	}
	return fmt.Sprintf("%.*f %cB", digits, value, " kMGTP"[unit])
}

// Took formats a duration: 12ms, 4.1s, 2m5s.
func Took(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// Fetched formats a downloaded size with its duration and rate: "177 MB fetched in 4.1s
// (43 MB/s)".
func Fetched(bytes int64, d time.Duration) string {
	text := Size(bytes) + " fetched in " + Took(d)
	if d >= time.Millisecond {
		text += " (" + Size(int64(float64(bytes)/d.Seconds())) + "/s)"
	}
	return text
}

// units are the units of sizes, by suffix.
var units = map[string]float64{
	"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
	"KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30, "TI": 1 << 40,
}

// ParseSize parses a size such as 20G, 1.5GB or 512MiB. A number without a unit is an error:
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

// Since formats how long ago a time was.
func Since(then, now time.Time) string {
	age := now.Sub(then)
	switch days := int(age.Hours() / 24); {
	case then.IsZero():
		return "never"
	case days > 0:
		return Count(days, "day") + " ago"
	case age >= time.Hour:
		return Count(int(age.Hours()), "hour") + " ago"
	}
	return "just now"
}

// Count formats a number of things.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// A Number is a number of things.
type Number struct {
	N    int
	What string
}

// Numbers describes the numbers that are not 0: "3 added", "1 failed".
func Numbers(all ...Number) []string {
	var texts []string
	for _, n := range all {
		if n.N > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n.N, n.What))
		}
	}
	return texts
}

// List joins words: "a, b or c" for the conjunction or.
func List[T ~string](conjunction string, words []T) string {
	var b strings.Builder
	for i, word := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" " + conjunction + " ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(word))
	}
	return b.String()
}

// Columns aligns the cells of rows. It does not pad the last cell of a row.
func Columns(rows [][]string) []string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		var b strings.Builder
		for j, cell := range row {
			fmt.Fprintf(&b, "%-*s  ", widths[j], cell)
		}
		lines[i] = strings.TrimRight(b.String(), " ")
	}
	return lines
}
