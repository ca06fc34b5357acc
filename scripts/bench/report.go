//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// The targets.
const (
	mostMemory = 100 << 10        // in kB
	listTime   = time.Second      // cache list of 10,000 packages
	mostSlope  = 1.25             // how much the cost of each package or root module may increase when there are ten times as many
	noise      = time.Second / 10 // shorter times are too imprecise for a ratio
)

// table returns a Markdown table with a row for each command and a column for
// each amount.
func table(all []growth) string {
	var text strings.Builder
	for _, of := range []string{"packages", "root modules"} {
		group := slices.DeleteFunc(slices.Clone(all), func(g growth) bool { return g.Of != of })
		if len(group) == 0 {
			continue
		}
		fmt.Fprintf(&text, "| %s |", of)
		for _, s := range group[0].Samples {
			fmt.Fprintf(&text, " %s |", thousands(s.N))
		}
		fmt.Fprintf(&text, " growth |\n| --- |%s\n", strings.Repeat(" ---: |", len(group[0].Samples)+1))
		for _, g := range group {
			fmt.Fprintf(&text, "| `%s` |", g.Command)
			for _, s := range g.Samples {
				fmt.Fprintf(&text, " %.2f s (%.2f s) %d MB |", s.time.Seconds(), s.cpu.Seconds(), s.peak/1024)
			}
			growth := ""
			if f := slopeOf(g); f > 0 {
				growth = fmt.Sprintf("× %.2f", f)
			}
			fmt.Fprintf(&text, " %s |\n", growth)
		}
		text.WriteString("\n")
	}
	return text.String()
}

// thousands returns n with commas.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// slopeOf returns the ratio of the CPU time for each package or root module
// between the largest and the second largest amount, or 0 if the times are too
// short.
func slopeOf(g growth) float64 {
	if len(g.Samples) < 2 {
		return 0
	}
	a, b := g.Samples[len(g.Samples)-2], g.Samples[len(g.Samples)-1]
	if a.cpu < noise {
		return 0
	}
	return b.cpu.Seconds() / float64(b.N) / (a.cpu.Seconds() / float64(a.N))
}

// problems returns the targets that were missed.
func problems(all []growth) []string {
	var missed []string
	for _, g := range all {
		if f := slopeOf(g); f > mostSlope {
			a, b := g.Samples[len(g.Samples)-2], g.Samples[len(g.Samples)-1]
			missed = append(missed, fmt.Sprintf("%s: the cost for each of the %s grows %.2f × from %s to %s", g.Command, g.Of, f, thousands(a.N), thousands(b.N)))
		}
		for _, s := range g.Samples {
			if s.peak > mostMemory {
				missed = append(missed, fmt.Sprintf("%s: %d MB with %s %s", g.Command, s.peak/1024, thousands(s.N), g.Of))
			}
			if g.Command == "cache list" && s.time > listTime {
				missed = append(missed, fmt.Sprintf("%s: %.2f s with %s %s", g.Command, s.time.Seconds(), thousands(s.N), g.Of))
			}
		}
	}
	return missed
}

// writeScale replaces the part of the document that the scale command
// generates, and the chart next to the document.
func writeScale(document string, load float64, all []growth) error {
	text := table(all)
	if missed := problems(all); len(missed) > 0 {
		text += "Missed targets:\n\n- " + strings.Join(missed, "\n- ") + "\n\n"
	}
	picture := strings.TrimSuffix(document, filepath.Ext(document)) + ".svg"
	alt := "CPU time by number of packages and root modules"
	return errors.Join(os.WriteFile(picture, []byte(chart(all)), 0o644), replacePart(document, " scale", load, alt, picture, text))
}

// writeComparisons replaces the part of the document that the comparison
// generates, and its chart.
func writeComparisons(document string, load float64, all []comparison) error {
	text := "| work | larder | terraform | tofu | larder's peak |\n| --- | ---: | ---: | ---: | ---: |\n"
	for _, c := range all {
		text += fmt.Sprintf("| %s | %s | %s | %s | %d MB |\n",
			c.name, seconds(c.larder.time.Seconds()), times(c.terraform, c.larder), times(c.tofu, c.larder), c.larder.peak/1024)
	}
	err := replacePart(document, "", load, comparedTitle, "compared.svg", text+"\n")
	if err != nil {
		return err
	}
	return drawCompared(document)
}

// times returns how many times as long s took as as.
func times(s, as sample) string {
	if s.time == 0 {
		return ""
	}
	return "× " + factor(s.time.Seconds()/as.time.Seconds())
}

