//go:build unix

package cachedir_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
	"golang.org/x/sys/unix"
)

// children are the functions that this test binary runs when one of its tests starts
// it. The argument is the root of the cache.
var children = map[string]func(root string) error{
	"install": childInstall,
	"prune":   childPrune,
	"put":     childPut,
	"replace": childReplace,
	"tofu":    childTofu,
}

const childVariable = "CACHEDIR_TEST_CHILD"

func TestMain(m *testing.M) {
	child, ok := children[os.Getenv(childVariable)]
	if !ok {
		os.Exit(sourcetest.Sampling{M: m, InMemory: true}.Run())
	}
	if err := child(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A process is a child. It may run until its input is closed.
type process struct {
	*exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

func start(t *testing.T, name, root string) process {
	t.Helper()
	exe, err := os.Executable()
	check(t, err)
	cmd := exec.Command(exe, root)
	cmd.Env = append(os.Environ(), childVariable+"="+name)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return process{cmd, in, bufio.NewReader(out)}
}

// ready waits until the child reports that it is ready.
func (p process) ready(t *testing.T) {
	t.Helper()
	if _, err := p.out.ReadString('\n'); err != nil {
		t.Fatal("the other process says nothing:", err)
	}
}

// releases are the contents that children put into the cache for the same package.
var releases = []files{bigRelease("a"), bigRelease("b")}

func bigRelease(letter string) files {
	return files{executable: strings.Repeat(letter, 1<<20), "LICENSE": letter, "sub/" + letter: letter}
}

func providers() []sources.PackageID {
	var ids []sources.PackageID
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		ids = append(ids, packageID("example.test/acme/widget", version))
	}
	return ids
}

// childPut puts all packages, and prints each one that it fetches.
func childPut(root string) error {
	d, err := cachedir.Open(root, cachedir.Options{Records: store.Records{Key: testKey}})
	if err != nil {
		return err
	}
	data := releases[0].zip(&testing.B{})
	for _, id := range providers() {
		del := delivery(data)
		fetch := del.Fetch
		del.Fetch = func(ctx context.Context, s sources.Stage) (sourcetest.Supplied, error) {
			fmt.Println("fetched", id)
			time.Sleep(50 * time.Millisecond)
			return fetch(ctx, s)
		}
		if _, err := sourcetest.Put(context.Background(), d, id, del); err != nil {
			return err
		}
	}
	return nil
}

// However many processes require a package, it is fetched once.
func TestFetchedOnce(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	fetched := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		child := start(t, "put", root)
		wg.Go(func() {
			for s := bufio.NewScanner(child.out); s.Scan(); {
				mu.Lock()
				fetched[s.Text()]++
				mu.Unlock()
			}
			sourcetest.Equal(t, child.Wait(), nil)
		})
	}
	wg.Wait()
	want := map[string]int{}
	for _, id := range providers() {
		want["fetched "+id.String()] = 1
		sameTree(t, filepath.Join(root, filepath.FromSlash(id.Path())), releases[0])
	}
	sourcetest.Expect(t, maps.Equal(fetched, want), "%v", fetched)
	nothingStaged(t, root)
}

// childReplace repeatedly replaces a package, alternating between the releases, and
// links it.
func childReplace(root string) error {
	d, err := cachedir.Open(root, cachedir.Options{Records: store.Records{Key: testKey}, Link: sources.LinkCopy})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for n := 0; ; n++ {
		del := delivery(releases[n%2].zip(&testing.B{}))
		del.Accept = func(sources.Stored) bool { return false }
		s, err := sourcetest.Put(context.Background(), d, widget, del)
		if err != nil {
			return err
		}
		if _, err := link(context.Background(), d, s, targetIn(root+".work")); err != nil {
			return err
		}
	}
}

// Whenever a process is killed, other processes find whole packages, and its
// leftovers are swept.
func TestKilledWhileReplacing(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "cache")
	put(t, open(t, root, cachedir.Options{}), widget, releases[0])
	for round := range 20 {
		child := start(t, "replace", root)
		child.ready(t)
		time.Sleep(time.Duration(rand.IntN(150)) * time.Millisecond)
		check(t, child.Process.Signal(unix.SIGKILL))
		child.Wait()

		d := open(t, root, cachedir.Options{Paranoid: round%2 == 0})
		s, err := d.Get(context.Background(), widget)
		check(t, err)
		whole(t, s)
		known, err := known(context.Background(), d, widget, targetIn(root+".work"))
		if !errors.Is(err, sources.ErrNotFound) {
			check(t, err)
			whole(t, known)
		}
	}
	d := open(t, root, cachedir.Options{Now: func() time.Time { return time.Now().Add(48 * time.Hour) }})
	other := packageID("example.test/acme/gadget", "1.0.0")
	put(t, d, other, files{"terraform-provider-gadget": "x"})
	nothingStaged(t, root)
	s, err := d.Get(context.Background(), widget)
	check(t, err)
	check(t, os.RemoveAll(targetIn(root+".work")))
	_, err = link(context.Background(), d, s, targetIn(root+".work"))
	check(t, err)
	alone(t, targetIn(root+".work"))
}

