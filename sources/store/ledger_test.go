package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

type note struct {
	store.Facts
	Text string `json:"text"`
}

var (
	acmeWidget = sources.Provider{Host: "example.test", Namespace: "acme", Type: "widget"}
	acmeGadget = sources.Provider{Host: "example.test", Namespace: "acme", Type: "gadget"}
)

func ledgerKey(t testing.TB, secret string) seal.Key {
	return sourcetest.Must(seal.ParseKey(secret))(t)
}

func openLedger(t testing.TB, dir string, change ...func(*store.LedgerOptions)) *store.Ledger[note] {
	opts := store.LedgerOptions{Dir: dir, Store: "a store", Key: ledgerKey(t, "the secret of these tests")}
	for _, c := range change {
		c(&opts)
	}
	return store.NewLedger[note](opts)
}

func ledgerTexts(t testing.TB, l *store.Ledger[note], p sources.Provider) map[string]string {
	t.Helper()
	all := sourcetest.Must(l.All(p))(t)
	texts := map[string]string{}
	for key, n := range all {
		texts[key] = n.Text
	}
	return texts
}

// Entries are written and read again, beside those that other processes have written meanwhile.
func TestLedger(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "ledger")
	one, two := openLedger(t, dir), openLedger(t, dir)
	for _, l := range []*store.Ledger[note]{one, two} {
		_, err := l.Find(acmeWidget, "a")
		sourcetest.ErrorIs(t, err, sources.ErrNotFound)
	}
	_, err := os.Stat(dir)
	sourcetest.ErrorIs(t, err, os.ErrNotExist, "reading created it")
	one.Set(acmeWidget, "a", note{Text: "one"})
	one.Set(acmeWidget, "both", note{Text: "one"})
	one.Set(acmeGadget, "a", note{Text: "gadget"})
	two.Set(acmeWidget, "b", note{Text: "two"})
	two.Set(acmeWidget, "both", note{Text: "two"})
	sourcetest.Check(t, errors.Join(one.WriteAll(ctx), two.WriteAll(ctx)))
	want := map[string]string{"a": "one", "b": "two", "both": "two"}
	fresh := openLedger(t, dir)
	for name, l := range map[string]*store.Ledger[note]{"new": fresh, "the last that wrote": two} {
		got := ledgerTexts(t, l, acmeWidget)
		sourcetest.Expect(t, maps.Equal(got, want), "%s: %v", name, got)
	}
	got := ledgerTexts(t, one, acmeWidget)
	sourcetest.Expect(t, len(got) == 2, "the first one has %v", got)
	one.Refresh()
	got = ledgerTexts(t, one, acmeWidget)
	sourcetest.Expect(t, maps.Equal(got, want), "after Refresh: %v", got)
	one.Remove(acmeWidget, "a")
	sourcetest.Check(t, one.Write(ctx))
	two.Set(acmeWidget, "c", note{Text: "two"})
	sourcetest.Check(t, two.Write(ctx))
	got = ledgerTexts(t, openLedger(t, dir), acmeWidget)
	sourcetest.Expect(t, maps.Equal(got, map[string]string{"b": "two", "both": "two", "c": "two"}), "after Remove: %v", got)
}

// An entry that is only offered doesn't replace one that another process has written since this one read the file.
func TestOfferedEntries(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	one, two := openLedger(t, dir), openLedger(t, dir)
	one.Set(acmeWidget, "a", note{Text: "first"})
	sourcetest.Check(t, one.WriteAll(ctx))
	two.Set(acmeWidget, "a", note{Text: "second"})
	for _, key := range []string{"a", "b"} {
		one.Offer(acmeWidget, key, note{Text: "offered"})
	}
	sourcetest.Check(t, errors.Join(two.WriteAll(ctx), one.WriteAll(ctx)))
	want := map[string]string{"a": "second", "b": "offered"}
	for name, l := range map[string]*store.Ledger[note]{"new": openLedger(t, dir), "the last that wrote": one} {
		got := ledgerTexts(t, l, acmeWidget)
		sourcetest.Expect(t, maps.Equal(got, want), "%s: %v", name, got)
	}
	one.Offer(acmeWidget, "a", note{Text: "third"})
	sourcetest.Check(t, one.WriteAll(ctx))
	sourcetest.Equal(t, ledgerTexts(t, openLedger(t, dir), acmeWidget)["a"], "third")
}

// A large file isn't written for each package, and has all of them in the end.
func TestLargeLedger(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	l, texts, files := openLedger(t, dir), map[string]string{}, map[string]bool{}
	for i := range 300 {
		key := strconv.Itoa(i)
		texts[key] = strings.Repeat("text ", 2000)
		l.Set(acmeWidget, key, note{Text: texts[key]})
		sourcetest.Check(t, l.Write(ctx))
		files[sourcetest.Must(disk.PrintTree(dir))(t)] = true
	}
	sourcetest.Expect(t, len(files) < 200, "%d packages, written %d times", len(texts), len(files))
	sourcetest.Check(t, l.WriteAll(ctx))
	sourcetest.Expect(t, maps.Equal(ledgerTexts(t, openLedger(t, dir), acmeWidget), texts), "entries are missing")
}

