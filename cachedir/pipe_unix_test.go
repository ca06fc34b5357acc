//go:build unix

package cachedir_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gofrs/flock"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// Opening a pipe without a writer would block forever. A pipe instead of a
// record or a package is replaced; Larder refuses a pipe instead of a lock.
func TestPipesDoNotBlock(t *testing.T) {
	for at, fails := range map[string]bool{
		record(widget): false, widget.Path(): false, widget.Path() + "/" + executable: false,
		lockOf(widget): true, widget.Path() + ".lock": true,
		".larder/gate.lock": true, ".larder/cache.lock": true, ".larder/partial": true,
	} {
		t.Run(filepath.Base(at), func(t *testing.T) {
			root := t.TempDir()
			pipe := filepath.Join(root, filepath.FromSlash(at))
			check(t, os.MkdirAll(filepath.Dir(pipe), 0o755))
			check(t, syscall.Mkfifo(pipe, 0o644))
			d, err := cachedir.Open(root, cachedir.Options{})
			if err == nil {
				_, err = sourcetest.Put(context.Background(), d, widget, delivery(widgetFiles.zip(t)))
			}
			var stray *disk.StrayError
			if fails {
				sourcetest.Expect(t, errors.As(err, &stray) && stray.Path == pipe, "got %v", err)
				return
			}
			check(t, err)
			s, err := d.Get(context.Background(), widget)
			check(t, err)
			sameTree(t, s.Dir, widgetFiles)
		})
	}
}

func TestLinkRemovesLeftovers(t *testing.T) {
	d := open(t, t.TempDir(), cachedir.Options{})
	s := put(t, d, widget, widgetFiles)
	providers := t.TempDir()
	target := targetIn(providers)
	providers = filepath.Join(providers, ".terraform", "providers")
	left, busy := filepath.Join(providers, ".larder-DEADAAAAAAAA"), filepath.Join(providers, ".larder-BUSYAAAAAAAA")
	for _, dir := range []string{left, busy} {
		check(t, os.MkdirAll(filepath.Join(dir, "new"), 0o755))
		check(t, os.WriteFile(filepath.Join(dir, "~lock"), nil, 0o644))
	}
	lock := flock.New(filepath.Join(busy, "~lock"))
	check(t, lock.Lock())
	defer lock.Unlock()
	_, err := link(context.Background(), d, s, target)
	check(t, err)
	_, err = os.Stat(left)
	sourcetest.Expect(t, err != nil, "what a killed process left is there still")
	_, err = os.Stat(busy)
	sourcetest.Equal(t, err, nil, "what another process works in")
}
