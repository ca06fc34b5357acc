package oci_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/sourcetest"
)

// writer are credentials that must not appear anywhere.
var writer = oci.Access{
	Credentials: func(context.Context, oci.Repository) (oci.Credentials, error) {
		return oci.Credentials{Username: "writer", Password: "a-secret-password"}, nil
	},
	Hint: func(oci.Repository, bool) string { return "check the credentials" },
}

// refuse answers with an error in the form of registries.
func refuse(status int, code, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"errors": [{"code": %q, "message": %q}]}`, code, message)
	}
}

// Each row is an answer in place of the registry's own. Whatever it is, the version that was pushed before remains, and the
// next run completes the push.
func TestHostileAnswersToPush(t *testing.T) {
	const wrong = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	page := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			fmt.Fprintf(w, "<html><head><title>%d %s</title></head></html>", status, http.StatusText(status))
		}
	}
	located := func(status int, at string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", at)
			w.WriteHeader(status)
		}
	}
	states := func(digest string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Docker-Content-Digest", digest)
			w.WriteHeader(http.StatusCreated)
		}
	}
	const blob, manifest, tag = "/blobs/", "/manifests/sha256:", "/manifests/1.0.0"
	for name, test := range map[string]struct {
		method, path string
		answer       http.HandlerFunc
		says, hint   string
	}{
		"denied":             {"PUT", tag, refuse(403, "DENIED", "requested access to the resource is denied"), `403 Forbidden ("requested access to the resource is denied")`, "check the credentials"},
		"unauthorized":       {"POST", blob, refuse(401, "UNAUTHORIZED", "authentication required"), `401 Unauthorized ("authentication required")`, "check the credentials"},
		"no space":           {"PUT", blob, page(507), "507 Insufficient Storage", ""},
		"too large":          {"PUT", blob, page(413), "413 Request Entity Too Large", "client_max_body_size"},
		"no repository":      {"POST", blob, refuse(404, "NAME_UNKNOWN", "the repository does not exist"), "404 Not Found", ""},
		"immutable tag":      {"PUT", tag, refuse(400, "TAG_INVALID", "The image tag '1.0.0' already exists and is immutable."), "400 Bad Request", ""},
		"other manifest":     {"PUT", manifest, states(wrong), "digest mismatch in Docker-Content-Digest", ""},
		"other index":        {"PUT", tag, states(wrong), "digest mismatch in Docker-Content-Digest", ""},
		"moved":              {"PUT", tag, located(307, "https://new.example.com/v2/"), "unexpected answer: 307 Temporary Redirect", ""},
		"moved uploads":      {"POST", blob, located(301, "/v2/elsewhere"), "unexpected answer: 301 Moved Permanently", ""},
		"nowhere":            {"POST", blob, located(202, ""), "no Location header", ""},
		"not encrypted":      {"POST", blob, located(202, "http://127.0.0.1/upload"), "blob upload Location", ""},
		"never available":    {"PUT", tag, page(503), "503 Service Unavailable (6 tries in ", ""},
		"elsewhere":          {"POST", blob, located(202, "https://127.0.0.1:1/upload"), "is on a different host than the registry", ""},
		"wrong blob":         {"PUT", blob, refuse(400, "DIGEST_INVALID", "provided digest did not match"), "400 Bad Request", ""},
		"never known upload": {"PUT", blob, refuse(404, "BLOB_UPLOAD_UNKNOWN", "blob upload unknown to registry"), `404 Not Found ("blob upload unknown to registry")`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := sourcetest.New(t)
			w.OCI().Login("writer", "a-secret-password", true)
			p := newPusher(t, w, writer)
			before := added("darwin_arm64", 100)
			check(t, p.put(oci.Change{Add: []oci.Added{before}}))

			var armed atomic.Bool
			armed.Store(true)
			wrap(w, func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
				if armed.Load() && r.Method == test.method && strings.Contains(r.URL.Path, test.path) {
					test.answer(rw, r)
					return
				}
				next.ServeHTTP(rw, r)
			})
			after := added("linux_amd64", 2<<20)
			err := newPusher(t, w, writer).put(oci.Change{Add: []oci.Added{after}})
			sourcetest.Require(t, err != nil && strings.Contains(err.Error(), test.says), "error %v", err)
			text := err.Error() + strings.Join(sources.Hints(err), "\n")
			sourcetest.Expect(t, test.hint == "" && len(sources.Hints(err)) == 0 || test.hint != "" && slices.ContainsFunc(sources.Hints(err), func(hint string) bool { return strings.Contains(hint, test.hint) }), "hints %q", sources.Hints(err))
			sourcetest.Expect(t, strings.Count(err.Error(), "https://"+w.OCI().Host) == 1 && strings.Count(err.Error(), provider) == 2 && !strings.Contains(text, "secret"), "error %v", err)
			sourcetest.EqualSlices(t, p.archives(), texts(before), "archives")

			armed.Store(false)
			check(t, newPusher(t, w, writer).put(oci.Change{Add: []oci.Added{after}}))
			sourcetest.EqualSlices(t, p.archives(), texts(before, after), "archives")
		})
	}
}

// Answers after which the same push succeeds.
func TestPatienceWithPush(t *testing.T) {
	for name, test := range map[string]struct {
		method, path string
		status       int
		header       map[string]string
	}{
		"busy":          {"PUT", "/manifests/", 429, map[string]string{"Retry-After": "1"}},
		"starting":      {"POST", "/blobs/", 503, nil},
		"failed":        {"PUT", "/blobs/", 500, nil},
		"gateway":       {"PUT", "/blobs/", 502, nil},
		"expired token": {"PUT", "/blobs/", 401, map[string]string{"Www-Authenticate": `Basic realm="test"`}},
		"no API":        {"GET", "/referrers/", 404, nil},
		"index is busy": {"GET", "/manifests/", 429, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := sourcetest.New(t)
			var once sync.Once
			wrap(w, func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
				answered := false
				if r.Method == test.method && strings.Contains(r.URL.Path, test.path) {
					once.Do(func() {
						answered = true
						for name, value := range test.header {
							rw.Header().Set(name, value)
						}
						rw.WriteHeader(test.status)
					})
				}
				if !answered {
					next.ServeHTTP(rw, r)
				}
			})
			p := newPusher(t, w, writer)
			a := added("linux_amd64", 3<<20)
			var done atomic.Int64
			check(t, p.put(oci.Change{Add: []oci.Added{a}}, func(n int64) { done.Add(n) }))
			sourcetest.EqualSlices(t, p.archives(), texts(a), "archives")
			sourcetest.Equal(t, done.Load(), a.Size, "bytes")
		})
	}
}

// Another host to which a registry leads gets no credentials, and none of what is pushed.
func TestOtherHost(t *testing.T) {
	w := sourcetest.New(t)
	w.OCI().Login("writer", "a-secret-password", true)
	p := newPusher(t, w, writer)
	check(t, p.put(oci.Change{Add: []oci.Added{added("linux_amd64", 100)}, Signed: signed}))
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		sent := r.Header.Get("Authorization") + r.Header.Get("Cookie")
		t.Errorf("%s %s with %q", r.Method, r.URL, sent)
		rw.Header().Set("Www-Authenticate", `Basic realm="other"`)
		rw.WriteHeader(http.StatusUnauthorized)
	}))
	cert, key, _ := sourcetest.Certificate("")
	pair := sourcetest.Must(tls.X509KeyPair(cert, key))(t)
	other.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	other.StartTLS()
	defer other.Close()
	wrap(w, func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		rw.Header().Set("Location", other.URL+r.URL.Path)
		switch r.Method {
		case http.MethodPost:
			rw.WriteHeader(http.StatusAccepted)
		case http.MethodPut, http.MethodDelete:
			rw.WriteHeader(http.StatusTemporaryRedirect)
		default:
			rw.Header().Del("Location")
			next.ServeHTTP(rw, r)
		}
	})
	for _, c := range []oci.Change{
		{Add: []oci.Added{added("linux_amd64", 2<<20)}}, {Add: []oci.Added{added("linux_amd64", 100)}},
		{Remove: []sources.Platform{{OS: "linux", Arch: "amd64"}}},
	} {
		sourcetest.Expect(t, newPusher(t, w, writer).put(c) != nil, "no error")
	}
}

// Each row is a lie about what was requested.
func TestHostileAnswersToReaders(t *testing.T) {
	for name, test := range map[string]struct {
		path   string
		change func(header http.Header, body []byte) []byte
		says   string
	}{
		"other index": {"/manifests/1.0.0", func(_ http.Header, body []byte) []byte { return append(body, ' ') }, "the index has the digest sha256:"},
		"other digest": {"/manifests/1.0.0", func(h http.Header, body []byte) []byte {
			h.Set("Docker-Content-Digest", "sha256:"+strings.Repeat("0", 64))
			return body
		}, "the index has the digest sha256:"},
		"other manifest": {"/manifests/sha256:", func(_ http.Header, body []byte) []byte { return append(body, ' ') }, "the manifest has the digest sha256:"},
		"page": {"/manifests/1.0.0", func(h http.Header, _ []byte) []byte {
			h.Set("Content-Type", "text/html")
			h.Del("Docker-Content-Digest")
			return []byte("<html><title>Sign in</title></html>")
		}, `the tag refers to something of the media type "text/html"`},
		"too large": {"/manifests/1.0.0", func(_ http.Header, _ []byte) []byte { return make([]byte, 5<<20) }, "too large"},
		"not JSON":  {"/manifests/1.0.0", func(h http.Header, _ []byte) []byte { h.Del("Docker-Content-Digest"); return []byte("{") }, "the index is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			w := published(t)
			wrap(w, func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method != "GET" || !strings.Contains(r.URL.Path, test.path) {
					next.ServeHTTP(rw, r)
					return
				}
				record := httptest.NewRecorder()
				next.ServeHTTP(record, r)
				body := test.change(record.Header(), record.Body.Bytes())
				for name, values := range record.Header() {
					rw.Header()[name] = values
				}
				rw.Header().Del("Content-Length")
				_, _ = rw.Write(body)
			})
			begun := time.Now()
			_, err := locate(t, open(t, w, oci.Access{}))
			sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), test.says) && time.Since(begun) < 5*time.Second, "error %v", err)
		})
	}
}

// What an index refers to may be gone. Then the platform counts as missing, so that a push stores it again.
func TestLostManifest(t *testing.T) {
	w := sourcetest.New(t)
	p := newPusher(t, w, oci.Access{})
	linux, darwin := added("linux_amd64", 10), added("darwin_arm64", 10)
	check(t, p.put(oci.Change{Add: []oci.Added{linux, darwin}}))
	answer := atomic.Pointer[http.HandlerFunc]{}
	wrap(w, func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		if lost := answer.Load(); lost != nil && r.Method == "GET" && strings.Contains(r.URL.Path, "/manifests/sha256:") {
			(*lost)(rw, r)
			return
		}
		next.ServeHTTP(rw, r)
	})
	look := func() (sources.Holding, error) { // the mirror has other archives
		return newPusher(t, w, oci.Access{}).Look(t.Context(), sourcetest.Address(t, provider), sourcetest.Number(t, "1.0.0"), []oci.Added{linux})
	}
	state, err := look()
	sourcetest.Expect(t, err == nil && len(state.Archives) == 2, "got %v, %v", state, err)
	lost := refuse(404, "MANIFEST_UNKNOWN", "manifest unknown")
	answer.Store(&lost)
	state, err = look()
	sourcetest.Expect(t, err == nil && len(state.Archives) == 1 && state.Archives[linux.Platform].Hashes[0] == linux.Hash, "got %v, %v", state, err)
	denied := refuse(403, "DENIED", "denied")
	answer.Store(&denied)
	_, err = look()
	sourcetest.ErrorIs(t, err, fetch.ErrUnauthorized)
}

// What a registry lists is limited in all, and not only on each page.
func TestListsWithoutEnd(t *testing.T) {
	const index = `{"mediaType":"application/vnd.oci.image.index.v1+json","artifactType":"application/vnd.opentofu.provider","manifests":[%s]}`
	one := func(n int) string {
		return fmt.Sprintf(`{"artifactType":"application/vnd.opentofu.provider-target","digest":"sha256:%064d","platform":{"os":"linux","architecture":"a%d"}}`, n, n)
	}
	many := func(n int, item func(int) string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = item(i)
		}
		return strings.Join(all, ",")
	}
	versions := func(ctx context.Context, m *oci.Mirror) error {
		_, err := m.Versions(ctx, sourcetest.Address(t, provider))
		return err
	}
	release := func(ctx context.Context, m *oci.Mirror) error {
		_, err := m.Release(ctx, sourcetest.Address(t, provider), sourcetest.Number(t, "1.0.0"))
		return err
	}
	providers := func(ctx context.Context, m *oci.Mirror) error {
		_, err := m.Providers(ctx, "registry.opentofu.org")
		return err
	}
	for name, test := range map[string]struct {
		path string
		page func(n int) string // nothing after the last one
		read func(context.Context, *oci.Mirror) error
		says string
		most int // requests
	}{
		"large pages of tags": {"/tags/list", func(int) string {
			return `{"tags":["` + strings.Repeat("x", 5<<20-100) + `"]}`
		}, versions, "more than 33554432 bytes, or 1024 pages", 8},
		"many versions": {"/tags/list", func(page int) string {
			return `{"tags":[` + many(9999, func(n int) string { return fmt.Sprintf(`"%d.%d.0"`, page, n) }) + `]}`
		}, versions, "more than 50000 tags", 7},
		"one version many times": {"/tags/list", func(int) string {
			return `{"tags":[` + many(60000, func(int) string { return `"1.0.0"` }) + `]}`
		}, versions, "more than 50000 tags", 1},
		"many providers": {"/_catalog", func(page int) string {
			return `{"repositories":[` + many(30000, func(n int) string {
				return fmt.Sprintf(`"mirror/registry.opentofu.org/acme/w%d-%d"`, page, n)
			}) + `]}`
		}, providers, "more than 50000 providers", 2},
		"many manifests": {"/manifests/1.0.0", func(int) string { return fmt.Sprintf(index, many(100_000, func(int) string { return "0" })) }, release, "more than 100000 values", 1},
		"many platforms": {"/manifests/1.0.0", func(int) string { return fmt.Sprintf(index, many(201, one)) }, release, "more than 200 platforms", 1},
		"endless referrers": {"/referrers/", func(int) string {
			return `{"manifests":[` + many(30_000, func(int) string { return `{}` }) + `]}`
		}, release, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := published(t)
			requests := 0
			wrap(w, func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
				if !strings.Contains(r.URL.Path, test.path) {
					next.ServeHTTP(rw, r)
					return
				}
				requests++
				rw.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
				rw.Header().Set("Link", fmt.Sprintf(`<%s?n=%d>; rel="next"`, r.URL.Path, requests))
				_, _ = io.WriteString(rw, test.page(requests))
			})
			err := test.read(t.Context(), open(t, w, oci.Access{}))
			if test.says == "" { // packages don't require evidence
				check(t, err)
			} else {
				sourcetest.Expect(t, errors.Is(err, fetch.ErrTooLarge) && strings.Contains(err.Error(), test.says), "error %v", err)
			}
			sourcetest.Expect(t, requests > 0 && requests <= test.most, "%d requests", requests)
		})
	}
}
