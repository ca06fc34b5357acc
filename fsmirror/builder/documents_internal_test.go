package builder

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// A valid document that is written and read again is the same document, and names no
// path outside the mirror.
func FuzzVersionDocument(f *testing.F) {
	for _, text := range []string{
		`{"archives":{"linux_amd64":{"hashes":["h1:x","zh:y"],"url":"a.zip"}}}`,
		`{"archives":{"linux_amd64":{"url":"../../../%D0%B8/a b.zip"},"x":null}}`,
		`{"archives":{"a":{"url":"../../../../a.zip"},"b":{"url":"https://a/b.zip"},"c":{"url":"//a/b.zip"},"d":{"url":"/b.zip"}}}`,
		`{"Archives":{"a":{"URL":"a.zip?b#c","hashes":null}}}`, `{"archives":{"a":{"url":"..%2f..%2f..%2f..%2f..%2fx"}}}`, `{}`, `[]`,
		`{"archives":{},"larder":{"evidence":{"url":"../x/","sha256":{"SHA256SUMS":"00"}},"other":1}}`, `{"larder":null}`, `{"larder":{}}`,
	} {
		for mutant := range sourcetest.Mutants([]byte(text)) {
			f.Add(string(mutant))
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var doc, again fsmirror.Document
		if json.Unmarshal([]byte(text), &doc) != nil {
			return
		}
		printed := doc.Text()
		sourcetest.Expect(t, json.Unmarshal(printed, &again) == nil && reflect.DeepEqual(doc, again), "%s became %s", text, printed)
		for _, entry := range doc.Archives {
			file, ok := resolve("h/n/t/1.0.0.json", entry.URL)
			sourcetest.Expect(t, !ok || filepath.IsLocal(filepath.FromSlash(file)), "%q leads to %s", entry.URL, file)
		}
	})
}
