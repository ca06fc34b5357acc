package evidence_test

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func TestLocation(t *testing.T) {
	dir := t.TempDir()
	check(t, evidence.WriteTo(dir, sample()))
	files, err := evidence.ReadFiles(open(t, filepath.Dir(dir)), filepath.Base(dir))
	check(t, err)
	for provider, want := range map[string]string{
		"example.test/acme/widget":      "https://m.test/a/.larder/evidence/example.test/acme/widget/1.0.0-b+c/",
		"example.test:8443/acme/widget": "https://m.test/a/.larder/evidence/example.test:8443/acme/widget/1.0.0-b+c/",
		"и.test/acme/widget":            "https://m.test/a/.larder/evidence/%D0%B8.test/acme/widget/1.0.0-b+c/",
	} {
		p, v := sourcetest.Address(t, provider), sourcetest.Number(t, "1.0.0-b+c")
		text, err := json.Marshal(evidence.Locate(p, v, files))
		check(t, err)
		var r evidence.Location
		check(t, json.Unmarshal(text, &r))
		doc := &url.URL{Scheme: "https", Host: "m.test", Path: "/a/" + p.Host.ASCII() + "/acme/widget/1.0.0-b+c.json", RawQuery: "secret"}
		urls, err := r.Resolve(doc)
		check(t, err)
		for i, name := range evidence.Names {
			sourcetest.Equal(t, urls[i].String(), want+name, provider)
			sourcetest.Equal(t, r.Check(name, files[i]), nil)
			err := r.Check(name, append([]byte("x"), files[i]...))
			sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), name), "%s was changed: %v", name, err)
		}
		sourcetest.Expect(t, r.Check("other", nil) != nil, "a file that is not named was accepted")
	}
}

func TestReadFilesOfNone(t *testing.T) {
	_, err := evidence.ReadFiles(open(t, t.TempDir()), "none")
	sourcetest.Expect(t, err != nil, "there is evidence")
}