// What waits for a large ledger has open files, so only so many wait.
func TestFewWaitForALargeLedger(t *testing.T) {
	l := openLedger(t, t.TempDir())
	var waiting atomic.Int32
	for i := range 2000 {
		l.Set(acmeWidget, strconv.Itoa(i), note{Text: strings.Repeat("x", 1000)})
		sourcetest.Check(t, l.Write(t.Context()))
		waiting.Add(1)
		l.Then(func() { waiting.Add(-1) })
		sourcetest.Require(t, waiting.Load() <= 256, "%d wait", waiting.Load())
	}
	sourcetest.Check(t, l.WriteAll(t.Context()))
	sourcetest.Equal(t, waiting.Load(), 0)
}

// A file is empty for those who can't authenticate it, and after damage of any kind.
func TestLedgersThatAreNotBelieved(t *testing.T) {
	truncated := func(size int64) func(*testing.T, string) func(*store.LedgerOptions) {
		return func(t *testing.T, dir string) func(*store.LedgerOptions) {
			sourcetest.Check(t, os.Truncate(filepath.Join(dir, "all.json"), size))
			return nil
		}
	}
	for name, spoil := range map[string]func(t *testing.T, dir string) func(*store.LedgerOptions){
		"another key": func(t *testing.T, _ string) func(*store.LedgerOptions) {
			return func(o *store.LedgerOptions) { o.Key = ledgerKey(t, "the secret of somebody else") }
		},
		"another store": func(*testing.T, string) func(*store.LedgerOptions) {
			return func(o *store.LedgerOptions) { o.Store = "another store" }
		},
		"emptied": truncated(0), "torn": truncated(50), "huge": truncated(1 << 40),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := openLedger(t, dir)
			l.Set(acmeWidget, "a", note{Text: "one"})
			l.Set(acmeGadget, "a", note{Text: "two"})
			sourcetest.Check(t, l.WriteAll(t.Context()))
			change := spoil(t, dir)
			if change == nil {
				change = func(*store.LedgerOptions) {}
			}
			after := openLedger(t, dir, change)
			got := ledgerTexts(t, after, acmeWidget)
			sourcetest.Expect(t, len(got) == 0, "believed %v", got)
			after.Set(acmeWidget, "b", note{Text: "three"})
			sourcetest.Check(t, after.Write(t.Context()))
			got = ledgerTexts(t, openLedger(t, dir, change), acmeWidget)
			sourcetest.Expect(t, maps.Equal(got, map[string]string{"b": "three"}), "then %v", got)
		})
	}
}

// Without a directory, or if nothing may change, entries last for the run.
func TestLedgersThatAreNotWritten(t *testing.T) {
	dir := t.TempDir()
	for name, l := range map[string]*store.Ledger[note]{
		"no directory": openLedger(t, ""),
		"read-only":    openLedger(t, dir, func(o *store.LedgerOptions) { o.ReadOnly = true }),
	} {
		l.Set(acmeWidget, "a", note{Text: "one"})
		sourcetest.Check(t, l.WriteAll(t.Context()))
		l.Refresh()
		got, err := l.Find(acmeWidget, "a")
		sourcetest.Expect(t, err == nil && got.Text == "one", "%s: %+v, %v", name, got, err)
		left, err := os.ReadDir(dir)
		sourcetest.Expect(t, err == nil && len(left) == 0, "%s: left %v, %v", name, left, err)
	}
}

// The error of a ledger that can't be written because it is a directory names it.
func TestLedgerThatIsADirectory(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "all.json")
	sourcetest.Check(t, os.MkdirAll(filepath.Join(at, "x"), 0o755))
	l := openLedger(t, dir)
	l.Set(acmeWidget, "a", note{Text: "one"})
	err := l.WriteAll(t.Context())
	sourcetest.Expect(t, err != nil && err.Error() == "writing a record: "+at+" is a directory", "got %v", err)
	sourcetest.EqualSlices(t, sources.Hints(err), []string{"move it away: larder creates a file there"}, "hints are")
}

// Processes that write at the same time lose nothing of each other. What a killed one left is removed, and other files, such
// as the locks of a working directory, stay.
func TestLedgerOfManyProcesses(t *testing.T) {
	const writers, each = 8, 20
	dir := t.TempDir()
	sourcetest.Check(t, os.WriteFile(filepath.Join(dir, ".all.json.LEFT"), nil, 0o600))
	sourcetest.Check(t, os.WriteFile(filepath.Join(dir, "cache.lock"), nil, 0o600))
	sourcetest.Check(t, os.Mkdir(filepath.Join(dir, "lock"), 0o700))
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			l := openLedger(t, dir)
			for j := range each {
				l.Set(acmeWidget, fmt.Sprintf("%d/%d", i, j), note{Text: "text"})
				sourcetest.Check(t, l.Write(context.Background()))
			}
		})
	}
	all.Wait()
	got := ledgerTexts(t, openLedger(t, dir), acmeWidget)
	sourcetest.Expect(t, len(got) == writers*each, "%d entries of %d", len(got), writers*each)
	var names []string
	files := sourcetest.Must(os.ReadDir(dir))(t)
	for _, f := range files {
		names = append(names, f.Name())
	}
	want := []string{"all.json", "cache.lock", "ledger.lock", "lock"}
	sourcetest.Expect(t, slices.Equal(names, want), "left %v", names)
}

