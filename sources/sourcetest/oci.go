package sourcetest

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/larder-cli/larder/sources"
)

// OCI is the prefix of the repositories of a World in its OCI registry.
const OCI = "mirror"

// OCI returns the world's OCI registry. The first call starts it, without repositories.
func (w *World) OCI() *Server {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.oci == nil {
		w.oci = w.serve(ociHandler)
	}
	return w.oci
}

// Template returns the template of the repositories that [World.PushOCI] creates, with the registry.
func (s *Server) Template() string { return s.Host + "/" + OCI + "/${hostname}/${namespace}/${type}" }

// ociHandler serves an OCI registry from memory.
func ociHandler(s *Server) http.Handler {
	// Without referrers, the handler answers requests for them as registries without that API.
	handler := registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(io.Discard, "", 0)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Host = "" // as in requests over a connection, because names of repositories begin with it
		handler.ServeHTTP(w, r)
	})
}

// PushOCI publishes packages in the OCI registry, with the requests that the documentation of OpenTofu describes, and
// not as Larder does it.
func (w *World) PushOCI(only ...string) {
	w.t.Helper()
	s := w.OCI()
	for _, r := range w.matching(only) {
		provider := must(sources.ParseProvider(r.provider, sources.OpenTofu))
		repository := "/v2/" + OCI + "/" + path.Join(provider.Host.ASCII(), provider.Namespace, provider.Type)
		var manifests []any
		for _, p := range r.packages {
			data, err := os.ReadFile(p.file)
			Check(w.t, err)
			empty := s.pushBlob(repository, "application/vnd.oci.empty.v1+json", []byte("{}"))
			manifest := s.pushManifest(repository, "", map[string]any{
				"schemaVersion": 2,
				"mediaType":     "application/vnd.oci.image.manifest.v1+json",
				"artifactType":  "application/vnd.opentofu.provider-target",
				"config":        empty,
				"layers":        []any{s.pushBlob(repository, "archive/zip", data)},
			})
			system, arch, _ := strings.Cut(p.platform, "_")
			manifest["artifactType"] = "application/vnd.opentofu.provider-target"
			manifest["platform"] = map[string]string{"os": system, "architecture": arch}
			manifests = append(manifests, manifest)
		}
		s.pushManifest(repository, strings.ReplaceAll(r.version, "+", "_"), map[string]any{
			"schemaVersion": 2,
			"mediaType":     "application/vnd.oci.image.index.v1+json",
			"artifactType":  "application/vnd.opentofu.provider",
			"manifests":     manifests,
		})
	}
}

// PushManifest stores a manifest under a tag of the repository of a provider.
func (s *Server) PushManifest(provider, tag string, manifest map[string]any) {
	s.pushManifest("/v2/"+OCI+"/"+provider, tag, manifest)
}

func (s *Server) pushBlob(repository, kind string, data []byte) map[string]any {
	d := descriptor(kind, data)
	s.put(repository+"/blobs/uploads/1?digest="+url.QueryEscape(d["digest"].(string)), "application/octet-stream", data)
	return d
}

func (s *Server) pushManifest(repository, tag string, manifest map[string]any) map[string]any {
	data := must(json.Marshal(manifest))
	kind, _ := manifest["mediaType"].(string)
	d := descriptor(kind, data)
	if tag == "" {
		tag = d["digest"].(string)
	}
	s.put(repository+"/manifests/"+tag, kind, data)
	return d
}

// put sends a request to the handler itself, without faults, authentication and records.
func (s *Server) put(target, kind string, data []byte) {
	s.world.t.Helper()
	req := httptest.NewRequest(http.MethodPut, target, bytes.NewReader(data))
	req.Header.Set("Content-Type", kind)
	answer := httptest.NewRecorder()
	s.handler.ServeHTTP(answer, req)
	if answer.Code != http.StatusCreated {
		s.world.t.Fatalf("PUT %s: %d %s", target, answer.Code, answer.Body)
	}
}

func descriptor(kind string, data []byte) map[string]any {
	return map[string]any{"mediaType": kind, "digest": fmt.Sprintf("sha256:%x", sha256.Sum256(data)), "size": len(data)}
}

// Login makes an OCI registry require a user, with a token from its own server of tokens, or with Basic authentication.
// Requests for tokens are of the kind [Token]. It replaces an earlier login, and other wrappers.
func (s *Server) Login(user, password string, basic bool) {
	token := rand.Text()
	s.set(func() { s.wrapped = http.HandlerFunc(s.answer) })
	s.Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			given, secret, _ := r.BasicAuth()
			known := given == user && secret == password
			switch {
			case r.URL.Path == "/token" && known:
				s.record(r)
				must(fmt.Fprintf(w, `{"token": %q}`, token+r.URL.Query().Get("scope")))
			case r.URL.Path == "/token":
				s.record(r)
				http.Error(w, `{"errors": [{"code": "UNAUTHORIZED", "message": "wrong password"}]}`, http.StatusUnauthorized)
			case basic && known, !basic && strings.HasPrefix(r.Header.Get("Authorization"), "Bearer "+token+scopeOf(r)):
				r.Header.Del("Authorization")
				next.ServeHTTP(w, r)
			default:
				s.record(r)
				w.Header().Set("Www-Authenticate", `Basic realm="test"`)
				if !basic {
					challenge := fmt.Sprintf(`Bearer realm="https://%s/token",service="test",scope=%q`, r.Host, scopeOf(r))
					w.Header().Set("Www-Authenticate", challenge)
				}
				const refused = `{"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}`
				http.Error(w, refused, http.StatusUnauthorized)
			}
		})
	})
}

// scopeOf returns the scope that a token needs for a request.
func scopeOf(r *http.Request) string {
	name := strings.TrimPrefix(r.URL.Path, "/v2/")
	for _, end := range []string{"/manifests/", "/blobs/", "/tags/", "/referrers/"} {
		name, _, _ = strings.Cut(name, end)
	}
	actions := "pull"
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		actions = "pull,push"
	}
	return "repository:" + name + ":" + actions
}
