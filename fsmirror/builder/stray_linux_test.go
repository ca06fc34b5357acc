package builder_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

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
	"file": func(t *testing.T, at string) string {
		must(t, os.RemoveAll(at))
		must(t, os.WriteFile(at, []byte("canary"), 0o644))
		return at
	},
	"file system": func(t *testing.T, at string) string {
		was := filepath.Join(t.TempDir(), "was")
		must(t, errors.Join(os.Rename(at, was), os.Mkdir(at, 0o755)))
		mount(t, "tmpfs", at, "tmpfs", 0)
		must(t, os.CopyFS(at, os.DirFS(was)))
		return at
	},
	"bind mount": func(t *testing.T, at string) string {
		behind := filepath.Join(t.TempDir(), "behind")
		must(t, errors.Join(os.Rename(at, behind), os.Mkdir(at, 0o755)))
		mount(t, behind, at, "", syscall.MS_BIND)
		return behind
	},
}

func mount(t *testing.T, source, at, kind string, flags uintptr) {
	t.Helper()
	if err := syscall.Mount(source, at, kind, flags, ""); err != nil {
		t.Skip("cannot mount: ", err)
	}
	t.Cleanup(func() { must(t, syscall.Unmount(at, syscall.MNT_DETACH)) })
}

// If a link, mount or file takes the place of a mirror's directory, Larder fails,
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
			_, _, err = b.Index(ctx)
			return errors.Join(err, b.Close())
		},
		"prune": func(ctx context.Context, dir string) error {
			b, err := builder.Open(ctx, dir, builder.Options{})
			if err != nil {
				return err
			}
			plan, err := b.PlanPrune(ctx, builder.Policy{})
			must(t, err)
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

// A pipe instead of a file does not block.
func TestPipes(t *testing.T) {
	d := newDepot(t, widget+"/1.0.0/linux_amd64")
	id := parseID(t, widget+"/1.0.0/linux_amd64")
	pipe := func(t *testing.T, name string) (dir, path string) {
		dir = t.TempDir()
		d.sync(dir, builder.Options{}, widget+"/1.0.0/linux_amd64")
		path = filepath.Join(dir, filepath.FromSlash(name))
		must(t, errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o644)))
		return dir, path
	}
	t.Run("lock", func(t *testing.T) {
		dir, path := pipe(t, ".larder/mirror.lock")
		_, writing := builder.Open(t.Context(), dir, builder.Options{})
		_, reading := open(t, dir, builder.Options{ReadOnly: true}).Verify(t.Context(), nil)
		for _, err := range []error{writing, reading} {
			var stray *disk.StrayError
			sourcetest.Expect(t, errors.As(err, &stray) && stray.Path == path, "got %v", err)
		}
	})
	for _, name := range []string{
		".larder/ledger/" + strings.ReplaceAll(widget, "/", "~") + ".json", ".larder/evidence/" + widget + "/1.0.0/SHA256SUMS", ".larder/evidence/" + widget + "/1.0.0/keys.json",
		widget + "/index.json", widget + "/1.0.0.json", widget + "/" + id.Filename(),
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := pipe(t, name)
			_, err := open(t, dir, builder.Options{ReadOnly: true}).Verify(t.Context(), nil)
			must(t, err)
			d.sync(dir, builder.Options{}, widget+"/1.0.0/linux_amd64")
			v, err := open(t, dir, builder.Options{ReadOnly: true}).Verify(t.Context(), nil)
			sourcetest.Expect(t, err == nil && len(v.Findings) == 0, "%+v, %v", v, err)
		})
	}
}
