package publish_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/larder-cli/larder/fsmirror/publish"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/netmirror"
	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/sourcetest"
	"github.com/larder-cli/larder/sources/store"
)

// signedBy returns evidence for packages by a key. Without a key, the signature is empty. The origin is for comparisons.
func signedBy(key *sourcetest.Key, origin string, packages ...publish.Package) *sources.Signed {
	s := &sources.Signed{Keys: []sources.Key{{Armor: sourcetest.Publisher().Armor()}}, Origin: "https://example.com/" + origin}
	for _, p := range packages {
		s.Sums = fmt.Appendf(s.Sums, "%s  %s\n", strings.TrimPrefix(string(p.ZH), "zh:"), p.ID.Filename())
	}
	if key != nil {
		s.Signature, s.Keys = key.Sign(s.Sums), []sources.Key{{Armor: key.Armor()}}
	}
	return s
}

// Evidence in a place is replaced only by evidence that is better for an archive, and worse for none.
func TestEvidence(t *testing.T) {
	all := released(t, provider, "1.0.0", 10, "linux_amd64", "darwin_arm64").Packages
	other := released(t, provider, "1.0.0", 11, "linux_amd64").Packages[0]
	one, two := all[0], all[1]
	publisher, stranger := sourcetest.Publisher(), sourcetest.Stranger()
	cases := map[string]struct {
		theirs, ours *sources.Signed
		packages     []publish.Package // of the second push; nil means the same
		replaces     bool
		want         string // the origin of the evidence then
		updated      int
	}{
		"none there":        {nil, signedBy(nil, "ours", all...), nil, false, "ours", 1},
		"none here":         {signedBy(publisher, "theirs", all...), nil, nil, false, "theirs", 0},
		"equal":             {signedBy(publisher, "theirs", all...), signedBy(publisher, "theirs", all...), nil, false, "theirs", 0},
		"no signature":      {signedBy(publisher, "theirs", all...), signedBy(nil, "ours", all...), nil, false, "theirs", 0},
		"fewer lines":       {signedBy(publisher, "theirs", all...), signedBy(publisher, "ours", one), nil, false, "theirs", 0},
		"other lines":       {signedBy(publisher, "theirs", one), signedBy(publisher, "ours", two), nil, false, "theirs", 0},
		"another key":       {signedBy(publisher, "theirs", all...), signedBy(stranger, "ours", all...), nil, false, "theirs", 0},
		"a signature":       {signedBy(nil, "theirs", all...), signedBy(publisher, "ours", all...), nil, false, "ours", 1},
		"more lines":        {signedBy(publisher, "theirs", one), signedBy(publisher, "ours", all...), nil, false, "ours", 1},
		"worthless both":    {signedBy(nil, "theirs", all...), signedBy(nil, "ours", all...), nil, false, "theirs", 0},
		"replaced":          {signedBy(publisher, "theirs", all...), signedBy(publisher, "ours", other, two), []publish.Package{other}, true, "ours", 1},
		"replaced, but not": {signedBy(publisher, "theirs", all...), signedBy(nil, "ours", other), []publish.Package{other}, true, "theirs", 0},
		"replaced, and covered": {
			signedBy(publisher, "theirs", one, two, other), signedBy(nil, "ours", other), []publish.Package{other}, true, "theirs", 0,
		},
		"other package": {signedBy(publisher, "theirs", two), signedBy(publisher, "ours", one), all[:1], false, "theirs", 0},
		"package added": {signedBy(publisher, "theirs", one), signedBy(nil, "ours", all...), []publish.Package{one, two}, false, "theirs", 0},
	}
	inBoth(t, func(t *testing.T, place placeFunc) {
		for name, test := range cases {
			target, browser := place(strings.NewReplacer(" ", "-", ",", "").Replace(name))
			theirs := publish.Release{Release: one.ID.Release(), Packages: all, Signed: test.theirs}
			if name == "package added" {
				theirs.Packages = all[:1]
			}
			sourcetest.Must(publish.Push(t.Context(), target(), []publish.Release{theirs}, publish.Options{}))(t)
			ours := theirs
			ours.Signed = test.ours
			if test.packages != nil {
				ours.Packages = test.packages
			}
			for _, want := range []int{test.updated, 0} {
				for _, dry := range []bool{true, false} {
					result := sourcetest.Must(publish.Push(t.Context(), target(), []publish.Release{ours}, publish.Options{Replace: test.replaces, DryRun: dry}))(t)
					sourcetest.Equal(t, result.Signed, want, name, "versions with other evidence")
				}
			}
			c := sourcetest.Must(browser.Release(t.Context(), theirs.Provider, theirs.Version))(t)
			sourcetest.Equal(t, c.Signed.Origin, "https://example.com/"+test.want, name)
			sourcetest.Equal(t, len(c.Warnings), 0, name)
			if _, inBucket := target().(*publish.Bucket); inBucket {
				sourcetest.Equal(t, c.Archives[ours.Packages[0].ID.Platform].Size, ours.Packages[0].Size, name)
				listed := sourcetest.Must(browser.Providers(t.Context()))(t)
				sourcetest.EqualSlices(t, listed, []sources.Provider{one.ID.Provider}, name)
			}
		}
	})
}

