package sourcetest

import (
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// Publish makes the registry state when a version, named HOST/NAMESPACE/TYPE/VERSION, was published: for each of the
// two forms of such documents. The zero time states nothing. A registry that states no time of a provider doesn't have
// its document.
func (s *Server) Publish(version string, at time.Time) {
	s.set(func() {
		if s.published == nil {
			s.published = map[string]time.Time{}
		}
		s.published[version] = at
	})
}

// publications returns the publication times of the requested provider by version.
func (s *Server) publications(r *http.Request) map[string]time.Time {
	times := map[string]time.Time{}
	s.set(func() {
		for id, at := range s.published {
			parts := strings.Split(id, "/")
			if !at.IsZero() && answersFor(r.Host, parts[0]) && parts[1] == r.PathValue("ns") && parts[2] == r.PathValue("type") {
				times[parts[3]] = at
			}
		}
	})
	return times
}

// answersFor reports whether a request to a host name is for the providers of a registry. The documents of OpenTofu's
// registry are at another host.
func answersFor(host, registry string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	if registry == sources.OpenTofu.DefaultHost().ASCII() {
		registry = "api.opentofu.org"
	}
	return name == registry || name == "127.0.0.1"
}

func (s *Server) included(w http.ResponseWriter, r *http.Request) {
	var included []any
	for version, at := range s.publications(r) {
		included = append(included, map[string]any{"type": "provider-versions", "attributes": map[string]any{
			"version": version, "published-at": at.UTC().Format(time.RFC3339),
		}})
	}
	if included == nil || r.URL.Query().Get("include") != "provider-versions" {
		http.NotFound(w, r)
		return
	}
	writeJSON(w, map[string]any{"data": map[string]any{"type": "providers"}, "included": included})
}

func (s *Server) listed(w http.ResponseWriter, r *http.Request) {
	var versions []any
	for version, at := range s.publications(r) {
		versions = append(versions, map[string]any{"id": "v" + version, "published": at.UTC().Format(time.RFC3339)})
	}
	if versions == nil {
		http.NotFound(w, r)
		return
	}
	writeJSON(w, map[string]any{"versions": versions})
}
