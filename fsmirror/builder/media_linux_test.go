package builder_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// medium mounts a file system of the given size in megabytes. It skips the test if
// that is impossible.
func medium(t *testing.T, kind, size string) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"-t", "tmpfs", "-o", "size=" + size + "M", "tmpfs", dir}
	if kind != "tmpfs" {
		image := filepath.Join(t.TempDir(), "image")
		for _, cmd := range [][]string{{"truncate", "-s", size + "M", image}, {"mkfs." + kind, image}} {
			if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
				t.Skipf("no %s to try: %v %s", kind, err, out)
			}
		}
		args = []string{"-t", kind, "-o", "loop", image, dir}
	}
	if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
		t.Skipf("no %s to try: %v %s", kind, err, out)
	}
	t.Cleanup(func() {
		out, err := exec.Command("umount", dir).CombinedOutput()
		sourcetest.Equal(t, err, nil, "umount", out)
	})
	return dir
}

// Mirrors have the same properties on the file systems of removable drives.
func TestOnRemovableFileSystems(t *testing.T) {
	const ported = "example.test:8443/acme/widget/1.0.0/linux_amd64"
	for _, tt := range []struct {
		kind   string
		colons bool
	}{{"vfat", false}, {"exfat", false}, {"ext4", true}} {
		t.Run(tt.kind, func(t *testing.T) {
			dir := medium(t, tt.kind, "64")
			ids := []string{widget + "/1.0.0/linux_amd64", widget + "/2.0.0/linux_amd64", abroad + "/1.0.0/linux_amd64"}
			d := newDepot(t, append(ids, ported)...)
			d.sync(dir, builder.Options{}, ids...)
			if found, err := client(dir); err != nil || len(found) != 4 {
				t.Errorf("a client finds %q, %v", found, err)
			}
			reader := open(t, dir, builder.Options{ReadOnly: true})
			v, err := reader.Verify(t.Context(), nil)
			must(t, reader.Close())
			sourcetest.Expect(t, err == nil && len(v.Findings) == 0, "%+v, %v", v, err)
			before := stamps(t, dir)
			d.sync(dir, builder.Options{}, ids...)
			after := stamps(t, dir)
			sourcetest.Equal(t, strings.Join(before, "\n"), strings.Join(after, "\n"), "it was written again", after)
			b := open(t, dir, builder.Options{})
			defer b.Close()
			id := parseID(t, ported)
			_, err = sourcetest.Put(t.Context(), b, id, d.delivery(id))
			if (err == nil) != tt.colons || err != nil && len(sources.Hints(err)) != 1 {
				t.Errorf("a host with a port: %v", err)
			}
			must(t, b.Finish(t.Context()))
			plan, err := b.PlanPrune(t.Context(), builder.Policy{KeepLast: 1})
			must(t, err)
			gone, err := b.Prune(t.Context(), plan)
			sourcetest.Expect(t, err == nil && len(gone) == 1, "%d are gone: %v", len(gone), err)
		})
	}
}

// A full file system keeps its packages, and packages can be added later.
func TestFullFileSystem(t *testing.T) {
	dir := medium(t, "tmpfs", "1")
	d := newDepot(t, widget+"/1.0.0/linux_amd64", widget+"/2.0.0/linux_amd64")
	d.sync(dir, builder.Options{}, widget+"/1.0.0/linux_amd64")
	b := open(t, dir, builder.Options{})
	id := parseID(t, widget+"/2.0.0/linux_amd64")
	del := d.delivery(id)
	del.Fetch = func(_ context.Context, stage sources.Stage) (sourcetest.Supplied, error) {
		much := make([]byte, 2<<20)
		rand.Read(much)
		_, err := stage.Write(much)
		return sourcetest.Supplied{}, err
	}
	_, err := sourcetest.Put(t.Context(), b, id, del)
	sourcetest.Expect(t, errors.Is(err, syscall.ENOSPC) && len(sources.Hints(err)) == 1, "got %v", err)
	must(t, errors.Join(b.Finish(t.Context()), b.Close()))
	d.sync(dir, builder.Options{}, widget+"/2.0.0/linux_amd64")
	found, err := client(dir)
	sourcetest.Expect(t, err == nil && len(found) == 2, "a client finds %q, %v", found, err)
	left, err := os.ReadDir(filepath.Join(dir, ".larder", "tmp"))
	sourcetest.Expect(t, err == nil && len(left) == 0, "left are %v, %v", left, err)
}

// A mirror that cannot be written can be read.
func TestReadOnlyFileSystem(t *testing.T) {
	dir := medium(t, "tmpfs", "1")
	d := newDepot(t, widget+"/1.0.0/linux_amd64")
	d.sync(dir, builder.Options{}, widget+"/1.0.0/linux_amd64")
	if out, err := exec.Command("mount", "-o", "remount,ro", dir).CombinedOutput(); err != nil {
		t.Skipf("%v %s", err, out)
	}
	defer exec.Command("mount", "-o", "remount,rw", dir).Run()
	b := open(t, dir, builder.Options{ReadOnly: true, Warn: func(err error) { t.Error(err) }})
	defer b.Close()
	v, err := b.Verify(t.Context(), nil)
	sourcetest.Expect(t, err == nil && len(v.Findings) == 0 && v.Packages == 1, "%+v, %v", v, err)
	_, err = builder.Open(t.Context(), dir, builder.Options{})
	sourcetest.Expect(t, len(sources.Hints(err)) == 1, "to write there: %v", err)
}
