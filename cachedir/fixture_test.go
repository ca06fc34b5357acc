package cachedir_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/seal"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// widget is the package that most tests use.
var widget = packageID("example.test/acme/widget", "1.2.0")

const executable = "terraform-provider-widget_v1.2.0"

func packageID(address, version string) sources.PackageID {
	id, err := sources.ParsePackageID(address, version, "linux_arm64")
	if err != nil {
		panic(err)
	}
	return id
}

// files maps paths to the contents of the files of a package.
type files map[string]string

var widgetFiles = files{executable: "the provider", "LICENSE": "do as you like", "docs/README": "read me"}

func (f files) zip(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		h := &zip.FileHeader{Name: name}
		h.SetMode(0o644)
		if name == executable {
			h.SetMode(0o755)
		}
		out := sourcetest.Must(w.CreateHeader(h))(t)
		sourcetest.Must(out.Write([]byte(f[name])))(t)
	}
	check(t, w.Close())
	return buf.Bytes()
}

// unpack writes the files to dir, as Terraform does.
func (f files) unpack(t testing.TB, dir string) string {
	t.Helper()
	for name, text := range f {
		path := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(text), 0o755))
		age(t, path)
	}
	return dir
}

// age sets the modification time of a file to a time long ago.
func age(t testing.TB, path string) {
	t.Helper()
	then := time.Now().Add(-time.Hour)
	check(t, os.Chtimes(path, then, then))
}

func (f files) h1(t testing.TB) sources.Hash {
	t.Helper()
	c := sourcetest.Must(archive.Hash(context.Background(), f.unpack(t, t.TempDir())))(t)
	return c.H1
}

// delivery supplies the archive data as signed.
func delivery(data []byte) sourcetest.Supply {
	return sourcetest.Supply{
		Accept: func(s sources.Stored) bool { return s.ZH != "" },
		Fetch: func(_ context.Context, stage sources.Stage) (sourcetest.Supplied, error) {
			_, err := stage.Write(data)
			return sourcetest.Supplied{Provenance: sources.Provenance{
				ZH: sources.ZipHash(sha256.Sum256(data)), Filename: "widget.zip", Origin: "https://example.test/widget.zip",
				Signed: &sources.Signed{Sums: []byte("sums\n"), Signature: []byte("signature"), Origin: "https://example.test/sums"},
			}}, err
		},
		Judge: func(sources.Contents) (sources.Proof, error) { return sourcetest.ByRegistryKey, nil },
	}
}

// hashing supplies the archive data to a store that records only its hashes.
func hashing(data []byte) sourcetest.Supply {
	from := delivery(data)
	from.Purpose = sources.ToHash
	return from
}

// testKey is the key of the user in most tests.
var testKey = key("the secret of all these tests")

func key(secret string) seal.Key {
	k, err := seal.ParseKey(secret)
	if err != nil {
		panic(err)
	}
	return k
}

func open(t testing.TB, root string, opts cachedir.Options) *cachedir.Dir {
	t.Helper()
	if opts.Warn == nil {
		opts.Warn = func(err error) { t.Errorf("warning: %v", err) }
	}
	if reflect.ValueOf(opts.Records.Key).IsZero() {
		opts.Records.Key = testKey
	}
	if opts.Records.Dir == "" {
		opts.Records.Dir = filepath.Clean(root) + "-states"
	}
	if opts.Judge == nil {
		opts.Judge = sourcetest.Verdicts{}
	}
	d := sourcetest.Must(cachedir.Open(root, opts))(t)
	t.Cleanup(func() { check(t, d.Close()) })
	return d
}

// cached opens a new cache that has the widget.
func cached(t testing.TB, opts cachedir.Options) (root string, d *cachedir.Dir, s sources.Stored) {
	t.Helper()
	root = t.TempDir()
	d = open(t, root, opts)
	return root, d, put(t, d, widget, widgetFiles)
}

