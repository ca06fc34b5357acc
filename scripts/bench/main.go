//go:build unix

// Command bench compares larder with the terraform on PATH, and with tofu if it
// is there. All programs do the same work against the same registry in the same
// run. It reports ratios, because they are reliable on a busy machine, and
// times are not.
//
//	go run ./scripts/bench [-rounds N] [-only REGEXP] [-scale F] [-document docs/performance.md]
//	go run ./scripts/bench scale [-document docs/performance.md]
//	go run ./scripts/bench chart
//
// The second form measures only larder, with the number of packages and root
// modules growing tenfold each time.
//
// It requires no network: the registry is in this process, on loopback. It
// leaves no files.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "scale":
			scale(os.Args[2:])
			return
		case "chart":
			if err := drawCompared("docs/performance.md"); err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
				os.Exit(1)
			}
			return
		}
	}
	rounds := flag.Int("rounds", 3, "how often each program does each work")
	only := flag.String("only", "", "the works whose names match")
	scale := flag.Float64("scale", 1, "the size of packages, as a fraction")
	document := flag.String("document", "", "the document whose generated part to replace, such as docs/performance.md")
	flag.Parse()
	names, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: -only:", err)
		os.Exit(2)
	}
	b := &bench{rounds: *rounds, scale: *scale, worlds: map[stock]*sourcetest.World{}}
	b.prepare("", "")
	defer b.End()
	b.tofu, _ = exec.LookPath("tofu")
	var all []comparison
	fmt.Printf("%-34s %18s %18s %18s %12s\n", "work", "terraform (cpu)", "tofu (cpu)", "larder (cpu)", "larder peak")
	for _, w := range works {
		if names.MatchString(w.name) {
			all = append(all, b.run(w))
		}
	}
	if *document != "" {
		b.must(writeComparisons(*document, *scale, all))
	}
}

// A comparison is the results of all programs for the same work.
type comparison struct {
	name                    string
	terraform, tofu, larder sample // tofu is zero if there is no tofu
}

// A bench is the state shared by all works.
type bench struct {
	sourcetest.Script
	rounds int
	scale  float64
	dir    string
	kept   bool   // do not remove dir
	larder string // path of the program
	tofu   string // path of the program; empty if there is none
	worlds map[stock]*sourcetest.World
}

// A sample is the result of one run of a program.
type sample struct {
	time time.Duration // elapsed
	cpu  time.Duration // CPU time of all cores
	peak int64         // peak of resident memory in kB

	requests, archives int   // received by the registry
	bytes              int64 // of archives
}

// prepare creates the working directory, or uses the directory keep. It builds
// larder, unless a program is given.
func (b *bench) prepare(keep, program string) {
	b.Name, b.kept = "bench", keep != ""
	if b.kept {
		var err error
		b.dir, err = filepath.Abs(keep)
		b.must(err)
		b.must(os.MkdirAll(b.dir, 0o755))
	} else {
		b.dir = b.TempDir()
	}
	b.Dir = b.dir
	if b.larder = program; program != "" {
		return
	}
	b.larder = filepath.Join(b.dir, "larder")
	build := exec.Command("go", "build", "-o", b.larder, "./cmd/larder")
	build.Stderr = os.Stderr
	b.must(build.Run())
}

// run does a work with all programs, one after the other, and prints a line
// with the results.
func (b *bench) run(w work) comparison {
	s := &scene{bench: b, work: w}
	s.publish()
	var terraform, tofu, larder []sample
	for range b.rounds {
		terraform = append(terraform, s.measure(s.engine("terraform")))
		if b.tofu != "" {
			tofu = append(tofu, s.measure(s.engine(b.tofu)))
		}
		larder = append(larder, s.measure(s.larderRun))
	}
	c := comparison{w.name, median(terraform), median(tofu), median(larder)}
	fmt.Printf("%-34s %8.2fs (%6.2fs) %8.2fs (%6.2fs) %8.3fs (%6.2fs) %9d MB\n", w.name, c.terraform.time.Seconds(), c.terraform.cpu.Seconds(),
		c.tofu.time.Seconds(), c.tofu.cpu.Seconds(), c.larder.time.Seconds(), c.larder.cpu.Seconds(), c.larder.peak/1024)
	if len(w.platforms) > 0 {
		fmt.Printf("  %-32s %27s %27s\n", "requests; archives", c.terraform.wire(), c.larder.wire())
	}
	return c
}

// wire returns the numbers of requests and archives for the output.
func (s sample) wire() string {
	return fmt.Sprintf("%d; %d of %d MB in all", s.requests, s.archives, s.bytes/megabyte)
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
	env := s.environment(dir)
	if s.work.warm {
		program(roots, env)
		for _, root := range roots {
			s.work.undo(s, root)
		}
	}
	s.world.Registry.Forget()
	took := program(roots, env)
	took.requests = len(s.world.Registry.Requests())
	for _, r := range s.world.Registry.Requests(sourcetest.Archive) {
		if r.Bytes > 0 { // answers to HEAD have none
			took.archives++
			took.bytes += r.Bytes
		}
	}
	return took
}

// engine returns a function that does the work with terraform or tofu, in one
// root module after the other.
func (s *scene) engine(program string) func(roots, env []string) sample {
	return func(roots, env []string) (all sample) {
		for _, root := range roots {
			one := s.exec(root, env, program, s.engineArguments(root)...)
			all = sample{time: all.time + one.time, cpu: all.cpu + one.cpu, peak: max(all.peak, one.peak)}
		}
		return all
	}
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

// larderRun runs larder once for all root modules.
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
