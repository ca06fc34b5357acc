package ui

import (
	"fmt"
	"slices"
	"strings"
	"time"
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

// N returns a number of things.
func N(n int, what string) Number { return Number{n, what} }

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

// Some is [List] with "and" of the first n of many texts, and the number of the others.
func Some(texts []string, n int) string {
	if more := len(texts) - n; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:n], ", "), more)
	}
	return List("and", texts)
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

// Indented returns rows as indented lines with aligned columns. Each row may have a heading. It is shown once, above
// the rows that have it and below an empty line, unless all have the same.
func Indented(rows [][]string, headings ...string) string {
	var b strings.Builder
	last := ""
	for i, line := range Columns(rows) {
		if headings != nil && headings[i] != last && headings[0] != headings[len(rows)-1] {
			if last != "" {
				b.WriteString("\n")
			}
			last = headings[i]
			b.WriteString(last + ":\n")
		}
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}

// Together joins the texts that are not empty.
func Together(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), ", ")
}
