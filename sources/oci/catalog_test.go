package oci_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/oci"
	"github.com/larder-cli/larder/sources/sourcetest"
)

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
	parsed, err := oci.ParseTemplate(strings.ReplaceAll(template, "HOST", w.OCI().Host))
	check(t, err)
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
		{"HOST/mirror/${type}", 200, true, "the template contains ${namespace} 0 times"},
		{"HOST/mirror/${namespace}", 200, true, "the template contains ${type} 0 times"},
		{"HOST/${namespace}/${type}-${type}", 200, true, "the template contains ${type} 2 times"},
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
