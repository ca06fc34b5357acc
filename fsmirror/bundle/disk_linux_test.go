package bundle_test

import (
	"errors"
	"io/fs"
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

// A bundle of something that not all users can read says so, and only its owner can read it.
func TestBundlesOfPrivateFiles(t *testing.T) {
	w := published(t)
	for _, private := range []string{
		"live/net/.terraform", "live/net/.terraform/modules/vpc/main.tf", "bin/tofu",
		"mirror", "mirror/" + gadget + "/terraform-provider-gadget_0.1.0_linux_amd64.zip", "",
	} {
		t.Run(private, func(t *testing.T) {
			dir := workspace(t)
			from := filepath.Join(dir, "mirror")
			w.WritePacked(from)
			check(t, filepath.WalkDir(filepath.Dir(dir), func(name string, _ fs.DirEntry, _ error) error {
				return os.Chmod(name, 0o755)
			}))
			at := filepath.Join(dir, filepath.FromSlash(private))
			if private != "" {
				check(t, os.Chmod(at, 0o700))
			}
			opts := createOptions()
			opts.Payload = gathered(t, dir)
			file := filepath.Join(t.TempDir(), "b.tar")
			made := sourcetest.Must(bundle.Create(ctx, from, file, opts))(t)
			info := sourcetest.Must(os.Stat(file))(t)
			sourcetest.Expect(t, (made.Private != "") == (private != "") && strings.HasPrefix(made.Private, at) == (private != ""),
				"%q is private", made.Private)
			sourcetest.Equal(t, info.Mode().Perm()&0o077 == 0, private != "")
		})
	}
}
