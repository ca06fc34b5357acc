package age_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/age"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m, InMemory: true}.Run()) }

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

// A world has a true time, a machine with clocks that may be wrong, and a registry.
type world struct {
	t   *testing.T
	dir string
	key seal.Key

	now  time.Time     // the true time
	wall time.Duration // by which the machine's clock is wrong
	sent time.Duration // by which the server's clock is wrong
	boot string
	up   time.Time // when the machine was booted, in true time

	online    bool
	published map[sources.Version]time.Time // as the registry states it; nil if it states nothing
	asked     int
}

func newWorld(t *testing.T) *world {
	return &world{
		t: t, dir: t.TempDir(), key: mustKey(t, "a secret of many bytes"), online: true,
		now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), up: time.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC), boot: "first",
	}
}

func mustKey(t *testing.T, secret string) seal.Key {
	t.Helper()
	key, err := seal.ParseKey(secret)
	sourcetest.Check(t, err)
	return key
}

func (w *world) Wall() time.Time { return w.now.Add(w.wall) }
func (w *world) Uptime() (string, time.Duration) {
	return w.boot, w.now.Sub(w.up)
}

func (w *world) Date() time.Time {
	if !w.online {
		return time.Time{}
	}
	return w.now.Add(w.sent)
}

func (w *world) Published(context.Context, sources.Provider) (map[sources.Version]time.Time, time.Time, error) {
	w.asked++
	if !w.online || w.published == nil {
		return nil, time.Time{}, errors.New("no times")
	}
	return w.published, w.Date(), nil
}

// run returns the ages of a new process.
func (w *world) run() age.Ages {
	return age.New(age.Options{Dir: w.dir, Name: "ages", Key: w.key, Clock: w}).With(age.Network{Published: w.Published, Date: w.Date})
}

func (w *world) reboot(off time.Duration) {
	w.now = w.now.Add(off)
	w.up, w.boot = w.now.Add(-time.Second), w.now.String()
}

// learn returns the ages of versions of the widget in a new process that learns about them.
func (w *world) learn(versions ...string) (ages []policy.Age) {
	w.t.Helper()
	run, p := w.run(), widget(w.t)
	sourcetest.Check(w.t, run.Learn(w.t.Context(), p, parse(w.t, versions...)...))
	for _, v := range parse(w.t, versions...) {
		ages = append(ages, run.Of(p, v))
	}
	return ages
}

func (w *world) expect(version string, want time.Duration, stated bool) {
	w.t.Helper()
	got := w.learn(version)[0]
	if got.AtLeast.Round(time.Minute) != want || got.Stated != stated {
		w.t.Errorf("%s: age %s, stated %v; want %s, %v", version, got.AtLeast, got.Stated, want, stated)
	}
}

func widget(t *testing.T) sources.Provider { return sourcetest.Address(t, "example.com/acme/widget") }

func parse(t *testing.T, texts ...string) (versions []sources.Version) {
	t.Helper()
	for _, text := range texts {
		v, err := sources.ParseVersion(text)
		sourcetest.Check(t, err)
		versions = append(versions, v)
	}
	return versions
}

// In one boot, only the uptime counts.
func TestAgeFollowsUptime(t *testing.T) {
	for _, online := range []bool{true, false} {
		w := newWorld(t)
		w.online = online
		w.expect("1.0.0", 0, false)
		w.now = w.now.Add(3 * day) // suspended or not
		w.expect("1.0.0", 3*day, false)
		w.wall = 1000 * day
		w.expect("1.0.0", 3*day, false)
		w.wall = -1000 * day
		w.expect("1.0.0", 3*day, false)
		w.wall, w.sent = 1000*day, 1000*day
		w.expect("1.0.0", 3*day, false)
		w.expect("2.0.0", 0, false)
		w.now = w.now.Add(hour)
		w.expect("1.0.0", 3*day+hour, false)
		w.expect("2.0.0", hour, false)
	}
}

