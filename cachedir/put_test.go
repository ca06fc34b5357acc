package cachedir_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

// An entry that the caller rejects is moved away whole: a provider that runs from it
// keeps its file. Terraform links packages of an unpacked mirror into the cache: the mirror stays.
func TestPutReplaces(t *testing.T) {
	elsewhere := files{executable: "old"}
	mirror := elsewhere.unpack(t, t.TempDir())
	for name, lay := range map[string]func(t *testing.T, entry string){
		"other contents": func(t *testing.T, entry string) { files{executable: "old"}.unpack(t, entry) },
		"incomplete":     func(t *testing.T, entry string) { files{"LICENSE": "do as"}.unpack(t, entry) },
		"link into a mirror": func(t *testing.T, entry string) {
			check(t, os.MkdirAll(filepath.Dir(entry), 0o755))
			check(t, sourcetest.Symlink(t, mirror, entry))
		},
		"a directory behind a link in it": func(t *testing.T, entry string) {
			files{executable: "old"}.unpack(t, entry)
			check(t, sourcetest.Symlink(t, ".", filepath.Join(entry, "here")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			entry := filepath.Join(root, filepath.FromSlash(widget.Path()))
			lay(t, entry)
			var running *os.File
			if runtime.GOOS != "windows" { // there, the old file would stay until the program ends
				running, _ = os.Open(filepath.Join(entry, executable))
			}
			d := open(t, root, cachedir.Options{})
			put(t, d, widget, widgetFiles)
			sameTree(t, entry, widgetFiles)
			sameTree(t, mirror, elsewhere)
			nothingStaged(t, root)
			info, err := os.Lstat(entry)
			sourcetest.Expect(t, err == nil && info.IsDir(), "entry is %v, %v", info, err)
			if running == nil {
				return
			}
			defer running.Close()
			was := make([]byte, 3)
			_, err = running.Read(was)
			sourcetest.Expect(t, err == nil && string(was) == "old", "the running provider reads %q, %v", was, err)
		})
	}
}

// An entry with the same bytes stays in place, and gets a new record.
func TestPutKeepsEqualEntry(t *testing.T) {
	root := t.TempDir()
	entry := widgetFiles.unpack(t, filepath.Join(root, filepath.FromSlash(widget.Path())))
	before := stat(t, filepath.Join(entry, executable))
	d := open(t, root, cachedir.Options{})
	put(t, d, widget, widgetFiles)
	after := stat(t, filepath.Join(entry, executable))
	sourcetest.Expect(t, os.SameFile(before, after), "the entry was replaced")
	s := get(t, d, widget)
	sourcetest.Expect(t, s.ZH != "" && s.Report.Verdict == sources.SelfSigned, "got %+v", s)
}

// The archive is replaced by rename after it is hashed and before it is unpacked.
func TestCopyOfReplacedArchive(t *testing.T) {
	sourcetest.SkipOnWindows(t, "an open file can't be replaced")
	dir := t.TempDir()
	d := openStore(t, filepath.Join(dir, "cache"), cachedir.Options{})
	at := filepath.Join(dir, "widget.zip")
	check(t, os.WriteFile(at, widgetFiles.zip(t), 0o644))
	_, tx, err := d.Begin(context.Background(), widget, sources.ToStore)
	check(t, err)
	defer tx.Close()
	sourcetest.Must(tx.Stage(nil))(t)
	f, err := os.Open(at) // acquire.open hashes the archive at this point
	check(t, err)
	defer f.Close()
	check(t, os.WriteFile(at+".new", files{executable: "new"}.zip(t), 0o644))
	check(t, os.Rename(at+".new", at))
	sourcetest.Must(tx.Unpack(context.Background(), sources.Payload{Archive: f}))(t)
	s := sourcetest.Must(tx.Commit(context.Background(), sources.Provenance{Origin: at}))(t)
	sourcetest.Expect(t, !s.Seen.CopyOf(at), "the package counts as a copy of what it is no copy of")
}

// A package that is in place needs no interrupted download: another process may have
// stored it from elsewhere, and an engine or a process that was killed may have put it
// there.
func TestPackagesInPlaceNeedNoDownload(t *testing.T) {
	interrupted := files{partialOf(widget): "half", partialOf(widget) + ".note": "zh:a\nnote"}
	other := packageID("example.test/acme/widget", "1.3.0")
	partials := func(t *testing.T, root string) []string {
		return sourcetest.Must(filepath.Glob(filepath.Join(root, ".larder", "partial", "*")))(t)
	}
	for name, supply := range map[string]func([]byte) sourcetest.Supply{"stored": delivery, "hashed": hashing} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			interrupted.unpack(t, root)
			deliver(t, open(t, root, cachedir.Options{}), widget, supply(widgetFiles.zip(t)))
			sourcetest.EqualSlices(t, partials(t, root), nil)
		})
	}
	t.Run("before", func(t *testing.T) {
		root, d, _ := cached(t, cachedir.Options{})
		interrupted.unpack(t, root)
		files{partialOf(other): "half", partialOf(other) + ".note": "zh:a\nnote"}.unpack(t, root)
		usage := plan(t, d, cachedir.Policy{}).Usage
		sourcetest.Expect(t, usage[cachedir.Interrupted].Count == 1 && usage[cachedir.Abandoned].Count == 1, "got %+v", usage)
		put(t, open(t, root, cachedir.Options{}), packageID("example.test/acme/widget", "1.4.0"), widgetFiles)
		left := partials(t, root)
		sourcetest.Expect(t, len(left) == 2 && slices.Contains(left, filepath.Join(root, partialOf(other))), "left %q", left)
	})
	t.Run("being replaced", func(t *testing.T) {
		root, d, _ := cached(t, cachedir.Options{})
		_, tx, err := d.Begin(context.Background(), widget, sources.ToStore)
		check(t, err)
		defer tx.Close()
		interrupted.unpack(t, root)
		put(t, open(t, root, cachedir.Options{}), other, widgetFiles)
		sourcetest.Equal(t, len(partials(t, root)), 2)
	})
}