// A file or directory that can't be read is an error, so that nothing is taken for unknown, and isn't replaced.
func TestUnreadableLedger(t *testing.T) {
	if !sourcetest.HasModes || os.Geteuid() == 0 {
		t.Skip("this user can read every file")
	}
	for _, name := range []string{"all.json", "."} {
		dir := t.TempDir()
		l := openLedger(t, dir)
		l.Set(acmeWidget, "a", note{Text: "one"})
		sourcetest.Check(t, l.WriteAll(t.Context()))
		sourcetest.Check(t, os.Chmod(filepath.Join(dir, name), 0))
		after := openLedger(t, dir)
		_, err := after.Find(acmeWidget, "a")
		sourcetest.ErrorIs(t, err, os.ErrPermission)
		after.Set(acmeWidget, "b", note{})
		sourcetest.ErrorIs(t, after.Write(t.Context()), os.ErrPermission)
		exposed := openLedger(t, dir, func(o *store.LedgerOptions) { o.Exposed = true })
		_, err = exposed.Find(acmeWidget, "a")
		sourcetest.ErrorIs(t, err, sources.ErrNotFound)
		sourcetest.Check(t, os.Chmod(dir, 0o700))
	}
}

// Directories of stores that are gone are found after a while, and those of others never.
func TestGoneStores(t *testing.T) {
	now, home := time.Now(), t.TempDir()
	r := store.Records{Dir: filepath.Join(home, "stores"), Key: ledgerKey(t, "the secret of these tests")}
	gone, err := r.Gone(now)
	sourcetest.Expect(t, err == nil && len(gone) == 0, "without records: %v, %v", gone, err)
	at := func(name string) string { return filepath.Join(home, name) }
	for _, name := range []string{"kept", "gone", "recent"} {
		sourcetest.Check(t, os.Mkdir(at(name), 0o755))
		l := store.NewLedger[note](r.Ledger(at(name)))
		l.Set(acmeWidget, "a", note{})
		sourcetest.Check(t, l.WriteAll(t.Context()))
	}
	known := store.NewKnown(r.Known())
	known.Set(acmeWidget, "a", store.Facts{})
	sourcetest.Check(t, known.WriteAll(t.Context()))
	downloads, arriving := r.Of(at("downloads")), r.Of(at("arriving"))
	sourcetest.Check(t, errors.Join(os.MkdirAll(filepath.Join(downloads, "partial"), 0o755), os.MkdirAll(filepath.Join(arriving, "partial"), 0o755)))
	old := now.Add(-time.Hour)
	sourcetest.Check(t, filepath.WalkDir(r.Dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, old, old))
	}))
	want := []string{filepath.Base(r.Of(at("gone"))), filepath.Base(downloads)}
	sourcetest.Check(t, errors.Join(os.Remove(at("gone")), os.Remove(at("recent")), os.Chtimes(r.Of(at("recent")), now, now),
		os.Chtimes(filepath.Join(arriving, "partial"), now, now)))
	slices.Sort(want)
	gone, err = r.Gone(now.Add(-time.Minute))
	sourcetest.Expect(t, err == nil && slices.Equal(gone, want), "got %v, %v, want %v", gone, err, want)
	sourcetest.Check(t, r.Remove(want[0]))
	gone, err = r.Gone(now.Add(-time.Minute))
	sourcetest.Expect(t, err == nil && slices.Equal(gone, want[1:]), "then %v, %v", gone, err)
}

// Facts that are written and read again are the same.
func FuzzFacts(f *testing.F) {
	sourcetest.AddSeeds[[]byte](f,
		`{"h1":"h1:x","proof":{"matched":true,"name":"n","signers":[{"fingerprint":"F","user_id":"U","from":"registry","signed":"2026-01-02T03:04:05Z","key_ends":"2027-01-02T03:04:05Z"}]}}`,
		`{"h1":"h1:x","zip_h1":"h1:y","zh":"zh:z","filename":"f","origin":"o","evidence":"ff","since":"2026-01-02T03:04:05Z","imported":true}`,
		`{"h1":"h1:x","proof":1}`, `[]`, `null`, ``, "\x00\x00",
	)
	f.Fuzz(func(t *testing.T, data []byte) {
		var facts, again store.Facts
		if json.Unmarshal(data, &facts) != nil {
			return
		}
		written := sourcetest.Must(json.Marshal(facts))(t)
		sourcetest.Check(t, json.Unmarshal(written, &again))
		sourcetest.Expect(t, reflect.DeepEqual(again, facts), "%s became %+v", data, again)
	})
}
