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
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

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
	sourcetest.Equal(t, err, nil, "lock file")
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
	if !errors.Is(err, disk.ErrLockTimeout) || !strings.Contains(err.Error(), "held by process") {
		t.Errorf("timed out: %v", err)
	}
}

// Storing one package does not wait for another package.
func TestOtherPackageIsFree(t *testing.T) {
	d := open(t, t.TempDir(), cachedir.Options{LockTimeout: time.Second})
	defer hold(t, d)()
	put(t, d, packageID("example.test/acme/widget", "1.3.0"), widgetFiles)
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