func TestStore(t *testing.T) {
	sourcetest.RunStore(t, func(t testing.TB, dir string) sourcetest.WholeStore {
		return openStore(t, dir, cachedir.Options{})
	})
}

// The packages of a working directory, with records in a directory of the user.
func TestWorkdirStore(t *testing.T) {
	sourcetest.RunStore(t, func(t testing.TB, dir string) sourcetest.WholeStore {
		return openStore(t, filepath.Join(dir, "providers"), cachedir.Options{Workdir: true, Records: store.Records{Dir: filepath.Join(dir, "state")}})
	})
}

func openStore(t testing.TB, dir string, opts cachedir.Options) *cachedir.Dir {
	opts.Records.Key, opts.Judge, opts.Warn = testKey, sourcetest.Verdicts{}, func(err error) { t.Log(err) }
	return sourcetest.Must(cachedir.Open(dir, opts))(t)
}

// A cache that cannot be written, with a working directory's packages behind it.
func TestStoreOverReadOnlyCache(t *testing.T) {
	sourcetest.RunStore(t, func(t testing.TB, dir string) sourcetest.WholeStore {
		return openStore(t, filepath.Join(dir, "providers"), cachedir.Options{
			Workdir: true, Records: store.Records{Dir: filepath.Join(dir, "state")},
			Under: openStore(t, filepath.Join(dir, "cache"), cachedir.Options{ReadOnly: true}),
		})
	})
}

// hold starts to store the widget, and continues when release is called.
func hold(t *testing.T, d *cachedir.Dir) (release func()) {
	t.Helper()
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan error)
	del := delivery(widgetFiles.zip(t))
	fetch := del.Fetch
	del.Fetch = func(ctx context.Context, s sources.Stage) (sourcetest.Supplied, error) {
		close(held)
		<-free
		return fetch(ctx, s)
	}
	go func() {
		_, err := sourcetest.Put(context.Background(), d, widget, del)
		done <- err
	}()
	<-held
	return func() {
		t.Helper()
		close(free)
		check(t, <-done)
	}
}

