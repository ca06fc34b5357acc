package main

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
	"github.com/larder-cli/larder/sources/sourcetest"
)

// An engineRelease is a release of an engine to compare Larder with.
type engineRelease struct {
	Engine  sources.Engine
	Version string
}

// engineReleases are the releases on record that Larder is compared with: the first ones have complete records, the
// others samples. Documents contain their versions.
var engineReleases = []engineRelease{
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

// String returns ENGINE-VERSION.
func (p engineRelease) String() string { return string(p.Engine) + "-" + p.Version }

// complete reports whether all situations are on record, and not only a sample.
func (p engineRelease) complete() bool {
	return p == engineReleases[0] || p == engineReleases[1] || p == engineReleases[2]
}

var versionLine = regexp.MustCompile(`(?m)^(?:Terraform|OpenTofu) v(\S+)$`)

// onPath are the paths of the engines on PATH, whose releases may be ones that aren't in [engineReleases].
var onPath = sync.OnceValue(func() map[engineRelease]string {
	found := map[engineRelease]string{}
	for _, e := range sourcetest.Engines {
		cmd := exec.Command(string(e), "version")
		cmd.Env = []string{"CHECKPOINT_DISABLE=1", "HOME=" + os.TempDir(), "TF_CLI_CONFIG_FILE=" + os.DevNull}
		out, err := cmd.Output()
		if m := versionLine.FindSubmatch(out); err == nil && m != nil {
			found[engineRelease{e, string(m[1])}] = cmd.Path
		}
	}
	return found
})

// A judge is a release of an engine in one situation. Its runs come from a record, or from the engine on PATH, and
// then they are compared with the record.
type judge struct {
	engineRelease
	t        testing.TB
	kind     string
	now      *judgment // its runs so far
	recorded *judgment // nil if there is no record
	path     string    // of the engine, if it runs
	broken   bool      // a run did not end
}

// newJudge returns a judge of the situation with this name, which is unique among those of its kind. The record
// contains a digest of data, from which the test made the situation. Without a record, the test fails. An empty kind
// has no records: the engine runs.
func newJudge(t testing.TB, p engineRelease, kind, name string, data any) *judge {
	t.Helper()
	text, err := json.Marshal(data)
	sourcetest.Check(t, err)
	j := &judge{engineRelease: p, t: t, kind: kind, now: &judgment{Name: name, Situation: digest(string(text))}}
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

// recording reports whether this release is recorded.
func (p engineRelease) recording() bool { return records.on && onPath()[p] != "" }

// live reports whether the engine runs.
func (j *judge) live() bool { return j.path != "" }

// drawsLive reports whether the engine on PATH runs in a situation that is on record: in one of a hundred.
func drawsLive(name string) bool {
	return sourcetest.Drawn(name, 100) && (!sourcetest.Thorough() || sourcetest.Drawn("live "+name, 100))
}

// An engineRun is a run of an engine that is recorded.
type engineRun struct {
	Base   string   // directory of everything that the engine reads and writes
	Beside []string // names in Base that it doesn't
	Dir    string   // current directory
	Env    []string // which also has what the World requires
	Args   []string
	World  *sourcetest.World // that it may ask; nil if none
}

// run returns the output of the engine, with each of its [paragraphs] in one line, and the exit status. Afterwards the
// files are as the engine leaves them, and the servers of the world have had its requests, also if the run is replayed.
func (j *judge) run(r engineRun) (output string, status int) {
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
		r.start(j.t, j.path, before, &now)
		j.broken = false
		compared := now
		if crash.MatchString(strings.Join(now.Says, "\n")) { // how far it got depends on the order of the providers
			compared.Asks, compared.Wrote = recorded.Asks, recorded.Wrote
		}
		if d := compared.difference(recorded); j.recorded != nil && d != "" {
			j.t.Errorf("%s does something else than the record says: %s", j.engineRelease, d)
		}
	case recorded.In != now.In || recorded.Args != now.Args:
		j.t.Fatalf("there is no record of %s %s with the files that are here; run it with %s on PATH and -record\n%s",
			j.Engine, now.Args, j.engineRelease, strings.Join(describe(before), "\n"))
	default:
		now = recorded
		r.replay(j.t, now)
	}
	j.now.Runs = append(j.now.Runs, now)
	return r.words().Replace(strings.Join(now.Says, "\n")), now.Status
}

// start runs the engine.
func (r engineRun) start(t testing.TB, path string, before map[string]string, now *ran) {
	t.Helper()
	seen := map[*sourcetest.Server]int{}
	for _, s := range r.servers() {
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
	for _, s := range r.servers() {
		for _, request := range s.Requests()[seen[s]:] {
			now.Asks = append(now.Asks, r.template().Replace(lineOf(request)))
			seen[s]++
		}
	}
	now.Wrote = changedFiles(before, r.snapshot(t))
	now.Served, _ = r.ask(t, now.Asks)
	for _, s := range r.servers() {
		s.Keep(seen[s])
	}
}

// onlyRecorded skips a test on systems without records: these are of one platform, and elsewhere Go programs don't read
// SSL_CERT_FILE.
func onlyRecorded(t testing.TB) {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the records are of linux_amd64")
	}
}

// releasesOnPath returns those of [engineReleases] that are on PATH.
func releasesOnPath() []engineRelease { return slices.Collect(maps.Keys(onPath())) }

// eachRelease runs a test with each release whose records are complete, or while recording with those on PATH.
func eachRelease(t *testing.T, test func(t *testing.T, p engineRelease)) {
	t.Helper()
	onlyRecorded(t)
	for _, p := range engineReleases {
		if p.complete() && (!records.on || p.recording()) {
			t.Run(p.String(), func(t *testing.T) { test(t, p) })
		}
	}
}
