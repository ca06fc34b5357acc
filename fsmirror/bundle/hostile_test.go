package bundle_test

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// refused checks that an import of data fails with this error, and changes nothing.
func refused(t *testing.T, data []byte, want string) {
	t.Helper()
	refusedWith(t, importOptions(), data, want)
}

// refusedWith is refused with other options.
func refusedWith(t *testing.T, opts bundle.ImportOptions, data []byte, want string) {
	t.Helper()
	file, to := fileOf(t, data), t.TempDir()
	_, err := bundle.Import(ctx, file, to, opts)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), want), "imported: got %v, want %q", err, want)
	if got := tree(t, to); len(got) > 0 || len(left(t, to)) > 0 {
		t.Errorf("imported %q", slices.Sorted(maps.Keys(got)))
	}
	v, err := bundle.Verify(ctx, file, judge, nil)
	sourcetest.Expect(t, err == nil && len(v.Findings) != 0 && strings.Contains(v.Findings[0].Error(), want),
		"verified: got %v and %v, want %q", v.Findings, err, want)
}

func small(t testing.TB) []byte {
	t.Helper()
	w := published(t)
	return readFile(t, created(t, mirrored(t, w, "*/widget/1.0.0/*"), createOptions()))
}

func TestCutAnywhere(t *testing.T) {
	data := small(t)
	for _, n := range sourcetest.Sample(t, len(data)/512, 8) {
		refused(t, data[:512*(n-1)], "truncated")
		refused(t, data[:512*n-511], "truncated")
	}
	refused(t, data[:len(data)-1], "truncated")
	refused(t, append(slices.Clone(data), 0), "1 bytes too long")
	refused(t, append(slices.Clone(data), make([]byte, 10240)...), "too long")
}

// A bundle with any changed bit is refused.
func TestFlippedBits(t *testing.T) {
	data := small(t)
	for _, n := range sourcetest.Sample(t, len(data)/61, 20) { // not a divisor of the block size
		bad := slices.Clone(data)
		bad[61*n-1] ^= 1 << (n % 8)
		refused(t, bad, "")
	}
}

type entry = tarEntry

// edit changes the text of the manifest, otherwise formatted as larder writes it.
func edit(change func(text string) string) func([]entry) []entry {
	return func(all []entry) []entry {
		all[0].Text = change(all[0].Text)
		return all
	}
}

func replace(old, new string) func([]entry) []entry {
	return edit(func(text string) string { return strings.Replace(text, old, new, 1) })
}

func header(change func(*tar.Header)) func([]entry) []entry {
	return func(all []entry) []entry {
		change(&all[len(all)-1].Header)
		return all
	}
}

