package sourcetest

import (
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Some tests make a trial of every system call, situation or file. All trials take
// more than ten minutes. Every run makes a small sample of the trials, which [Seed]
// determines, unless LARDER_FAULTS is set: with "all" it makes all trials, and with
// "2/5" the second of five parts, which together are all. The package's TestMain runs
// its tests with [Sampling], which prints what was left.

// A part is the part of the trials that LARDER_FAULTS selects.
type part struct{ number, of uint64 }

// chosen returns the part that is chosen. It is zero if a run makes only samples.
var chosen = sync.OnceValue(func() (p part) {
	switch text := os.Getenv("LARDER_FAULTS"); text {
	case "":
	case "all":
		p = part{1, 1}
	default:
		_, err := fmt.Sscanf(text, "%d/%d", &p.number, &p.of)
		if err != nil || p.number < 1 || p.number > p.of {
			panic("LARDER_FAULTS is neither all nor a part such as 2/5: " + text)
		}
	}
	return p
})

// has reports whether a trial with this number is in the part.
func (p part) has(trial uint64) bool { return trial%p.of == p.number-1 }

// Thorough reports whether a run makes all trials, or a part of them, and not only samples. With -short it makes
// samples.
func Thorough() bool { return chosen().of > 0 && !testing.Short() }

// Seed determines the samples, and everything else that is random in tests. Each
// run has a different one. LARDER_SEED sets it, to repeat a run.
var Seed = sync.OnceValue(func() uint64 {
	text := os.Getenv("LARDER_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano()) % 1e6 // short, because people copy it
	}
	return must(strconv.ParseUint(text, 10, 64))
})

// Sample returns the trials to make of those numbered 1 to total, in ascending order: size of
// them, or the part that LARDER_FAULTS selects, if that is more.
func Sample(t testing.TB, total, size int) []int {
	t.Helper()
	size = min(size, total)
	var trials []int
	for i := range total {
		if p := chosen(); Thorough() && p.has(uint64(i)+hash(t.Name())%p.of) {
			trials = append(trials, i+1)
		}
	}
	if len(trials) < size {
		random := rand.New(rand.NewPCG(Seed(), hash(t.Name())))
		trials = random.Perm(total)[:size]
		for i := range trials {
			trials[i]++
		}
		slices.Sort(trials)
	}
	Count(t, len(trials), total-len(trials))
	return trials
}

// OneIn skips a test that is a trial by itself, unless it is in the sample: about one in n of them.
func OneIn(t testing.TB, n uint64) {
	t.Helper()
	if !Draws(t, t.Name(), n) {
		t.Skipf("not in the sample of seed %d", Seed())
	}
}

// Draws reports whether a test is to make a trial with this name, one of about n.
func Draws(t testing.TB, trial string, n uint64) bool {
	t.Helper()
	made := 0
	if Drawn(trial, n) {
		made = 1
	}
	Count(t, made, 1-made)
	return made > 0
}

// Drawn reports what Draws does, without counting the trial.
func Drawn(trial string, n uint64) bool {
	if Thorough() {
		return chosen().has(hash(trial))
	}
	return hash(trial+strconv.FormatUint(Seed(), 10))%n == 0
}

// Named reports whether -run names the tests: all that it names are to run.
func Named() bool { return flag.Lookup("test.run").Value.String() != "" }

func hash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// trials counts the trials of each test that takes samples.
var trials = struct {
	sync.Mutex
	sampling   bool
	made, left map[string]int
}{made: map[string]int{}, left: map[string]int{}}

// Count adds to the numbers of trials that a test has made and left. If the test
// fails, Count states how to repeat them.
func Count(t testing.TB, made, left int) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("LARDER_SEED=%d repeats this run", Seed())
		}
	})
	name, _, _ := strings.Cut(t.Name(), "/")
	trials.Lock()
	defer trials.Unlock()
	Require(t, trials.sampling, "TestMain of this package must run its tests with sourcetest.Sampling")
	trials.made[name] += made
	trials.left[name] += left
}

// Sampling runs the tests of a package that takes samples, and prints what it left.
// It does not let go test cache the result, because the next sample or part is another.
type Sampling struct {
	M        interface{ Run() int }
	InMemory bool // temporary directories are in memory if there is room; runs that make all trials are on a disk
}

// Run runs the tests.
func (s Sampling) Run() (status int) {
	flag.Parse()
	check(flag.Set("test.testlogfile", "")) // go test caches no result without it
	if s.InMemory && hasMemory() && !Thorough() && os.Getenv("TMPDIR") == "" {
		check(os.Setenv("TMPDIR", memoryDir))
	}
	trials.sampling = true
	debug.SetGCPercent(400) // tests make many small objects, and there is memory
	status = s.M.Run()
	out := os.Stderr
	if terminal, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil && !testing.Verbose() {
		out = terminal // because go test discards the output of packages whose tests succeed
	}
	fmt.Fprint(out, left())
	return status
}

// left returns what this run of the package left, or an empty string.
func left() string {
	var tests []string
	for _, name := range slices.Sorted(maps.Keys(trials.left)) {
		if n := trials.left[name]; n > 0 {
			tests = append(tests, fmt.Sprintf("%s %d/%d", name, n, n+trials.made[name]))
		}
	}
	if len(tests) == 0 {
		return ""
	}
	info, _ := debug.ReadBuildInfo()
	return fmt.Sprintf("%s left out: %s (LARDER_FAULTS=all leaves nothing; LARDER_SEED=%d repeats this sample)\n",
		strings.TrimSuffix(info.Path, ".test"), strings.Join(tests, ", "), Seed())
}
