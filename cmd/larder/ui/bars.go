package ui

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// A Bar is a line of the progress display before it is cut to fit the terminal.
type Bar struct {
	Name, Text string
	Done, Size int64 // the progress that the bar shows; no bar if the size is 0
}

// barWidth is the number of columns of a bar.
const barWidth = 20

// Bars returns the lines of a display for a number of columns. They are never wider.
func Bars(rows []Bar, width int, colors bool) []string {
	longest := 0
	for _, r := range rows {
		longest = max(longest, utf8.RuneCountInString(r.Name))
	}
	lines := make([]string, len(rows))
	for i, r := range rows {
		line := Line{Bold.Of(r.Name), {Text: strings.Repeat(" ", longest-utf8.RuneCountInString(r.Name)) + gap}}
		if r.Size > 0 {
			full := int(barWidth * min(r.Done, r.Size) / r.Size)
			line = append(line, Added.Of(strings.Repeat("━", full)), Faint.Of(strings.Repeat("─", barWidth-full)),
				Span{Text: fmt.Sprintf("  %4s  ", Percent(r.Done, r.Size))})
		}
		// Some terminals wrap after a letter in the last column.
		lines[i] = append(line, Span{Text: r.Text}).trimmed().cut(width - 1).Render(colors)
	}
	return lines
}

// cut returns the beginning of a line that fits a number of columns, if each letter takes one
// column. The display disables wrapping in case letters are wider.
func (l Line) cut(columns int) (short Line) {
	left := max(0, columns)
	for _, s := range l {
		letters := []rune(s.Text)
		letters = letters[:min(left, len(letters))]
		short, left = append(short, s.Paint.Of(string(letters))), left-len(letters)
	}
	return short
}

// Percent returns a percentage, or "" if the size is unknown.
func Percent(done, size int64) string {
	if size <= 0 {
		return ""
	}
	return fmt.Sprintf("%d%%", int(float64(min(done, size))/float64(size)*100))
}

// Arrived describes how much of a size has arrived, with a common unit only once: 84/145 MB. The size is 0 if it is
// unknown.
func Arrived(done, size int64) string {
	if size == 0 {
		return Size(done)
	}
	a, b := Size(done), Size(size)
	number, unit, _ := strings.Cut(a, " ")
	if strings.HasSuffix(b, " "+unit) {
		a = number
	}
	return a + "/" + b
}

// Left returns the time for bytes at a rate in bytes per second, or 0 if it is unknown.
func Left(bytes, rate int64) time.Duration {
	const most = 100 * 60 * 60 // seconds; a longer time is not worth showing
	if bytes <= 0 || rate <= 0 || bytes/rate >= most {
		return 0
	}
	return time.Duration(max(1, bytes/rate)) * time.Second
}