// Across boots, the time between two answers of servers counts.
func TestAgeAcrossBoots(t *testing.T) {
	w := newWorld(t)
	w.expect("1.0.0", 0, false)
	w.now = w.now.Add(hour)
	w.reboot(5 * day)
	w.expect("1.0.0", 5*day+hour, false)
	w.online = false
	w.now = w.now.Add(hour)
	w.expect("1.0.0", 5*day+2*hour, false)
	w.reboot(5 * day)
	w.expect("1.0.0", 5*day+hour, false) // until the last record
	w.now = w.now.Add(hour)
	w.expect("1.0.0", 5*day+2*hour, false)
	w.online = true
	w.expect("1.0.0", 10*day+3*hour, false)
	w.online = false
	w.expect("1.0.0", 10*day+3*hour, false)
}

// The time before a version was first seen doesn't count, even if the line of time stood still then.
func TestLagDoesNotCount(t *testing.T) {
	w := newWorld(t)
	w.learn("1.0.0")
	w.online = false
	w.reboot(30 * day)
	w.expect("2.0.0", 0, false)
	w.online = true
	w.expect("2.0.0", 0, false)
	w.reboot(day)
	w.expect("2.0.0", day, false)
	w.expect("1.0.0", day, false)
}

// With a wrong clock when a version is first seen, a correct one later doesn't make it older.
func TestWrongClockAtFirst(t *testing.T) {
	for _, test := range []struct {
		wall, sent time.Duration
		online     bool
		want       time.Duration // after another day
	}{
		{0, 0, true, day},
		{-1000 * day, 0, true, day},
		{0, -1000 * day, true, day},
		{1000 * day, 0, true, 0},
		{0, 1000 * day, true, 0},
		{-1000 * day, 0, false, 0},
		{0, 0, false, 0},
	} {
		w := newWorld(t)
		w.wall, w.sent, w.online = test.wall, test.sent, test.online
		w.learn("1.0.0")
		w.wall, w.sent, w.online = 0, 0, true
		w.reboot(day)
		w.expect("1.0.0", test.want, false)
	}
}

// Later, too, one correct clock is sufficient.
func TestWrongClockLater(t *testing.T) {
	for _, test := range []struct{ wall, sent, want time.Duration }{
		{1000 * day, 0, day},
		{0, 1000 * day, day},
		{-1000 * day, 0, 0},
		{0, -1000 * day, 0},
	} {
		w := newWorld(t)
		w.learn("1.0.0")
		w.reboot(day)
		w.wall, w.sent = test.wall, test.sent
		w.expect("1.0.0", test.want, false)
	}
}

// On a system that doesn't identify its boots, only servers show how much time has passed.
func TestUnknownBoot(t *testing.T) {
	for _, boot := range []string{"", "no uptime"} {
		w := newWorld(t)
		w.boot = boot
		w.up = w.now
		w.learn("1.0.0")
		w.now = w.now.Add(2 * day)
		if boot != "" {
			w.up = w.now
		}
		w.expect("1.0.0", 2*day, false)
		w.online = false
		w.now = w.now.Add(2 * day)
		if boot != "" {
			w.up = w.now
		}
		w.expect("1.0.0", 2*day, false)
		w.expect("2.0.0", 0, false)
		w.online = true
		w.expect("2.0.0", 0, false)
	}
}

