//go:build unix

// Command bench compares larder with the terraform on PATH, and with tofu if it
// is there. All programs do the same work against the same registry in the same
// run. It reports ratios, because they are reliable on a busy machine, and
// times are not. It writes a document only on an idle machine and at full size.
//
//	go run ./scripts/bench [-rounds N] [-only REGEXP] [-scale F] [-document docs/performance.md]
//	go run ./scripts/bench scale [-packages N] [-modules N] [-keep DIR] [-document docs/performance.md]
//	go run ./scripts/bench serve [-short] [-document docs/performance.md]
//	go run ./scripts/bench places [-short] [-document docs/scale.md]
//	go run ./scripts/bench chart
//
// The fourth form measures what Larder does with an OCI registry and a bucket, whose programs scripts/stores builds.
// The third form measures larder serve next to nginx. The second form measures only larder, with the number of packages and root
// modules growing tenfold each time.
//
// It requires no network: the registry is in this process, on loopback. It
// leaves no files.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/sources/sourcetest"
)

func main() {
	b := &bench{worlds: map[stock]*sourcetest.World{}, Script: sourcetest.Script{Program: "bench"}}
	forms := map[string]func() string{"": b.programs, "scale": b.scale, "serve": b.serve, "places": b.places}
	args, form := os.Args[1:], ""
	if len(args) > 0 && (forms[args[0]] != nil || args[0] == "chart") {
		form, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet(strings.TrimSpace("bench "+form), flag.ExitOnError)
	document := flags.String("document", "", "the document whose generated part to replace, such as docs/performance.md")
	flags.IntVar(&b.rounds, "rounds", 3, "how often to measure")
	flags.BoolVar(&b.short, "short", false, "serve and places: measure once and less, to see whether it works")
	only := flags.String("only", "", "without a form: the works whose names match")
	flags.Float64Var(&b.size, "scale", 1, "without a form: the size of packages, as a fraction")
	flags.IntVar(&b.packages, "packages", mostPackages, "scale: the most packages in a cache or mirror")
	flags.IntVar(&b.modules, "modules", mostModules, "scale: the most root modules")
	flags.StringVar(&b.keep, "keep", "", "scale: a directory to keep caches, mirrors and root modules in, for a profiler")
	flags.StringVar(&b.larder, "larder", "", "the larder to measure, instead of one built from here")
	_ = flags.Parse(args) // it ends the program
	var err error
	b.only, err = regexp.Compile(*only)
	b.must(err)
	if form == "chart" {
		b.must(drawCompared("docs/performance.md"))
		return
	}
	load, known := loadAverage() // before the measurements add to it
	if b.short {
		b.rounds = 1
	}
	scaled := b.short || b.size != 1 || b.packages != mostPackages || b.modules != mostModules
	if problem := unfit(load, known, scaled); problem != "" && *document != "" {
		b.Fatalf("%s is not written: %s", *document, problem)
	}
	b.prepare()
	defer b.End()
	text := forms[form]()
	fmt.Print("\n", text)
	if *document != "" {
		b.must(replacePart(*document, form, load, text))
	}
}

// programs compares larder with the engines.
func (b *bench) programs() string {
	b.tofu, _ = exec.LookPath("tofu")
	var chosen []work
	lasts := 0
	for _, w := range works {
		if b.only.MatchString(w.label(b.size)) {
			chosen = append(chosen, w)
			lasts += w.lasts * b.rounds
		}
	}
	fmt.Printf("This takes about %s on two idle cores.\n", (time.Duration(lasts) * time.Second).Round(time.Minute))
	fmt.Printf("%-50s %18s %18s %18s %12s\n", "work", "terraform (cpu)", "tofu (cpu)", "larder (cpu)", "larder peak")
	text := "| work | larder | terraform | tofu | larder's peak |\n| --- | ---: | ---: | ---: | ---: |\n"
	for _, w := range chosen {
		text += b.run(w)
	}
	return text + "\n"
}

// mostLoad is the load average from which on the machine is too busy.
const mostLoad = 1

// unfit returns why results are not written to a document, or nothing.
func unfit(load float64, known, scaled bool) string {
	switch {
	case scaled:
		return "the sizes are not the full ones; leave out the flags that change them"
	case !known:
		return "the load average of this system is unknown; measure on Linux"
	case load > mostLoad:
		return fmt.Sprintf("the load average is %.2f; wait until it is at most %d", load, mostLoad)
	}
	return ""
}

// loadAverage returns the load average of the last minute.
func loadAverage() (load float64, known bool) {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, false
	}
	_, err = fmt.Sscan(string(data), &load)
	return load, err == nil
}

