package bundle_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var widgetFiles = map[string]string{"terraform-provider-widget": "the provider", "docs/README": "read me", "docs-old": "", "LICENSE": "do as you like"}

// stored unpacks a package as a cache does.
func stored(t testing.TB, f map[string]string, address, version, platform string) sources.Stored {
	t.Helper()
	dir := t.TempDir()
	for name, text := range f {
		path := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(text), 0o644))
		if strings.HasPrefix(name, "terraform-provider-") {
			check(t, os.Chmod(path, 0o755))
		}
	}
	c := sourcetest.Must(archive.Hash(ctx, dir))(t)
	return sources.Stored{ID: sourcetest.PackageID(t, address, version, platform), Dir: dir, H1: c.H1, Origin: "https://example.test/widget.zip"}
}

func storedWidget(t testing.TB) sources.Stored {
	t.Helper()
	return stored(t, widgetFiles, widget, "1.2.0", "linux_amd64")
}

func storedGadget(t testing.TB) sources.Stored {
	t.Helper()
	return stored(t, map[string]string{"terraform-provider-gadget": "another"}, gadget, "2.0.0", "linux_arm64")
}

// unpackedOptions are options for an import of unpacked packages.
func unpackedOptions() bundle.ImportOptions {
	opts := importOptions()
	opts.Unpacked = true
	return opts
}

// exported returns the bundle of stored packages.
func exported(t testing.TB, packages ...sources.Stored) []byte {
	t.Helper()
	m := sourcetest.Must(bundle.Of(ctx, packages))(t)
	var out bytes.Buffer
	check(t, bundle.Write(ctx, &out, m))
	file := filepath.Join(t.TempDir(), "b.tar")
	c := sourcetest.Must(bundle.WriteFile(ctx, file, m, nil))(t)
	sourcetest.Expect(t, bytes.Equal(out.Bytes(), readFile(t, file)) && c.Size == int64(out.Len()), "the file differs from the stream")
	return out.Bytes()
}

// Unpacked packages are imported into a mirror as they were, if that is requested.
func TestUnpacked(t *testing.T) {
	file := fileOf(t, exported(t, storedWidget(t), storedGadget(t)))
	to := filepath.Join(t.TempDir(), "mirror")
	_, err := bundle.Import(ctx, file, to, importOptions())
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "its packages are unpacked"), "got %v", err)
	_, err = os.Lstat(to)
	sourcetest.ErrorIs(t, err, os.ErrNotExist, "the mirror")

	opts := unpackedOptions()
	opts.Records.Dir = t.TempDir()
	for _, how := range []bundle.How{bundle.Added, bundle.Known} {
		imported := sourcetest.Must(bundle.Import(ctx, file, to, opts))(t)
		sourcetest.Equal(t, len(imported.Packages), 2)
		for _, a := range imported.Packages {
			sourcetest.Expect(t, a.How == how && a.Report.Verdict == sources.HashOnly, "%s: %s, %s", a.ID, a.How, a.Report.Verdict)
		}
	}
	for name, text := range widgetFiles {
		path := filepath.Join(to, widget, "1.2.0", "linux_amd64", filepath.FromSlash(name))
		info := sourcetest.Must(os.Stat(path))(t)
		executable := info.Mode()&0o111 != 0
		if string(readFile(t, path)) != text || sourcetest.HasModes && executable != (name == "terraform-provider-widget") {
			t.Errorf("%s is %q, %s", name, readFile(t, path), info.Mode())
		}
	}

	// A mirror keeps what it has, packed or not.
	other := stored(t, map[string]string{"terraform-provider-widget": "another"}, widget, "1.2.0", "linux_amd64")
	file = fileOf(t, exported(t, other))
	_, err = bundle.Import(ctx, file, to, opts)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "and the mirror has it") && len(left(t, to)) == 0,
		"got %v, and left %q", err, left(t, to))
	_, err = bundle.ReceiverAt(ctx, file, opts.Records, ignore)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "no archives"), "got %v", err)
}

// Evidence is a claim about unpacked packages: nothing proves that their files came from the archive.
func TestUnpackedEvidence(t *testing.T) {
	w := published(t)
	mirror := t.TempDir()
	w.WriteUnpacked(mirror, "*/widget/1.0.0/*")
	w.WriteEvidence(mirror, "*/widget/1.0.0/*")
	packed := described(t, mirrored(t, w, "*/widget/1.0.0/*"))
	var all []sources.Stored
	for _, p := range packed.Packages {
		signed := sourcetest.Must(there(t, mirror).Evidence(p.ID.Provider, p.ID.Version))(t)
		all = append(all, sources.Stored{ID: p.ID, Dir: filepath.Join(mirror, p.ID.Path()), H1: p.H1, ZH: p.ZH, Signed: signed})
	}
	v := sourcetest.Must(bundle.Verify(ctx, fileOf(t, exported(t, all...)), judge, nil))(t)
	sourcetest.Expect(t, len(v.Findings) == 0 && len(v.Packages) == 2, "%v", v.Findings)
	for _, p := range v.Packages {
		sourcetest.Equal(t, p.Report.Verdict, sources.HashOnly)
		sourcetest.Expect(t, p.ZH != "", "%s: no claim", p.ID)
	}

	// A package from another archive than the signed one has no claim.
	all[0].ZH, all[0].Signed = sources.ZipHash([32]byte{1}), nil
	m := sourcetest.Must(bundle.Of(ctx, all))(t)
	sourcetest.Expect(t, m.Packages[0].ZH == "" && m.Packages[1].ZH == packed.Packages[1].ZH && len(m.Evidence) == 1, "%+v", m)
	all[0].ZH, all[0].Signed = sources.ZipHash([32]byte{1}), all[1].Signed
	refusedWith(t, unpackedOptions(), exported(t, all...), "not among the signed checksums")
}