// Whatever happens to a machine, no version is older than it is, as long as its own clock or that of the server is
// correct at each moment.
func TestNeverTooOld(t *testing.T) {
	for _, trial := range sourcetest.Sample(t, 2000, 60) {
		random := rand.New(rand.NewPCG(sourcetest.Seed(), uint64(trial)))
		w := newWorld(t)
		births := map[string]time.Time{}
		var story []string
		var machines []func()
		for _, m := range []string{"a", "b"} {
			up, boots := w.now, 0
			machines = append(machines, func() { // each reboots now and then
				if boots++; boots == 1 || random.IntN(4) == 0 {
					up = w.now
				}
				w.boot, w.up = fmt.Sprint(m, up), up
			})
		}
		for range 40 {
			w.now = w.now.Add(time.Duration(random.Int64N(int64(3 * day))))
			wrong := time.Duration(random.Int64N(int64(40*day))) - 20*day
			w.wall, w.sent, w.online = 0, 0, random.IntN(3) > 0
			switch random.IntN(3) {
			case 0:
				w.wall = wrong
			case 1:
				w.sent = wrong
			}
			at := 0
			if random.IntN(5) == 0 {
				at = 1 // they share the home directory
			}
			machines[at]()
			if random.IntN(10) == 0 {
				w.boot = ""
			}
			version := fmt.Sprintf("1.0.%d", random.IntN(6))
			if births[version].IsZero() {
				births[version] = w.now
			}
			got, real := w.learn(version)[0], w.now.Sub(births[version])
			story = append(story, fmt.Sprintf("%s on %q: wall %s, server %s, online %v: %s is %s, real %s",
				w.now.Format(time.DateTime), w.boot, w.wall, w.sent, w.online, version, got.AtLeast, real))
			if got.AtLeast > real {
				t.Fatalf("too old:\n%s", strings.Join(story, "\n"))
			}
		}
	}
}

// An age that the registry states needs no clock of this machine.
func TestStated(t *testing.T) {
	w := newWorld(t)
	w.wall = 500 * day
	w.expect("1.0.0", 0, false) // states nothing yet
	w.published = map[sources.Version]time.Time{}
	for i, v := range parse(t, "1.0.0", "2.0.0", "3.0.0", "4.0.0") {
		w.published[v] = w.now.Add(time.Duration(i-3) * 10 * day)
	}
	w.expect("1.0.0", 30*day, true)
	w.expect("2.0.0", 20*day, true)
	w.expect("4.0.0", 0, true)
	sourcetest.Equal(t, w.asked, 2) // the second time for all versions
	w.expect("5.0.0", 0, false)
	sourcetest.Equal(t, w.asked, 3)

	// Published in the future.
	w.published[parse(t, "6.0.0")[0]] = w.now.Add(day)
	w.expect("6.0.0", 0, true)

	// A statement may make a version younger, and not older.
	w.published[parse(t, "1.0.0")[0]] = w.now.Add(-2 * day)
	w.published[parse(t, "2.0.0")[0]] = w.now.Add(-200 * day)
	w.learn("7.0.0")
	w.expect("1.0.0", 2*day, true)
	w.expect("2.0.0", 20*day, true)

	// The same statement again changes nothing.
	file := filepath.Join(w.dir, "ages", "shared.json")
	before, err := os.ReadFile(file)
	sourcetest.Check(t, err)
	w.now = w.now.Add(time.Minute)
	asked := w.asked
	w.learn("5.0.0")
	sourcetest.Equal(t, w.asked, asked+1)
	after, err := os.ReadFile(file)
	sourcetest.Check(t, err)
	sourcetest.Equal(t, string(after), string(before))

	// It makes up for the time in which the line stood still.
	w.online = false
	w.reboot(10 * day)
	w.expect("2.0.0", 20*day, true)
	w.online = true
	w.learn("8.0.0")
	w.expect("2.0.0", 30*day+time.Minute, true)

	// The oldest possible times don't overflow.
	w.published[parse(t, "9.0.0")[0]] = time.Unix(1, 0)
	w.published[parse(t, "10.0.0")[0]] = time.Unix(-1<<50, 0)
	if got := w.learn("9.0.0")[0]; got.AtLeast < 20000*day || !got.Stated {
		t.Errorf("got %v", got)
	}
	w.expect("10.0.0", 0, false)
}

