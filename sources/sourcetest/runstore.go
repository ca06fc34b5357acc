package sourcetest

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
)

// A WholeStore is a store with all methods that [RunStore] tests.
type WholeStore interface {
	Store
	Get(ctx context.Context, id sources.PackageID) (sources.Stored, error)
	PackagesOf(ctx context.Context, p sources.Provider) ([]sources.PackageID, error)
	Recall(id sources.PackageID) (sources.Stored, error)
	Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error)
	Close() error
}

// RunStore tests that a store fulfils the contract of [sources.Tx]. Open opens
// the store in a directory, which may not exist, like another process. The store asks
// the judge what evidence is worth.
func RunStore(t *testing.T, open func(t testing.TB, dir string, judge sources.Judge) WholeStore) {
	if dir := os.Getenv(killedIn); dir != "" {
		dieStoring(t, open(t, dir, Verdicts{}))
		return // the parent reports that this process is still alive
	}
	run := func(name string, test func(s *storeTest)) {
		t.Run(name, func(t *testing.T) {
			test(&storeTest{T: t, open: open, dir: filepath.Join(t.TempDir(), "store")})
		})
	}
	run("stored", (*storeTest).whole)
	run("failed", (*storeTest).notAtAll)
	run("writers", (*storeTest).writers)
	run("readers", (*storeTest).readers)
	run("killed", (*storeTest).killed)
	run("damaged", (*storeTest).damaged)
	run("evidence", (*storeTest).evidence)
}

// killedIn is the environment variable that makes a test process kill itself
// while it stores a package in the directory that it names, at the time that
// killedWhen names.
const killedIn, killedWhen = "SOURCETEST_KILLED_IN", "SOURCETEST_KILLED_WHEN"

type storeTest struct {
	*testing.T
	open func(testing.TB, string, sources.Judge) WholeStore
	dir  string
}

// with opens the store, calls do, and closes the store.
func (s *storeTest) with(do func(WholeStore)) {
	s.Helper()
	store := s.open(s, s.dir, Verdicts{})
	do(store)
	if err := store.Close(); err != nil {
		s.Error(err)
	}
}

// storeSupply supplies a package whose executable contains text.
func storeSupply(text string) Supply {
	var data bytes.Buffer
	w := zip.NewWriter(&data)
	f, err := w.Create("terraform-provider-widget_v1.0.0")
	if err == nil {
		_, err = f.Write([]byte(text))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err)
	}
	zh := sources.ZipHash(sha256.Sum256(data.Bytes()))
	return Supply{
		Accept: func(s sources.Stored) bool { return s.ZH == zh && s.Differs == "" },
		Fetch: func(_ context.Context, stage sources.Stage) (Supplied, error) {
			_, err := stage.Write(data.Bytes())
			signed := &sources.Signed{Sums: []byte(text + "\n"), Signature: []byte("signature"), Origin: "https://example.test/sums"}
			return Supplied{ZH: zh, Filename: "widget.zip", Origin: "https://example.test/widget.zip", Signed: signed}, err
		},
		Judge: func(sources.Contents) (sources.Proof, error) { return ByRegistryKey, nil },
	}
}

// id returns the package for testing stores, for an architecture.
func (s *storeTest) id(arch string) sources.PackageID {
	return PackageID(s, "example.test/acme/widget", "1.0.0", "linux_"+arch)
}

func (s *storeTest) put(store WholeStore, text string) sources.Stored {
	s.Helper()
	stored, err := Put(s.Context(), store, s.id("amd64"), storeSupply(text))
	if err != nil {
		s.Fatal(err)
	}
	return stored
}

// same checks that the store has the package with this h1: hash. If want is
// empty, it checks that the store has no package.
func (s *storeTest) same(store WholeStore, when string, want sources.Hash) {
	s.Helper()
	got, err := store.Get(s.Context(), s.id("amd64"))
	switch {
	case want == "" && !errors.Is(err, sources.ErrNotFound):
		s.Errorf("%s: got %+v, %v, want nothing", when, got, err)
	case want != "" && (err != nil || got.H1 != want || got.Differs != ""):
		s.Errorf("%s: got %+v, %v, want %s", when, got, err, want)
	}
	ids, err := store.PackagesOf(s.Context(), s.id("amd64").Provider)
	if err != nil || want != "" && !slices.Contains(ids, s.id("amd64")) {
		s.Errorf("%s: the store lists %v, %v", when, ids, err)
	}
}

