package age_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/age"
	"github.com/larder-cli/larder/sources/policy"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m, InMemory: true}.Run()) }

const day = 24 * time.Hour

// A world is a machine with a clock, a user with a key, and a registry.
type world struct {
	t         *testing.T
	dir       string
	key       seal.Key
	now       time.Time
	published map[sources.Version]time.Time // nil if the registry states nothing
	requests  int
	full      []string
}

func newWorld(t *testing.T) *world {
	return &world{t: t, dir: t.TempDir(), key: mustKey(t, "a secret of many bytes"), now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
}

func mustKey(t *testing.T, secret string) seal.Key {
	t.Helper()
	return sourcetest.Must(seal.ParseKey(secret))(t)
}

func widget(t testing.TB) sources.Provider { return sourcetest.Address(t, "example.com/acme/widget") }

func parse(t testing.TB, texts ...string) (versions []sources.Version) {
	t.Helper()
	for _, text := range texts {
		v := sourcetest.Must(sources.ParseVersion(text))(t)
		versions = append(versions, v)
	}
	return versions
}

func (w *world) Published(context.Context, sources.Provider) (map[sources.Version]time.Time, error) {
	if w.requests++; w.published == nil {
		return nil, errors.New("no answer")
	}
	return w.published, nil
}

// state lets the registry state that versions were published so many days ago.
func (w *world) state(days map[string]int) {
	w.published = map[sources.Version]time.Time{}
	for text, n := range days {
		w.published[parse(w.t, text)[0]] = w.now.AddDate(0, 0, -n)
	}
}

func (w *world) ledger() *age.Ledger {
	return age.New(age.Options{Dir: w.dir, Key: w.key, Now: func() time.Time { return w.now }, Full: func(provider string) {
		w.full = append(w.full, provider)
	}})
}

// run is a run in which a listing has some versions, and which wants to know the ages of named ones.
func (w *world) run(listed []string, named ...string) {
	w.t.Helper()
	l := w.ledger()
	defer l.Close()
	run := l.With(age.Registry{Published: w.Published})
	sourcetest.Check(w.t, run.Learn(w.t.Context(), widget(w.t), parse(w.t, append(named, listed...)...)...))
	run.See(w.t.Context(), widget(w.t), sources.Listing{Vouched: parse(w.t, listed...)})
}

// expect is about the age of a version in another run.
func (w *world) expect(version string, want policy.Age) {
	w.t.Helper()
	sourcetest.Equal(w.t, w.ledger().With(age.Registry{}).Of(widget(w.t), parse(w.t, version)[0]), want, version)
}

func seen(ago time.Duration) policy.Age { return policy.Age{Known: true, AtLeast: ago} }
func published(ago time.Duration) policy.Age {
	return policy.Age{Known: true, AtLeast: ago, Stated: true}
}

// A version is as old as the registry states, or else as the time since a listing has first contained it.
func TestAge(t *testing.T) {
	w := newWorld(t)
	w.state(map[string]int{"1.0.0": 30, "3.0.0": -2})
	w.run([]string{"1.0.0", "2.0.0", "3.0.0"})
	w.expect("1.0.0", published(30*day))
	w.expect("2.0.0", seen(0))
	w.expect("3.0.0", published(0)) // in two days
	w.now = w.now.Add(5 * day)
	w.run([]string{"1.0.0", "2.0.0", "2.1.0"})
	w.expect("1.0.0", published(35*day))
	w.expect("2.0.0", seen(5*day))
	w.expect("2.1.0", seen(0))
	w.expect("3.0.0", published(3*day))
}

// No dates are stated if the registry was asked and has none for any version, or if the user has only mirrors. Offline,
// its last answer counts. Once it has stated one, it may be late with others.
func TestUndated(t *testing.T) {
	const offline, mirrors = "offline", "mirrors"
	absent, failed := fmt.Errorf("%w: 404", sources.ErrUndated), errors.New("no answer")
	dates := map[string]int{"0.9.0": 30}
	for _, tt := range []struct {
		host string
		runs []any // offline, mirrors, or what the registry answers: an error, or dates of versions
		want bool  // in the last of them
	}{
		{"example.com", []any{offline}, false},
		{"example.com", []any{mirrors}, true},
		{"example.com", []any{absent}, true},
		{"example.com", []any{absent, offline}, true},
		{"example.com", []any{failed}, false},
		{"example.com", []any{absent, failed}, false},
		{"example.com", []any{absent, failed, offline}, false},
		{"example.com", []any{dates}, false},
		{"example.com", []any{dates, absent}, false},
		{"example.com", []any{dates, mirrors}, false},
		{"example.com", []any{absent, dates, offline}, false},
		{"registry.opentofu.org", []any{absent}, false},
		{"registry.opentofu.org.", []any{absent}, false},
		{"registry.terraform.io:8443", []any{absent}, false},
		{"registry.terraform.io", []any{mirrors}, true},
	} {
		w, p, one, got := newWorld(t), sourcetest.Address(t, tt.host+"/acme/widget"), parse(t, "1.0.0"), false
		for _, run := range tt.runs {
			w.now = w.now.Add(2 * time.Hour)
			registry := age.Registry{Published: func(context.Context, sources.Provider) (map[sources.Version]time.Time, error) {
				if err, failed := run.(error); failed {
					return nil, err
				}
				w.state(run.(map[string]int))
				return w.published, nil
			}}
			is := func(context.Context, sources.Provider) bool { return run == mirrors }
			switch run {
			case offline:
				registry.Published = nil
			case mirrors:
				registry.Asks, registry.Mirrored = func(context.Context, sources.Provider) bool { return false }, is
			}
			l := w.ledger()
			ages := l.With(registry)
			sourcetest.Check(t, ages.Learn(t.Context(), p, one...))
			ages.See(t.Context(), p, sources.Listing{Vouched: one})
			got = ages.Of(p, one[0]).Undated
			l.Close()
		}
		sourcetest.Equal(t, got, tt.want, fmt.Sprint(tt))
	}
}

// Only what a listing vouches for has been seen, never a name.
func TestNamesAreNotSeen(t *testing.T) {
	w := newWorld(t)
	w.run(nil, "1.9.9")
	w.now = w.now.Add(10 * day)
	w.expect("1.9.9", policy.Age{})
	listing := sources.Listing{Versions: parse(t, "1.9.9")} // of a checkout
	w.ledger().With(age.Registry{}).See(t.Context(), widget(t), listing)
	w.expect("1.9.9", policy.Age{})
	w.run([]string{"1.9.9"})
	w.expect("1.9.9", seen(0))
}

// A date of the registry overrides a first sight, and is asked for although the version was seen. Of several dates, the
// latest applies.
func TestRegistryOverrides(t *testing.T) {
	w := newWorld(t)
	w.run([]string{"1.0.0", "2.0.0"})
	w.now = w.now.Add(10 * day)
	w.expect("1.0.0", seen(10*day))
	w.state(map[string]int{"1.0.0": 2, "2.0.0": 40})
	w.run([]string{"1.0.0"}, "1.0.0")
	w.expect("1.0.0", published(2*day))
	w.expect("2.0.0", published(40*day))
	w.state(map[string]int{"1.0.0": 100, "2.0.0": 1})
	w.run(nil, "1.0.0", "2.0.0", "3.0.0")
	w.expect("1.0.0", published(2*day))
	w.expect("2.0.0", published(day))
}

// The registry is asked once in a run, and again after an hour, only if it may be, and not about dates that are known.
func TestAskedOnce(t *testing.T) {
	w := newWorld(t)
	w.state(map[string]int{"1.0.0": 30})
	l := w.ledger()
	asks := true
	run := l.With(age.Registry{Published: w.Published, Asks: func(context.Context, sources.Provider) bool { return asks }})
	learn := func(version string, want int) {
		t.Helper()
		sourcetest.Check(t, run.Learn(t.Context(), widget(t), parse(t, version)...))
		sourcetest.Equal(t, w.requests, want)
	}
	learn("1.0.0", 1)
	learn("1.0.0", 1)
	learn("2.0.0", 1)
	w.now = w.now.Add(2 * time.Hour)
	learn("1.0.0", 1)
	asks = false
	learn("2.0.0", 1)
	asks = true
	learn("2.0.0", 2)
}

// Learn fails only if the context is done.
func TestInterrupted(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	interrupted := func(context.Context, sources.Provider) (map[sources.Version]time.Time, error) {
		cancel()
		return nil, errors.New("interrupted")
	}
	err := w.ledger().With(age.Registry{Published: interrupted}).Learn(ctx, widget(t), parse(t, "1.0.0")...)
	sourcetest.Expect(t, errors.Is(err, context.Canceled), "got %v", err)
}

// A file that isn't as this user has written it is ignored, and replaced.
func TestInvalidFile(t *testing.T) {
	w := newWorld(t)
	w.run([]string{"1.0.0"})
	file := filepath.Join(w.dir, "ages", "shared", "all.json")
	valid := string(sourcetest.ReadFile(t, file))
	w.now = w.now.Add(day)
	w.expect("1.0.0", seen(day))
	other := *w
	other.key = mustKey(t, "another secret of many bytes")
	other.expect("1.0.0", policy.Age{})
	for _, text := range []string{"", "{", valid[1:], valid[:len(valid)-2], `{"mac":"","record":{}}`} {
		sourcetest.Check(t, os.WriteFile(file, []byte(text), 0o600))
		w.expect("1.0.0", policy.Age{})
	}
	w.run([]string{"1.0.0"})
	w.expect("1.0.0", seen(0))
}

// What others fill has a limit. Reaching it loses nothing, and is reported once.
func TestFull(t *testing.T) {
	w := newWorld(t)
	w.run([]string{"1.0.0"})
	l := w.ledger()
	run := l.With(age.Registry{})
	hostile := sourcetest.Address(t, "hostile.example/acme/widget")
	var many sources.Listing
	for i := range 5_001 {
		many.Vouched = append(many.Vouched, parse(t, fmt.Sprintf("1.0.%d", i))...)
	}
	run.See(t.Context(), hostile, many)
	sourcetest.EqualSlices(t, w.full, []string{hostile.String()})
	for i := range 10 {
		run.See(t.Context(), sourcetest.Address(t, fmt.Sprintf("hostile.example/acme/widget%d", i)), many)
	}
	for i := range 25 {
		run.See(t.Context(), sourcetest.Address(t, fmt.Sprintf("hostile%d.example/acme/widget", i)), many)
	}
	sourcetest.Equal(t, len(w.full), 1)
	long := parse(t, "1.0.0-"+fmt.Sprintf("%080d", 1))
	run.See(t.Context(), widget(t), sources.Listing{Vouched: long})
	l.Close()
	info := sourcetest.Must(os.Stat(filepath.Join(w.dir, "ages", "shared", "all.json")))(t)
	sourcetest.Expect(t, info.Size() < 20<<20, "%d bytes", info.Size())

	w.now = w.now.Add(9 * day)
	w.expect("1.0.0", seen(9*day))
	w.expect(long[0].String(), policy.Age{})
	w.state(map[string]int{"1.0.0": 30})
	w.run([]string{"1.0.0"})
	w.expect("1.0.0", published(30*day))

	// What registries state in a run applies, even if it can't be kept.
	other := sourcetest.Address(t, "hostile.example/acme/other")
	run = w.ledger().With(age.Registry{Published: w.Published})
	sourcetest.Check(t, run.Learn(t.Context(), other, parse(t, "1.0.0")...))
	sourcetest.Equal(t, run.Of(other, parse(t, "1.0.0")[0]), published(30*day))
}

// A run that sees one provider after the other doesn't write the file as often.
func TestWritesAreFew(t *testing.T) {
	w := newWorld(t)
	l := w.ledger()
	writes, last := 0, ""
	for i := range 200 {
		p := sourcetest.Address(t, fmt.Sprintf("example.com/acme/widget%d", i))
		l.With(age.Registry{}).See(t.Context(), p, sources.Listing{Vouched: parse(t, "1.0.0")})
		if text := string(sourcetest.ReadFile(t, filepath.Join(w.dir, "ages", "shared", "all.json"))); text != last {
			writes, last = writes+1, text
		}
	}
	sourcetest.Expect(t, writes < 20, "%d writes", writes)
	l.Close()
	var file struct {
		Record struct{ Entries map[string]any }
	}
	sourcetest.Check(t, json.Unmarshal(sourcetest.ReadFile(t, filepath.Join(w.dir, "ages", "shared", "all.json")), &file))
	sourcetest.Equal(t, len(file.Record.Entries), 200)
}

// Without a place for the file, or with one that can't be written, ages are known in this run.
func TestNotKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	sourcetest.Check(t, os.WriteFile(file, nil, 0o600))
	for name, opts := range map[string]age.Options{"zero": {}, "a file": {Dir: file}, "read-only": {Dir: t.TempDir(), ReadOnly: true}} {
		l := age.New(opts)
		run := l.With(age.Registry{})
		run.See(t.Context(), widget(t), sources.Listing{Vouched: parse(t, "1.0.0")})
		l.Close()
		sourcetest.Expect(t, run.Of(widget(t), parse(t, "1.0.0")[0]).Known, "%s", name)
		entries, _ := os.ReadDir(opts.Dir)
		sourcetest.Equal(t, len(entries), 0, name)
	}
}

// Processes at the same time don't lose each other's versions, even if some of them are killed.
func TestProcesses(t *testing.T) {
	const most = 8 // versions of each process
	if dir := os.Getenv("LARDER_TEST_AGES"); dir != "" {
		p := sourcetest.Address(t, "example.com/acme/"+os.Getenv("LARDER_TEST_NAME"))
		for i := range most {
			l := age.New(age.Options{Dir: dir, Key: mustKey(t, "a secret of many bytes")})
			l.With(age.Registry{}).See(t.Context(), p, sources.Listing{Vouched: parse(t, fmt.Sprintf("1.0.%d", i))})
			l.Close()
		}
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
	run := w.ledger().With(age.Registry{})
	for _, i := range []int{1, 3, 5} {
		for j := range most {
			got := run.Of(sourcetest.Address(t, fmt.Sprintf("example.com/acme/widget%d", i)), parse(t, fmt.Sprintf("1.0.%d", j))[0])
			sourcetest.Expect(t, got.Known, "widget%d 1.0.%d", i, j)
		}
	}
}
