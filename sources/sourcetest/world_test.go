package sourcetest_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/sourcetest"
)

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