// In a run, each registry is asked at most once about a provider, even if it doesn't answer. It isn't asked if it may not be.
func TestAskedOnce(t *testing.T) {
	w := newWorld(t)
	p, other := widget(t), sourcetest.Address(t, "example.com/acme/other")
	run := w.run()
	for _, version := range []string{"1.0.0", "2.0.0", "1.0.0"} {
		sourcetest.Check(t, run.Learn(t.Context(), p, parse(t, version)...))
	}
	sourcetest.Equal(t, w.asked, 1)
	sourcetest.Check(t, run.Learn(t.Context(), other, parse(t, "1.0.0")...))
	sourcetest.Equal(t, w.asked, 2)

	l := age.New(age.Options{Clock: w})
	asks := age.Network{Published: w.Published, Asks: func(context.Context, sources.Provider) bool { return false }}
	sourcetest.Check(t, l.With(asks).Learn(t.Context(), p, parse(t, "1.0.0")...))
	sourcetest.Check(t, l.With(age.Network{}).Learn(t.Context(), p, parse(t, "1.0.0")...))
	sourcetest.Equal(t, w.asked, 2)
	sourcetest.Check(t, l.With(age.Network{Published: w.Published}).Learn(t.Context(), p, parse(t, "1.0.0")...))
	sourcetest.Equal(t, w.asked, 3)
}

func TestInterrupted(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	net := age.Network{Published: func(context.Context, sources.Provider) (map[sources.Version]time.Time, time.Time, error) {
		cancel()
		return nil, time.Time{}, ctx.Err()
	}}
	l := age.New(age.Options{Clock: w})
	if err := l.With(net).Learn(ctx, widget(t), parse(t, "1.0.0")...); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	net.Published = w.Published
	sourcetest.Check(t, l.With(net).Learn(t.Context(), widget(t), parse(t, "1.0.0")...))
	sourcetest.Equal(t, w.asked, 1)
}

// An invalid file is ignored, and replaced.
func TestInvalidFile(t *testing.T) {
	path := func(w *world) string { return filepath.Join(w.dir, "ages", "shared.json") }
	replace := func(text func(key seal.Key, old []byte) []byte) func(*world) {
		return func(w *world) {
			old, err := os.ReadFile(path(w))
			sourcetest.Check(w.t, err)
			sourcetest.Check(w.t, os.WriteFile(path(w), text(w.key, old), 0o644))
		}
	}
	sealed := func(about string, record any) func(*world) {
		return replace(func(key seal.Key, _ []byte) []byte {
			text, err := key.Seal(about, record)
			sourcetest.Check(t, err)
			return text
		})
	}
	for name, damage := range map[string]func(*world){
		"edited": replace(func(_ seal.Key, old []byte) []byte {
			return []byte(strings.Replace(string(old), `"born":0`, `"born":-900000000000000`, 1))
		}),
		"cut":    replace(func(_ seal.Key, old []byte) []byte { return old[:len(old)/2] }),
		"empty":  replace(func(seal.Key, []byte) []byte { return nil }),
		"null":   sealed("ages of versions", nil),
		"format": sealed("ages of versions", map[string]any{"format": 2, "providers": map[string]any{}}),
		"bare":   sealed("ages of versions", map[string]any{"format": 1}),
		"of another subject": replace(func(key seal.Key, old []byte) []byte {
			record, err := key.Open("ages of versions", old)
			sourcetest.Check(t, err)
			text, err := key.Seal("cache", record)
			sourcetest.Check(t, err)
			return text
		}),
		"of another key": func(w *world) { w.key = mustKey(t, "another secret of many bytes") },
		"of the user":    func(w *world) { w.key = seal.UserKey(w.dir) },
		"a link": func(w *world) {
			sourcetest.Check(t, os.Rename(path(w), path(w)+"2"))
			sourcetest.Check(t, sourcetest.Symlink(w.t, path(w)+"2", path(w)))
		},
		"a directory": func(w *world) {
			sourcetest.Check(t, os.Remove(path(w)))
			sourcetest.Check(t, os.MkdirAll(filepath.Join(path(w), "x"), 0o755))
		},
		"too large": func(w *world) { sourcetest.Check(t, os.Truncate(path(w), 64<<20+1)) },
		"in a linked directory": func(w *world) {
			sourcetest.Check(t, os.Rename(filepath.Join(w.dir, "ages"), filepath.Join(w.dir, "elsewhere")))
			sourcetest.Check(t, sourcetest.Symlink(w.t, "elsewhere", filepath.Join(w.dir, "ages")))
		},
		"removed": func(w *world) { sourcetest.Check(t, os.RemoveAll(filepath.Join(w.dir, "ages"))) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.learn("1.0.0")
			w.now = w.now.Add(2 * day)
			w.expect("1.0.0", 2*day, false)
			damage(w)
			w.expect("1.0.0", 0, false)
			if name != "a directory" && name != "in a linked directory" { // nothing can be kept
				w.now = w.now.Add(day)
				w.expect("1.0.0", day, false)
			}
		})
	}
}

