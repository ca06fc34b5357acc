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
	s.set(func() { s.published[version] = at })
}

// times answers with the publication times of a provider: in the form of OpenTofu's documentation, which is at another
// host, or in that of registry.terraform.io, for requests with a list of versions.
func (s *Server) times(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	var docs, included []any
	s.set(func() {
		for id, at := range s.published {
			parts, time := strings.Split(id, "/"), at.UTC().Format(time.RFC3339)
			if parts[0] == sources.OpenTofu.DefaultHost().ASCII() {
				parts[0] = "api.opentofu.org"
			}
			same := parts[1] == r.PathValue("ns") && parts[2] == r.PathValue("type")
			if at.IsZero() || host != parts[0] && host != "127.0.0.1" || !same {
				continue
			}
			docs = append(docs, map[string]any{"id": "v" + parts[3], "published": time})
			included = append(included, map[string]any{
				"type": "provider-versions", "attributes": map[string]any{"version": parts[3], "published-at": time},
			})
		}
	})
	switch {
	case docs == nil:
		http.NotFound(w, r)
	case strings.HasSuffix(r.URL.Path, "/index.json"):
		writeJSON(w, map[string]any{"versions": docs})
	case r.URL.Query().Get("include") == "provider-versions":
		writeJSON(w, map[string]any{"data": map[string]any{"type": "providers"}, "included": included})
	default:
		http.NotFound(w, r)
	}
}
