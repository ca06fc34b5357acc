package sourcetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
	Close() error
}

// RunStore tests that a store fulfils the contract of [sources.Tx]. Open opens
// the store in a directory, which may not exist, like another process. It has the judge [Verdicts].
func RunStore(t *testing.T, open func(t testing.TB, dir string) WholeStore) {
	if dir := os.Getenv(killedIn); dir != "" {
		dieStoring(t, open(t, dir))
		return // the parent reports that this process is still alive
	}
	for name, test := range map[string]func(*storeTest){
		"stored":   (*storeTest).whole,
		"failed":   (*storeTest).notAtAll,
		"writers":  (*storeTest).writers,
		"readers":  (*storeTest).readers,
		"killed":   (*storeTest).killed,
		"damaged":  (*storeTest).damaged,
		"improved": (*storeTest).improved,
	} {
		t.Run(name, func(t *testing.T) { test(&storeTest{T: t, open: open, dir: filepath.Join(t.TempDir(), "store")}) })
	}
}

// killedIn is the environment variable that makes a test process kill itself
// while it stores a package in the directory that it names, at the time that
// killedWhen names.
const killedIn, killedWhen = "SOURCETEST_KILLED_IN", "SOURCETEST_KILLED_WHEN"

type storeTest struct {
	*testing.T
	open func(testing.TB, string) WholeStore
	dir  string
}

// with opens the store, calls do, and closes the store.
func (s *storeTest) with(do func(WholeStore)) {
	s.Helper()
	store := s.open(s, s.dir)
	do(store)
	Check(s, store.Close())
}

// storeSupply supplies a package whose executable contains text. It calls the given functions before it fetches the
// package.
func storeSupply(text string, before ...func()) Supply {
	var data bytes.Buffer
	r := &release{Release: Release{Files: map[string]string{"terraform-provider-widget_v1.0.0": text}}}
	check(r.writeArchive(&data, ""))
	zh := sources.ZipHash(sha256.Sum256(data.Bytes()))
	return Supply{
		Accept: func(s sources.Stored) bool { return s.ZH == zh && s.Differs == "" },
		Fetch: func(_ context.Context, stage sources.Stage) (Supplied, error) {
			for _, do := range before {
				do()
			}
			_, err := stage.Write(data.Bytes())
			signed := &sources.Signed{
				Sums: []byte(text + "\n"), Signature: []byte("signature"), Origin: "https://example.test/sums",
			}
			return Supplied{Provenance: sources.Provenance{
				ZH: zh, Filename: "widget.zip", Origin: "https://example.test/widget.zip", Signed: signed,
			}}, err
		},
		Judge: func(sources.Contents) (sources.Proof, error) { return ByRegistryKey, nil },
	}
}

// id returns the package for testing stores.
func (s *storeTest) id() sources.PackageID {
	return PackageID(s, "example.test/acme/widget", "1.0.0", "linux_amd64")
}

func (s *storeTest) put(store WholeStore, text string) sources.Stored {
	s.Helper()
	stored, err := Put(s.Context(), store, s.id(), storeSupply(text))
	Check(s, err)
	return stored
}

// same checks that the store has the package with this h1: hash. If want is
// empty, it checks that the store has no package.
func (s *storeTest) same(store WholeStore, when string, want sources.Hash) {
	s.Helper()
	got, err := store.Get(s.Context(), s.id())
	ids, errIDs := store.PackagesOf(s.Context(), s.id().Provider)
	Expect(s, errIDs == nil, "%s: listing: %v", when, errIDs)
	if want == "" {
		ErrorIs(s, err, sources.ErrNotFound, when, got)
		return
	}
	Expect(s, err == nil && got.H1 == want && got.Differs == "", "%s: got %+v, %v, want %s", when, got, err, want)
	Expect(s, slices.Contains(ids, s.id()), "%s: the store lists %v", when, ids)
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
		Check(s, err)
		same := got.Report.Verdict == sources.SelfSigned && got.ZH == first.ZH &&
			got.Signed != nil && got.Origin == first.Origin
		Expect(s, same, "next process: got %+v", got)
		_, err = os.Stat(got.Dir)
		Check(s, err)
		known, err := store.Recall(first.ID)
		Expect(s, err == nil && known.H1 == first.H1, "recalled %+v, %v", known, err)
		second = s.put(store, "second")
		s.same(store, "replaced", second.H1)
	})
	s.with(func(store WholeStore) { s.same(store, "replaced, next process", second.H1) })
}

// After a transaction fails, the store is unchanged, and an earlier package
// stays.
func (s *storeTest) notAtAll() {
	broken := errors.New("broken")
	failures := map[string]func(from *Supply, cancel func()){
		"fetch": func(from *Supply, _ func()) {
			fetch := from.Fetch
			from.Fetch = func(ctx context.Context, stage sources.Stage) (Supplied, error) {
				_, err := fetch(ctx, stage)
				return Supplied{}, errors.Join(err, broken)
			}
		},
		"no archive": func(from *Supply, _ func()) {
			from.Fetch = func(_ context.Context, stage sources.Stage) (Supplied, error) {
				_, err := stage.Write([]byte("this is no archive"))
				return Supplied{}, err
			}
		},
		"judge": func(from *Supply, _ func()) {
			from.Judge = func(sources.Contents) (sources.Proof, error) { return sources.Proof{}, broken }
		},
		"canceled": func(from *Supply, cancel func()) { *from = storeSupply("another", cancel) },
	}
	s.with(func(store WholeStore) {
		var there sources.Hash
		for range 2 {
			for name, spoil := range failures {
				ctx, cancel := context.WithCancel(s.Context())
				from := storeSupply("another")
				spoil(&from, cancel)
				_, err := Put(ctx, store, s.id(), from)
				cancel()
				Expect(s, err != nil, "%s: no error", name)
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
		staged := filepath.Base(filepath.Dir(path)) == "tmp"
		if staged || e != nil && e.IsDir() && len(e.Name()) > 8 && e.Name()[:8] == ".larder-" {
			s.Errorf("left over: %s", path)
		}
		return err
	})
}

// If many goroutines store the same package at once, it is fetched once.
func (s *storeTest) writers() {
	s.with(func(store WholeStore) {
		var fetched atomic.Int32
		from := storeSupply("first", func() { fetched.Add(1); time.Sleep(20 * time.Millisecond) })
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				_, err := Put(s.Context(), store, s.id(), from)
				Expect(s, err == nil, "%v", err)
			})
		}
		wg.Wait()
		Equal(s, fetched.Load(), 1, "fetched")
	})
}