// A bench is the state shared by all works.
type bench struct {
	sourcetest.Script
	rounds            int
	short             bool
	only              *regexp.Regexp
	size              float64 // of packages, as a fraction
	packages, modules int
	dir, keep         string // working directory; the one to keep, if it is not temporary
	larder            string // path of the program
	tofu              string // path of the program; empty if there is none
	worlds            map[stock]*sourcetest.World
}

// A sample is the result of one run of a program.
type sample struct {
	time time.Duration // elapsed
	cpu  time.Duration // CPU time of all cores
	peak int64         // peak of resident memory in kB
}

// prepare creates the working directory. It builds larder, unless a program is given.
func (b *bench) prepare() {
	dir := b.keep
	if dir == "" {
		dir = b.TempDir()
	}
	var err error
	b.dir, err = filepath.Abs(dir)
	b.must(errors.Join(err, os.MkdirAll(dir, 0o755)))
	b.Dir = b.dir
	if b.larder == "" {
		b.larder = sourcetest.Larder(b)
	}
}

// environment is that of a machine without any configuration.
func (b *bench) environment() []string {
	home := filepath.Join(b.dir, "home")
	return []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TF_CLI_CONFIG_FILE=" + os.DevNull}
}

// index writes a mirror with all packages of a world.
func (b *bench) index(mirror string, world *sourcetest.World) {
	world.WritePacked(mirror)
	b.exec(b.dir, b.environment(), b.larder, "mirror", "index", mirror, "--quiet")
}

// run does a work with all programs, one after the other, prints a line with the results, and returns a row of the
// table.
func (b *bench) run(w work) string {
	s := &scene{bench: b, work: w}
	s.publish()
	var samples [3][]sample
	for range b.rounds {
		for i, program := range []func(roots, env []string) sample{s.engine("terraform"), s.engine(b.tofu), s.larderRun} {
			if i != 1 || b.tofu != "" {
				samples[i] = append(samples[i], s.measure(program))
			}
		}
	}
	name, terraform, tofu, larder := w.label(b.size), median(samples[0]), median(samples[1]), median(samples[2])
	fmt.Printf("%-50s %s %s %s %9d MB\n", name, terraform, tofu, larder, larder.peak/1024)
	return fmt.Sprintf("| %s | %s | %s | %s | %d MB |\n",
		name, seconds(larder.time.Seconds()), times(terraform, larder), times(tofu, larder), larder.peak/1024)
}

// String returns the times for the output.
func (s sample) String() string {
	return fmt.Sprintf("%8.2fs (%6.2fs)", s.time.Seconds(), s.cpu.Seconds())
}

func median(samples []sample) sample {
	if len(samples) == 0 {
		return sample{}
	}
	slices.SortFunc(samples, func(a, b sample) int { return int(a.time - b.time) })
	m := samples[len(samples)/2]
	for _, s := range samples {
		m.peak = max(m.peak, s.peak)
	}
	return m
}

// A scene is a work prepared for a program.
type scene struct {
	*bench
	work  work
	world *sourcetest.World
}