// An archive exists if a download would get one.
func TestExamine(t *testing.T) {
	archive := append([]byte("PK\x03\x04"), make([]byte, 96)...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := r.Method == http.MethodHead
		switch r.URL.Path {
		case "/archive", "/get":
			if head && r.URL.Path == "/get" {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(archive))
		case "/moved":
			http.Redirect(w, r, "/archive", http.StatusTemporaryRedirect)
		case "/lost":
			http.Redirect(w, r, "/nowhere", http.StatusFound)
		case "/sign-in":
			http.Redirect(w, r, "/page", http.StatusFound)
		case "/page":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<!DOCTYPE html><title>Sign in</title>")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	client := fetch.New(fetch.Options{Tries: 1})
	examine := func(path string, size int64) (*store.Finding, error) {
		return publish.Examine(t.Context(), client, sources.HeldArchive{URL: server.URL + path, Size: size})
	}
	for _, path := range []string{"/archive", "/get", "/moved", "/nowhere", "/lost"} {
		for size, kind := range map[int64]store.Kind{0: "", 100: "", 99: store.Broken} {
			f, err := examine(path, size)
			if check(t, err); path == "/nowhere" || path == "/lost" {
				kind = store.Missing
			}
			sourcetest.Expect(t, f == nil && kind == "" || f != nil && f.Kind == kind, "%s of %d bytes: %v", path, size, f)
		}
	}
	f, err := examine("/sign-in", 0)
	sourcetest.Expect(t, err != nil && f == nil, "got %v, %v", f, err)
}

// placeFunc returns a new place: each target is for one push.
type placeFunc func(name string) (target func() publish.Target, browser publish.Browser)

// inBoth runs a test in a registry, and in a bucket.
func inBoth(t *testing.T, test func(t *testing.T, place placeFunc)) {
	t.Run("OCI", func(t *testing.T) {
		w := sourcetest.New(t)
		r := &registry{t, w.OCI().Host, transportOf(w), nil}
		test(t, func(name string) (func() publish.Target, publish.Browser) {
			template := name + "/${namespace}/${type}"
			target := func() publish.Target { return r.clientAt(template, oci.Access{Push: true}) }
			return target, &publish.OCI{Mirror: r.clientAt(template, oci.Access{}).Mirror, Host: "example.com"}
		})
	})
	t.Run("bucket", func(t *testing.T) {
		p := inOnePlace(t)
		test(t, func(name string) (func() publish.Target, publish.Browser) {
			client := fetch.New(fetch.Options{Transport: p.store.Transport()})
			b := place{p.T, p.store, name}.bucketOf(client)
			m := sourcetest.Must(netmirror.New(client, b.URL("").String(), netmirror.Options{Plain: b.URL("").Scheme == "http"}))(t)
			return func() publish.Target { return publish.NewBucket(b) }, publish.BrowseBucket(b, m)
		})
	})
}
