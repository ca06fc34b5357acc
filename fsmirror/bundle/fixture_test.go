package bundle_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

func createOptions() bundle.CreateOptions { return bundle.CreateOptions{Judge: judge} }

func importOptions() bundle.ImportOptions { return bundle.ImportOptions{Judge: judge} }

// created returns the bundle of a mirror.
func created(t testing.TB, dir string, opts bundle.CreateOptions) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "b.tar")
	_, err := bundle.Create(context.Background(), dir, file, opts)
	check(t, err)
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
		name, err := filepath.Rel(dir, path)
		check(t, err)
		name = filepath.ToSlash(name)
		if !strings.HasPrefix(name, ".larder/") || strings.HasPrefix(name, ".larder/evidence/") {
			all[name] = string(readFile(t, path))
		}
		return nil
	})
	check(t, err)
	return all
}

// left returns the files that an import has left in a mirror.
func left(t testing.TB, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, ".larder", "tmp", "*"))
	check(t, err)
	return found
}

// indexed creates an index in a mirror and returns its directory.
func indexed(t testing.TB, dir string) string {
	t.Helper()
	b, err := builder.Open(context.Background(), dir, builder.Options{})
	check(t, err)
	check(t, b.Finish(context.Background()))
	check(t, b.Close())
	return dir
}

func mustImport(t testing.TB, dir, file string) []bundle.Arrival {
	t.Helper()
	imported, err := bundle.Import(context.Background(), file, dir, importOptions())
	check(t, err)
	return imported.Packages
}

func described(t testing.TB, dir string) bundle.Manifest {
	t.Helper()
	m, err := bundle.Describe(context.Background(), dir, store.Records{}, nil)
	check(t, err)
	return m
}

func sum(text string) [32]byte { return sha256.Sum256([]byte(text)) }

func hexOf(sum [32]byte) string { return hex.EncodeToString(sum[:]) }

func sizeOf(text string) string { return fmt.Sprintf(`"size": %d`, len(text)) }

// there opens a mirror for reading.
func there(t testing.TB, dir string) *builder.Builder {
	t.Helper()
	b, err := builder.Open(context.Background(), dir, builder.Options{ReadOnly: true})
	check(t, err)
	return b
}
