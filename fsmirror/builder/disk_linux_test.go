package builder_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// tiny mounts a file system of a megabyte, if this test has permission.
func tiny(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("cannot mount: ", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// A full file system keeps its packages, and packages can be added later.
func TestFullFileSystem(t *testing.T) {
	dir := tiny(t)
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
	finds(t, dir, 2)
	left, err := os.ReadDir(filepath.Join(dir, ".larder", "tmp"))
	sourcetest.Expect(t, err == nil && len(left) == 0, "left are %v, %v", left, err)
}

// Packages can be removed from a full file system, on which no index can be written.
func TestPruneOnFullFileSystem(t *testing.T) {
	dir := tiny(t)
	d := newDepot(t)
	large := make([]byte, 100<<10)
	rand.Read(large)
	ids := []string{widget + "/1.0.0/linux_amd64", widget + "/2.0.0/linux_amd64"}
	d.stockWith(map[string]string{"terraform-provider-widget": string(large)}, ids...)
	d.sync(dir, builder.Options{}, ids...)
	filler := sourcetest.Must(os.Create(filepath.Join(dir, "filler")))(t)
	_, err := io.Copy(filler, rand.Reader)
	sourcetest.Expect(t, errors.Is(err, syscall.ENOSPC), "filling: %v", err)
	must(t, filler.Close())
	b := open(t, dir, builder.Options{})
	id := parseID(t, ids[0])
	held := sourcetest.Must(b.Get(t.Context(), id))(t)
	plan, _, err := b.PlanRemoval(t.Context(), map[sources.PackageID]sources.Hash{id: held.ZH})
	must(t, err)
	gone, err := b.Prune(t.Context(), plan)
	sourcetest.Expect(t, err == nil && len(gone) == 1 && !b.Indexed(id), "removed %v, %v", gone, err)
	finds(t, dir, 1)
}

// A mirror that cannot be written can be read.
func TestReadOnlyFileSystem(t *testing.T) {
	dir := tiny(t)
	d := newDepot(t, widget+"/1.0.0/linux_amd64")
	d.sync(dir, builder.Options{}, widget+"/1.0.0/linux_amd64")
	must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	b := open(t, dir, builder.Options{ReadOnly: true, Warn: func(err error) { t.Error(err) }})
	defer b.Close()
	v, err := b.Verify(t.Context(), nil)
	sourcetest.Expect(t, err == nil && len(v.Findings) == 0 && v.Packages == 1, "%+v, %v", v, err)
	_, err = builder.Open(t.Context(), dir, builder.Options{})
	sourcetest.Expect(t, len(sources.Hints(err)) == 1, "to write there: %v", err)
}
