package oci_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/sourcetest"
)

var check = sourcetest.Check

// open returns the mirror of a world's registry.
func open(t *testing.T, w *sourcetest.World, access oci.Access) *oci.Mirror {
	t.Helper()
	template := sourcetest.Must(oci.ParseTemplate(w.OCI().Template()))(t)
	return oci.New(fetch.New(fetch.Options{Transport: w.Client().Transport, Tries: 1}), template, access)
}

// wrap lets answer serve the requests to a world's registry. What it leaves, it passes on to the registry.
func wrap(w *sourcetest.World, answer func(rw http.ResponseWriter, r *http.Request, registry http.Handler)) {
	w.OCI().Wrap(func(registry http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { answer(rw, r, registry) })
	})
}

func TestContract(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T, w *sourcetest.World) (sources.Source, func()) {
		w.PushOCI()
		return open(t, w, oci.Access{}), w.OCI().Stop
	})
}

const provider = "registry.opentofu.org/acme/widget"

// published returns a world with a package in its OCI registry.
func published(t *testing.T) *sourcetest.World {
	t.Helper()
	w := sourcetest.New(t)
	w.Add(provider, "1.0.0", sourcetest.Release{Platforms: []string{"linux_amd64", "darwin_arm64"}})
	w.PushOCI()
	return w
}

func locate(t *testing.T, m *oci.Mirror) (sources.Package, error) {
	t.Helper()
	return m.Package(t.Context(), sourcetest.PackageID(t, provider, "1.0.0", "linux_amd64"))
}

func TestPackage(t *testing.T) {
	w := published(t)
	p := sourcetest.Must(locate(t, open(t, w, oci.Access{})))(t)
	zh, _ := w.Hashes(provider + "/1.0.0/linux_amd64")
	sourcetest.EqualSlices(t, sources.Texts(p.Hashes), []string{zh}, "hashes")
	sourcetest.Equal(t, p.Location.URL, w.OCI().URL+"/v2/mirror/"+provider+"/blobs/sha256:"+strings.TrimPrefix(zh, "zh:"))
	sourcetest.Equal(t, p.Filename, "terraform-provider-widget_1.0.0_linux_amd64.zip")
	sourcetest.Expect(t, p.Size > 0 && p.Kind == sources.FromOCI && p.Signed == nil && p.Warnings == nil, "got %+v", p)
}

func TestVersions(t *testing.T) {
	w := published(t)
	for _, tag := range []string{"latest", "1.1.0_linux.1", "v2.0.0", "2.0", "01.4.0", "3.0.0-beta1"} { // some are tags of other versions
		w.OCI().PushManifest(provider, tag, map[string]any{"mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []any{}})
	}
	l := sourcetest.Must(open(t, w, oci.Access{}).Versions(t.Context(), sourcetest.Address(t, provider)))(t)
	sourcetest.EqualSlices(t, sources.Texts(l.Versions), []string{"1.0.0", "1.1.0+linux.1", "3.0.0-beta1"}, "versions")
}

// Registries list tags in pages.
func TestPages(t *testing.T) {
	w := published(t)
	respond := func(link string, body string) {
		wrap(w, func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.URL.Query().Get("last") == "" {
				rw.Header().Set("Link", link)
			}
			rw.Header().Set("Content-Type", "application/json")
			rw.Write([]byte(strings.ReplaceAll(body, "LAST", r.URL.Query().Get("last"))))
		})
	}
	versions := func() ([]string, error) {
		l, err := open(t, w, oci.Access{}).Versions(t.Context(), sourcetest.Address(t, provider))
		return sources.Texts(l.Versions), err
	}
	respond(`</v2/mirror/x/tags/list?last=2.0.0&n=1>; rel="next"`, `{"tags": ["1.0.0", "LAST"]}`)
	got := sourcetest.Must(versions())(t)
	sourcetest.EqualSlices(t, got, []string{"1.0.0", "2.0.0"}, "versions")

	respond(`<https://other.example.com/v2/mirror/x/tags/list?last=2.0.0>; rel="next"`, `{"tags": ["1.0.0"]}`)
	_, err := versions()
	sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), "not the same origin"), "error %v", err)

	respond(strings.Repeat("x", 100<<10), `{"tags": ["1.0.0"]}`)
	_, err = versions()
	sourcetest.Expect(t, err != nil && len(err.Error()) < 3000, "error of %d bytes", len(fmt.Sprint(err)))
}