// A version is as old as another ledger of the same key has seen it, also on another machine.
func TestSeenElsewhere(t *testing.T) {
	w := newWorld(t)
	w.learn("1.0.0")
	w.reboot(10 * day) // another machine
	mirror := age.New(age.Options{Dir: w.dir, Name: "ages", Key: w.key, Clock: w, ReadOnly: true}).With(age.Network{Date: w.Date})
	seen := func(p sources.Provider, v sources.Version) time.Duration { return mirror.Of(p, v).AtLeast }
	l := age.New(age.Options{Clock: w})
	expect := func(net age.Network, version string, want time.Duration) {
		t.Helper()
		sourcetest.Check(t, l.With(net).Learn(t.Context(), widget(t), parse(t, version)...))
		sourcetest.Equal(t, l.With(net).Of(widget(t), parse(t, version)[0]), policy.Age{Known: true, AtLeast: want})
	}
	expect(age.Network{}, "1.0.0", 0)
	expect(age.Network{Seen: seen}, "1.0.0", 10*day)
	expect(age.Network{Seen: seen}, "2.0.0", 0)
	expect(age.Network{Seen: func(sources.Provider, sources.Version) time.Duration { return -day }}, "3.0.0", 0)
	expect(age.Network{}, "1.0.0", 10*day)

	// What the registry states takes precedence.
	w.published = map[sources.Version]time.Time{parse(t, "1.0.0")[0]: w.now.Add(-hour)}
	sourcetest.Check(t, l.With(age.Network{Seen: seen, Published: w.Published}).Learn(t.Context(), widget(t), parse(t, "1.0.0")...))
	sourcetest.Equal(t, l.With(age.Network{}).Of(widget(t), parse(t, "1.0.0")[0]), policy.Age{Known: true, AtLeast: hour, Stated: true})
}

// Runs with the user's key and with a shared one don't lose each other's ages.
func TestTwoKeys(t *testing.T) {
	w := newWorld(t)
	shared, own := w.key, seal.UserKey(w.dir)
	for _, w.key = range []seal.Key{shared, own} {
		w.expect("1.0.0", 0, false)
		w.now = w.now.Add(day)
	}
	w.key = shared
	w.expect("1.0.0", 2*day, false)
	w.key = seal.UserKey(w.dir)
	w.expect("1.0.0", day, false)
}

// Without a directory, the working directory isn't used in its place.
func TestNoDirectory(t *testing.T) {
	w := newWorld(t)
	w.learn("1.0.0")
	w.now = w.now.Add(day)
	t.Chdir(w.dir)
	run := age.New(age.Options{Name: "ages", Key: w.key, Clock: w}).With(age.Network{})
	sourcetest.Check(t, run.Learn(t.Context(), widget(t), parse(t, "1.0.0")...))
	sourcetest.Equal(t, run.Of(widget(t), parse(t, "1.0.0")[0]), policy.Age{Known: true})
}

