//go:build unix

package cachedir_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
	"golang.org/x/sys/unix"
)

// tofuVariable names the cache in which this test binary does what OpenTofu does, when a test starts it.
const tofuVariable = "CACHEDIR_TEST_TOFU"

func TestMain(m *testing.M) {
	root := os.Getenv(tofuVariable)
	if root == "" {
		os.Exit(sourcetest.Sampling{M: m, InMemory: true}.Run())
	}
	if err := childTofu(root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// startTofu starts a process that holds OpenTofu's lock in a cache until its input is closed.
func startTofu(t *testing.T, root string) (pid int, in io.Closer) {
	t.Helper()
	exe := sourcetest.Must(os.Executable())(t)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), tofuVariable+"="+root)
	cmd.Stderr = os.Stderr
	in = sourcetest.Must(cmd.StdinPipe())(t)
	out := sourcetest.Must(cmd.StdoutPipe())(t)
	check(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	sourcetest.Must(out.Read(make([]byte, 1)))(t)
	return cmd.Process.Pid, in
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
	pid, in := startTofu(t, root)
	entry := filepath.Join(root, filepath.FromSlash(widget.Path()))
	_, err := sourcetest.Put(context.Background(), open(t, root, cachedir.Options{LockTimeout: 30 * time.Millisecond}), widget, delivery(nil))
	want := fmt.Sprintf("waiting for OpenTofu's lock %s.lock: timed out waiting for a lock, held by process %d", entry, pid)
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
	sourcetest.Expect(t, h.ID == widget && h.PID == pid && h.Tofu == entry+".lock", "waiting for %+v", h)
	widgetFiles.unpack(t, entry)
	check(t, in.Close())
	check(t, <-done)
	info, err := os.Stat(entry + ".lock")
	sourcetest.Expect(t, err == nil && info.Size() == 0, "the lock file is %v, %v", info, err)
}

// A package that OpenTofu has locked is not removed.
func TestPruneRespectsTofuLock(t *testing.T) {
	t.Parallel()
	root, d, s := cached(t, cachedir.Options{})
	pid, _ := startTofu(t, root)
	plan := plan(t, d, cachedir.Policy{MaxSize: 1})
	_, err := d.Prune(context.Background(), plan)
	want := fmt.Sprintf("locked by OpenTofu (pid %d): %s.lock", pid, s.Dir)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), want), "got %v", err)
	sameTree(t, s.Dir, widgetFiles)
}
