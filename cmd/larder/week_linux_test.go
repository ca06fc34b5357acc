package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources/sourcetest"
)

// Whatever happens to upstream, the server and its directory, clients get what was published. LARDER_SOAK is how long
// this goes on.
func TestWeekOfServing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes several seconds")
	}
	length, err := time.ParseDuration(cmp.Or(os.Getenv("LARDER_SOAK"), "4s"))
	sourcetest.Check(t, err)
	sourcetest.Count(t, 1, 0)
	w := newWeek(t, length)
	var all sync.WaitGroup
	for i, do := range []func(*rand.Rand){w.publishing, w.failing, w.operating, w.restarting} {
		all.Go(func() { do(w.random(i)) })
	}
	for i := range clients {
		all.Go(func() { w.client(i).live() })
	}
	all.Wait()
	w.end()
}

const (
	clients = 8
	budget  = 4_000_000 // bytes

	// How old a list may be that isn't marked as stale: --fresh, half of that for what the source remembers, a second for
	// the body, and time for slow machines.
	listAge = 5 * time.Second

	// For how long the server remembers that something failed or didn't exist, with time for tries and slow machines.
	failureAge = 15 * time.Second

	mostMemory = 150 << 20 // bytes
	mostWait   = time.Minute
)

// A week is a server with all that happens to it.
type week struct {
	*testing.T
	*diskMachine
	ctx              context.Context // done at the end of the week
	length           time.Duration
	mirror, url      string
	log              *os.File
	upstream, server outages
	cmd              *exec.Cmd

	mu     sync.Mutex
	all    []weekVersion
	listed map[string]time.Time // when a client first got a list with HOST/NAMESPACE/TYPE/VERSION
}

// A weekVersion package is one that the registry has.
type weekVersion struct {
	provider, version, platform, zh string
	at                              time.Time
	kept                            bool // by a lock file
}

func (p weekVersion) archive() string {
	name := p.provider[strings.LastIndexByte(p.provider, '/')+1:]
	return fmt.Sprintf("%s/terraform-provider-%s_%s_%s.zip", p.provider, name, p.version, p.platform)
}

// outages are the times at which something didn't work.
type outages struct {
	mu    sync.Mutex
	spans [][2]time.Time // the end is zero if there is none yet
}

// during makes the time an outage in which something is done.
func (o *outages) during(do func()) {
	o.mu.Lock()
	o.spans = append(o.spans, [2]time.Time{time.Now()})
	o.mu.Unlock()
	do()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spans[len(o.spans)-1][1] = time.Now()
}

func (o *outages) any(from, to time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.spans, func(s [2]time.Time) bool {
		return s[0].Before(to) && (s[1].IsZero() || s[1].After(from))
	})
}

func newWeek(t *testing.T, length time.Duration) *week {
	w := &week{T: t, diskMachine: newMachineIn(t, sourcetest.New(t)), length: length, listed: map[string]time.Time{}}
	w.mirror = w.path("mirror")
	random := w.random(-1)
	for _, name := range []string{"kept", "locked", "other"} {
		w.publish("registry.terraform.io/acme/"+name, "1.0.0", "linux_amd64", random)
	}
	for i := range w.all {
		w.all[i].at, w.all[i].kept = time.Time{}, i < 2
	}
	w.env = append(w.world.Env(), "LARDER_TEST_CLOCK=1", "TF_REGISTRY_CLIENT_TIMEOUT=1",
		"TF_REGISTRY_DISCOVERY_RETRY=1", "TF_PROVIDER_DOWNLOAD_RETRY=1")
	cert, key, _ := sourcetest.Certificate("")
	w.write("root/main.tf", sourcetest.Configuration("kept", "locked"))
	w.write("cert.pem", string(cert))
	w.write("key.pem", string(key))
	w.succeeds("lock --chdir root")
	w.succeeds("mirror sync mirror root --platform linux_amd64")
	w.url = "https://" + sourcetest.FreePort(t) + "/"
	w.log = sourcetest.Must(os.Create(w.path("log")))(t)
	t.Cleanup(w.showLog)
	w.server.during(w.start)
	t.Cleanup(func() { _ = w.cmd.Process.Kill() }) // unless it has ended
	c := w.client(clients)
	w.judge(c.get(w.all[2], "index.json"), w.all[2], http.StatusOK)
	c.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	t.Cleanup(cancel)
	w.ctx = ctx
	return w
}

