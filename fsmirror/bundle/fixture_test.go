package bundle_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
	"github.com/larder-cli/larder/sources/trust"
)

const (
	widget = "example.test/acme/widget"
	gadget = "example.test/acme/gadget"
)

var check = sourcetest.Check

func TestMain(m *testing.M) { os.Exit(sourcetest.Sampling{M: m, InMemory: true}.Run()) }

// published returns a world of three releases, one of them for two platforms.
func published(t testing.TB) *sourcetest.World {
	t.Helper()
	w := sourcetest.New(t)
	w.Add(gadget, "0.1.0", sourcetest.Release{Platforms: []string{"linux_amd64"}, Size: 3000})
	w.Add(widget, "1.0.0", sourcetest.Release{Platforms: []string{"linux_amd64", "linux_arm64"}, Files: provider("docs/a/README", "read me")})
	w.Add(widget, "1.1.0", sourcetest.Release{Platforms: []string{"linux_amd64"}, Size: 70_000})
	return w
}

// provider returns the files of a widget with another file.
func provider(name, text string) map[string]string {
	return map[string]string{"terraform-provider-widget": "the provider", name: text}
}

// mirrored creates a mirror of the matching packages in w, with evidence.
func mirrored(t testing.TB, w *sourcetest.World, only ...string) string {
	t.Helper()
	dir := t.TempDir()
	w.WritePacked(dir, only...)
	w.WriteEvidence(dir, only...)
	return dir
}

// judge has no settings. Keys came with the bundle.
var judge = trust.Judge{Options: trust.Options{Carrier: sources.KeyFromBundle}}

func createOptions() bundle.CreateOptions { return bundle.CreateOptions{Judge: judge, Warn: ignore} }

// since are options for a bundle for a mirror with this manifest.
func since(m bundle.Manifest) bundle.CreateOptions {
	return bundle.CreateOptions{Judge: judge, Warn: ignore, Since: &bundle.Receiver{Manifest: m}}
}

func importOptions() bundle.ImportOptions {
	return bundle.ImportOptions{Options: builder.Options{Judge: judge, Warn: ignore}}
}

func ignore(error) {}

// created returns the bundle of a mirror.
func created(t testing.TB, dir string, opts bundle.CreateOptions) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "b.tar")
	sourcetest.Must(bundle.Create(context.Background(), dir, file, opts))(t)
	return file
}

var readFile = sourcetest.ReadFile

// tree returns the contents of the visible files in a directory and of the evidence,
// by path.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name := sourcetest.Must(filepath.Rel(dir, path))(t)
		name = filepath.ToSlash(name)
		if !strings.HasPrefix(name, ".larder/") || strings.HasPrefix(name, ".larder/evidence/") {
			all[name] = string(readFile(t, path))
		}
		return nil
	})
	check(t, err)
	return all
}

