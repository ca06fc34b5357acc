package export_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/cachedir/export"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

// files maps paths to the contents of the files of a package.
type files map[string]string

var widgetFiles = files{"terraform-provider-widget": "the provider", "docs/README": "read me", "docs-old": "", "LICENSE": "do as you like"}

// store unpacks a package as a cache does.
func store(t testing.TB, f files, address, version, platform string) sources.Stored {
	t.Helper()
	dir := t.TempDir()
	for name, text := range f {
		path := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(text), 0o644))
	}
	if f["terraform-provider-widget"] != "" {
		check(t, os.Chmod(filepath.Join(dir, "terraform-provider-widget"), 0o755))
	}
	c, err := archive.Hash(context.Background(), dir)
	check(t, err)
	return sources.Stored{
		ID: sourcetest.PackageID(t, address, version, platform), Dir: dir, H1: c.H1,
		ZH: sources.ZipHash([32]byte{1}),
		Signed: &sources.Signed{
			Sums: []byte("sums\xff\n"), Signature: []byte{0, 1, 2}, Origin: "https://example.test/sums",
			Keys: []sources.Key{{Armor: "armour", TrustSignature: "<trust>"}},
		},
	}
}

func write(t testing.TB, packages ...sources.Stored) []byte {
	t.Helper()
	var out bytes.Buffer
	check(t, export.Write(context.Background(), &out, packages))
	return out.Bytes()
}

// readAll reads an export and verifies the contents.
func readAll(r io.Reader, dir string) ([]sources.Stored, error) {
	in, err := export.NewReader(r)
	if err != nil {
		return nil, err
	}
	var all []sources.Stored
	for {
		c, err := in.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		to := archive.Dest{}
		if dir != "" {
			to.Dir, err = disk.Make(filepath.Join(dir, c.Packages[0].ID.Provider.Type))
			if err != nil {
				return all, err
			}
			defer to.Dir.Close()
		}
		contents, err := archive.Receive(context.Background(), c.Files, to, archive.Limits{Size: 1 << 20})
		if err != nil {
			return all, err
		}
		if contents.H1 != c.H1 {
			return all, errors.New("other contents")
		}
		all = append(all, c.Packages...)
	}
}

// An export that is read again is the same, and contains equal contents once.
func TestRoundTrip(t *testing.T) {
	widget := store(t, widgetFiles, "example.test/acme/widget", "1.2.0", "linux_amd64")
	twin := store(t, widgetFiles, "another.test/acme/widget", "1.2.0", "linux_amd64")
	gadget := store(t, files{"terraform-provider-gadget": "another"}, "example.test/acme/gadget", "2.0.0", "linux_arm64")
	gadget.Signed, gadget.ZH = nil, ""
	dir := t.TempDir()
	got, err := readAll(bytes.NewReader(write(t, widget, gadget, twin)), dir)
	check(t, err)
	want := []sources.Stored{twin, widget, gadget}
	sourcetest.Require(t, len(got) == len(want), "read %+v", got)
	for i, s := range got {
		w := want[i]
		if s.ID != w.ID || s.H1 != w.H1 || s.ZH != w.ZH || s.Dir != "" || (s.Signed == nil) != (w.Signed == nil) {
			t.Errorf("read %+v\nwant %+v", s, w)
		}
		if w.Signed != nil && (string(s.Signed.Sums) != string(w.Signed.Sums) || !slices.Equal(s.Signed.Keys, w.Signed.Keys) ||
			!slices.Equal(s.Signed.Signature, w.Signed.Signature) || s.Signed.Origin != w.Signed.Origin) {
			t.Errorf("read %+v\nwant %+v", s.Signed, w.Signed)
		}
	}
	for name, text := range widgetFiles {
		path := filepath.Join(dir, "widget", name)
		data := sourcetest.ReadFile(t, path)
		info, err := os.Stat(path)
		check(t, err)
		if executable := info.Mode()&0o111 != 0; string(data) != text || sourcetest.HasModes && executable != (name == "terraform-provider-widget") {
			t.Errorf("%s is %q, %s", name, data, info.Mode())
		}
	}
}

// The same packages produce the same bytes at any time and in any order.
func TestDeterminism(t *testing.T) {
	widget := store(t, widgetFiles, "example.test/acme/widget", "1.2.0", "linux_amd64")
	gadget := store(t, files{"terraform-provider-gadget": "another"}, "example.test/acme/gadget", "2.0.0", "linux_arm64")
	first := write(t, widget, gadget)
	then := time.Now().Add(-time.Hour)
	check(t, os.Chtimes(filepath.Join(widget.Dir, "LICENSE"), then, then))
	check(t, os.Chmod(filepath.Join(widget.Dir, "LICENSE"), 0o600))
	sourcetest.Expect(t, bytes.Equal(first, write(t, gadget, widget)), "they differ")
}

func TestChangedPackageIsNotWritten(t *testing.T) {
	widget := store(t, widgetFiles, "example.test/acme/widget", "1.2.0", "linux_amd64")
	check(t, os.WriteFile(filepath.Join(widget.Dir, "LICENSE"), []byte("do as I like!!"), 0o644))
	err := export.Write(context.Background(), io.Discard, []sources.Stored{widget})
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "1.2.0 linux_amd64: it is h1:"), "%v", err)
}