// The zero Options are those of this machine.
func TestZeroOptions(t *testing.T) {
	t.Chdir(newWorld(t).dir)
	run := age.New(age.Options{}).With(age.Network{})
	sourcetest.Check(t, run.Learn(t.Context(), widget(t), parse(t, "1.0.0")...))
	time.Sleep(time.Millisecond)
	got := run.Of(widget(t), parse(t, "1.0.0")[0]).AtLeast
	if disk.Boot() != "" && disk.Uptime() > 0 && got < time.Millisecond || got > hour {
		t.Errorf("got %s", got)
	}
	entries, err := os.ReadDir(".")
	sourcetest.Check(t, err)
	sourcetest.Equal(t, len(entries), 0)
}

// Without a directory that can be written, or with a key that can't be read, ages are known only in this run.
func TestNotKept(t *testing.T) {
	for name, prepare := range map[string]func(*world) age.Options{
		"none": func(*world) age.Options { return age.Options{} },
		"a file instead of the directory": func(w *world) age.Options {
			sourcetest.Check(w.t, os.WriteFile(filepath.Join(w.dir, "ages"), nil, 0o644))
			return age.Options{Dir: w.dir, Name: "ages"}
		},
		"read only": func(w *world) age.Options { return age.Options{Dir: w.dir, Name: "ages", ReadOnly: true} },
		"no key": func(w *world) age.Options {
			sourcetest.Check(w.t, os.WriteFile(filepath.Join(w.dir, "record.key"), []byte("none"), 0o600))
			return age.Options{Dir: w.dir, Name: "ages", Key: seal.UserKey(w.dir)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			opts := prepare(w)
			opts.Clock = w
			for range 2 {
				run := age.New(opts).With(age.Network{})
				sourcetest.Equal(t, run.Of(widget(t), parse(t, "1.0.0")[0]), policy.Age{})
				sourcetest.Check(t, run.Learn(t.Context(), widget(t), parse(t, "1.0.0")...))
				w.now = w.now.Add(day)
				sourcetest.Check(t, run.Learn(t.Context(), widget(t), parse(t, "1.0.0")...))
				sourcetest.Equal(t, run.Of(widget(t), parse(t, "1.0.0")[0]).AtLeast, day)
			}
			if _, err := os.Stat(filepath.Join(w.dir, "ages", "own.json")); err == nil {
				t.Error("the file exists")
			}
		})
	}
}

// A run that changes nothing reads the ages of earlier ones.
func TestReadOnly(t *testing.T) {
	w := newWorld(t)
	w.learn("1.0.0")
	w.now = w.now.Add(day)
	dir := filepath.Join(w.dir, "ages")
	before, err := os.ReadFile(filepath.Join(dir, "shared.json"))
	sourcetest.Check(t, err)
	run := age.New(age.Options{Dir: w.dir, Name: "ages", Key: w.key, Clock: w, ReadOnly: true}).With(age.Network{Published: w.Published, Date: w.Date})
	sourcetest.Check(t, run.Learn(t.Context(), widget(t), parse(t, "1.0.0", "2.0.0")...))
	sourcetest.Equal(t, run.Of(widget(t), parse(t, "1.0.0")[0]).AtLeast, day)
	after, err := os.ReadFile(filepath.Join(dir, "shared.json"))
	sourcetest.Check(t, err)
	sourcetest.Equal(t, string(after), string(before))
}

// Another process that holds the lock forever doesn't stop a run.
func TestLocked(t *testing.T) {
	w := newWorld(t)
	w.learn("1.0.0")
	dir, err := disk.Open(filepath.Join(w.dir, "ages"))
	sourcetest.Check(t, err)
	defer dir.Close()
	lock := dir.Lock("lock")
	_, err = lock.Try()
	sourcetest.Check(t, err)
	defer lock.Unlock()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.run().Learn(ctx, widget(t), parse(t, "2.0.0")...); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	age.SetLockWait(t, 10*time.Millisecond)
	w.expect("2.0.0", 0, false)
}