// A stored package is available to this process and to the next one, with all
// its records. Another package replaces it.
func (s *storeTest) whole() {
	var first, second sources.Stored
	s.with(func(store WholeStore) {
		first = s.put(store, "first")
		s.same(store, "just stored", first.H1)
	})
	s.with(func(store WholeStore) {
		got, err := store.Get(s.Context(), first.ID)
		if err != nil || got.Report.Verdict != sources.SelfSigned || got.ZH != first.ZH || got.Signed == nil || got.Origin != first.Origin {
			s.Errorf("next process: got %+v, %v", got, err)
		}
		if _, err := os.Stat(got.Dir); err != nil {
			s.Error(err)
		}
		if known, err := store.Recall(first.ID); err != nil || known.H1 != first.H1 {
			s.Errorf("recalled %+v, %v", known, err)
		}
		second = s.put(store, "second")
		s.same(store, "replaced", second.H1)
	})
	s.with(func(store WholeStore) { s.same(store, "replaced, next process", second.H1) })
}

// After a transaction fails, the store is unchanged, and an earlier package
// stays.
func (s *storeTest) notAtAll() {
	broken := errors.New("broken")
	failures := map[string]func(context.CancelFunc, *Supply){
		"fetch": func(_ context.CancelFunc, from *Supply) {
			fetch := from.Fetch
			from.Fetch = func(ctx context.Context, stage sources.Stage) (Supplied, error) {
				_, err := fetch(ctx, stage)
				return Supplied{}, errors.Join(err, broken)
			}
		},
		"no archive": func(_ context.CancelFunc, from *Supply) {
			from.Fetch = func(_ context.Context, stage sources.Stage) (Supplied, error) {
				_, err := stage.Write([]byte("this is no archive"))
				return Supplied{}, err
			}
		},
		"judge": func(_ context.CancelFunc, from *Supply) {
			from.Judge = func(sources.Contents) (sources.Proof, error) { return sources.Proof{}, broken }
		},
		"canceled": func(cancel context.CancelFunc, from *Supply) {
			fetch := from.Fetch
			from.Fetch = func(ctx context.Context, stage sources.Stage) (Supplied, error) {
				cancel()
				return fetch(ctx, stage)
			}
		},
	}
	s.with(func(store WholeStore) {
		var there sources.Hash
		for range 2 {
			for name, spoil := range failures {
				ctx, cancel := context.WithCancel(s.Context())
				from := storeSupply("another")
				spoil(cancel, &from)
				if _, err := Put(ctx, store, s.id("amd64"), from); err == nil {
					s.Errorf("%s: no error", name)
				}
				cancel()
				s.same(store, name, there)
			}
			there = s.put(store, "first").H1
		}
	})
	s.nothingLeft()
}

// nothingLeft checks that staging directories are empty.
func (s *storeTest) nothingLeft() {
	s.Helper()
	_ = filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if filepath.Base(filepath.Dir(path)) == "tmp" || e != nil && e.IsDir() && len(e.Name()) > 8 && e.Name()[:8] == ".larder-" {
			s.Errorf("left over: %s", path)
		}
		return err
	})
}

// If many goroutines store the same package at once, it is fetched once.
func (s *storeTest) writers() {
	s.with(func(store WholeStore) {
		var fetched atomic.Int32
		from := storeSupply("first")
		fetch := from.Fetch
		from.Fetch = func(ctx context.Context, stage sources.Stage) (Supplied, error) {
			fetched.Add(1)
			time.Sleep(20 * time.Millisecond)
			return fetch(ctx, stage)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := Put(s.Context(), store, s.id("amd64"), from); err != nil {
					s.Error(err)
				}
			})
		}
		wg.Wait()
		if n := fetched.Load(); n != 1 {
			s.Errorf("fetched %d times", n)
		}
	})
}