// Contents may be skipped.
func TestSkip(t *testing.T) {
	widget := store(t, widgetFiles, "example.test/acme/widget", "1.2.0", "linux_amd64")
	gadget := store(t, files{"terraform-provider-gadget": "another"}, "example.test/acme/gadget", "2.0.0", "linux_arm64")
	data := write(t, widget, gadget)
	for _, cut := range []int{0, 1024 + 510, 1024 + 512 + 100, len(data) - 1000} {
		in, err := export.NewReader(bytes.NewReader(data[:len(data)-cut]))
		if cut == len(data)-1000 {
			sourcetest.ErrorIs(t, err, io.ErrUnexpectedEOF, "manifest cut")
			continue
		}
		check(t, err)
		n := 0
		for err == nil {
			if _, err = in.Next(); err == nil {
				n++
			}
		}
		if whole := errors.Is(err, io.EOF); whole != (cut == 0) || whole && n != 2 {
			t.Errorf("without %d bytes: %d contents, then %v", cut, n, err)
		}
	}
}

// A truncated file is never taken for a compressed one, and a compressed file is named.
func TestHintFitsTheFile(t *testing.T) {
	data := write(t, store(t, widgetFiles, "example.test/acme/widget", "1.2.0", "linux_amd64"))
	hint := func(data []byte) (string, error) {
		_, err := export.NewReader(bytes.NewReader(data))
		return strings.Join(sources.Hints(err), "\n"), err
	}
	for n := range 600 {
		got, err := hint(data[:n])
		sourcetest.Expect(t, errors.Is(err, io.ErrUnexpectedEOF) && strings.HasPrefix(got, "restore "), "%d bytes: got %v, hint %q", n, err, got)
	}
	got, err := hint([]byte("\x28\xb5\x2f\xfd and more"))
	sourcetest.Expect(t, err.Error() == "compressed with zstd" && strings.Contains(got, "zstd -dc FILE |"), "got %v, hint %q", err, got)
	for _, other := range []string{"{}", "manifest.txt", strings.Repeat("\x00", 2048), strings.Repeat("manifest.json", 100)} {
		got, err := hint([]byte(other))
		sourcetest.Expect(t, err.Error() == "not a file that larder cache export wrote" && strings.HasPrefix(got, "name "), "%.30q: got %v, hint %q", other, err, got)
	}
}

type entry = sourcetest.TarEntry

// edit applies a function to the manifest.
func edit(change func(m map[string]any)) func([]entry) []entry {
	return func(all []entry) []entry {
		m := map[string]any{}
		if err := json.Unmarshal([]byte(all[0].Text), &m); err != nil {
			panic(err)
		}
		change(m)
		text, err := json.Marshal(m)
		if err != nil {
			panic(err)
		}
		all[0].Text = string(text)
		return all
	}
}

// set sets a member of the first listed package.
func set(name string, value any) func([]entry) []entry {
	return edit(func(m map[string]any) { m["packages"].([]any)[0].(map[string]any)[name] = value })
}

// rename changes the path of the first file of the contents.
func rename(name string) func([]entry) []entry {
	return func(all []entry) []entry {
		all[1].Name = all[1].Name[:strings.LastIndex(all[1].Name, "/")+1] + name
		return all
	}
}

