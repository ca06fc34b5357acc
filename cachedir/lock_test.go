package cachedir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
)

// hold begins to put the widget, and goes on when the function is called.
func hold(t *testing.T, d *cachedir.Dir) (release func()) {
	t.Helper()
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan error)
	del := delivery(widgetFiles.zip(t))
	fetch := del.Fetch
	del.Fetch = func(ctx context.Context, s sources.Stage) (sources.Parcel, error) {
		close(held)
		<-free
		return fetch(ctx, s)
	}
	go func() {
		_, err := d.Put(context.Background(), widget, del)
		done <- err
	}()
	<-held
	return func() {
		t.Helper()
		close(free)
		check(t, <-done)
	}
}

// Who waits long is told for whom, once, and then finds the package.
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
		_, err := d.Put(context.Background(), widget, del)
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
	lock := filepath.Join(root, ".larder", "lock", filepath.FromSlash(widget.Path()))
	if _, err := os.Stat(lock + ".holder"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("holder is still announced: %v", err)
	}
	if _, err := os.Stat(lock + ".lock"); err != nil {
		t.Errorf("lock file: %v", err)
	}
}

// A wait ends when it is canceled, or has a limit.
func TestWaitEnds(t *testing.T) {
	root := t.TempDir()
	defer hold(t, open(t, root, cachedir.Options{}))()
	canceled, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()

	_, err := open(t, root, cachedir.Options{}).Put(canceled, widget, delivery(nil))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("canceled: %v", err)
	}
	_, err = open(t, root, cachedir.Options{LockTimeout: 30 * time.Millisecond}).Put(context.Background(), widget, delivery(nil))
	if !errors.Is(err, cachedir.ErrLockTimeout) || !strings.Contains(err.Error(), "held by process") {
		t.Errorf("timed out: %v", err)
	}
}

// Packages do not wait for one another.
func TestOtherPackageIsFree(t *testing.T) {
	d := open(t, t.TempDir(), cachedir.Options{LockTimeout: time.Second})
	defer hold(t, d)()
	put(t, d, packageID("example.test/acme/widget", "1.3.0"), widgetFiles)
}

// What killed processes left is removed, but not what is being made.
func TestSweep(t *testing.T) {
	root := t.TempDir()
	tmp := filepath.Join(root, ".larder", "tmp")
	gone := filepath.Join(tmp, "example.test", "acme", "gone", "1.0.0", "linux_arm64")
	files{"new/half": "x", "archive.unverified": "x"}.unpack(t, gone)
	check(t, os.MkdirAll(filepath.Join(root, ".larder", "lock", "example.test", "acme", "gone", "1.0.0"), 0o755))
	outside := files{"a/b/c/d/e/precious": "x"}
	elsewhere := outside.unpack(t, t.TempDir())
	check(t, os.Symlink(elsewhere, filepath.Join(tmp, "link")))
	files{"temp-1": "x"}.unpack(t, tmp)
	alive := flock.New(filepath.Join(root, ".larder", "temp.lock"))
	check(t, alive.RLock())

	release := hold(t, open(t, root, cachedir.Options{}))
	put(t, open(t, root, cachedir.Options{}), packageID("example.test/acme/widget", "1.3.0"), widgetFiles)
	release()
	if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a package is left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(tmp, "temp-1")); err != nil {
		t.Errorf("what somebody may be writing is gone: %v", err)
	}
	check(t, alive.Close())
	put(t, open(t, root, cachedir.Options{}), packageID("example.test/acme/widget", "1.4.0"), widgetFiles)
	if _, err := os.Stat(filepath.Join(tmp, "temp-1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what nobody can be writing is left: %v", err)
	}
	sameTree(t, elsewhere, outside)
}
