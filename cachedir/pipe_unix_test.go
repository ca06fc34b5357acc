//go:build unix

package cachedir_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gofrs/flock"

	"github.com/larder-cli/larder/cachedir"
)

// A pipe that nobody writes to keeps whoever opens it waiting for ever.
func TestPipesStopNothing(t *testing.T) {
	for _, path := range []string{
		".larder/lock/PKG.lock", ".larder/lock/PKG.holder", ".larder/package/PKG.json", "PKG.lock", "PKG",
		"PKG/" + executable,
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			root := t.TempDir()
			path := filepath.Join(root, filepath.FromSlash(strings.ReplaceAll(path, "PKG", widget.Path())))
			check(t, os.MkdirAll(filepath.Dir(path), 0o755))
			check(t, syscall.Mkfifo(path, 0o644))
			d := open(t, root, cachedir.Options{})
			sameTree(t, put(t, d, widget, widgetFiles).Dir, widgetFiles)
			_, err := d.Get(context.Background(), widget)
			check(t, err)
		})
	}
}

func TestLinkRemovesWhatTheKilledLeft(t *testing.T) {
	d := open(t, t.TempDir(), cachedir.Options{})
	s := put(t, d, widget, widgetFiles)
	target := targetIn(t.TempDir())
	left, busy := filepath.Join(filepath.Dir(target), ".larder-1"), filepath.Join(filepath.Dir(target), ".larder-2")
	for _, dir := range []string{left, busy} {
		check(t, os.MkdirAll(filepath.Join(dir, "new"), 0o755))
		check(t, os.WriteFile(filepath.Join(dir, "lock"), nil, 0o644))
	}
	lock := flock.New(filepath.Join(busy, "lock"))
	check(t, lock.Lock())
	defer lock.Unlock()
	_, err := d.Link(context.Background(), s, target)
	check(t, err)
	if _, err := os.Stat(left); err == nil {
		t.Error("what a killed process left is there still")
	}
	if _, err := os.Stat(busy); err != nil {
		t.Errorf("what another process works in: %v", err)
	}
}