func TestRefused(t *testing.T) {
	tests := []struct {
		name   string
		change func([]entry) []entry
		want   string
	}{
		{"no manifest", func(all []entry) []entry { return all[1:] }, "not a bundle"},
		{"manifest last", func(all []entry) []entry { return append(all[1:], all[0]) }, "not a bundle"},
		{"two manifests", func(all []entry) []entry { return slices.Insert(all, 1, all[0]) }, "too long"},
		{"manifest is a link", func(all []entry) []entry { all[0].Typeflag, all[0].Linkname = tar.TypeSymlink, "x"; return all }, "manifest"},
		{"manifest is not JSON", edit(func(string) string { return "{" }), "manifest: unexpected end"},
		{"other spacing", edit(func(text string) string { return text + "\n" }), "not in the form that larder writes"},
		{"name twice", replace(`"format": 1`, `"format": 1, "format": 1`), "not in the form that larder writes"},
		{"other letters", replace(`"format"`, `"Format"`), "not in the form that larder writes"},
		{"unknown name", replace(`"format": 1`, `"format": 1, "x": 1`), "not in the form that larder writes"},
		{"newer format", replace(`"format": 1`, `"format": 2`), "unknown format 2"},
		{"upwards", replace(`"path": "example.test/`, `"path": "../example.test/`), "path is"},
		{"absolute", replace(`"path": "`, `"path": "/`), "path is"},
		{"address with dots", replace(`"example.test/acme/widget"`, `"example.test/../widget"`), "namespace"},
		{"address not normal", replace(`"example.test/acme/widget"`, `"example.test/ACME/widget"`), "not in the form that"},
		{"version not normal", replace(`"1.0.0"`, `"1.0"`), "not in the form that"},
		{"version with dots", replace(`"1.0.0"`, `".."`), "version"},
		{"platform with dots", replace(`"linux_amd64"`, `"linux_../amd64"`), "platform"},
		{"built in", replace(`"example.test/acme/widget"`, `"terraform.io/builtin/terraform"`), "not in the form that"},
		{"huge", replace(`"size": `, `"size": 9999999999`), "invalid size"},
		{"large", replace(`"size": `, `"size": 10000`), "truncated"},
		{"without a size", replace(`"size": `, `"size": -`), "invalid size"},
		{"no hash", replace(`"zh:`, `"zh:x`), "not a valid zh: hash"},
		{"no content hash", replace(`"h1:`, `"h2:`), "not a valid h1: hash"},
		{"other content hash", edit(func(text string) string {
			i := strings.Index(text, `"h1:`) + 4
			return text[:i] + strings.Repeat("A", 43) + text[i+43:]
		}), "its contents are h1:"},
		{"listed twice", editPackages(func(all []any) []any { return append(all, all[1]) }), "listed twice"},
		{"out of order", editPackages(func(all []any) []any { slices.Reverse(all); return all }), "out of order"},
		{"builds on itself", edit(func(text string) string {
			return strings.Replace(text, "\n}\n", ",\n  \"base\": [{\"provider\": \"example.test/acme/widget\", \"version\": \"1.0.0\", \"platform\": \"linux_amd64\", \"zh\": \"zh:"+strings.Repeat("0", 64)+"\"}]\n}\n", 1)
		}), "listed twice"},
		{"evidence with other file names", replace(`"keys.json"`, `"../keys"`), "should be named"},
		{"evidence too large", replace(`"size": 173`, `"size": 99999999`), "invalid size"},
		{"evidence left out", func(all []entry) []entry { return slices.Delete(all, 1, 5) }, "truncated"},
		{"evidence unlisted", editDocument(func(doc map[string]any) { doc["evidence"] = []any{} }), "too long"},
		{"additional member at the end", func(all []entry) []entry {
			return append(all, entry{Header: tar.Header{Typeflag: tar.TypeReg, Name: "more", Mode: 0o644}, Text: "more"})
		}, "too long"},
		{"additional member in between", func(all []entry) []entry {
			return slices.Insert(all, 5, entry{Header: tar.Header{Typeflag: tar.TypeReg, Name: "more", Mode: 0o644}, Text: "more"})
		}, "too long"},
		{"missing member", func(all []entry) []entry { return all[:len(all)-1] }, "truncated"},
		{"duplicate member", func(all []entry) []entry { return append(all, all[len(all)-1]) }, "too long"},
		{"reordered", func(all []entry) []entry { n := len(all); all[n-1], all[n-2] = all[n-2], all[n-1]; return all }, notHere},
		{"symlink", header(func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeSymlink, "/etc/passwd" }), "truncated"},
		{"hard link", header(func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeLink, "x" }), "truncated"},
		{"device", header(func(h *tar.Header) { h.Typeflag = tar.TypeBlock }), "truncated"},
		{"pipe", header(func(h *tar.Header) { h.Typeflag = tar.TypeFifo }), "truncated"},
		{"directory", header(func(h *tar.Header) { h.Typeflag = tar.TypeDir }), "truncated"},
		{"member path with dots", header(func(h *tar.Header) { h.Name = "../x" }), notHere},
		{"absolute member path", header(func(h *tar.Header) { h.Name = "/x" }), notHere},
		{"set-uid", header(func(h *tar.Header) { h.Mode = 0o4755 }), notHere},
		{"owner", header(func(h *tar.Header) { h.Uid = 1000 }), notHere},
		{"attribute", header(func(h *tar.Header) { h.PAXRecords = map[string]string{"VENDOR.holes": "many"} }), "too long"},
		{"removed package with a path", removing(`, "path": "../../other", "size": 1`), "path is"},
		{"removed package of the bundle", removing(""), "listed twice"},
		{"invalid archive", func(all []entry) []entry {
			return rehashed(t, all, len(all)-1, strings.Repeat("x", len(all[len(all)-1].Text)))
		}, "not among the signed checksums"},
		{"other evidence", func(all []entry) []entry {
			all[1].Text = strings.Repeat("x", len(all[1].Text))
			return all
		}, "differs from the manifest"},
	}
	good := small(t)
	mustImport(t, t.TempDir(), fileOf(t, packTar(t, unpackTar(t, good))))
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			refused(t, packTar(t, test.change(unpackTar(t, good))), test.want)
		})
	}
}