// A run that waits for another one reads the clocks again, so that the time of the wait isn't counted twice.
func TestClocksAreReadUnderTheLock(t *testing.T) {
	w := newWorld(t)
	w.learn("1.0.0")
	dir, err := disk.Open(filepath.Join(w.dir, "ages"))
	sourcetest.Check(t, err)
	defer dir.Close()
	lock := dir.Lock("lock")
	_, err = lock.Try()
	sourcetest.Check(t, err)
	read := 0
	slow := age.New(age.Options{Dir: w.dir, Name: "ages", Key: w.key, Clock: w}).With(age.Network{Date: func() time.Time {
		if read++; read == 1 { // the uptime has been read, and another run changes the file meanwhile
			w.now = w.now.Add(hour)
			lock.Unlock()
			w.learn("2.0.0")
		}
		return w.Date()
	}})
	sourcetest.Check(t, slow.Learn(t.Context(), widget(t), parse(t, "3.0.0")...))
	w.now = w.now.Add(hour)
	w.expect("1.0.0", 2*hour, false)
}

// Runs at the same time don't lose each other's versions.
func TestAtOnce(t *testing.T) {
	w := newWorld(t)
	var group sync.WaitGroup
	for i := range 8 {
		run := age.New(age.Options{Dir: w.dir, Name: "ages", Key: w.key, Clock: w}).With(age.Network{})
		for j := range 4 {
			group.Go(func() {
				p := sourcetest.Address(t, fmt.Sprintf("example.com/acme/widget%d", j))
				if err := run.Learn(t.Context(), p, parse(t, fmt.Sprintf("1.0.%d", i))...); err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	w.now = w.now.Add(day)
	run := w.run()
	for i := range 8 {
		for j := range 4 {
			p := sourcetest.Address(t, fmt.Sprintf("example.com/acme/widget%d", j))
			sourcetest.Equal(t, run.Of(p, parse(t, fmt.Sprintf("1.0.%d", i))[0]).AtLeast, day)
		}
	}
}

// Processes at the same time don't lose each other's versions, even if some of them are killed.
func TestProcesses(t *testing.T) {
	const most = 20 // versions of each process
	learn := func(dir, name string) {
		run := age.New(age.Options{Dir: dir, Name: "ages", Key: mustKey(t, "a secret of many bytes")}).With(age.Network{})
		for i := range most {
			p := sourcetest.Address(t, "example.com/acme/"+name)
			sourcetest.Check(t, run.Learn(t.Context(), p, parse(t, fmt.Sprintf("1.0.%d", i))...))
		}
	}
	if dir := os.Getenv("LARDER_TEST_AGES"); dir != "" {
		learn(dir, os.Getenv("LARDER_TEST_NAME"))
		return
	}
	w := newWorld(t)
	var group sync.WaitGroup
	for i := range 6 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestProcesses$")
		cmd.Env = append(os.Environ(), "LARDER_TEST_AGES="+w.dir, fmt.Sprintf("LARDER_TEST_NAME=widget%d", i))
		sourcetest.Check(t, cmd.Start())
		killed := i%2 == 0
		if killed {
			time.AfterFunc(time.Duration(rand.IntN(100))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		}
		group.Go(func() {
			if err := cmd.Wait(); err != nil && !killed {
				t.Error(err)
			}
		})
	}
	group.Wait()
	w.boot = disk.Boot()
	w.up = w.now.Add(-disk.Uptime() - day)
	run := w.run()
	for _, i := range []int{1, 3, 5} {
		for j := range most {
			got := run.Of(sourcetest.Address(t, fmt.Sprintf("example.com/acme/widget%d", i)), parse(t, fmt.Sprintf("1.0.%d", j))[0])
			sourcetest.Expect(t, got.AtLeast >= day || w.boot == "", "widget%d 1.0.%d: %v", i, j, got)
		}
	}
}
