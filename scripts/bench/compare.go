//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// enough is the time after which an engine takes no part in further rounds of a work.
const enough = 30 * time.Second

// A comparison is a work and its results: those of terraform, tofu and larder.
type comparison struct {
	work
	samples [3][]sample // of the first rounds; none if the program is missing
}

// programs compares larder with the engines.
func (b *bench) programs() string {
	only := sourcetest.Must(regexp.Compile(b.only))(b)
	began, text := time.Now(), fmt.Sprintf("Rounds: %d. All other numbers but the memory are medians.\n\n", b.rounds)
	tofu, _ := exec.LookPath("tofu")
	if b.strace, _ = exec.LookPath("strace"); b.strace == "" {
		text += "System calls were not counted, because strace is missing.\n\n"
	}
	if b.all {
		works = append(works, others...)
	}
	var all []comparison
	for _, w := range works {
		if b.short {
			w.size /= 20
		}
		if !only.MatchString(w.label()) {
			continue
		}
		s := &scene{bench: b, work: w, dirs: map[string]string{}}
		if err := s.publish(); err != nil {
			text += fmt.Sprintf("*%s* was left out: %v.\n\n", w.label(), err)
			continue
		}
		all = append(all, comparison{w, s.compare("terraform", tofu, b.larder)})
		times, counts := all[len(all)-1].rows()
		fmt.Println(strings.Join(append(times, counts[1:]...), " | "))
	}
	fmt.Printf("measured in %s\n", time.Since(began).Round(time.Second))
	return text + comparisons(all)
}

// compare does a work with all programs in each round, and another program begins each time. Before, it counts the
// system calls of each.
func (s *scene) compare(programs ...string) (samples [3][]sample) {
	var calls [3]int64
	var spent [3]time.Duration
	for i, program := range programs {
		if s.traced = s.strace != "" && program != ""; s.traced {
			calls[i] = s.measure(program).calls
		}
	}
	s.traced = false
	for round := range s.rounds {
		for i := range programs {
			i = (i + round) % len(programs)
			if programs[i] != "" && (spent[i] < enough || programs[i] == s.larder) {
				one := s.measure(programs[i])
				one.calls = calls[i]
				samples[i] = append(samples[i], one)
				spent[i] += one.time
			}
		}
	}
	return samples
}

// A scene is a work prepared for a program.
type scene struct {
	*bench
	work   work
	world  *sourcetest.World
	base   string            // for the mirror and the root modules
	method string            // installation method, for a CLI configuration
	dirs   map[string]string // by program: where it has done a warm work
}

// measure does the work with a program. The program first does a warm work once untimed, in one root module.
func (s *scene) measure(program string) sample {
	dir, prepared := s.dirs[program]
	if !prepared {
		dir = s.stage()
	}
	env := s.variables(dir, program)
	roots := sourcetest.Must(filepath.Glob(filepath.Join(dir, "roots", "*")))(s)
	if s.work.warm != nil && !prepared {
		s.dirs[program] = dir
		s.do(program, roots[:1], env)
		locked := sourcetest.ReadFile(s, filepath.Join(roots[0], lockFile))
		for _, root := range roots {
			sourcetest.Check(s, os.WriteFile(filepath.Join(root, lockFile), locked, 0o644))
		}
	}
	for _, root := range roots {
		for _, name := range s.work.warm {
			sourcetest.Check(s, os.RemoveAll(filepath.Join(root, name)))
		}
	}
	s.world.Registry.Forget()
	s.world.Mirror.Forget()
	before := s.inodesIn(dir)
	one := s.do(program, roots, env)
	one.inodes = s.inodesIn(dir) - before
	for _, r := range append(s.world.Registry.Requests(), s.world.Mirror.Requests()...) {
		one.requests++
		one.sent += r.Bytes
	}
	return one
}

// stage creates a directory with the root modules and a plugin cache.
func (s *scene) stage() string {
	scenes := filepath.Join(s.base, "scene")
	// Small files are kept until the end: for minutes after many were removed,
	// ext4 takes several times as long to create new ones.
	if len(s.dirs) == 0 && int64(s.work.providers)*s.work.size > 100*megabyte {
		sourcetest.Check(s, os.RemoveAll(scenes))
	}
	sourcetest.Check(s, os.MkdirAll(scenes, 0o755))
	dir := sourcetest.Must(os.MkdirTemp(scenes, "run-*"))(s)
	sourcetest.Check(s, os.Mkdir(filepath.Join(dir, "cache"), 0o755))
	for i := range max(s.work.roots, 1) {
		s.rootModule(filepath.Join(dir, "roots", fmt.Sprintf("root%03d", i)), s.providers()...)
	}
	return dir
}