// alike checks that two mirrors have the same visible files and evidence.
func alike(t testing.TB, dir, other string) {
	t.Helper()
	if got, want := tree(t, dir), tree(t, other); !maps.Equal(want, got) {
		t.Errorf("got %q\nwant %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// fileOf returns a file with a bundle.
func fileOf(t testing.TB, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "b.tar")
	check(t, os.WriteFile(file, data, 0o644))
	return file
}

// left returns the files that an import has left in a mirror.
func left(t testing.TB, dir string) []string {
	t.Helper()
	return sourcetest.Must(filepath.Glob(filepath.Join(dir, ".larder", "tmp", "*")))(t)
}

// indexed creates an index in a mirror and returns its directory.
func indexed(t testing.TB, dir string) string {
	t.Helper()
	b := sourcetest.Must(builder.Open(context.Background(), dir, builder.Options{}))(t)
	_, _, err := b.Index(context.Background(), true, false) // as bundles have the hashes of contents
	check(t, err)
	check(t, b.Close())
	return dir
}

func mustImport(t testing.TB, dir, file string) []bundle.Arrival {
	t.Helper()
	imported := sourcetest.Must(bundle.Import(context.Background(), file, dir, importOptions()))(t)
	return imported.Packages
}

func described(t testing.TB, dir string) bundle.Manifest {
	t.Helper()
	return sourcetest.Must(bundle.Describe(context.Background(), dir, store.Records{}, ignore))(t)
}

func sum(text string) [32]byte { return sha256.Sum256([]byte(text)) }

func hexOf(sum [32]byte) string { return hex.EncodeToString(sum[:]) }

func sizeOf(text string) string { return fmt.Sprintf(`"size": %d`, len(text)) }

// there opens a mirror for reading.
func there(t testing.TB, dir string) *builder.Builder {
	t.Helper()
	return sourcetest.Must(builder.Open(context.Background(), dir, builder.Options{ReadOnly: true}))(t)
}

// A tarEntry is an entry of a tar archive. [packTar] sets its size.
type tarEntry struct {
	tar.Header
	Text string
}

// unpackTar returns the entries of an archive.
func unpackTar(t testing.TB, data []byte) []tarEntry {
	t.Helper()
	var all []tarEntry
	for in := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		check(t, err)
		text := sourcetest.Must(io.ReadAll(in))(t)
		all = append(all, tarEntry{*h, string(text)})
	}
}

// packTar returns an archive with the entries, even if their headers are
// invalid.
func packTar(t testing.TB, all []tarEntry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range all {
		e.Size, e.Format = int64(len(e.Text)), tar.FormatUnknown
		if e.Typeflag != tar.TypeReg {
			e.Size = 0
		}
		check(t, w.WriteHeader(&e.Header))
		if e.Size > 0 {
			sourcetest.Must(w.Write([]byte(e.Text)))(t)
		}
	}
	check(t, w.Close())
	return out.Bytes()
}

// tarBlock is the size of the blocks of a tar archive.
const tarBlock = 512

// hostileTars returns variants of an archive. In each, the headers of one entry lie: about its type, in records that
// replace its path or its size, with a sparse file, or with another spelling of the name. Package tar refuses to write
// most of them.
func hostileTars(t testing.TB, valid []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for at := 0; at+tarBlock <= len(valid) && valid[at] != 0; {
			header := valid[at : at+tarBlock]
			size := sourcetest.Must(strconv.ParseInt(string(bytes.Trim(header[124:136], " \x00")), 8, 32))(t)
			next := at + tarBlock + (int(size)+tarBlock-1)/tarBlock*tarBlock
			name := string(bytes.TrimRight(header[:100], "\x00"))
			var all [][]byte // in place of the header
			for _, kind := range "1234567SLKVxg" {
				all = append(all, tarHeader(header, name, byte(kind), size))
			}
			for _, before := range []string{"/", "C:", `..\`, "../", "./", "e\u0301"} {
				all = append(all, tarHeader(header, before+name, header[156], size))
			}
			for _, key := range []string{
				"path=../x", "path=/x", "path=" + name + "\x00", "size=0", "size=9223372036854775807", "size=-1",
				"linkpath=/etc/passwd",
				"GNU.sparse.major=1\nGNU.sparse.minor=0\nGNU.sparse.realsize=1099511627776\nGNU.sparse.name=../x",
				"GNU.sparse.map=0,1\nGNU.sparse.numblocks=1\nGNU.sparse.size=1099511627776",
			} {
				records := ""
				for record := range strings.SplitSeq(key, "\n") {
					records += fmt.Sprintf("%03d %s\n", len(record)+5, record)
				}
				x := tarHeader(header, "PaxHeaders/x", 'x', int64(len(records)))
				all = append(all, slices.Concat(x, []byte(records), make([]byte, -len(records)&(tarBlock-1)), header))
			}
			other := tarHeader(header, "E\u0301"+name, header[156], size)
			all = append(all, valid[at:next], slices.Concat(valid[at:next], other))
			for i, instead := range all {
				rest := valid[at+tarBlock:]
				if i == len(all)-2 { // the entry occurs twice
					rest = valid[at:]
				}
				if !yield(slices.Concat(valid[:at], instead, rest)) {
					return
				}
			}
			at = next
		}
	}
}

// tarHeader returns a header like another one.
func tarHeader(like []byte, name string, kind byte, size int64) []byte {
	h := slices.Clone(like)
	clear(h[:100])
	copy(h[:100], name)
	copy(h[124:136], fmt.Sprintf("%011o\x00", size))
	h[156] = kind
	copy(h[148:156], "        ")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return h
}
