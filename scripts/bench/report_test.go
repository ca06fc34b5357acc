//go:build unix

package main

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

var grownBy10 = []growth{
	{"cache list", "packages", []grown{
		{1_000, sample{time: time.Second / 5, cpu: time.Second / 4, peak: 30 << 10}},
		{10_000, sample{time: 2 * time.Second, cpu: 5 * time.Second, peak: 200 << 10}},
	}},
	{"lock -R", "root modules", []grown{{10, sample{time: time.Second, cpu: time.Second / 100, peak: 20 << 10}}}},
}

func TestTableAndProblems(t *testing.T) {
	want := `| packages | 1,000 | 10,000 | growth |
| --- | ---: | ---: | ---: |
| ` + "`cache list`" + ` | 0.20 s (0.25 s) 30 MB | 2.00 s (5.00 s) 200 MB | × 2.00 |

| root modules | 10 | growth |
| --- | ---: | ---: |
| ` + "`lock -R`" + ` | 1.00 s (0.01 s) 20 MB |  |

`
	got, problems, _ := strings.Cut(growths(grownBy10), "Missed targets:\n")
	sourcetest.Equal(t, got, want)
	sourcetest.Equal(t, strings.Count(problems, "\n- "), 3, "growth, memory and time are problems, not", problems)
}

func TestGeneratedPartIsReplaced(t *testing.T) {
	document := filepath.Join(t.TempDir(), "page.md")
	begin, end := "<!-- begin: go run ./scripts/bench scale -->\n", "<!-- end: go run ./scripts/bench scale -->\n"
	sourcetest.Check(t, os.WriteFile(document, []byte("before\n"+begin+"old\n"+end+"after\n"), 0o644))
	sourcetest.Check(t, replacePart(document, "scale", 0.5, "new\n"))
	s := string(sourcetest.ReadFile(t, document))
	sourcetest.Expect(t, strings.HasPrefix(s, "before\n"+begin) && strings.HasSuffix(s, end+"after\n"), "%s", s)
	sourcetest.Expect(t, !strings.Contains(s, "old"), "%s", s)
}

// A document has only results of an idle machine and of the sizes that its rows state.
func TestUnfitResultsAreNotWritten(t *testing.T) {
	sourcetest.Check(t, unfit(1, false))
	for want, err := range map[string]error{"sizes": unfit(0.3, true), "the load average is 1.01": unfit(1.01, false)} {
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), want), "got %v, want %q", err, want)
	}
}

func TestLabelsStateMeasuredSizes(t *testing.T) {
	sourcetest.Equal(t, work{name: "cold", providers: 10, size: 90 * megabyte / 20}.label(), "cold, 10 of 4.5 MB")
	seen := map[string]bool{}
	for _, w := range append(works, others...) {
		sourcetest.Expect(t, !seen[w.label()], "two works are called %s", w.label())
		seen[w.label()] = true
	}
}

// A ratio is that of runs in the same round, and an engine may have fewer of them.
func TestRatiosOfRounds(t *testing.T) {
	runs := func(seconds ...int64) (all []sample) {
		for _, s := range seconds {
			all = append(all, sample{time: time.Duration(s * 1e9), requests: s})
		}
		return all
	}
	c := comparison{work: work{name: "mirror sync", because: ", because"}}
	c.samples = [3][]sample{runs(100), runs(2, 4, 1), runs(2, 10, 5)}
	sourcetest.Equal(t, c.cell(0), "× 50, rounds: 1")
	sourcetest.Equal(t, c.cell(1), "× 0.40 (0.50)")
	text := comparisons([]comparison{c})
	for _, want := range []string{"| 5.0 s | × 50, rounds: 1 | × 0.40 (0.50) |", "| 5 / 100 / 2 |", "0.40 of Larder's time, because."} {
		sourcetest.Expect(t, strings.Contains(text, want), "no %s in %s", want, text)
	}
	document := filepath.Join(t.TempDir(), "page.md")
	sourcetest.Check(t, os.WriteFile(document, []byte(text), 0o644))
	rows := sourcetest.Must(readCompared(document))(t)
	sourcetest.EqualSlices(t, rows, []compared{{c.label(), 5, [2]float64{50, 0.4}}})
}

// The bars of the chart begin at × 1.
func TestChartShowsFactors(t *testing.T) {
	chart := comparedChart([]compared{{"install", 2.6, [2]float64{4.7, 0.5}}, {"nothing to do", 0.018, [2]float64{95, 0}}})
	for _, want := range []string{">× 1<", ">× 50<", ">× 4.7, 12 s<", ">× 0.50, 1.3 s<", ">× 95, 1.7 s<", ">0.018 s<"} {
		sourcetest.Expect(t, strings.Contains(chart, want), "the chart has no %s", want)
	}
}

// docs/performance.md has the format that the programs write, with all commands
// and amounts.
func TestPerformancePageIsGenerated(t *testing.T) {
	const page = "../../docs/performance.md"
	text := sourcetest.ReadFile(t, page)
	for _, form := range []string{
		`(?s)begin: go run \./scripts/bench scale -->\n\nMeasured on \d{4}-\d\d-\d\d: .*begin: go run \./scripts/bench -->\n\nMeasured on \d{4}`,
		`\| packages \| 10 \| 100 \| 1,000 \| 10,000 \| growth \|`,
		`\| root modules \| 10 \| 100 \| 1,000 \| 3,000 \| growth \|`,
	} {
		sourcetest.Expect(t, regexp.MustCompile(form).Match(text),
			"%s has nothing of the form %s: run scripts/bench with -document", page, form)
	}
	for _, command := range []string{
		"cache list", "cache stats", "cache verify", "cache prune --dry-run", "mirror index", "mirror sync, nothing new",
		"install -R", "lock -R", "prefetch -R",
	} {
		sourcetest.Expect(t, strings.Contains(string(text), "\n| `"+command+"` |"), "%s has no row for %s", page, command)
	}

	rows := sourcetest.Must(readCompared(page))(t)
	sourcetest.Expect(t, len(rows) > 0, "%s has no table of times", page)
	chart := sourcetest.ReadFile(t, "../../docs/compared.svg")
	sourcetest.Expect(t, string(chart) == comparedChart(rows), "docs/compared.svg does not show the table in %s: go run ./scripts/bench chart", page)
	checkChart(t, "../../docs/compared.svg")
}

func checkChart(t *testing.T, file string) {
	t.Helper()
	svg, err := os.Open(file)
	sourcetest.Check(t, err)
	defer svg.Close()
	for d := xml.NewDecoder(svg); err == nil; {
		_, err = d.Token()
	}
	sourcetest.Equal(t, err, io.EOF, file)
}