func put(t testing.TB, d *cachedir.Dir, id sources.PackageID, f files) sources.Stored {
	t.Helper()
	return deliver(t, d, id, delivery(f.zip(t)))
}

func deliver(t testing.TB, to sourcetest.Store, id sources.PackageID, from sourcetest.Supply) sources.Stored {
	t.Helper()
	return sourcetest.Must(sourcetest.Put(context.Background(), to, id, from))(t)
}

// get returns a package that the cache has.
func get(t testing.TB, d *cachedir.Dir, id sources.PackageID) sources.Stored {
	t.Helper()
	return sourcetest.Must(d.Get(context.Background(), id))(t)
}

func recall(t testing.TB, d *cachedir.Dir, id sources.PackageID) sources.Stored {
	t.Helper()
	return sourcetest.Must(d.Recall(id))(t)
}

func stat(t testing.TB, path string) os.FileInfo {
	t.Helper()
	return sourcetest.Must(os.Stat(path))(t)
}

var check = sourcetest.Check

// tree returns the files in dir with their contents. It follows symlinks.
func tree(t testing.TB, dir string) files {
	t.Helper()
	real := sourcetest.Must(filepath.EvalSymlinks(dir))(t)
	return read(t, real, func(e os.DirEntry) bool { return !e.IsDir() })
}

// read returns the contents of some files in dir.
func read(t testing.TB, dir string, which func(os.DirEntry) bool) files {
	t.Helper()
	got := files{}
	check(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !which(e) {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		got[filepath.ToSlash(rel)] = string(data)
		return err
	}))
	return got
}

func sameTree(t testing.TB, dir string, want files) {
	t.Helper()
	got := tree(t, dir)
	sourcetest.Expect(t, maps.Equal(got, want), "%s holds %q, want %q", dir, got, want)
}

// record is the path of the file with the records, relative to the root of the cache.
var record = filepath.Join(".larder", "ledger", "all.json")

func lockOf(id sources.PackageID) string {
	return filepath.Join(".larder", "lock", strings.ReplaceAll(id.Path(), "/", "~")+".lock")
}

func partialOf(id sources.PackageID) string {
	return filepath.Join(".larder", "partial", strings.ReplaceAll(id.Path(), "/", "~"))
}

// nothingStaged checks that the cache's staging directory only has the locks of Dirs that are open.
func nothingStaged(t testing.TB, root string) {
	t.Helper()
	left := tree(t, filepath.Join(root, ".larder", "tmp"))
	maps.DeleteFunc(left, func(name, _ string) bool { return filepath.Base(name) == "~lock" })
	sourcetest.Expect(t, len(left) == 0, "left over: %q", left)
}

// link links a package to the path target in a working directory.
func link(ctx context.Context, d *cachedir.Dir, s sources.Stored, target string) (mode sources.LinkMode, err error) {
	w := d.Workdir("", providersOf(s.ID, target))
	defer func() { err = errors.Join(err, w.Close()) }()
	return w.Link(ctx, s)
}

func linked(t testing.TB, d *cachedir.Dir, s sources.Stored, target string) sources.LinkMode {
	t.Helper()
	return sourcetest.Must(link(context.Background(), d, s, target))(t)
}

// known returns the package installed in target.
func known(ctx context.Context, d *cachedir.Dir, id sources.PackageID, target string) (s sources.Stored, err error) {
	w := d.Workdir("", providersOf(id, target))
	defer func() { err = errors.Join(err, w.Close()) }()
	return w.Get(ctx, id)
}

func installed(t testing.TB, d *cachedir.Dir, id sources.PackageID, target string) sources.Stored {
	t.Helper()
	return sourcetest.Must(known(context.Background(), d, id, target))(t)
}

func providersOf(id sources.PackageID, target string) string {
	return strings.TrimSuffix(target, string(filepath.Separator)+filepath.FromSlash(id.Path()))
}