// The same packages produce the same bytes at any time and in any order.
func TestUnpackedDeterminism(t *testing.T) {
	w, g := storedWidget(t), storedGadget(t)
	first := exported(t, w, g)
	then := time.Now().Add(-time.Hour)
	check(t, os.Chtimes(filepath.Join(w.Dir, "LICENSE"), then, then))
	check(t, os.Chmod(filepath.Join(w.Dir, "LICENSE"), 0o600))
	sourcetest.Expect(t, bytes.Equal(first, exported(t, g, w)), "they differ")
}

func TestChangedPackageIsNotWritten(t *testing.T) {
	w := storedWidget(t)
	m := sourcetest.Must(bundle.Of(ctx, []sources.Stored{w}))(t)
	check(t, os.WriteFile(filepath.Join(w.Dir, "LICENSE"), []byte("do as I like!!"), 0o644))
	_, err := bundle.Of(ctx, []sources.Stored{w})
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "1.2.0 linux_amd64: its contents are h1:"), "%v", err)
	w.Sums = map[string]string{}
	for _, f := range m.Packages[0].Files { // the store has recorded the checksums, so only Write reads the files
		w.Sums[f.Name] = hex.EncodeToString(f.SHA256[:])
	}
	again, err := bundle.Of(ctx, []sources.Stored{w})
	sourcetest.Expect(t, err == nil && bytes.Equal(again.Text(), m.Text()), "%s, %v", again.Text(), err)
	err = bundle.Write(ctx, io.Discard, m)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "LICENSE differs from what was stored"), "%v", err)
}

// set sets a member of the first listed package. Of map[string]string, it sets that of the first.
func setFirst(name string, value any) func([]entry) []entry {
	return editPackages(func(all []any) []any {
		all[0].(map[string]any)[name] = value
		return all
	})
}

// renamed renames the first file of a package, also in the manifest, which gets the right hash.
func renamed(name string) func([]entry) []entry {
	inManifest := editDocument(func(doc map[string]any) {
		p := doc["packages"].([]any)[0].(map[string]any)
		p["files"].([]any)[0].(map[string]any)["name"] = name
		var files []sources.File
		for _, f := range p["files"].([]any) {
			f := f.(map[string]any)
			var sum bundle.Digest
			must(sum.UnmarshalText([]byte(f["sha256"].(string))))
			files = append(files, sources.File{Path: f["name"].(string), SHA256: sum})
		}
		p["h1"] = archive.H1(files)
	})
	return func(all []entry) []entry {
		all[1].Name = strings.TrimSuffix(all[1].Name, "LICENSE") + name
		return inManifest(all)
	}
}

func TestRefusedUnpacked(t *testing.T) {
	good := exported(t, storedWidget(t))
	for _, test := range []struct {
		name   string
		change func([]entry) []entry
		want   string
	}{
		{"no hash", setFirst("h1", ""), "should be "},
		{"another hash", setFirst("h1", "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="), "should be h1:AAAA"},
		{"two hashes", setFirst("zip_h1", "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="), "should be h1:"},
		{"other size", setFirst("size", 1), "bytes instead of 1"},
		{"path of an archive", setFirst("path", widget+"/x.zip"), "path is"},
		{"changed file", func(all []entry) []entry { all[1].Text = "do as I please"; return all }, "LICENSE: differs from the manifest"},
		{"also an archive", editPackages(func(all []any) []any {
			return append(all, map[string]any{"provider": widget, "version": "1.3.0", "platform": "linux_amd64", "size": 1,
				"path": widget + "/terraform-provider-widget_1.3.0_linux_amd64.zip", "zh": "zh:" + strings.Repeat("0", 64),
				"h1": "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="})
		}), "both archives and unpacked packages"},
		{"upwards", renamed("../LICENSE"), "not a path inside"},
		{"differs in case", renamed("Docs-old"), "only in case"},
		{"twice", renamed("docs-old"), "listed twice"},
	} {
		t.Run(test.name, func(t *testing.T) {
			refusedWith(t, unpackedOptions(), packTar(t, test.change(unpackTar(t, good))), test.want)
		})
	}
}