func TestRefused(t *testing.T) {
	tests := []struct {
		name   string
		change func([]entry) []entry
		want   string
	}{
		{"no manifest", func(all []entry) []entry { return all[1:] }, "not a file that larder"},
		{"manifest is a link", func(all []entry) []entry { all[0].Typeflag, all[0].Linkname = tar.TypeSymlink, "x"; return all }, "not a file that larder"},
		{"manifest is not JSON", func(all []entry) []entry { all[0].Text += "{"; return all }, "manifest.json: "},
		{"newer format", edit(func(m map[string]any) { m["format"] = 2 }), "unknown format 2"},
		{"package without evidence", edit(func(m map[string]any) { m["evidence"] = nil }), "signed checksums are missing"},
		{"evidence twice", edit(func(m map[string]any) { m["evidence"] = append(m["evidence"].([]any), m["evidence"].([]any)[0]) }), "listed twice"},
		{"package twice", edit(func(m map[string]any) { m["packages"] = append(m["packages"].([]any), m["packages"].([]any)[0]) }), "listed twice"},
		{"address outside the cache", set("provider", "../../widget"), "provider source"},
		{"short address", set("provider", "acme/widget"), "not in the form that"},
		{"built-in address", set("provider", "terraform.io/builtin/terraform"), "not in the form that"},
		{"version outside the cache", set("version", "../1.0.0"), "version"},
		{"version in another form", set("version", "v1.2.0"), "version"},
		{"short version", set("version", "1.2"), "not in the form that"},
		{"platform outside the cache", set("platform", "../linux_amd64"), "platform"},
		{"no h1", set("h1", ""), "not a valid h1: hash"},
		{"h1 of another length", set("h1", "h1:AAAA"), "not a valid h1: hash"},
		{"h1 in two lines", set("h1", "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\nAAAAAAAAAAAAA="), "not a valid h1: hash"},
		{"h1 with trailing bits", set("h1", "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB="), "not a valid h1: hash"},
		{"zh of another scheme", set("zh", "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="), "not a valid zh: hash"},
		{"zh of another length", set("zh", "zh:00"), "not a valid zh: hash"},
		{"contents of another package", set("h1", "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="), "where the contents"},
		{"no contents", func(all []entry) []entry { return all[:1] }, "truncated"},
		{"missing file", func(all []entry) []entry { return slices.Delete(all, 2, 3) }, "other contents"},
		{"additional file", func(all []entry) []entry { return append(all, renamed(all[len(all)-1], "zzz")) }, "larger than the manifest states"},
		{"larger package than stated", set("size", 1), "larger than the manifest states"},
		{"file outside the contents", func(all []entry) []entry {
			return append(all, entry{Header: tar.Header{Name: "contents/x", Typeflag: tar.TypeReg}})
		}, "not in the manifest"},
		{"changed file", func(all []entry) []entry { all[1].Text = "do as I like"; return all }, "other contents"},
		{"file twice", func(all []entry) []entry { return slices.Insert(all, 1, all[1]) }, "occurs twice"},
		{"out of order", func(all []entry) []entry { all[1], all[2] = all[2], all[1]; return all }, "out of order"},
		{"directory", func(all []entry) []entry {
			all[1].Typeflag, all[1].Name = tar.TypeDir, all[1].Name+"/"
			return all
		}, "is not a file"},
		{"symlink", func(all []entry) []entry {
			all[1].Typeflag, all[1].Linkname = tar.TypeSymlink, "/etc/passwd"
			return all
		}, "is not a file"},
		{"hard link", func(all []entry) []entry { all[1].Typeflag, all[1].Linkname = tar.TypeLink, all[2].Name; return all }, "is not a file"},
		{"device", func(all []entry) []entry { all[1].Typeflag = tar.TypeBlock; return all }, "is not a file"},
		{"pipe", func(all []entry) []entry { all[1].Typeflag = tar.TypeFifo; return all }, "is not a file"},
		{"attribute", func(all []entry) []entry {
			all[1].PAXRecords = map[string]string{"VENDOR.holes": "many"}
			return all
		}, `attribute "VENDOR.holes"`},
		{"upwards", rename("../LICENSE"), `".." element`},
		{"absolute", rename("/LICENSE"), "not relative"},
		{"drive letter", rename("C:LICENSE"), "not relative"},
		{"not clean", rename("./LICENSE"), "not in its shortest form"},
		{"differs in case", func(all []entry) []entry { return slices.Insert(all, 2, renamed(all[1], "License")) }, "only in case"},
		{"file in a file", func(all []entry) []entry { return slices.Insert(all, 2, renamed(all[1], "LICENSE/x")) }, "both a file and a directory"},
	}
	good := write(t, store(t, widgetFiles, "example.test/acme/widget", "1.2.0", "linux_amd64"))
	_, err := readAll(bytes.NewReader(sourcetest.PackTar(sourcetest.UnpackTar(good))), "")
	sourcetest.Check(t, err)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := readAll(bytes.NewReader(sourcetest.PackTar(test.change(sourcetest.UnpackTar(good)))), t.TempDir())
			sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), test.want), "got %v", err)
		})
	}
}

// renamed returns the entry with another name in the contents.
func renamed(e entry, name string) entry {
	parts := strings.SplitN(e.Name, "/", 3)
	e.Name = parts[0] + "/" + parts[1] + "/" + name
	return e
}

// Every valid export is the same once written and read again.
func FuzzReader(f *testing.F) {
	good := write(f, store(f, files{"terraform-provider-x": "x"}, "example.test/acme/x", "1.0.0", "linux_amd64"))
	f.Add(good)
	f.Add(good[:len(good)-1100])
	for mutant := range sourcetest.Mutants(good) {
		f.Add(mutant)
	}
	for hostile := range sourcetest.HostileTars(good) {
		f.Add(hostile)
	}
	f.Add(write(f))
	for _, name := range slices.Sorted(maps.Keys(widgetFiles)) {
		all := sourcetest.UnpackTar(good)
		all[1].Name += name
		f.Add(sourcetest.PackTar(all))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		first, err := readAll(bytes.NewReader(data), "")
		if err != nil || len(first) != 1 {
			return
		}
		if _, err := readAll(bytes.NewReader(data), dir); err != nil {
			return // this system does not allow the name
		}
		s := first[0]
		s.Dir = filepath.Join(dir, s.ID.Provider.Type)
		again, err := readAll(bytes.NewReader(write(t, s)), "")
		check(t, err)
		sourcetest.Expect(t, again[0].ID == s.ID && again[0].H1 == s.H1 && again[0].ZH == s.ZH, "read %+v, then %+v", s, again[0])
	})
}
