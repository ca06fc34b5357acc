package ui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
)

const (
	soon       = 250 * time.Millisecond // what is over before needs no bars
	barWidth   = 16                     // without its brackets
	barsFrom   = 80                     // columns; with fewer there are only words
	summaryMax = 240                    // bytes, of a line where there is no terminal
)

// A row is a line of the display before it is fitted to the terminal.
type row struct {
	name, text string
	done, size int64 // of which the bar shows how much; no bar if the size is 0
}

// lines are what a terminal of that size shows: a line for each item, a total,
// none wider or more than there is room for.
func (b *board) lines(width, height int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if len(b.items) == 0 || now.Sub(b.begun) < soon {
		return nil
	}
	items, more := b.shown(max(0, height-2)) // one for the total, one for the cursor
	var rows []row
	for _, it := range items {
		rows = append(rows, row{it.name(), it.state(now), it.done, it.size})
	}
	if alone := len(items) == 1 && len(b.items) == 1 && items[0].id == (sources.PackageID{}); !alone {
		r := row{name: "total", text: b.total(now, more)}
		if done, size, known := b.bytes(); known {
			r.done, r.size = done, size
		}
		rows = append(rows, r)
	}
	return fit(rows, width-1) // in the last column some terminals begin a new line
}

// fit lays rows out below one another in so many columns.
func fit(rows []row, width int) []string {
	column := 0
	for _, r := range rows {
		column = max(column, len([]rune(r.name)))
	}
	if width < barsFrom {
		column = min(column, max(0, width-5))
	} else {
		column = min(column, width/2)
	}
	var lines []string
	for _, r := range rows {
		var line strings.Builder
		fmt.Fprintf(&line, "%4s %-*s ", percent(r.done, r.size), column, cut(r.name, column))
		switch {
		case width < barsFrom:
		case r.size > 0:
			line.WriteString("[" + bar(min(r.done, r.size), r.size) + "] ")
		default:
			line.WriteString(strings.Repeat(" ", barWidth+3))
		}
		line.WriteString(r.text)
		lines = append(lines, strings.TrimRight(cut(line.String(), width), " "))
	}
	return lines
}

// bar draws how much of a size is done.
func bar(done, size int64) string {
	cells := int(math.Round(barWidth * float64(done) / float64(size)))
	if cells == 0 {
		return strings.Repeat("-", barWidth)
	}
	return strings.Repeat("=", cells-1) + ">" + strings.Repeat("-", barWidth-cells)
}

// percent is empty where there is nothing to tell.
func percent(done, size int64) string {
	if size <= 0 {
		return ""
	}
	return fmt.Sprintf("%d%%", int(float64(min(done, size))/float64(size)*100))
}

// cut is as much of text as so many columns hold, if each letter takes one. The
// display sees to it that wider ones do no harm.
func cut(text string, columns int) string {
	letters := []rune(text)
	return string(letters[:min(len(letters), max(0, columns))])
}

// summary is one line that says it all, empty if nothing is under way.
func (b *board) summary() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	items, _ := b.shown(len(b.items))
	if len(b.items) == 0 {
		return ""
	}
	line := b.total(now, 0)
	for i, it := range items {
		if it.step == verifying {
			continue
		}
		about := it.name() + " "
		if it.size > 0 && it.step == acquire.Arriving && !now.Before(it.pause) {
			about += fmt.Sprintf("%d %%", it.done*100/it.size)
		} else {
			about += cut(it.state(now), 60)
		}
		if len(line)+len(about) > summaryMax {
			return line + fmt.Sprintf(", and %d more", len(items)-i)
		}
		line += map[bool]string{true: "; ", false: ", "}[i == 0] + about
	}
	return line
}