// While a package is being replaced repeatedly, readers find a complete old or
// new package.
func (s *storeTest) readers() {
	s.with(func(store WholeStore) {
		want := map[sources.Hash]bool{s.put(store, "first").H1: true, s.put(store, "second").H1: true}
		done := make(chan struct{})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
					}
					got, err := store.Get(s.Context(), s.id("amd64"))
					if err != nil || !want[got.H1] {
						s.Errorf("a reader got %+v, %v", got, err)
						return
					}
				}
			})
		}
		for range 10 {
			s.put(store, "first")
			s.put(store, "second")
		}
		close(done)
		wg.Wait()
	})
}

// If a writer is killed, the old package stays. Other files that the writer
// leaves do no harm and are removed.
func (s *storeTest) killed() {
	var old sources.Hash
	for _, when := range []string{"begun", "fetched", "unpacked"} {
		child := exec.Command(os.Args[0], "-test.run=^"+strings.TrimSuffix(s.Name(), "/killed")+"$")
		child.Env = append(os.Environ(), killedIn+"="+s.dir, killedWhen+"="+when)
		if out, err := child.CombinedOutput(); err == nil {
			s.Fatalf("%s: the process was not killed:\n%s", when, out)
		}
		s.with(func(store WholeStore) {
			s.same(store, when, old)
			old = s.put(store, "after "+when).H1
			s.same(store, "after "+when, old)
		})
		s.nothingLeft()
	}
}

// dieStoring kills this process while it stores a package.
func dieStoring(t testing.TB, store WholeStore) {
	die := func(now string) {
		if os.Getenv(killedWhen) != now {
			return
		}
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		t.Log(err)
		select {}
	}
	from := storeSupply("of a process that is killed")
	fetch := from.Fetch
	from.Fetch = func(ctx context.Context, stage sources.Stage) (Supplied, error) {
		die("begun")
		got, err := fetch(ctx, stage)
		die("fetched")
		return got, err
	}
	from.Judge = func(sources.Contents) (sources.Proof, error) {
		die("unpacked")
		return ByRegistryKey, nil
	}
	_, err := Put(t.Context(), store, PackageID(t, "example.test/acme/widget", "1.0.0", "linux_amd64"), from)
	t.Log(err)
}

// A package that is changed in its place is never recorded as undamaged.
func (s *storeTest) damaged() {
	var first sources.Stored
	s.with(func(store WholeStore) { first = s.put(store, "first") })
	err := filepath.WalkDir(first.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		data[len(data)/2] ^= 1
		then := time.Now().Add(-time.Hour) // otherwise it counts as still being changed
		return errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, data, 0o644), os.Chtimes(path, then, then))
	})
	if err != nil {
		s.Fatal(err)
	}
	for range 2 {
		s.with(func(store WholeStore) {
			if got, err := store.Get(s.Context(), first.ID); err == nil && got.Differs == "" {
				s.Errorf("got %+v", got)
			}
			if known, err := store.Recall(first.ID); err != nil || known.H1 != first.H1 {
				s.Errorf("recalled %+v, %v", known, err)
			}
		})
	}
	s.with(func(store WholeStore) { s.same(store, "stored again", s.put(store, "first").H1) })
}

// Evidence that differs from the stored evidence for the version is merged with
// it.
func (s *storeTest) evidence() {
	errWeaker := errors.New("weaker")
	merged := 0
	store := s.open(s, s.dir, Verdicts{OnMerge: func(kept, new *sources.Signed) (*sources.Signed, error) {
		merged++
		if bytes.Equal(kept.Sums, new.Sums) {
			s.Error("merged with itself")
		}
		return kept, errWeaker
	}})
	s.put(store, "first")
	_, putErr := Put(s.Context(), store, s.id("arm64"), storeSupply("second"))
	kept, err := store.Evidence(s.id("amd64").Provider, s.id("amd64").Version)
	if err != nil || string(kept.Sums) != "first\n" || merged == 0 {
		s.Errorf("keeps %+v, %v, merged %d times; storing: %v", kept, err, merged, putErr)
	}
	if err := store.Close(); err != nil {
		s.Error(err)
	}
}
