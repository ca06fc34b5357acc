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

// A compared is a row of the table that writeComparisons writes.
type compared struct {
	name   string
	larder float64    // seconds
	times  [2]float64 // how many times as long terraform and tofu take; 0 if not measured
}

var comparedRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([0-9.]+) s \| (?:× ([0-9.]+))? ?\| (?:× ([0-9.]+))? ?\| \d+ MB \|$`)

// readCompared reads the table in a document.
func readCompared(document string) ([]compared, error) {
	text, err := os.ReadFile(document)
	if err != nil {
		return nil, err
	}
	var rows []compared
	for _, m := range comparedRow.FindAllStringSubmatch(string(text), -1) {
		row := compared{name: m[1]}
		row.larder, _ = strconv.ParseFloat(m[2], 64)
		row.times[0], _ = strconv.ParseFloat(m[3], 64)
		row.times[1], _ = strconv.ParseFloat(m[4], 64)
		rows = append(rows, row)
	}
	return rows, nil
}

// drawCompared draws the chart beside a document from the table in it, so that the two
// agree.
func drawCompared(document string) error {
	rows, err := readCompared(document)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(filepath.Dir(document), "compared.svg"), []byte(comparedChart(rows)), 0o644)
}

// The measures of the chart, in pixels.
const (
	comparedWidth = 760
	labels, ends  = 240, 130 // what names and seconds take beside the bars
	barHeight     = 12
	groupHeight   = 3*barHeight + 14
	headHeight    = 36
)

// comparedChart is an SVG with three bars for each work: the times of all programs,
// relative to larder's. Its colours follow the reader's preference for light or dark.
func comparedChart(rows []compared) string {
	longest := 1.0
	for _, row := range rows {
		longest = max(longest, row.times[0], row.times[1])
	}
	height := headHeight + groupHeight*len(rows) + 6
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12" role="img">
<title>Time relative to larder; shorter is better</title>
<style>
.page { fill: #ffffff } text { fill: #1f2328 } .dim { fill: #59636e }
.larder { fill: #1a7f37 } .terraform { fill: #8250df } .tofu { fill: #bf8700 }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117 } text { fill: #e6edf3 } .dim { fill: #9198a1 }
.larder { fill: #3fb950 } .terraform { fill: #ab7df8 } .tofu { fill: #d29922 }
}
</style>
<rect class="page" width="100%%" height="100%%" rx="6"/>
`, comparedWidth, height, comparedWidth, height)
	programs := []string{"larder", "terraform", "tofu"}
	for i, program := range programs {
		x := labels + 110*i
		fmt.Fprintf(&svg, `<rect class="%s" x="%d" y="12" width="12" height="12"/><text x="%d" y="22">%s</text>`+"\n", program, x, x+18, program)
	}
	for i, row := range rows {
		y := headHeight + groupHeight*i
		fmt.Fprintf(&svg, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labels-12, y+groupHeight/2-2, row.name)
		for j, times := range []float64{1, row.times[0], row.times[1]} {
			if times == 0 {
				continue
			}
			width := math.Max(1, (comparedWidth-labels-ends)*times/longest)
			at := y + barHeight*j
			label := seconds(row.larder * times)
			if j > 0 {
				label += fmt.Sprintf(", × %.1f", times)
			}
			fmt.Fprintf(&svg, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/><text class="dim" x="%.1f" y="%d" font-size="11">%s</text>`+"\n",
				programs[j], labels, at, width, barHeight-2, labels+width+6, at+barHeight-3, label)
		}
	}
	svg.WriteString("</svg>\n")
	return svg.String()
}

// seconds is a time with two digits that matter.
func seconds(s float64) string {
	if s >= 10 {
		return fmt.Sprintf("%.0f s", s)
	}
	if s >= 1 {
		return fmt.Sprintf("%.1f s", s)
	}
	return fmt.Sprintf("%.2f s", s)
}
