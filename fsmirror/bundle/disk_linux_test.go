package bundle_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// tiny mounts a file system that is too small for a bundle.
func tiny(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("cannot mount: ", err)
	}
	t.Cleanup(func() { check(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

func TestFullDisks(t *testing.T) {
	from := mirrored(t, published(t))
	out := tiny(t)
	_, creating := bundle.Create(ctx, from, filepath.Join(out, "b.tar"), createOptions())
	entries, err := os.ReadDir(out)
	sourcetest.Expect(t, err == nil && len(entries) == 0, "left %v, %v", entries, err)
	to := tiny(t)
	_, importing := bundle.Import(ctx, created(t, from, createOptions()), to, importOptions())
	sourcetest.Expect(t, len(tree(t, to)) == 0, "something is visible")
	for _, err := range []error{creating, importing} {
		if hints := sources.Hints(err); !errors.Is(err, syscall.ENOSPC) || len(hints) != 1 || !strings.Contains(hints[0], "free some space") {
			t.Errorf("got %v, hints %q", err, hints)
		}
	}
}