// measure prepares the work and runs a program. For a warm work, it first runs
// the program untimed.
func (s *scene) measure(program func(roots []string, env []string) sample) sample {
	// Small files are kept until the end: for minutes after many were removed,
	// ext4 takes several times as long to create new ones.
	if int64(s.work.providers)*s.work.size > 100*megabyte {
		s.must(os.RemoveAll(filepath.Join(s.dir, "scene")))
	}
	s.must(os.MkdirAll(filepath.Join(s.dir, "scene"), 0o755))
	dir, err := os.MkdirTemp(filepath.Join(s.dir, "scene"), "run-*")
	s.must(err)
	s.must(os.MkdirAll(filepath.Join(dir, "cache"), 0o755))
	var roots []string
	for i := range max(s.work.roots, 1) {
		root := filepath.Join(dir, "roots", fmt.Sprintf("root%03d", i))
		s.must(os.MkdirAll(root, 0o755))
		s.must(os.WriteFile(filepath.Join(root, "main.tf"), []byte(sourcetest.Configuration(s.providers()...)), 0o644))
		roots = append(roots, root)
	}
	env := s.variables(dir)
	if s.work.warm {
		program(roots, env)
		for _, root := range roots {
			s.work.undo(s, root)
		}
	}
	return program(roots, env)
}

// engine returns a function that does the work with terraform or tofu in all root
// modules.
func (s *scene) engine(program string) func(roots, env []string) sample {
	return func(roots, env []string) sample {
		if s.work.together && program != s.tofu { // Terraform's processes can't share a plugin cache
			env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "TF_PLUGIN_CACHE_DIR=") })
		}
		return s.inEach(roots, func(root string) sample {
			return s.exec(root, env, program, s.engineArguments(root)...)
		})
	}
}

// inEach runs a program in each root module: one after the other, or all at once if the
// work requires it.
func (s *scene) inEach(roots []string, run func(root string) sample) (all sample) {
	samples := make([]sample, len(roots))
	var g errgroup.Group
	if !s.work.together {
		g.SetLimit(1)
	}
	for i, root := range roots {
		g.Go(func() error {
			samples[i] = run(root)
			return nil
		})
	}
	s.must(g.Wait())
	for _, one := range samples {
		if s.work.together {
			all.time = max(all.time, one.time)
		} else {
			all.time += one.time
		}
		all.cpu += one.cpu
		all.peak = max(all.peak, one.peak)
	}
	return all
}

func (s *scene) engineArguments(root string) []string {
	platforms := flags("-platform=", s.work.platforms)
	switch s.work.does {
	case "lock":
		return append([]string{"providers", "lock"}, platforms...)
	case "mirror":
		return append(append([]string{"providers", "mirror"}, platforms...), made(root))
	}
	return []string{"init", "-input=false", "-no-color"}
}

// larderRun runs larder once for all root modules, unless the work requires a process for
// each of them.
func (s *scene) larderRun(roots []string, env []string) sample {
	dir, args := roots[0], []string{"install", "--quiet"}
	platforms := flags("--platform=", s.work.platforms)
	switch s.work.does {
	case "lock":
		args = append([]string{"lock", "--quiet"}, platforms...)
	case "exec":
		args = append([]string{"exec", "--", "terraform"}, s.engineArguments(dir)...)
	case "mirror":
		args = append([]string{"mirror", "sync", made(roots[0]), "--quiet"}, platforms...)
	}
	if s.work.together {
		return s.inEach(roots, func(root string) sample { return s.exec(root, env, s.larder, args...) })
	}
	if len(roots) > 1 {
		dir, args = filepath.Dir(dir), append(args, "--recursive")
	}
	return s.exec(dir, env, s.larder, args...)
}

// made returns the directory for the mirror of a root module.
func made(root string) string { return filepath.Join(root, "mirror") }

func (b *bench) exec(dir string, env []string, program string, args ...string) sample {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = dir, env
	forgetPeak()
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	if err != nil {
		b.Fatalf("%s: %v\n%s", program, err, out)
	}
	return sampleOf(cmd, took)
}

// sampleOf returns what a process that has ended, and its children, took.
func sampleOf(cmd *exec.Cmd, took time.Duration) sample {
	state := cmd.ProcessState
	return sample{time: took, cpu: state.UserTime() + state.SystemTime(), peak: state.SysUsage().(*syscall.Rusage).Maxrss}
}

// forgetPeak resets the peak memory of this process. On Linux, new processes
// inherit it.
func forgetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // other systems do not require it
}

func (b *bench) must(err error) {
	if err != nil {
		b.Fatalf("%v", err)
	}
}
