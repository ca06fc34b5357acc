//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// The targets.
const (
	mostMemory = 100 << 10        // in kB
	listTime   = time.Second      // cache list of 10,000 packages
	mostSlope  = 1.25             // the rise of the cost of each package or root module if there are ten times as many
	noise      = time.Second / 10 // shorter times are too imprecise for a ratio
)

// A row is a measurement of larder, and of what it is compared with.
type row struct {
	name, unit string
	larder     float64
	than       string  // the program that does the same; empty if there is none
	other      float64 // what it takes
	wanted     string
	missed     bool
}

// markdown returns a Markdown table with a heading. Each letter of align is for a column: l or r.
func markdown(align string, rows ...[]string) string {
	rule := strings.NewReplacer("l", "| --- ", "r", "| ---: ").Replace(align) + "|\n"
	text := ""
	for i, row := range rows {
		text += "| " + strings.Join(row, " | ") + " |\n"
		if i == 0 {
			text += rule
		}
	}
	return text + "\n"
}

// table returns measurements as a Markdown table.
func table(rows []row) string {
	cells := [][]string{{"what", "larder", "compared with", "larder's / theirs", "wanted"}}
	for _, r := range rows {
		than, ratio := "", ""
		if r.than != "" {
			than, ratio = r.than+": "+number(r.other, r.unit), fmt.Sprintf("× %.2f", r.larder/r.other)
		}
		if r.missed {
			r.wanted += " (missed)"
		}
		cells = append(cells, []string{r.name, number(r.larder, r.unit), than, ratio, r.wanted})
	}
	return markdown("lrlrl", cells...)
}

// number formats a measured value.
func number(f float64, unit string) string {
	switch {
	case unit == "s":
		return seconds(f)
	case unit == "":
		return thousands(int(f))
	}
	return thousands(int(f+0.5)) + " " + unit
}

// growths returns a Markdown table with a row for each command and a column for
// each amount, and the targets that were missed.
func growths(all []growth) string {
	text := ""
	for _, of := range []string{"packages", "root modules"} {
		rows := [][]string{{of}}
		for _, g := range all {
			if g.Of != of {
				continue
			}
			row := []string{"`" + g.Command + "`"}
			for _, s := range g.Samples {
				if len(rows) == 1 {
					rows[0] = append(rows[0], thousands(s.N))
				}
				row = append(row, fmt.Sprintf("%.2f s (%.2f s) %d MB", s.time.Seconds(), s.cpu.Seconds(), s.peak/1024))
			}
			growth := ""
			if f := slopeOf(g); f > 0 {
				growth = fmt.Sprintf("× %.2f", f)
			}
			rows = append(rows, append(row, growth))
		}
		rows[0] = append(rows[0], "growth")
		text += markdown("l"+strings.Repeat("r", len(rows[0])-1), rows...)
	}
	if missed := problems(all); len(missed) > 0 {
		text += "Missed targets:\n\n- " + strings.Join(missed, "\n- ") + "\n\n"
	}
	return text
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
func problems(all []growth) (missed []string) {
	for _, g := range all {
		if f := slopeOf(g); f > mostSlope {
			a, b := g.Samples[len(g.Samples)-2], g.Samples[len(g.Samples)-1]
			missed = append(missed, fmt.Sprintf("%s: the cost for each of the %s grows %.2f × from %s to %s",
				g.Command, g.Of, f, thousands(a.N), thousands(b.N)))
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

// replacePart replaces the part of a document that a form of the command generates: where it measured, the load average
// before, and the text. The comparison with the engines has a chart.
func replacePart(document, form string, load float64, text string) error {
	old, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	begin := "<!-- begin: " + strings.TrimSpace("go run ./scripts/bench "+form) + " -->\n"
	end := strings.Replace(begin, "begin", "end", 1)
	before, rest, found := bytes.Cut(old, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		return fmt.Errorf("%s has no lines %q and %q", document, begin, end)
	}
	head := fmt.Sprintf("\nMeasured on %s: %s, load average %.2f before.\n\n",
		time.Now().UTC().Format(time.DateOnly), machine(), load)
	if form == "" {
		head += "![" + comparedTitle + "](compared.svg)\n\n"
	}
	err = os.WriteFile(document, slices.Concat(before, []byte(begin+head+text+end), after), 0o644)
	if err == nil && form == "" {
		err = drawCompared(document)
	}
	return err
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