// Each row is a repository that OpenTofu refuses too, as far as it isn't a different answer of the server.
func TestUnusableManifests(t *testing.T) {
	const index, image = "application/vnd.oci.image.index.v1+json", "application/vnd.oci.image.manifest.v1+json"
	target := func(edit map[string]any) map[string]any {
		d := map[string]any{
			"mediaType": image, "artifactType": "application/vnd.opentofu.provider-target", "size": 2,
			"digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", "platform": map[string]string{"os": "linux", "architecture": "amd64"},
		}
		for k, v := range edit {
			d[k] = v
		}
		return d
	}
	with := func(manifests ...any) map[string]any {
		return map[string]any{"mediaType": index, "artifactType": "application/vnd.opentofu.provider", "manifests": manifests}
	}
	for name, test := range map[string]struct {
		manifest map[string]any
		says     string
		is       error
	}{
		"image manifest":     {map[string]any{"mediaType": image}, `the tag refers to something of the media type "` + image + `", not to an index`, oci.ErrForeign},
		"container index":    {map[string]any{"mediaType": index, "manifests": []any{}}, `the index has the artifact type "", and not application/vnd.opentofu.provider`, oci.ErrForeign},
		"empty":              {with(), "no manifest has the artifact type application/vnd.opentofu.provider-target and a platform", nil},
		"other artifacts":    {with(target(map[string]any{"artifactType": "x/y"})), "no manifest has the artifact type", nil},
		"index for platform": {with(target(map[string]any{"mediaType": index})), `a manifest has the media type "` + index + `", and not ` + image, nil},
		"no platform":        {with(target(map[string]any{"platform": nil})), "no manifest has the artifact type", nil},
		"other platform":     {with(target(map[string]any{"platform": map[string]string{"os": "plan9", "architecture": "arm"}})), "", sources.ErrNoPlatform},
		"version of system":  {with(target(map[string]any{"platform": map[string]string{"os": "linux", "architecture": "amd64", "os.version": "6"}})), "no manifest has the artifact type", nil},
		"ambiguous":          {with(target(nil), target(nil)), "2 manifests are for linux_amd64", nil},
		"missing":            {with(target(map[string]any{"digest": "sha256:" + strings.Repeat("0", 64)})), "404 Not Found", nil},
		"digest":             {with(target(map[string]any{"digest": "sha256:0"})), `the digest "sha256:0" of a manifest is not valid`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := published(t)
			w.OCI().Fault(sourcetest.Fault{
				Path: "/v2/" + sourcetest.OCI + "/" + provider + "/manifests/1.0.0",
				Body: string(sourcetest.Must(json.Marshal(test.manifest))(t)), ContentType: test.manifest["mediaType"].(string),
			})
			_, err := locate(t, open(t, w, oci.Access{}))
			sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), test.says), "error %v", err)
			sourcetest.Expect(t, errors.Is(err, test.is) || test.is == nil && !errors.Is(err, sources.ErrNotFound), "error %v", err)
		})
	}
}

func TestAbsent(t *testing.T) {
	m := open(t, published(t), oci.Access{})
	_, err := m.Versions(t.Context(), sourcetest.Address(t, "registry.opentofu.org/acme/other"))
	sourcetest.ErrorIs(t, err, sources.ErrNotFound)

	// OpenTofu doesn't look for a version elsewhere, if the mirror has the provider.
	_, err = m.Package(t.Context(), sourcetest.PackageID(t, provider, "2.0.0", "linux_amd64"))
	sourcetest.Expect(t, err != nil && !errors.Is(err, sources.ErrNotFound), "error %v", err)
}