// While a package is being replaced repeatedly, readers find a complete old or
// new package. If the file system can't exchange two names, they may find none for a moment, and on Windows they may be
// refused while it is moved.
func (s *storeTest) readers() {
	// Of the file systems of scripts/test-filesystems, not all can.
	exchanges := runtime.GOOS == "darwin" || runtime.GOOS == "linux" && os.Getenv("LARDER_TEST_KIND") == ""
	s.with(func(store WholeStore) {
		want := map[sources.Hash]bool{s.put(store, "first").H1: true, s.put(store, "second").H1: true}
		var done atomic.Bool
		var found atomic.Int64
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for whole := true; whole && !done.Load(); {
					got, err := store.Get(s.Context(), s.id())
					switch {
					case err == nil:
						whole = want[got.H1]
						found.Add(1)
					case exchanges:
						whole = false
					default:
						whole = errors.Is(err, sources.ErrNotFound) || isMoving(err)
					}
					if runtime.GOOS == "windows" {
						time.Sleep(20 * time.Millisecond) // a file that is always open can't be replaced
					}
					Expect(s, whole, "a reader got %+v, %v", got, err)
				}
			})
		}
		for range 10 {
			s.put(store, "first")
			s.put(store, "second")
		}
		done.Store(true)
		wg.Wait()
		Expect(s, found.Load() > 0, "no reader found a package")
	})
}

// isMoving reports whether Windows refuses to open a file because it is being moved or removed.
func isMoving(err error) bool {
	const accessDenied, sharingViolation = syscall.Errno(5), syscall.Errno(32)
	return runtime.GOOS == "windows" && (errors.Is(err, accessDenied) || errors.Is(err, sharingViolation))
}

// If a writer is killed, the old package stays. Other files that the writer
// leaves do no harm and are removed.
func (s *storeTest) killed() {
	var old sources.Hash
	for _, when := range []string{"begun", "fetched", "unpacked"} {
		child := exec.Command(os.Args[0], "-test.run=^"+strings.TrimSuffix(s.Name(), "/killed")+"$")
		child.Env = append(os.Environ(), killedIn+"="+s.dir, killedWhen+"="+when)
		out, err := child.CombinedOutput()
		Require(s, err != nil, "%s: the process was not killed:\n%s", when, out)
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
	from := storeSupply("of a process that is killed", func() { die("begun") })
	fetch := from.Fetch
	from.Fetch = func(ctx context.Context, stage sources.Stage) (Supplied, error) {
		defer die("fetched")
		return fetch(ctx, stage)
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
	Check(s, filepath.WalkDir(first.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		Check(s, err)
		data := ReadFile(s, path)
		data[len(data)/2] ^= 1
		then := time.Now().Add(-time.Hour) // otherwise it counts as still being changed
		return errors.Join(os.Chmod(path, info.Mode()|0o200), os.WriteFile(path, data, 0o644), os.Chtimes(path, then, then))
	}))
	for range 2 {
		s.with(func(store WholeStore) {
			got, err := store.Get(s.Context(), first.ID)
			Expect(s, err != nil || got.Differs != "", "got %+v", got)
			known, err := store.Recall(first.ID)
			Expect(s, err == nil && known.H1 == first.H1, "recalled %+v, %v", known, err)
		})
	}
	s.with(func(store WholeStore) { s.same(store, "stored again", s.put(store, "first").H1) })
}

// Better evidence for a package is recorded without fetching the package again. Evidence
// for another archive is not.
func (s *storeTest) improved() {
	unsigned := storeSupply("first")
	var signed *sources.Signed
	unsigned.Fetch = func(ctx context.Context, stage sources.Stage) (Supplied, error) {
		got, err := storeSupply("first").Fetch(ctx, stage)
		signed, got.Signed = got.Signed, nil
		return got, err
	}
	unsigned.Judge = func(sources.Contents) (sources.Proof, error) { return sources.Proof{Matched: true}, nil }
	s.with(func(store WholeStore) {
		got, err := Put(s.Context(), store, s.id(), unsigned)
		unproved := err == nil && got.Signed == nil && got.Report.Verdict == sources.HashOnly
		Expect(s, unproved, "unsigned: got %+v, %v", got, err)
	})
	better := unsigned
	better.Improve = func(sources.Stored) (*sources.Signed, sources.Proof) { return signed, ByRegistryKey }
	s.with(func(store WholeStore) {
		_, err := Put(s.Context(), store, s.id(), better)
		Check(s, err)
	})
	s.with(func(store WholeStore) {
		for _, get := range []func() (sources.Stored, error){
			func() (sources.Stored, error) { return store.Get(s.Context(), s.id()) },
			func() (sources.Stored, error) { return store.Recall(s.id()) },
		} {
			got, err := get()
			proved := err == nil && got.Signed != nil && got.Report.Verdict == sources.SelfSigned && got.Proof.Matched
			Expect(s, proved && got.Differs == "", "improved: got %+v, %v", got, err)
		}
	})
}