// factor returns a factor with the digits that matter.
func factor(f float64) string {
	switch {
	case f < 0.95:
		return fmt.Sprintf("%.2f", f)
	case f < 9.95:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}

// replacePart replaces the part of a document that the command generates: where it measured, the
// load average before, a chart and the text.
func replacePart(document, arguments string, load float64, alt, picture, text string) error {
	return replaceText(document, arguments, load, fmt.Sprintf("![%s](%s)\n\n%s", alt, filepath.Base(picture), text))
}

// replaceText is replacePart without a chart.
func replaceText(document, arguments string, load float64, text string) error {
	old, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	begin := "<!-- begin: go run ./scripts/bench" + arguments + " -->\n"
	end := strings.Replace(begin, "begin", "end", 1)
	before, rest, found := bytes.Cut(old, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		return fmt.Errorf("%s has no lines %q and %q", document, begin, end)
	}
	head := fmt.Sprintf("\nMeasured on %s: %s, load average %.2f before.\n\n", time.Now().UTC().Format(time.DateOnly), machine(), load)
	return os.WriteFile(document, slices.Concat(before, []byte(begin+head+text+end), after), 0o644)
}

// machine returns a description of this machine.
func machine() string {
	name := runtime.GOARCH
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(data), "model name"); ok {
			line, _, _ := strings.Cut(rest, "\n")
			name = strings.TrimLeft(line, "\t: ")
		}
	}
	system, _ := exec.Command("uname", "-sr").Output() // all systems with this program have it
	return fmt.Sprintf("%d × %s, %s, %s", runtime.NumCPU(), name, bytes.TrimSpace(system), runtime.Version())
}

// The chart's dimensions, in pixels.
const (
	chartWidth, chartHeight = 760, 400
	left, right             = 60, 210
	top, bottom             = 20, 40
)

// chart returns an SVG of the commands' CPU times. Both axes are logarithmic,
// so linear growth is parallel to the gray lines.
func chart(all []growth) string {
	const fastest, slowest, fewest = 0.01, 100, 10 // in seconds; an amount
	x := func(n float64) float64 {
		return left + (chartWidth-left-right)*math.Log10(n/fewest)/math.Log10(mostPackages/fewest)
	}
	y := func(s float64) float64 {
		s = min(max(s, fastest), slowest)
		return chartHeight - bottom - (chartHeight-top-bottom)*math.Log10(s/fastest)/math.Log10(slowest/fastest)
	}
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", chartWidth, chartHeight)
	svg.WriteString("<title>CPU time by number of packages and root modules</title>\n")
	svg.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for s := float64(fastest); s <= slowest; s *= 10 {
		fmt.Fprintf(&svg, `<line x1="%d" y1="%.0f" x2="%d" y2="%.0f" stroke="#ddd"/><text x="%d" y="%.0f" text-anchor="end">%g s</text>`+"\n",
			left, y(s), chartWidth-right, y(s), left-6, y(s)+4, s)
	}
	for n := fewest; n <= mostPackages; n *= 10 {
		fmt.Fprintf(&svg, `<text x="%.0f" y="%d" text-anchor="middle">%s</text>`+"\n", x(float64(n)), chartHeight-bottom+18, thousands(n))
	}
	for s := 0.001; s < slowest; s *= 10 { // linear growth
		fmt.Fprintf(&svg, `<line x1="%.0f" y1="%.1f" x2="%.0f" y2="%.1f" stroke="#eee" stroke-dasharray="4"/>`+"\n",
			x(fewest*max(1, fastest/s)), y(max(s, fastest)), x(min(mostPackages, slowest/s*fewest)), y(min(slowest, s*mostPackages/fewest)))
	}
	shown := slices.DeleteFunc(slices.Clone(all), func(g growth) bool { return strings.HasSuffix(g.Command, "all new") })
	for i, g := range shown {
		hue := 360 * i / len(shown)
		var points []string
		for _, s := range g.Samples {
			points = append(points, fmt.Sprintf("%.0f,%.1f", x(float64(s.N)), y(s.cpu.Seconds())))
		}
		dash := ""
		if g.Of != "packages" {
			dash = ` stroke-dasharray="6 3"`
		}
		fmt.Fprintf(&svg, `<polyline points="%s" fill="none" stroke-width="2" stroke="hsl(%d 65%% 45%%)"%s/>`+"\n", strings.Join(points, " "), hue, dash)
		at := top + 10 + 20*i
		fmt.Fprintf(&svg, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke-width="2" stroke="hsl(%d 65%% 45%%)"%s/><text x="%d" y="%d">%s</text>`+"\n",
			chartWidth-right+15, at, chartWidth-right+40, at, hue, dash, chartWidth-right+46, at+4, g.Command)
	}
	svg.WriteString("</svg>\n")
	return svg.String()
}