// Credentials are for one repository, and for its registry only.
func TestCredentials(t *testing.T) {
	for name, basic := range map[string]bool{"token": false, "basic": true} {
		t.Run(name, func(t *testing.T) {
			w := published(t)
			w.OCI().Login("reader", "s3cret", basic)
			asked := 0
			access := oci.Access{Credentials: func(_ context.Context, r oci.Repository) (oci.Credentials, error) {
				asked++
				sourcetest.Equal(t, r.String(), w.OCI().Host+"/mirror/"+provider)
				return oci.Credentials{Username: "reader", Password: "s3cret"}, nil
			}}
			m := open(t, w, access)
			sourcetest.Must(m.Versions(t.Context(), sourcetest.Address(t, provider)))(t)
			sourcetest.Must(locate(t, m))(t)
			tokens := len(w.OCI().Requests(sourcetest.Token))
			sourcetest.Expect(t, asked == 1 && (basic || tokens == 1), "credentials requested %d times, %d tokens", asked, tokens)
		})
	}
}

func TestRefusedCredentials(t *testing.T) {
	for _, basic := range []bool{false, true} {
		for name, test := range map[string]struct {
			credentials oci.Credentials
			err         error
			says        string
			hint        string
		}{
			"none":  {oci.Credentials{}, nil, "401 Unauthorized", "sent false"},
			"wrong": {oci.Credentials{Username: "reader", Password: "wrong-password"}, nil, "401 Unauthorized", "sent true"},
			"error": {oci.Credentials{}, errors.New("docker-credential-x: no such program"), "docker-credential-x: no such program", ""},
		} {
			t.Run(name, func(t *testing.T) {
				w := published(t)
				w.OCI().Login("reader", "s3cret", basic)
				m := open(t, w, oci.Access{
					Credentials: func(context.Context, oci.Repository) (oci.Credentials, error) { return test.credentials, test.err },
					Hint: func(_ oci.Repository, sent bool) string {
						if sent {
							return "sent true"
						}
						return "sent false"
					},
				})
				_, err := m.Versions(t.Context(), sourcetest.Address(t, provider))
				sourcetest.Require(t, err != nil && strings.Contains(err.Error(), test.says) && !strings.Contains(err.Error(), "wrong-password"), "error %v", err)
				sourcetest.Expect(t, test.hint == "" || slices.Contains(sources.Hints(err), test.hint), "hints %q", sources.Hints(err))
			})
		}
	}
}

// Of requests that begin at once, none is sent before its registry's credentials are known.
func TestFirstRequestsAreAuthenticated(t *testing.T) {
	w := published(t)
	w.OCI().Login("reader", "s3cret", true)
	access := oci.Access{Credentials: func(context.Context, oci.Repository) (oci.Credentials, error) {
		return oci.Credentials{Username: "reader", Password: "s3cret"}, nil
	}}
	for range 100 {
		m := open(t, w, access)
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() { // another repository each, so that no answer is shared
				_, err := m.Versions(t.Context(), sourcetest.Address(t, fmt.Sprintf("%s%d", provider, i)))
				sourcetest.Expect(t, !errors.Is(err, fetch.ErrUnauthorized), "got %v", err)
			})
		}
		group.Wait()
	}
}

// What a token server answers to one request is the answer to all that wait for the same token.
func TestRefusedToken(t *testing.T) {
	for status, says := range map[int]string{
		401: "401 Unauthorized", 403: "403 Forbidden", 429: "retry after 1h0m0s",
		204: "204 No Content", 302: "302 Found",
	} {
		w := published(t)
		wrap(w, func(rw http.ResponseWriter, r *http.Request, _ http.Handler) {
			if r.URL.Path == "/token" {
				time.Sleep(20 * time.Millisecond)
				rw.Header().Set("Location", "https://other.example.com/")
				rw.Header().Set("Retry-After", "3600") // longer than Larder waits
				refuse(status, "DENIED", "wrong")(rw, r)
				return
			}
			rw.Header().Set("Www-Authenticate", `Bearer realm="https://`+r.Host+`/token",service="test"`)
			rw.WriteHeader(http.StatusUnauthorized)
		})
		m := open(t, w, writer)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				_, err := m.Versions(t.Context(), sourcetest.Address(t, provider))
				sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), says), "%d: error %v", status, err)
			})
		}
		group.Wait()
	}
}

