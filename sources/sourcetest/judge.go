package sourcetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
)

// A Program is a release of an engine to compare Larder with.
type Program struct {
	Engine  sources.Engine
	Version string
}

// Programs are the releases on record that Larder is compared with: the first ones have complete records, the others
// samples. Documents contain their versions.
var Programs = []Program{
	{sources.Terraform, "1.11.4"},
	{sources.OpenTofu, "1.12.6"},
	{sources.Terraform, "1.15.9"},
	{sources.Terraform, "1.5.7"},
	{sources.Terraform, "1.8.5"},
	{sources.Terraform, "1.13.5"},
	{sources.Terraform, "1.16.0-rc2"},
	{sources.OpenTofu, "1.8.11"},
	{sources.OpenTofu, "1.10.10"},
}

// Engines are all engines to compare with.
var Engines = []sources.Engine{sources.Terraform, sources.OpenTofu}

// String returns ENGINE-VERSION.
func (p Program) String() string { return string(p.Engine) + "-" + p.Version }

// Complete reports whether all situations are on record, and not only a sample.
func (p Program) Complete() bool { return p == Programs[0] || p == Programs[1] || p == Programs[2] }

var versionLine = regexp.MustCompile(`(?m)^(?:Terraform|OpenTofu) v(\S+)$`)

// onPath are the paths of the engines on PATH, whose releases may be ones that aren't in [Programs].
var onPath = sync.OnceValue(func() map[Program]string {
	found := map[Program]string{}
	for _, e := range Engines {
		cmd := exec.Command(string(e), "version")
		cmd.Env = []string{"CHECKPOINT_DISABLE=1", "HOME=" + os.TempDir(), "TF_CLI_CONFIG_FILE=" + os.DevNull}
		out, err := cmd.Output()
		if m := versionLine.FindSubmatch(out); err == nil && m != nil {
			found[Program{e, string(m[1])}] = cmd.Path
		}
	}
	return found
})

// OnPath returns the path of a program. If it isn't on PATH, the test is skipped.
func OnPath(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("no %s on PATH", program)
	}
	return path
}

// EachEngine runs a test with each engine on PATH, or with one of them, if it is a trial among many. A sample makes a third
// of these trials, because engines take a second to start. With -run, it is both, because that may select the test of one.
func EachEngine(t *testing.T, test func(t *testing.T, e sources.Engine)) {
	t.Helper()
	for _, e := range EngineSample(t, t.Name()) {
		t.Run(string(e), func(t *testing.T) {
			OnPath(t, string(e))
			test(t, e)
		})
	}
}

// EngineSample returns the engines to run a trial with, as [EachEngine] does.
func EngineSample(t testing.TB, trial string) []sources.Engine {
	t.Helper()
	if Named() {
		return Engines
	}
	drawn := hash(trial+fmt.Sprint(Seed())) % 2
	if p := chosen(); Thorough() {
		if p.of == 1 {
			return Engines
		}
		drawn = (hash(trial) + p.number) % 2 // two parts in a row make both trials
	}
	if _, err := exec.LookPath(string(Engines[drawn])); err != nil {
		drawn = 1 - drawn
	}
	if Thorough() {
		Count(t, 1, 0)
	} else if !Draws(t, trial, 3) {
		return nil
	}
	Count(t, 0, 1) // with the other engine
	return Engines[drawn:][:1]
}

// A Judge is a release of an engine in one situation. Its runs come from a record, or from the engine on PATH, and
// then they are compared with the record.
type Judge struct {
	Program
	t        testing.TB
	kind     string
	now      *judgment // its runs so far
	recorded *judgment // nil if there is no record
	path     string    // of the engine, if it runs
	broken   bool      // a run did not end
}

// NewJudge returns a judge of the situation with this name, which is unique among those of its kind. The record
// contains a digest of data, from which the test made the situation. Without a record, the test fails. An empty kind has
// no records: the engine runs.
func NewJudge(t testing.TB, p Program, kind, name string, data any) *Judge {
	t.Helper()
	text, err := json.Marshal(data)
	Check(t, err)
	j := &Judge{Program: p, t: t, kind: kind, now: &judgment{Name: name, Situation: digest(string(text))}}
	if records.on || kind == "" || drawsLive(kind+name) {
		j.path = onPath()[p]
	}
	if kind != "" && !records.on {
		j.recorded = p.record(t, kind, name)
	}
	switch again := fmt.Sprintf("; run it with %s on PATH and -record", p); {
	case kind == "" && j.path != "":
	case records.on && j.path != "":
		p.record(t, kind, name) // a test asks for it
		t.Cleanup(func() {
			if !j.broken {
				p.keep(t, kind, j.now) // what the engine did is a fact, whether Larder does the same or not
			}
		})
	case j.recorded == nil:
		t.Fatalf("no record of what %s did%s", p, again)
	case j.recorded.Situation != j.now.Situation:
		t.Fatalf("the record of what %s did is stale: the test makes a different situation now%s", p, again)
	}
	return j
}