// whole checks that the package is one of the releases and has the verdict of that
// release.
func whole(t *testing.T, s sources.Stored) {
	t.Helper()
	got := tree(t, s.Dir)
	for _, f := range releases {
		if maps.Equal(got, f) && s.H1 == f.h1(t) {
			return
		}
	}
	t.Errorf("%s is torn, or not %s", s.Dir, s.H1)
}

// childTofu does what OpenTofu does while it unpacks a package: it holds a record
// lock on the package's lock file.
func childTofu(root string) error {
	path := filepath.Join(root, filepath.FromSlash(widget.Path())) + ".lock"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	lock := unix.Flock_t{Type: unix.F_RDLCK | unix.F_WRLCK, Whence: io.SeekStart}
	if err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// Larder waits for a package that OpenTofu is unpacking, and uses it. The lock file
// doesn't contain the holder's pid; the system reports it.
func TestWaitsForTofu(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	child := start(t, "tofu", root)
	child.ready(t)
	entry := filepath.Join(root, filepath.FromSlash(widget.Path()))
	_, err := sourcetest.Put(context.Background(), open(t, root, cachedir.Options{LockTimeout: 30 * time.Millisecond}), widget, delivery(nil))
	want := fmt.Sprintf("waiting for OpenTofu's lock %s.lock: timed out waiting for a lock, held by process %d", entry, child.Process.Pid)
	sourcetest.Expect(t, errors.Is(err, disk.ErrLockTimeout) && strings.HasSuffix(err.Error(), want), "got %v", err)
	waiting := make(chan cachedir.Holder, 1)
	d := open(t, root, cachedir.Options{Waiting: func(h cachedir.Holder) { waiting <- h }})
	done := make(chan error, 1)
	go func() {
		del := delivery(nil)
		del.Accept = func(s sources.Stored) bool { return s.H1 == widgetFiles.h1(t) }
		_, err := sourcetest.Put(context.Background(), d, widget, del)
		done <- err
	}()
	var h cachedir.Holder
	select {
	case h = <-waiting:
	case err := <-done:
		t.Fatal("it did not wait:", err)
	}
	sourcetest.Expect(t, h.ID == widget && h.PID == child.Process.Pid && h.Tofu == entry+".lock", "waiting for %+v", h)
	widgetFiles.unpack(t, entry)
	check(t, child.in.Close())
	check(t, <-done)
	info, err := os.Stat(entry + ".lock")
	sourcetest.Expect(t, err == nil && info.Size() == 0, "the lock file is %v, %v", info, err)
}

// A package that OpenTofu has locked is not removed.
func TestPruneRespectsTofuLock(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	d := open(t, root, cachedir.Options{})
	s := put(t, d, widget, widgetFiles)
	child := start(t, "tofu", root)
	child.ready(t)
	plan, err := d.PlanPrune(context.Background(), cachedir.Policy{MaxSize: 1})
	check(t, err)
	_, err = d.Prune(context.Background(), plan)
	want := fmt.Sprintf("locked by OpenTofu (pid %d): %s.lock", child.Process.Pid, s.Dir)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), want), "got %v", err)
	sameTree(t, s.Dir, widgetFiles)
}
