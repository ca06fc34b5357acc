//go:build unix

package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A compared is a row of the table that comparisons returns.
type compared struct {
	name   string
	larder float64    // seconds
	times  [2]float64 // how many times as long terraform and tofu take; 0 if not measured
}

var comparedRow = regexp.MustCompile(
	`(?m)^\| ([^|]+) \| ([0-9.]+) s \| (?:× ([0-9.]+)[^|]*)?\| ?(?:× ([0-9.]+)[^|]*)?\| \d+ MB \|$`)

// readCompared reads the table in a document.
func readCompared(document string) (rows []compared, err error) {
	text, err := os.ReadFile(document)
	for _, m := range comparedRow.FindAllStringSubmatch(string(text), -1) {
		row := compared{name: m[1]}
		for i, to := range []*float64{&row.larder, &row.times[0], &row.times[1]} {
			*to, _ = strconv.ParseFloat(m[i+2], 64) // 0 if the cell is empty
		}
		rows = append(rows, row)
	}
	return rows, err
}

// drawCompared draws the chart beside a document from the table in it, so that the chart
// and the table agree.
func drawCompared(document string) error {
	rows, err := readCompared(document)
	if err == nil {
		err = os.WriteFile(filepath.Join(filepath.Dir(document), "compared.svg"), []byte(comparedChart(rows)), 0o644)
	}
	return err
}

const comparedTitle = "Time of the engines compared with larder (× 1)"

// The dimensions of the chart, in pixels.
const (
	comparedWidth = 860
	names, axis   = 300, 380 // where the works' names end, and where the logarithmic axis begins
	ends          = 110      // for the labels to the right of the bars
	barHeight     = 11
	groupHeight   = 2*barHeight + 8
	headHeight    = 54
)

// The engines, in the order of the columns.
var engines = [2]string{"terraform", "tofu"}

// comparedStyle has the colors, which follow the reader's preference for light or dark.
const comparedStyle = `<style>
.page { fill: #ffffff } text { fill: #1f2328 } .dim { fill: #59636e } line { stroke: #d1d9e0 } ` +
	`.one { stroke: #1a7f37; stroke-width: 2 }
.terraform { fill: #8250df } .tofu { fill: #bf8700 }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117 } text { fill: #e6edf3 } .dim { fill: #9198a1 } line { stroke: #3d444d } .one { stroke: #3fb950 }
.terraform { fill: #ab7df8 } .tofu { fill: #d29922 }
}
</style>`

// comparedChart is an SVG with a bar for each engine and work: from × 1, which is the time of
// larder, to the time of the engine.
func comparedChart(rows []compared) string {
	least, most := 1.0, 10.0
	for _, row := range rows {
		for _, times := range row.times {
			if times > 0 {
				least, most = min(least, times), max(most, times)
			}
		}
	}
	at := func(times float64) float64 {
		return axis + (comparedWidth-ends-axis)*math.Log(times/least)/math.Log(most/least)
	}
	height := headHeight + groupHeight*len(rows) + 6
	var svg strings.Builder
	draw := func(format string, args ...any) { fmt.Fprintf(&svg, format+"\n", args...) }
	draw(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" `+
		`font-family="sans-serif" font-size="12" role="img">
<title>%[3]s</title>
%[4]s
<rect class="page" width="100%%" height="100%%" rx="6"/>
<text x="16" y="22">%[3]s</text>`, comparedWidth, height, comparedTitle, comparedStyle)
	for i, engine := range engines {
		x := axis + 20 + 110*i
		draw(`<rect class="%s" x="%d" y="12" width="12" height="12"/><text x="%d" y="22">%[1]s</text>`, engine, x, x+18)
	}
	draw(`<text class="dim" x="%d" y="%d" text-anchor="end" font-size="11">larder</text>`, axis-16, headHeight-12)
	for _, tick := range []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500} {
		if tick >= least && tick <= most {
			class := map[bool]string{true: ` class="one"`}[tick == 1]
			draw(`<line%s x1="%.1f" y1="%d" x2="%.1[2]f" y2="%[4]d"/>`+
				`<text class="dim" x="%.1[2]f" y="%[5]d" text-anchor="middle" font-size="11">× %[6]g</text>`,
				class, at(tick), headHeight-6, height-6, headHeight-12, tick)
		}
	}
	for i, row := range rows {
		y := headHeight + groupHeight*i
		middle := y + barHeight + 4
		draw(`<text x="%d" y="%d" text-anchor="end">%s</text>`+
			`<text class="dim" x="%d" y="%[2]d" text-anchor="end" font-size="11">%[5]s</text>`,
			names, middle, row.name, axis-16, seconds(row.larder))
		for j, times := range row.times {
			if times == 0 {
				continue
			}
			from, to, top := at(min(1, times)), at(max(1, times)), y+barHeight*j
			draw(`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/>`+
				`<text class="dim" x="%.1f" y="%d" font-size="11">× %s, %s</text>`,
				engines[j], from, top, max(1, to-from), barHeight-2,
				to+6, top+barHeight-2, factor(times), seconds(row.larder*times))
		}
	}
	draw("</svg>")
	return svg.String()
}

// seconds is a time with two digits that matter.
func seconds(s float64) string {
	digits := 3
	for limit := 0.1; s >= limit && digits > 0; limit *= 10 {
		digits--
	}
	return fmt.Sprintf("%.*f s", digits, s)
}