// Recording reports whether this release is recorded.
func (p Program) Recording() bool { return records.on && onPath()[p] != "" }

// Records reports whether this run of the tests records judgments.
func Records() bool { return records.on }

// Live reports whether the engine runs.
func (j *Judge) Live() bool { return j.path != "" }

// drawsLive reports whether the engine on PATH runs in a situation that is on record: in one of a hundred.
func drawsLive(name string) bool {
	of := chosen().of
	return draws(name, 100) && (!Thorough() || of == 1 || hash(name)/of%4 == 0)
}

// An EngineRun is a run of an engine that is recorded.
type EngineRun struct {
	Base   string   // directory of everything that the engine reads and writes
	Beside []string // names in Base that it doesn't
	Dir    string   // current directory
	Env    []string // which also has what the World requires
	Args   []string
	World  *World // that it may ask; nil if none
}

// Run returns the output of the engine, with each of its [paragraphs] in one line, and the exit status. Afterwards the
// files are as the engine leaves them, and the servers of the world have had its requests, also if the run is replayed.
func (j *Judge) Run(r EngineRun) (output string, status int) {
	j.t.Helper()
	before := r.snapshot(j.t)
	now := ran{Args: r.template().Replace(strings.Join(r.Args, " ")), In: r.digest(j.t, before)}
	var recorded ran
	if n := len(j.now.Runs); j.recorded != nil && n < len(j.recorded.Runs) {
		recorded = j.recorded.Runs[n]
	}
	if now.In != recorded.In && r.settles(j.t, before, recorded.In) {
		now.In = recorded.In
	}
	switch {
	case j.path != "":
		j.broken = true
		r.live(j.t, j.path, before, &now)
		j.broken = false
		if d := now.difference(recorded); j.recorded != nil && d != "" {
			j.t.Errorf("%s does something else than the record says: %s", j.Program, d)
		}
	case recorded.In != now.In || recorded.Args != now.Args:
		j.t.Fatalf("there is no record of %s %s with the files that are here; run it with %s on PATH and -record\n%s",
			j.Engine, now.Args, j.Program, strings.Join(describe(before), "\n"))
	default:
		now = recorded
		r.replay(j.t, now)
	}
	j.now.Runs = append(j.now.Runs, now)
	return r.words().Replace(strings.Join(now.Says, "\n")), now.Status
}

// live runs the engine.
func (r EngineRun) live(t testing.TB, path string, before map[string]string, now *ran) {
	t.Helper()
	seen := map[*Server]int{}
	for _, s := range r.World.servers() {
		seen[s] = len(s.Requests())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, r.Args...)
	cmd.Dir, cmd.Env = r.Dir, r.Env
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s: %v\n%s", path, errors.Join(err, ctx.Err()), out)
	}
	now.Status = cmd.ProcessState.ExitCode()
	now.Says = paragraphs(string(out), r.template())
	for _, s := range r.World.servers() {
		for _, request := range s.Requests()[seen[s]:] {
			now.Asks = append(now.Asks, r.template().Replace(request.line()))
			seen[s]++
		}
	}
	now.Wrote = changes(before, r.snapshot(t))
	now.Served, _ = r.ask(t, now.Asks)
	for _, s := range r.World.servers() {
		s.set(func() { s.requests = s.requests[:seen[s]] })
	}
}

// Judged skips a test on systems without records: these are of one platform, and elsewhere Go programs don't read
// SSL_CERT_FILE.
func Judged(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the records are of linux_amd64")
	}
}

// ProgramsOnPath returns those of [Programs] that are on PATH.
func ProgramsOnPath() []Program { return slices.Collect(maps.Keys(onPath())) }

// EachProgram runs a test with each release whose records are complete, or while recording with those on PATH.
func EachProgram(t *testing.T, test func(t *testing.T, p Program)) {
	t.Helper()
	Judged(t)
	for _, p := range Programs {
		if p.Complete() && (!records.on || p.Recording()) {
			t.Run(p.String(), func(t *testing.T) { test(t, p) })
		}
	}
}