// A registry can't have its credentials sent to a server of tokens in another domain, unless the user has configured
// that server. Requests without credentials go anywhere.
func TestForeignRealm(t *testing.T) {
	as := func(c oci.Credentials) func(context.Context, oci.Repository) (oci.Credentials, error) {
		return func(context.Context, oci.Repository) (oci.Credentials, error) { return c, nil }
	}
	password := as(oci.Credentials{Username: "reader", Password: "a-secret-password"})
	for name, test := range map[string]struct {
		credentials func(context.Context, oci.Repository) (oci.Credentials, error)
		allowed     string
		ok          bool
	}{
		"password":           {password, "", false},
		"refresh token":      {as(oci.Credentials{RefreshToken: "a-secret-password"}), "", false},
		"none":               {as(oci.Credentials{}), "", true},
		"no function":        {nil, "", true},
		"configured":         {password, "tokens.other.test", true},
		"configured port":    {password, "tokens.other.test:8443", false},
		"another configured": {password, "other.test", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := published(t)
			wrap(w, func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Header.Get("Authorization") == "Bearer granted" {
					next.ServeHTTP(rw, r)
					return
				}
				rw.Header().Set("Www-Authenticate", `Bearer realm="https://tokens.other.test/token",service="test"`)
				rw.WriteHeader(http.StatusUnauthorized)
			})
			requests := 0
			tokens := &transport{func(r *http.Request) (*http.Response, error) {
				if r.URL.Host != "tokens.other.test" {
					return w.Client().Transport.RoundTrip(r)
				}
				requests++
				body := io.NopCloser(strings.NewReader(`{"token": "granted"}`))
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: body, Request: r}, nil
			}}
			template := sourcetest.Must(oci.ParseTemplate(w.OCI().Template()))(t)
			m := oci.New(fetch.New(fetch.Options{Transport: tokens, Tries: 1}), template, oci.Access{
				Credentials: test.credentials,
				TokenServer: func(registry string) string {
					sourcetest.Equal(t, registry, w.OCI().Host)
					return test.allowed
				},
			})
			_, err := m.Versions(t.Context(), sourcetest.Address(t, provider))
			sourcetest.Equal(t, requests > 0, test.ok, "requests to the token server")
			if test.ok {
				check(t, err)
				return
			}
			says := w.OCI().Host + " names the token server tokens.other.test, which is not in its domain"
			hint := `host "` + w.OCI().Host + `" { token_server = "tokens.other.test" }`
			sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), says), "error %v", err)
			sourcetest.Expect(t, strings.Contains(strings.Join(sources.Hints(err), ""), hint), "hints %q", sources.Hints(err))
		})
	}
}

type transport struct {
	send func(*http.Request) (*http.Response, error)
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) { return t.send(r) }

// A longer path covers fewer repositories, and goes before a shorter one.
func TestCovers(t *testing.T) {
	other := oci.Repository{Registry: "oci.example.test", Name: "a/b/c"}
	for name, want := range map[string]int{"": 0, "a": 1, "a/b": 2, "a/b/c": 3, "b": -1, "a/b/c/d": -1, "a/bb": -1} {
		segments, ok := oci.Repository{Registry: other.Registry, Name: name}.Covers(other)
		sourcetest.Expect(t, ok == (want >= 0) && (!ok || segments == want), "%q: %d, %v", name, segments, ok)
	}
	_, ok := oci.Repository{Registry: "example.test"}.Covers(other)
	sourcetest.Expect(t, !ok, "another registry")
}

// Credentials are not sent to a server of tokens that the registry should not name.
func TestRefusedRealm(t *testing.T) {
	for realm, says := range map[string]string{
		"http://oci.example.test/token": "uses http",
		"https://169.254.169.254/token": "blocked",
		"ftp://oci.example.test/token":  "unsupported scheme",
		"ftp://oci.test/token?sig=SeCr": `"ftp://oci.test/token?…" uses unsupported scheme`,
	} {
		w := published(t)
		wrap(w, func(rw http.ResponseWriter, _ *http.Request, _ http.Handler) {
			rw.Header().Set("Www-Authenticate", `Bearer realm="`+realm+`",service="test"`)
			rw.WriteHeader(http.StatusUnauthorized)
		})
		asked := func(context.Context, oci.Repository) (oci.Credentials, error) {
			t.Error("credentials requested for " + realm)
			return oci.Credentials{}, nil
		}
		_, err := open(t, w, oci.Access{Credentials: asked}).Versions(t.Context(), sourcetest.Address(t, provider))
		sourcetest.Expect(t, err != nil && strings.Contains(err.Error(), says), "%s: error %v", realm, err)
	}
}