// inodesIn returns the number of inodes in a directory.
func (s *scene) inodesIn(dir string) int64 {
	seen := map[uint64]bool{}
	sourcetest.Check(s, filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil {
			seen[sourcetest.Must(entry.Info())(s).Sys().(*syscall.Stat_t).Ino] = true
		}
		return err
	}))
	return int64(len(seen))
}

// do does the work in all root modules: larder in one process, unless the work requires one for each. Several
// processes run one after another, or all at once if the work requires it.
func (s *scene) do(program string, roots, env []string) (all sample) {
	if program == s.larder && !s.work.together {
		dir, args := roots[0], s.arguments(program, roots[0])
		if len(roots) > 1 {
			dir, args = filepath.Dir(dir), append(args, "--recursive")
		}
		return s.exec(dir, env, program, args...)
	}
	samples := make([]sample, len(roots))
	var g errgroup.Group
	if !s.work.together {
		g.SetLimit(1)
	}
	for i, root := range roots {
		g.Go(func() error {
			samples[i] = s.exec(root, env, program, s.arguments(program, root)...)
			return nil
		})
	}
	sourcetest.Check(s, g.Wait())
	for _, one := range samples {
		if s.work.together {
			all.time = max(all.time, one.time)
		} else {
			all.time += one.time
		}
		all.cpu += one.cpu
		all.peak = max(all.peak, one.peak)
		all.calls += one.calls
	}
	return all
}

// columns are those of the table of counts.
var columns = []struct {
	head  string
	value func(sample) int64
	text  func(int64) string
}{
	{"CPU time", func(s sample) int64 { return int64(s.cpu) }, func(n int64) string { return seconds(float64(n) / 1e9) }},
	{"requests", func(s sample) int64 { return s.requests }, count},
	{"MB sent", func(s sample) int64 { return s.sent }, megabytes},
	{"inodes", func(s sample) int64 { return s.inodes }, count},
	{"system calls", func(s sample) int64 { return s.calls }, count},
}

func count(n int64) string     { return thousands(int(n)) }
func megabytes(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }

// rows returns the work's row of the table of times, and that of the medians of counts.
func (c comparison) rows() (times, counts []string) {
	larder := median(c.samples[2])
	times = []string{
		c.label(), seconds(larder.time.Seconds()), c.cell(0), c.cell(1), fmt.Sprintf("%d MB", larder.peak/1024),
	}
	counts = []string{c.label()}
	for _, column := range columns {
		var cells []string
		for _, program := range []int{2, 0, 1} {
			var values []int64
			for _, s := range c.samples[program] {
				values = append(values, column.value(s))
			}
			if slices.Sort(values); len(values) > 0 {
				cells = append(cells, column.text(values[len(values)/2]))
			}
		}
		counts = append(counts, strings.Join(cells, " / "))
	}
	return times, counts
}

// ratio returns how many times as long as larder an engine took: the median of the ratios of the rounds, and the
// ratio of the shortest times. There are none if the engine is missing.
func (c comparison) ratio(engine int) (middle, shortest float64) {
	var ratios []float64
	least, larders := math.Inf(1), math.Inf(1)
	for i, s := range c.samples[engine] {
		time, larder := s.time.Seconds(), c.samples[2][i].time.Seconds()
		ratios = append(ratios, time/larder)
		least, larders = min(least, time), min(larders, larder)
	}
	slices.Sort(ratios)
	return append(ratios, math.NaN())[len(ratios)/2], least / larders
}

// cell returns the ratio of an engine for the table.
func (c comparison) cell(engine int) (text string) {
	n := len(c.samples[engine])
	if n == 0 {
		return ""
	}
	middle, shortest := c.ratio(engine)
	text = "× " + factor(middle)
	if factor(shortest) != factor(middle) {
		text += " (" + factor(shortest) + ")"
	}
	if n < len(c.samples[2]) {
		text += fmt.Sprintf(", rounds: %d", n)
	}
	return text
}

// comparisons returns a Markdown table of times and one of counts, and a list of the works for which larder takes
// longer than tofu.
func comparisons(all []comparison) string {
	times := [][]string{{"work", "larder", "terraform", "tofu", "larder's peak"}}
	counts := [][]string{{"larder / terraform / tofu"}}
	for _, column := range columns {
		counts[0] = append(counts[0], column.head)
	}
	slower := ""
	for _, c := range all {
		time, count := c.rows()
		times, counts = append(times, time), append(counts, count)
		if middle, _ := c.ratio(1); middle < 0.95 {
			slower += fmt.Sprintf("- %s: OpenTofu takes %s of Larder's time%s.\n", c.label(), factor(middle), c.because)
		}
	}
	text := markdown("lrrrr", times...) + markdown("lrrrrr", counts...)
	if slower != "" {
		text += "OpenTofu is faster here:\n\n" + slower + "\n"
	}
	return text
}
