package sourcetest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/sourcetest"
)

func getJSON(t *testing.T, w *sourcetest.World, url string, into any) {
	t.Helper()
	resp, body, err := get(t, w, url)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", url, resp.Status)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
}

func TestHide(t *testing.T) {
	w := newWorld(t)
	w.Add(widget, "2.0.0")
	w.Mirror.Hide("*/acme/widget/2.0.0/*")
	var index struct{ Versions map[string]any }
	getJSON(t, w, w.Mirror.MirrorURL()+widget+"/index.json", &index)
	if len(index.Versions) != 1 || index.Versions["1.2.0"] == nil {
		t.Errorf("mirror shows %v, want 1.2.0 alone", index.Versions)
	}
	var listing struct{ Versions []any }
	getJSON(t, w, w.Registry.Services("registry.terraform.io")+"acme/widget/versions", &listing)
	if len(listing.Versions) != 2 {
		t.Errorf("registry shows %v, want both", listing.Versions)
	}
}

func TestHostsAreRequestedInPunycode(t *testing.T) {
	w := sourcetest.New(t)
	w.Add("испытание.test/acme/widget", "1.2.0")
	for _, url := range []string{
		w.Mirror.MirrorURL() + "xn--80akhbyknj4f.test/acme/widget/index.json",
		w.Registry.Services("xn--80akhbyknj4f.test") + "acme/widget/versions",
	} {
		if resp, _, err := get(t, w, url); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: got %v, %v, want OK", url, resp, err)
		}
	}
}

func TestRequests(t *testing.T) {
	w := newWorld(t)
	if got := w.Registry.Requests(); len(got) != 0 {
		t.Errorf("before: %v", got)
	}
	get(t, w, archiveURL(w))
	get(t, w, w.Registry.URL+"/nothing")
	want := "[archive GET /archives/" + widget + "/1.2.0/" + archive + " 200 248 other GET /nothing 404 19]"
	if got := fmt.Sprint(w.Registry.Requests()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := w.Registry.Requests(sourcetest.Archive); len(got) != 1 {
		t.Errorf("archives: %v, want one", got)
	}
	w.Registry.Forget()
	if got := w.Registry.Requests(); len(got) != 0 {
		t.Errorf("after Forget: %v", got)
	}
}

// TestEvidence checks that Larder reads what WriteEvidence writes, with valid
// and invalid keys.
func TestEvidence(t *testing.T) {
	for _, tt := range []struct {
		name    string
		release sourcetest.Release
		valid   bool
	}{
		{"publisher", sourcetest.Release{}, true},
		{"stranger", sourcetest.Release{Signer: sourcetest.Stranger(), Keys: []*sourcetest.Key{sourcetest.Publisher()}}, false},
		{"one of two", sourcetest.Release{Keys: []*sourcetest.Key{sourcetest.Stranger(), sourcetest.Publisher()}}, true},
		{"no keys", sourcetest.Release{Keys: []*sourcetest.Key{}}, false},
		{"expired", sourcetest.Release{Signer: sourcetest.Expired()}, false},
		{"revoked", sourcetest.Release{Signer: sourcetest.Revoked()}, false},
		{"broken", sourcetest.Release{EditSignature: func(b []byte) []byte { return b[1:] }}, false},
	} {
		w := newWorld(t, tt.release)
		dir := t.TempDir()
		w.WriteEvidence(dir)
		signed, err := evidence.Of(dir, sourcetest.Address(t, widget), sourcetest.Number(t, "1.2.0"))
		if err != nil {
			t.Fatal(err)
		}
		var keys openpgp.EntityList
		for _, k := range signed.Keys {
			ring, err := openpgp.ReadArmoredKeyRing(strings.NewReader(k.Armor))
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, ring...)
		}
		_, err = openpgp.CheckDetachedSignature(keys, bytes.NewReader(signed.Sums), bytes.NewReader(signed.Signature), nil)
		if (err == nil) != tt.valid {
			t.Errorf("%s: signature: %v, want valid: %t", tt.name, err, tt.valid)
		}
	}
}
