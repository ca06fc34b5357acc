package builder_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
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
	found, err := client(dir)
	sourcetest.Expect(t, err == nil && len(found) == 2, "a client finds %q, %v", found, err)
	left, err := os.ReadDir(filepath.Join(dir, ".larder", "tmp"))
	sourcetest.Expect(t, err == nil && len(left) == 0, "left are %v, %v", left, err)
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

// everything returns a description of all files in a directory that any write would
// change.
func everything(t *testing.T, dir string) (all []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		all = append(all, fmt.Sprint(path, info.Size(), info.ModTime()))
		return err
	}))
	return all
}

// misplace contains functions that replace a directory, and return the directory that
// has its contents afterwards.
var misplace = map[string]func(t *testing.T, at string) (behind string){
	"link": func(t *testing.T, at string) string {
		behind := filepath.Join(t.TempDir(), "behind")
		must(t, errors.Join(os.Rename(at, behind), sourcetest.Symlink(t, behind, at)))
		return behind
	},
	"bind mount": func(t *testing.T, at string) string {
		behind := filepath.Join(t.TempDir(), "behind")
		must(t, errors.Join(os.Rename(at, behind), os.Mkdir(at, 0o755)))
		if err := syscall.Mount(behind, at, "", syscall.MS_BIND, ""); err != nil {
			t.Skip("cannot mount: ", err)
		}
		t.Cleanup(func() { must(t, syscall.Unmount(at, syscall.MNT_DETACH)) })
		return behind
	},
}

// If a link or a mount takes the place of a mirror's directory, Larder fails,
// names it, and changes nothing in its target.
func TestStrayInPlaceOfDirectory(t *testing.T) {
	const packed, unpacked = widget + "/1.0.0/linux_amd64", gadget + "/1.0.0/linux_amd64"
	d := newDepot(t, packed, unpacked, widget+"/2.0.0/linux_amd64")
	pristine := t.TempDir()
	d.sync(pristine, builder.Options{}, packed)
	d.sync(pristine, builder.Options{Unpacked: true}, unpacked)
	for _, name := range []string{"tmp/run-dead", "partial"} {
		write(t, filepath.Join(pristine, ".larder", name, "file"), "canary")
	}
	put := func(text string, opts builder.Options) func(context.Context, string) error {
		return func(ctx context.Context, dir string) error {
			b, err := builder.Open(ctx, dir, opts)
			if err != nil {
				return err
			}
			id := parseID(t, text)
			del := d.delivery(id)
			del.Accept = func(sources.Stored) bool { return false }
			_, err = sourcetest.Put(ctx, b, id, del)
			return errors.Join(err, b.Finish(ctx), b.Close())
		}
	}
	operations := map[string]func(ctx context.Context, dir string) error{
		"put packed":   put(packed, builder.Options{}),
		"put unpacked": put(unpacked, builder.Options{Unpacked: true}),
		"index": func(ctx context.Context, dir string) error {
			b, err := builder.Open(ctx, dir, builder.Options{Paranoid: true})
			if err != nil {
				return err
			}
			_, _, err = b.Index(ctx, false)
			return errors.Join(err, b.Close())
		},
		"prune": func(ctx context.Context, dir string) error {
			b, err := builder.Open(ctx, dir, builder.Options{})
			if err != nil {
				return err
			}
			plan := sourcetest.Must(b.PlanPrune(ctx, builder.Policy{}))(t)
			_, err = b.Prune(ctx, plan)
			return errors.Join(err, b.Close())
		},
	}
	for _, tt := range []struct {
		at    string
		fails []string // operations that require the directory
	}{
		{".larder", []string{"put packed", "put unpacked", "index", "prune"}},
		{".larder/tmp", []string{"put packed", "put unpacked", "index", "prune"}},
		{".larder/partial", []string{"put packed", "put unpacked", "index", "prune"}},
		{".larder/evidence", []string{"put packed", "put unpacked", "index", "prune"}},
		{".larder/ledger", []string{"put packed", "put unpacked", "index", "prune"}},
		{"example.test", []string{"put packed", "put unpacked"}},
		{"example.test/acme", []string{"put packed", "put unpacked"}},
		{widget, []string{"put packed"}},
		{gadget, []string{"put unpacked"}},
		{gadget + "/1.0.0", []string{"put unpacked"}},
	} {
		for kind, put := range misplace {
			for what, operation := range operations {
				t.Run(tt.at+" is a "+kind+"/"+what, func(t *testing.T) {
					dir := t.TempDir()
					must(t, os.CopyFS(dir, os.DirFS(pristine)))
					at := filepath.Join(dir, filepath.FromSlash(tt.at))
					behind := put(t, at)
					before := everything(t, behind)
					err := operation(t.Context(), dir)
					after := everything(t, behind)
					sourcetest.Expect(t, slices.Equal(before, after), "what is behind it was\n%q\nand is\n%q", before, after)
					var stray *disk.StrayError
					switch {
					case err == nil && slices.Contains(tt.fails, what):
						t.Error("it succeeded")
					case err != nil && (!errors.As(err, &stray) || stray.Path != at):
						t.Errorf("got %v, want an error that names %s", err, at)
					}
				})
			}
		}
	}
}
