//go:build unix

// Command bench compares larder with the terraform on PATH, and with tofu if it is there. All programs do the same work
// against the same registry. It reports ratios of times within each round, because they are reliable on a busy machine,
// and times are not. It also counts what the programs used, which varies little. It writes a document only on an idle
// machine and at full size.
//
//	go run ./scripts/bench [-rounds N] [-short] [-all] [-only REGEXP] [-document docs/performance.md]
//	go run ./scripts/bench scale [-rounds N] [-short] [-document docs/performance.md]
//	go run ./scripts/bench serve [-rounds N] [-short] [-document docs/performance.md]
//	go run ./scripts/bench places [-rounds N] [-short] [-document docs/scale.md]
//	go run ./scripts/bench chart
//
// The second form measures only larder, with the number of packages and root modules growing tenfold each time. The
// third form measures larder serve next to nginx. The fourth form measures what Larder does with an OCI registry and a
// bucket, whose programs scripts/stores builds.
//
// It requires no network: the registry is in this process, on loopback. It leaves no files.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

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
	flags.IntVar(&b.rounds, "rounds", map[bool]int{true: 5, false: 3}[form == ""], "how often to measure")
	flags.BoolVar(&b.short, "short", false, "measure once and less, to see whether it works")
	flags.StringVar(&b.only, "only", "", "without a form: the works whose names match")
	flags.BoolVar(&b.all, "all", false, "without a form: also works that documents don't show")
	_ = flags.Parse(args) // it ends the program
	if form == "chart" {
		sourcetest.Check(b, drawCompared("docs/performance.md"))
		return
	}
	load, err := loadAverage() // before the measurements add to it
	if *document != "" {
		sourcetest.Check(b, errors.Join(err, unfit(load, b.short || b.only != "" || b.all)))
	}
	if b.short {
		b.rounds = 1
	}
	defer b.End()
	b.Dir = b.TempDir()
	b.larder = sourcetest.InstalledLarder(b)
	text := forms[form]()
	fmt.Print("\n", text)
	if *document != "" {
		sourcetest.Check(b, replacePart(*document, form, load, text))
	}
}

// mostLoad is the load average from which on the machine is too busy.
const mostLoad = 1

// unfit returns why results are not written to a document.
func unfit(load float64, partly bool) error {
	switch {
	case partly:
		return errors.New("the works and their sizes are not those of the document: leave out -short, -only and -all")
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
	all    bool // also measure works that docs/performance.md doesn't show
	only   string
	larder string                       // path of the program
	strace string                       // path of the program; empty if there is none
	traced bool                         // count system calls
	worlds map[string]*sourcetest.World // by what they have
}

// A sample is the result of one run of a program.
type sample struct {
	time time.Duration // elapsed
	cpu  time.Duration // CPU time of all cores
	peak int64         // peak of resident memory in kB

	// What only comparisons count.
	requests int64 // that servers received
	sent     int64 // bytes that servers sent
	inodes   int64 // that the program left
	calls    int64 // system calls, in a run that is not timed
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

// rootModule creates a root module that requires some providers.
func (b *bench) rootModule(dir string, types ...string) {
	sourcetest.Check(b, os.MkdirAll(dir, 0o755))
	sourcetest.Check(b, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(sourcetest.Configuration(types...)), 0o644))
}

func (b *bench) exec(dir string, env []string, program string, args ...string) sample {
	cmd, counted := exec.Command(program, args...), ""
	if b.traced {
		counted = filepath.Join(sourcetest.Must(os.MkdirTemp(b.Dir, "strace-*"))(b), "calls")
		const options = "-c -f --seccomp-bpf -e trace=%file,%desc,%network -U calls,name -o"
		cmd = exec.Command(b.strace, slices.Concat(strings.Fields(options), []string{counted, program}, args)...)
	}
	cmd.Dir, cmd.Env = dir, env
	forgetPeak()
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(start)
	if err != nil {
		b.Fatalf("%s: %v\n%s", program, err, out)
	}
	s := sampleOf(cmd.ProcessState, took)
	if b.traced {
		text := strings.Fields(string(sourcetest.ReadFile(b, counted))) // ends with "NUMBER total"
		s.calls = sourcetest.Must(strconv.ParseInt(text[len(text)-2], 10, 64))(b)
	}
	return s
}

func median(samples []sample) sample {
	byTime := func(a, b sample) int { return int(a.time - b.time) }
	m := slices.SortedFunc(slices.Values(samples), byTime)[len(samples)/2]
	for _, s := range samples {
		m.peak = max(m.peak, s.peak)
	}
	return m
}

// String returns the times for the output.
func (s sample) String() string {
	return fmt.Sprintf("%8.2fs (%6.2fs)", s.time.Seconds(), s.cpu.Seconds())
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
