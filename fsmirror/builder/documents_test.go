package builder_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func readText(t testing.TB, path string) string {
	t.Helper()
	return string(sourcetest.ReadFile(t, path))
}

// Both documents of a host that is not ASCII name the same evidence.
func TestDocumentsNameTheEvidence(t *testing.T) {
	_, dir := synced(t, builder.Options{}, abroad+"/1.0.0/linux_amd64", abroad+"/1.0.0/darwin_arm64")
	texts := map[string]bool{}
	for _, host := range []string{"испытание.test", "xn--80akhbyknj4f.test"} {
		text := readText(t, filepath.Join(dir, host, "acme/widget/1.0.0.json"))
		texts[text[strings.Index(text, `"larder"`):]] = true
	}
	sourcetest.Equal(t, len(texts), 1, "the documents differ", texts)
	for text := range texts {
		n := strings.Count(text, `"url": "../../../.larder/evidence/%D0%B8`)
		sourcetest.Expect(t, n == 1, "the evidence is named %d times: %s", n, text)
	}
	found, err := client(dir)
	sourcetest.Expect(t, err == nil && len(found) == 4, "a client finds %q, %v", found, err)
}

// Changes of other programs to the documents are reverted, whether or not a package
// is added.
func TestDocumentsNameTheEvidenceAgain(t *testing.T) {
	const id = widget + "/1.0.0/linux_amd64"
	for name, damage := range map[string]func(t *testing.T, w *sourcetest.World, dir string){
		"documents of Terraform": func(_ *testing.T, w *sourcetest.World, dir string) { w.WriteMirrorJSON(dir) },
		"no documents": func(t *testing.T, _ *sourcetest.World, dir string) {
			must(t, os.Remove(filepath.Join(dir, widget, "1.0.0.json")))
		},
		"other checksums": func(t *testing.T, _ *sourcetest.World, dir string) {
			path := filepath.Join(dir, widget, "1.0.0.json")
			write(t, path, strings.Replace(readText(t, path), `"origin": "`, `"origin": "x`, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, dir := synced(t, builder.Options{}, id)
			path := filepath.Join(dir, widget, "1.0.0.json")
			before := readText(t, path)
			damage(t, d.world, dir)
			d.sync(dir, builder.Options{}, id)
			after := readText(t, path)
			sourcetest.Expect(t, after == before, "it is %s\nand was %s", after, before)
		})
	}
}

// Missing or broken evidence is not named.
func TestDocumentsWithoutEvidence(t *testing.T) {
	const id = widget + "/1.0.0/linux_amd64"
	for name, damage := range map[string]func(dir string) error{
		"gone":      os.RemoveAll,
		"no keys":   func(dir string) error { return os.Remove(filepath.Join(dir, "keys.json")) },
		"what keys": func(dir string) error { return os.WriteFile(filepath.Join(dir, "keys.json"), []byte("{"), 0o644) },
		"no file": func(dir string) error {
			os.Remove(filepath.Join(dir, "origin"))
			return os.Mkdir(filepath.Join(dir, "origin"), 0o755)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, dir := synced(t, builder.Options{}, id)
			p := parseID(t, id)
			must(t, damage(filepath.Join(dir, filepath.FromSlash(evidence.Path(p.Provider, p.Version)))))
			b := open(t, dir, builder.Options{})
			changes, _, err := b.Index(t.Context())
			must(t, err)
			text := readText(t, filepath.Join(dir, widget, "1.0.0.json"))
			sourcetest.Expect(t, len(changes) == 1 && !strings.Contains(text, "larder"), "%v: %s", changes, text)
		})
	}
}

// Before evidence is replaced, it is removed from the documents, so that clients
// never get the checksums of one evidence and the signature of another.
func TestEvidenceIsReplaced(t *testing.T) {
	const id = widget + "/1.0.0/linux_amd64"
	_, dir := synced(t, builder.Options{}, id)
	other := newDepot(t)
	p := parseID(t, id)
	other.stockWith(another, id, widget+"/1.0.0/darwin_arm64")
	b := open(t, dir, builder.Options{})
	_, err := sourcetest.Put(t.Context(), b, p, other.delivery(p))
	must(t, err)
	_, err = os.Stat(filepath.Join(dir, widget, "1.0.0.json"))
	sourcetest.Expect(t, err != nil, "there is a document for a package that is not finished")
	two := widget + "/1.0.0/darwin_arm64"
	_, err = sourcetest.Put(t.Context(), b, parseID(t, two), other.delivery(parseID(t, two)))
	must(t, err)
	must(t, b.Finish(t.Context()))
	must(t, b.Close())

	// The same, with a package of the version that stays.
	before := readText(t, filepath.Join(dir, widget, "1.0.0.json"))
	b = open(t, dir, builder.Options{})
	data := sourcetest.ReadFile(t, other.archive(p))
	signed := *other.signed(p)
	signed.Origin = "https://elsewhere.test/SHA256SUMS"
	del := deliver(append(data, 0), &signed)
	_, err = sourcetest.Put(t.Context(), b, p, del)
	must(t, err)
	if text := readText(t, filepath.Join(dir, widget, "1.0.0.json")); strings.Contains(text, "larder") || !strings.Contains(text, "darwin_arm64") {
		t.Errorf("while evidence is replaced it says %s", text)
	}
	_, err = client(dir)
	sourcetest.Equal(t, err, nil)
	must(t, b.Finish(t.Context()))
	after := readText(t, filepath.Join(dir, widget, "1.0.0.json"))
	sourcetest.Expect(t, strings.Contains(after, `"origin"`) && after != before, "it says %s", after)
}
