//go:build unix

// Command bench compares larder with the terraform on PATH, and with tofu if it
// is there. All programs do the same work against the same registry in the same
// run. It reports ratios, because they are reliable on a busy machine, and
// times are not. It writes a document only on an idle machine and at full size.
//
//	go run ./scripts/bench [-rounds N] [-short] [-only REGEXP] [-document docs/performance.md]
//	go run ./scripts/bench scale [-rounds N] [-short] [-document docs/performance.md]
//	go run ./scripts/bench serve [-rounds N] [-short] [-document docs/performance.md]
//	go run ./scripts/bench places [-rounds N] [-short] [-document docs/scale.md]
//	go run ./scripts/bench chart
//
// The second form measures only larder, with the number of packages and root modules growing tenfold each time. The
// third form measures larder serve next to nginx. The fourth form measures what Larder does with an OCI registry and a
// bucket, whose programs scripts/stores builds.
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
	b := &bench{worlds: map[string]*sourcetest.World{}, Script: sourcetest.Script{Program: "bench"}}
	forms := map[string]func() string{"": b.programs, "scale": b.scale, "serve": b.serve, "places": b.places}
	args, form := os.Args[1:], ""
	if len(args) > 0 && (forms[args[0]] != nil || args[0] == "chart") {
		form, args = args[0], args[1:]
	}
	flags := flag.NewFlagSet(strings.TrimSpace("bench "+form), flag.ExitOnError)
	document := flags.String("document", "", "the document whose generated part to replace, such as docs/performance.md")
	flags.IntVar(&b.rounds, "rounds", 3, "how often to measure")
	flags.BoolVar(&b.short, "short", false, "measure once and less, to see whether it works")
	flags.StringVar(&b.only, "only", "", "without a form: the works whose names match")
	_ = flags.Parse(args) // it ends the program
	if form == "chart" {
		sourcetest.Check(b, drawCompared("docs/performance.md"))
		return
	}
	load, err := loadAverage() // before the measurements add to it
	if *document != "" {
		sourcetest.Check(b, errors.Join(err, unfit(load, b.short)))
	}
	if b.short {
		b.rounds = 1
	}
	defer b.End()
	b.Dir = b.TempDir()
	b.larder = b.build()
	text := forms[form]()
	fmt.Print("\n", text)
	if *document != "" {
		sourcetest.Check(b, replacePart(*document, form, load, text))
	}
}

// build builds larder as a release is built, and returns its path.
func (b *bench) build() string {
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(b.Dir, "larder")}
	if tags := regexp.MustCompile(`-tags[= ][\w,]+`).Find(sourcetest.ReadFile(b, "scripts/release")); tags != nil {
		args = append(args, strings.Replace(string(tags), " ", "=", 1))
	}
	cmd := exec.Command("go", append(args, "./cmd/larder")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("building larder: %v\n%s", err, out)
	}
	return filepath.Join(b.Dir, "larder")
}

// programs compares larder with the engines.
func (b *bench) programs() string {
	only := sourcetest.Must(regexp.Compile(b.only))(b)
	b.tofu, _ = exec.LookPath("tofu")
	fmt.Printf("%-50s %18s %18s %18s %12s\n", "work", "terraform (cpu)", "tofu (cpu)", "larder (cpu)", "larder peak")
	rows := [][]string{{"work", "larder", "terraform", "tofu", "larder's peak"}}
	for _, w := range works {
		if b.short {
			w.size /= 20
		}
		if only.MatchString(w.label()) {
			rows = append(rows, b.run(w))
		}
	}
	return markdown("lrrrr", rows...)
}

// mostLoad is the load average from which on the machine is too busy.
const mostLoad = 1

// unfit returns why results are not written to a document.
func unfit(load float64, short bool) error {
	switch {
	case short:
		return errors.New("the sizes are not the full ones: leave out -short")
	case load > mostLoad:
		return fmt.Errorf("the load average is %.2f: wait until it is at most %d", load, mostLoad)
	}
	return nil
}

// loadAverage returns the load average of the last minute. Only Linux has it.
func loadAverage() (load float64, err error) {
	data, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscan(string(data), &load)
	}
	return load, err
}

// A bench is the state shared by all works. Its Dir is the working directory.
type bench struct {
	sourcetest.Script
	rounds int
	short  bool
	only   string
	larder string                       // path of the program
	tofu   string                       // path of the program; empty if there is none
	worlds map[string]*sourcetest.World // by what they have
}