// catalog lists the providers of a template in a registry that answers all requests for its catalog so.
func catalog(t *testing.T, template string, status int, body string) ([]sources.Provider, error) {
	t.Helper()
	w := sourcetest.New(t)
	wrap(w, func(rw http.ResponseWriter, r *http.Request, _ http.Handler) {
		sourcetest.Equal(t, r.URL.Path, "/v2/_catalog")
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(status)
		_, _ = rw.Write([]byte(body))
	})
	parsed := sourcetest.Must(oci.ParseTemplate(strings.ReplaceAll(template, "HOST", w.OCI().Host)))(t)
	m := oci.New(fetch.New(fetch.Options{Transport: w.Client().Transport, Tries: 1}), parsed, oci.Access{})
	return m.Providers(t.Context(), "registry.opentofu.org")
}

func TestProviders(t *testing.T) {
	const repositories = `{"repositories": ["mirror/acme/widget", "mirror/acme/gadget", "mirror/acme", "mirror/acme/widget/more", "other/acme/widget", "mirror/-/x", "mirror/acme-widget"]}`
	for template, want := range map[string]string{
		"HOST/mirror/${namespace}/${type}":       "registry.opentofu.org/acme/gadget registry.opentofu.org/acme/widget",
		"HOST/${namespace}/${type}":              "registry.opentofu.org/mirror/acme registry.opentofu.org/mirror/acme-widget",
		"HOST/${hostname}/${namespace}/${type}":  "mirror/acme/gadget mirror/acme/widget other/acme/widget",
		"HOST/mirror/acme/${namespace}-${type}x": "",
	} {
		got, err := catalog(t, template, http.StatusOK, repositories)
		sourcetest.Expect(t, err == nil && strings.Join(sources.Texts(got), " ") == want, "%s: got %q, %v", template, got, err)
	}
}

func TestUnlisted(t *testing.T) {
	for _, test := range []struct {
		template string
		status   int
		unlisted bool
		says     string
	}{
		{"HOST/mirror/${namespace}/${type}", 401, true, "401 Unauthorized"},
		{"HOST/mirror/${namespace}/${type}", 404, true, "404 Not Found"},
		{"HOST/mirror/${namespace}/${type}", 405, true, "405 Method Not Allowed"},
		{"HOST/mirror/${namespace}/${type}", 429, false, "429 Too Many Requests"},
		{"HOST/mirror/${namespace}/${type}", 500, false, "500 Internal Server Error"},
		{"HOST/mirror/${type}", 200, true, "once each"},
		{"HOST/mirror/${namespace}", 200, true, "once each"},
		{"HOST/${namespace}/${type}-${type}", 200, true, "once each"},
	} {
		_, err := catalog(t, test.template, test.status, `{"repositories": []}`)
		sourcetest.Expect(t, err != nil && errors.Is(err, oci.ErrUnlisted) == test.unlisted && strings.Contains(err.Error(), test.says), "%s, %d: error %v", test.template, test.status, err)
	}
}

// What registries answer for a repository that they don't have.
func TestAbsentRepositories(t *testing.T) {
	for _, test := range []struct {
		status int
		code   string
		absent bool
	}{
		{404, "NAME_UNKNOWN", true}, {404, "", true}, {400, "NAME_INVALID", true},
		{404, "MANIFEST_UNKNOWN", false}, {401, "", false}, {403, "DENIED", false}, {400, "", false},
	} {
		w := sourcetest.New(t)
		w.OCI().Wrap(func(http.Handler) http.Handler {
			if test.code == "" {
				return http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(test.status) })
			}
			return refuse(test.status, test.code, "message")
		})
		_, err := open(t, w, oci.Access{}).Versions(t.Context(), sourcetest.Address(t, provider))
		sourcetest.Expect(t, err != nil && errors.Is(err, sources.ErrNotFound) == test.absent, "%d %s: error %v", test.status, test.code, err)
	}
}
