package bundle_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// plainMirror creates a mirror without a world, because creating its keys would slow
// down fuzzing.
func plainMirror(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, version := range []string{"1.0.0", "1.1.0-rc1"} {
		var out bytes.Buffer
		z := zip.NewWriter(&out)
		w, err := z.Create("terraform-provider-widget")
		check(t, err)
		_, err = w.Write([]byte(version))
		check(t, errors.Join(err, z.Close()))
		path := filepath.Join(dir, widget, "terraform-provider-widget_"+version+"_linux_amd64.zip")
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, out.Bytes(), 0o644))
	}
	return dir
}

// A valid manifest that is written and parsed again is the same.
func FuzzManifest(f *testing.F) {
	m := described(f, plainMirror(f))
	f.Add(m.Text())
	delta := m.Since(&bundle.Receiver{Manifest: bundle.Manifest{Packages: m.Packages[:1]}})
	delta.Evidence = []bundle.Evidence{{Release: sources.Release{Provider: m.Packages[1].ID.Provider, Version: m.Packages[1].ID.Version}}}
	f.Add(delta.Text())
	f.Add(bundle.Manifest{}.Text())
	m.Payload = gathered(f, workspace(f))
	f.Add(m.Text())
	unpacked, err := bundle.Of(ctx, []sources.Stored{storedWidget(f), storedGadget(f)})
	check(f, err)
	f.Add(unpacked.Text())
	for mutant := range sourcetest.Mutants(m.Text()) {
		f.Add(mutant)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := bundle.ParseManifest(data)
		if err != nil {
			return
		}
		again, err := bundle.ParseManifest(m.Text())
		if err != nil || !bytes.Equal(m.Text(), again.Text()) || m.ID() != again.ID() {
			t.Errorf("%v\n%s\n%s", err, m.Text(), again.Text())
		}
	})
}

// Every valid bundle can be imported, and a bundle of the resulting mirror is the
// same.
func FuzzBundle(f *testing.F) {
	good := readFile(f, created(f, plainMirror(f), createOptions()))
	f.Add(good)
	for mutant := range sourcetest.Mutants(good) {
		f.Add(mutant)
	}
	for hostile := range hostileTars(f, good) {
		f.Add(hostile)
	}
	f.Add(good[:len(good)-512])
	all := unpackTar(f, good)
	all[1], all[2] = all[2], all[1]
	f.Add(packTar(f, all))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := bundle.Read(bytes.NewReader(data), int64(len(data)), "fuzzed")
		if err != nil {
			return
		}
		if len(b.Manifest.Base) > 0 || len(b.Manifest.Packages) == 0 || len(b.Manifest.Payload) > 0 {
			return
		}
		file := filepath.Join(t.TempDir(), "b.tar")
		check(t, os.WriteFile(file, data, 0o644))
		to := t.TempDir()
		if _, err := bundle.Import(ctx, file, to, importOptions()); err != nil {
			sourcetest.Expect(t, len(tree(t, to)) == 0, "refused, and something is there")
			return
		}
		sourcetest.Expect(t, bytes.Equal(data, readFile(t, created(t, to, createOptions()))), "it makes another bundle")
	})
}

// The format is stable, including long names, non-ASCII names and archives beyond
// 8 GiB.
func TestLayoutStays(t *testing.T) {
	m := bundle.Manifest{Packages: []bundle.Package{
		{
			ID: sourcetest.PackageID(t, "bücher.test/acme/widget", "1.0.0", "linux_amd64"), Size: 9 << 30,
			ZH: sources.ZipHash([32]byte{1}), H1: "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
		},
		{
			ID: sourcetest.PackageID(t, widget, "1.0.0-a-prerelease-of-which-nobody-could-say-it-is-short-as-it-goes-on-and-on-and-on-and-on-and-on-and-on", "linux_amd64"), Size: 1,
			ZH: sources.ZipHash([32]byte{2}), H1: "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
		},
	}}
	headers, size, err := bundle.Headers(m)
	check(t, err)
	if got, want := hexOf(sum(string(headers))), "b18eff519ca8c86fe018be5bf17da41120dbb8bd1436e05247fb971cc024c37a"; got != want || size != 9_663_682_560 {
		t.Errorf("got %s and %d bytes", got, size)
	}
}