// A sample is the result of one run of a program.
type sample struct {
	time time.Duration // elapsed
	cpu  time.Duration // CPU time of all cores
	peak int64         // peak of resident memory in kB
}

// environment is that of a machine without any configuration.
func (b *bench) environment() []string {
	home := filepath.Join(b.Dir, "home")
	return []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TF_CLI_CONFIG_FILE=" + os.DevNull}
}

// index writes a mirror with all packages of a world.
func (b *bench) index(mirror string, world *sourcetest.World) {
	world.WritePacked(mirror)
	b.exec(b.Dir, b.environment(), b.larder, "mirror", "index", mirror, "--quiet")
}

// run does a work with all programs, one after the other, prints a line with the results, and returns a row of the
// table.
func (b *bench) run(w work) []string {
	s := &scene{bench: b, work: w}
	s.publish()
	var samples [3][]sample
	for range b.rounds {
		for i, program := range []string{"terraform", b.tofu, b.larder} {
			if program != "" {
				samples[i] = append(samples[i], s.measure(program))
			}
		}
	}
	name, terraform, tofu, larder := w.label(), median(samples[0]), median(samples[1]), median(samples[2])
	fmt.Printf("%-50s %s %s %s %9d MB\n", name, terraform, tofu, larder, larder.peak/1024)
	return []string{
		name, seconds(larder.time.Seconds()), times(terraform, larder), times(tofu, larder),
		fmt.Sprintf("%d MB", larder.peak/1024),
	}
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
	work   work
	world  *sourcetest.World
	method string // installation method, for a CLI configuration
}

// measure prepares the work and does it with a program. For a warm work, it first does it untimed.
func (s *scene) measure(program string) sample {
	// Small files are kept until the end: for minutes after many were removed,
	// ext4 takes several times as long to create new ones.
	if int64(s.work.providers)*s.work.size > 100*megabyte {
		sourcetest.Check(s, os.RemoveAll(filepath.Join(s.Dir, "scene")))
	}
	sourcetest.Check(s, os.MkdirAll(filepath.Join(s.Dir, "scene"), 0o755))
	dir := sourcetest.Must(os.MkdirTemp(filepath.Join(s.Dir, "scene"), "run-*"))(s)
	sourcetest.Check(s, os.Mkdir(filepath.Join(dir, "cache"), 0o755))
	var roots []string
	for i := range max(s.work.roots, 1) {
		roots = append(roots, filepath.Join(dir, "roots", fmt.Sprintf("root%03d", i)))
		s.rootModule(roots[i], s.providers()...)
	}
	env := s.variables(dir)
	if s.work.warm != nil {
		s.do(program, roots, env)
		for _, root := range roots {
			for _, name := range s.work.warm {
				sourcetest.Check(s, os.RemoveAll(filepath.Join(root, name)))
			}
		}
	}
	return s.do(program, roots, env)
}

// rootModule creates a root module that requires some providers.
func (b *bench) rootModule(dir string, types ...string) {
	sourcetest.Check(b, os.MkdirAll(dir, 0o755))
	sourcetest.Check(b, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(sourcetest.Configuration(types...)), 0o644))
}

// do does the work in all root modules: larder in one process, unless the work requires one for each.
func (s *scene) do(program string, roots, env []string) sample {
	if program == s.larder && !s.work.together {
		dir, args := roots[0], s.arguments(program, roots[0])
		if len(roots) > 1 {
			dir, args = filepath.Dir(dir), append(args, "--recursive")
		}
		return s.exec(dir, env, program, args...)
	}
	if s.work.together && program == "terraform" { // its processes can't share a plugin cache
		env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
			return strings.HasPrefix(v, "TF_PLUGIN_CACHE_DIR=")
		})
	}
	return s.inEach(roots, func(root string) sample { return s.exec(root, env, program, s.arguments(program, root)...) })
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
	sourcetest.Check(s, g.Wait())
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
	return sampleOf(cmd.ProcessState, took)
}

// sampleOf returns what a process that has ended, and its children, took.
func sampleOf(state *os.ProcessState, took time.Duration) sample {
	return sample{time: took, cpu: state.UserTime() + state.SystemTime(), peak: state.SysUsage().(*syscall.Rusage).Maxrss}
}

// forgetPeak resets the peak memory of this process. On Linux, new processes
// inherit it.
func forgetPeak() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // other systems do not require it
}