// A process that waits long reports the holder once, and then finds the package.
func TestWaiting(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	release := hold(t, open(t, root, cachedir.Options{}))
	var holders []cachedir.Holder
	told := make(chan struct{})
	d := open(t, root, cachedir.Options{Waiting: func(h cachedir.Holder) {
		holders = append(holders, h)
		close(told)
	}})
	done := make(chan error, 1)
	go func() {
		del := delivery([]byte("no archive"))
		_, err := sourcetest.Put(context.Background(), d, widget, del)
		done <- err
	}()
	select {
	case <-told:
	case err := <-done:
		t.Fatal("it did not wait:", err)
	}
	release()
	check(t, <-done)
	host, _ := os.Hostname()
	h := holders[0]
	if len(holders) != 1 || h.ID != widget || h.PID != os.Getpid() || h.Host != host || time.Since(h.Since).Abs() > time.Minute {
		t.Errorf("waited for %+v", holders)
	}
	_, err := os.Stat(filepath.Join(root, lockOf(widget)))
	sourcetest.Expect(t, errors.Is(err, os.ErrNotExist) || runtime.GOOS == "windows", "the lock file stays: %v", err)
}

// A wait ends when its context is canceled or its limit is reached.
func TestWaitEnds(t *testing.T) {
	root := t.TempDir()
	defer hold(t, open(t, root, cachedir.Options{}))()
	canceled, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()

	_, err := sourcetest.Put(canceled, open(t, root, cachedir.Options{}), widget, delivery(nil))
	sourcetest.ErrorIs(t, err, context.DeadlineExceeded, "canceled")
	_, err = sourcetest.Put(context.Background(), open(t, root, cachedir.Options{LockTimeout: 30 * time.Millisecond}), widget, delivery(nil))
	sourcetest.Expect(t, errors.Is(err, disk.ErrLockTimeout) && strings.Contains(err.Error(), "held by process"),
		"timed out: %v", err)
}

// The files of killed processes are removed. Staging directories in use, and names
// that no larder process creates, stay.
func TestSweep(t *testing.T) {
	root := t.TempDir()
	tmp := filepath.Join(root, ".larder", "tmp")
	dead := filepath.Join(tmp, "run-DEADAAAAAAAA")
	files{"new/half": "x", "archive.unverified": "x", "~lock": ""}.unpack(t, dead)
	outside := files{"a/b/c/d/e/precious": "x"}
	elsewhere := outside.unpack(t, t.TempDir())
	check(t, sourcetest.Symlink(t, elsewhere, filepath.Join(tmp, "run-LINKAAAAAAAA")))
	check(t, sourcetest.Symlink(t, elsewhere, filepath.Join(dead, "link")))
	files{"precious": "x"}.unpack(t, filepath.Join(tmp, "other"))
	alive := files{"~lock": "", "half": "x"}.unpack(t, filepath.Join(tmp, "run-ALIVEAAAAAAA"))
	lock := flock.New(filepath.Join(alive, "~lock"))
	check(t, lock.Lock())

	put(t, open(t, root, cachedir.Options{}), packageID("example.test/acme/widget", "1.3.0"), widgetFiles)
	_, err := os.Stat(dead)
	sourcetest.ErrorIs(t, err, os.ErrNotExist, "half a package is left")
	for _, name := range []string{"run-ALIVEAAAAAAA/half", "run-LINKAAAAAAAA", "other/precious"} {
		_, err := os.Lstat(filepath.Join(tmp, name))
		sourcetest.Equal(t, err, nil)
	}
	check(t, lock.Close())
	put(t, open(t, root, cachedir.Options{}), packageID("example.test/acme/widget", "1.4.0"), widgetFiles)
	_, err = os.Stat(alive)
	sourcetest.ErrorIs(t, err, os.ErrNotExist, "what no process can be making is left")
	sameTree(t, elsewhere, outside)
}

// A process that has waited for a package finds its record, even if the file with the records is large, and is not
// written for each package.
func TestLargeLedgerForOtherProcesses(t *testing.T) {
	root, large := t.TempDir(), files{executable: "x"}
	for i := range 2500 {
		large[fmt.Sprintf("%s/%d", strings.Repeat("long", 20), i)] = ""
	}
	d, other := open(t, root, cachedir.Options{}), open(t, root, cachedir.Options{})
	put(t, d, packageID("example.test/acme/widget", "1.0.0"), large)
	from := delivery(widgetFiles.zip(t))
	deliver(t, d, widget, from)
	from.Fetch = func(context.Context, sources.Stage) (sourcetest.Supplied, error) {
		return sourcetest.Supplied{}, errors.New("fetched again")
	}
	deliver(t, other, widget, from)
}