// removing adds the first package to those that the import removes, with more members.
func removing(more string) func([]entry) []entry {
	removed := fmt.Sprintf(`,
  "removed": [{"provider": %q, "version": "1.0.0", "platform": "linux_amd64"%s, "zh": "zh:%064d"}]
}
`, widget, more, 0)
	return edit(func(text string) string { return strings.TrimSuffix(text, "\n}\n") + removed })
}

// editDocument changes the manifest as JSON. It stays as it is then if it isn't valid.
func editDocument(change func(doc map[string]any)) func([]entry) []entry {
	return edit(func(text string) string {
		doc := map[string]any{}
		must(json.Unmarshal([]byte(text), &doc))
		change(doc)
		data, err := json.Marshal(doc)
		must(err)
		if m, err := bundle.ParseManifest(data); err == nil {
			return string(m.Text())
		}
		return string(data)
	})
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func editPackages(change func([]any) []any) func([]entry) []entry {
	return editDocument(func(doc map[string]any) { doc["packages"] = change(doc["packages"].([]any)) })
}

// rehashed replaces the contents of an archive and updates the manifest.
func rehashed(t testing.TB, all []entry, i int, text string) []entry {
	t.Helper()
	was, is := sources.ZipHash(sum(all[i].Text)), sources.ZipHash(sum(text))
	all[0].Text = strings.Replace(all[0].Text, string(was), string(is), 1)
	all[i].Text = text
	return all
}

// Without evidence, an archive is verified by its hashes, and must still be a valid
// archive.
func TestInvalidArchiveWithoutEvidence(t *testing.T) {
	w := published(t)
	dir := t.TempDir()
	w.WritePacked(dir, "*/widget/1.0.0/*")
	file := created(t, dir, createOptions())
	for _, a := range mustImport(t, t.TempDir(), file) {
		sourcetest.Expect(t, a.Report.Verdict == sources.HashOnly && a.Report.Best().KeyID == "", "%s: %s", a.ID, a.Report.Verdict)
	}
	all := unpackTar(t, readFile(t, file))
	refused(t, packTar(t, rehashed(t, all, 1, strings.Repeat("x", len(all[1].Text)))), "zip")
}

// A signature by an unknown key is refused.
func TestBadSignature(t *testing.T) {
	w := sourcetest.New(t)
	w.Add(widget, "1.0.0", sourcetest.Release{Platforms: []string{"linux_amd64"}})
	good := unpackTar(t, readFile(t, created(t, mirrored(t, w), createOptions())))
	bad := sourcetest.New(t)
	bad.Add(widget, "1.0.0", sourcetest.Release{Platforms: []string{"linux_amd64"}, Signer: sourcetest.Revoked()})
	dir := mirrored(t, bad)
	opts := createOptions()
	_, err := bundle.Create(ctx, dir, filepath.Join(t.TempDir(), "b"), opts)
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "revoked"), "%v", err)
	opts.Judge = sourcetest.Verdicts{}
	refused(t, readFile(t, created(t, dir, opts)), "revoked")

	// A signature of other contents, with a matching manifest.
	forged := strings.Repeat("\x80", len(good[1].Text))
	old, is := sum(good[1].Text), sum(forged)
	good[0].Text = strings.Replace(good[0].Text, hexOf(old), hexOf(is), 1)
	good[1].Text = forged
	refused(t, packTar(t, good), "signature")

	// Evidence must be formatted as larder writes it, so that no program can parse it
	// differently.
	good = unpackTar(t, readFile(t, created(t, mirrored(t, w), createOptions())))
	spaced := strings.Replace(good[2].Text, "[", "[ ", 1)
	good[0].Text = strings.Replace(good[0].Text, hexOf(sum(good[2].Text)), hexOf(sum(spaced)), 1)
	good[0].Text = strings.Replace(good[0].Text, sizeOf(good[2].Text), sizeOf(spaced), 1)
	good[2].Text = spaced
	refused(t, packTar(t, good), "not in the form that larder writes")
}

const notHere = "not where the manifest places it"