// random returns the random numbers of one of those who act at the same time.
func (w *week) random(who int) *rand.Rand {
	return rand.New(rand.NewPCG(sourcetest.Seed(), uint64(who)))
}

// rest waits for a random time, and reports whether the week goes on. Most times are shorter than the mean, and some
// much longer.
func (w *week) rest(random *rand.Rand, mean time.Duration) bool {
	return pause(w.ctx, time.Duration(random.ExpFloat64()*float64(mean)))
}

// part returns a part of the week, but at least least and at most a minute.
func (w *week) part(parts int, least time.Duration) time.Duration {
	return min(max(w.length/time.Duration(parts), least), time.Minute)
}

// start starts the server, and returns when it answers.
func (w *week) start() {
	address := strings.Trim(strings.TrimPrefix(w.url, "https:"), "/")
	w.cmd = w.command(context.Background(), fmt.Sprintf("serve mirror --upstream --fresh 1s --max-size %dB"+
		" --keep-locked-by root --cert cert.pem --key key.pem --listen %s", budget, address))
	w.cmd.Stdout, w.cmd.Stderr = w.log, w.log
	sourcetest.Check(w, w.cmd.Start())
	client := w.world.Client()
	w.until("the server is ready", func() bool {
		resp, err := client.Get(w.url + "readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	client.CloseIdleConnections()
}

// stop ends the server by a signal.
func (w *week) stop(signal syscall.Signal) {
	peak := residentPeak(w.cmd.Process.Pid)
	sourcetest.Expect(w, peak < mostMemory*roomForRaces(), "the server has had %d MB of memory", peak>>20)
	sourcetest.Check(w, w.cmd.Process.Signal(signal))
	late := time.AfterFunc(mostWait, func() {
		w.Errorf("the server doesn't end")
		_ = w.cmd.Process.Kill()
	})
	defer late.Stop()
	if err := w.cmd.Wait(); err != nil && signal == syscall.SIGTERM {
		w.Errorf("the server ended with %v", err)
	}
}

// until waits for a condition that nothing announces.
func (w *week) until(what string, holds func() bool) {
	w.Helper()
	for deadline := time.Now().Add(2 * mostWait); !holds(); time.Sleep(20 * time.Millisecond) {
		sourcetest.Require(w, time.Now().Before(deadline), "%s: not in time", what)
	}
}

// publish adds a package to the registry.
func (w *week) publish(provider, version, platform string, random *rand.Rand) {
	w.world.Add(provider, version, sourcetest.Release{Platforms: []string{platform}, Size: 1 + random.Int64N(500_000)})
	zh, _ := w.world.Hashes(provider + "/" + version + "/" + platform)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, weekVersion{provider: provider, version: version, platform: platform, zh: zh, at: time.Now()})
}

// publishing publishes new versions, new packages of existing versions, and new providers.
func (w *week) publishing(random *rand.Rand) {
	for n := 1; w.rest(random, w.part(200, 200*time.Millisecond)); n++ {
		of := w.choose(random)
		switch random.IntN(6) {
		case 0:
			w.publish(fmt.Sprint("registry.terraform.io/acme/new", n), "1.0.0", "linux_amd64", random)
		case 1, 2:
			platform := []string{"darwin_arm64", "windows_amd64", "freebsd_amd64"}[random.IntN(3)]
			if !slices.ContainsFunc(w.weekVersion(), func(p weekVersion) bool {
				return p.provider == of.provider && p.version == of.version && p.platform == platform
			}) {
				w.publish(of.provider, of.version, platform, random)
			}
		default:
			w.publish(of.provider, fmt.Sprint("1.1.", n), "linux_amd64", random)
		}
	}
}

func (w *week) weekVersion() []weekVersion {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// choose returns a package, often one of the newest.
func (w *week) choose(random *rand.Rand) weekVersion {
	all := w.weekVersion()
	if random.IntN(2) == 0 {
		all = all[max(0, len(all)-10):]
	}
	return all[random.IntN(len(all))]
}

// failing makes upstream fail.
func (w *week) failing(random *rand.Rand) {
	for w.rest(random, w.part(40, time.Second)) {
		size := 1 + random.Int64N(200_000)
		kinds := []sourcetest.Fault{
			{Cut: -1}, {Cut: -1, Reset: true}, {Status: 500}, {Status: 429, RetryAfter: "1"}, {Delay: 300 * time.Millisecond},
			{Path: "*.zip", Rate: size}, {Path: "*.zip", Cut: size}, {Path: "*.zip", Cut: size, Reset: true},
			{Path: "*.zip", Corrupt: true}, {Path: "*SHA256SUMS", Corrupt: true}, {Path: "*.zip", Stall: size},
			{Path: "*/versions", Stall: -1}, {Path: "*/download/*", Stall: -1}, {Path: "*.sig", Body: "nonsense"},
			{Path: "*/versions", Body: "nonsense"}, {Path: "*/versions", Body: `{"versions":[{`},
			{Path: "*/versions", Body: "<html></html>"}, {Path: "*/versions", Body: "[]"},
		}
		w.upstream.during(func() {
			w.world.Registry.Fault(kinds[random.IntN(len(kinds))])
			w.rest(random, w.part(40, time.Second))
			w.world.Registry.Mend()
		})
		w.world.Registry.Forget() // it takes memory
	}
}

// restarting ends the server and starts it again.
func (w *week) restarting(random *rand.Rand) {
	for w.rest(random, w.part(20, 2*time.Second)) {
		w.server.during(func() {
			w.stop([]syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[random.IntN(2)])
			w.start()
		})
	}
}

// unfinished matches what larder mirror verify finds after a writer was killed.
var unfinished = regexp.MustCompile(`: (unfinished|not in the index|wrong index): `)

// operating runs commands on the directory.
func (w *week) operating(random *rand.Rand) {
	for w.rest(random, w.part(60, time.Second)) {
		p, begun := w.choose(random), time.Now()
		var e ending
		mayFail := false
		switch random.IntN(3) {
		case 0:
			e = w.run("mirror sync mirror " + p.provider + "@" + p.version + " --platform " + p.platform)
			mayFail = w.upstream.any(begun.Add(-failureAge), time.Now())
		case 1:
			e = w.run("mirror verify mirror")
			mayFail = unfinished.MatchString(e.output) && w.server.any(begun.Add(-mostWait), time.Now())
		case 2:
			e = w.run("mirror prune mirror --keep-locked-by root --keep-last 2 --yes")
		}
		sourcetest.Expect(w, e.status == exitDone || mayFail, "of %s: %s", p.archive(), e)
	}
}

// end checks what the week leaves.
func (w *week) end() {
	var all sync.WaitGroup
	for i := range clients {
		c := w.client(i)
		all.Go(func() {
			defer c.CloseIdleConnections()
			for n := i; n < len(w.all); n += clients { // interrupted downloads continue
				w.until(w.all[n].archive(), func() bool { return c.whole(w.all[n]) })
			}
		})
	}
	all.Wait()
	w.stop(syscall.SIGTERM)
	w.succeeds("mirror verify mirror")
	for _, dir := range []string{"partial", "tmp"} {
		left, _ := filepath.Glob(filepath.Join(w.mirror, ".larder", dir, "*"))
		sourcetest.Expect(w, len(left) == 0, "left: %v", left)
	}
	size := int64(0)
	archives, _ := filepath.Glob(filepath.Join(w.mirror, "*", "*", "*", "*.zip"))
	for _, file := range archives {
		size += sourcetest.Must(os.Stat(file))(w).Size()
	}
	sourcetest.Expect(w, 0 < size && size <= budget, "the mirror has %d bytes", size)
	crashed := regexp.MustCompile(`(?m)^(panic:|fatal error:|WARNING: DATA RACE|.*http: panic).*`)
	trouble := crashed.FindString(w.read("log"))
	sourcetest.Expect(w, trouble == "", "the log has %q", trouble)
}

// showLog shows the end of the log after a failure.
func (w *week) showLog() {
	if w.Failed() {
		log := regexp.MustCompile(`.* GET /(metrics|healthz|readyz) 200 .*\n`).ReplaceAllString(w.read("log"), "")
		w.Logf("the end of the log:\n%s", log[max(0, len(log)-10_000):])
	}
}
