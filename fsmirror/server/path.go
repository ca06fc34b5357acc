package server

import (
	"cmp"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
)

// A kind is what a path names.
type kind string

// The kinds. They are labels in metrics.
const (
	page      kind = "page"
	health    kind = "health"
	metrics   kind = "metrics"
	index     kind = "index"    // the versions of a provider
	release   kind = "version"  // the archives of a version
	archive   kind = "archive"  // of a package
	proof     kind = "evidence" // a file of a version's evidence
	discovery kind = "discovery"
	versions  kind = "registry versions"
	download  kind = "registry download"
	sums      kind = "registry checksums"
	unknown   kind = "unknown"
)

// A target is what a request is about, with the fields that its kind has.
type target struct {
	kind
	id   sources.PackageID
	file string // of evidence, or a health check
}

const (
	mostPath   = 1024 // of bytes in a path; the longest real ones have a quarter of that
	registryAt = "/v1/providers/"
	evidenceAt = ".larder/evidence/"
)

// parsePath returns what a URL names. Everything that is not written as engines write it is unknown, so a path
// that names a file has exactly one spelling, and none names a file outside of the layout.
func parsePath(u *url.URL) target {
	text := u.Path
	switch text {
	case "/", "/index.html", "": // a URL without a path means the same (RFC 9110, 4.2.3)
		return target{kind: page}
	case "/healthz", "/readyz":
		return target{kind: health, file: text}
	case "/metrics":
		return target{kind: metrics}
	case "/.well-known/terraform.json":
		return target{kind: discovery}
	}
	escapedSlashes := strings.Count(u.EscapedPath(), "/") != strings.Count(text, "/")
	if len(text) > mostPath || escapedSlashes || path.Clean(text) != text || !strings.HasPrefix(text, "/") {
		return target{kind: unknown}
	}
	if rest, ok := strings.CutPrefix(text, registryAt); ok {
		return parseRegistry(strings.Split(rest, "/"))
	}
	text = text[1:]
	rest, isProof := strings.CutPrefix(text, evidenceAt)
	parts := strings.Split(rest, "/")
	if len(parts) < 4 {
		return target{kind: unknown}
	}
	p, ok := parseProvider(parts[0], parts[1], parts[2])
	if !ok {
		return target{kind: unknown}
	}
	t := target{kind: unknown, id: sources.PackageID{Provider: p}}
	switch name := parts[3]; {
	case isProof && len(parts) == 5:
		if v, ok := parseVersion(name); ok && isEvidence(parts[4]) {
			t.kind, t.id.Version, t.file = proof, v, parts[4]
		}
	case isProof || len(parts) != 4:
	case name == fsmirror.Index:
		t.kind = index
	case strings.HasSuffix(name, ".json"):
		if v, ok := parseVersion(strings.TrimSuffix(name, ".json")); ok {
			t.kind, t.id.Version = release, v
		}
	default:
		if id, ok := parseArchive(name, p); ok {
			t.kind, t.id = archive, id
		}
	}
	return t
}

// parseRegistry returns what the rest of a path means by the provider registry protocol. The host of its provider is
// that of the request.
func parseRegistry(parts []string) target {
	if len(parts) < 3 {
		return target{kind: unknown}
	}
	p, ok := parseProvider("", parts[0], parts[1])
	t := target{kind: unknown, id: sources.PackageID{Provider: p}}
	switch {
	case !ok:
	case len(parts) == 3 && parts[2] == "versions":
		t.kind = versions
	case len(parts) == 6 && parts[3] == "download":
		v, okVersion := parseVersion(parts[2])
		platform, err := sources.ParsePlatform(parts[4] + "_" + parts[5])
		if okVersion && err == nil {
			t.kind, t.id.Version, t.id.Platform = download, v, platform
		}
	case len(parts) == 4 && isEvidence(parts[3]):
		if v, ok := parseVersion(parts[2]); ok {
			t.kind, t.id.Version, t.file = sums, v, parts[3]
		}
	}
	return t
}

// parseProvider parses the parts of an address. The host may be in punycode, and may be missing.
func parseProvider(host, namespace, typ string) (sources.Provider, bool) {
	h, err := sources.ParsePunycodeHost(cmp.Or(host, "example.com"))
	if err != nil || host != "" && host != string(h) && host != h.ASCII() {
		return sources.Provider{}, false
	}
	p, err := sources.ParseStoredProvider(string(h) + "/" + namespace + "/" + typ)
	if err != nil || p.Namespace != namespace || p.Type != typ {
		return sources.Provider{}, false
	}
	if host == "" {
		p.Host = ""
	}
	return p, true
}

// parseVersion parses a version in canonical form.
func parseVersion(text string) (sources.Version, bool) {
	v, err := sources.ParseVersion(text)
	return v, err == nil && v.String() == text
}

// parseArchive parses the name of an archive of a provider.
func parseArchive(name string, p sources.Provider) (sources.PackageID, bool) {
	rest, ok := strings.CutPrefix(name, sources.FilePrefix+p.Type+"_")
	if !ok {
		return sources.PackageID{}, false
	}
	text, _, _ := strings.Cut(rest, "_")
	v, ok := parseVersion(text)
	if !ok {
		return sources.PackageID{}, false
	}
	return sources.ParseFilename(name, p, v)
}

func isEvidence(name string) bool { return slices.Contains(evidence.Names[:], name) }
