package server

import (
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
	evidenceAt = "/.larder/evidence/"
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
	if len(text) > mostPath || escapedSlashes || path.Clean(text) != text || text[0] != '/' {
		return target{kind: unknown}
	}
	var t target
	var ok bool
	if rest, found := strings.CutPrefix(text, registryAt); found {
		t, ok = parseRegistry(strings.Split(rest, "/"))
	} else if rest, found := strings.CutPrefix(text, evidenceAt); found {
		t, ok = parseEvidence(strings.Split(rest, "/"))
	} else {
		t, ok = parseMirror(strings.Split(strings.TrimPrefix(text, "/"), "/"))
	}
	if !ok {
		return target{kind: unknown}
	}
	return t
}

// parseMirror returns what HOST/NAMESPACE/TYPE/NAME means by the network mirror protocol.
func parseMirror(parts []string) (t target, ok bool) {
	if len(parts) != 4 {
		return t, false
	}
	name := parts[3]
	if t.id.Provider, ok = parseProvider(parts[0], parts[1], parts[2]); !ok {
		return t, false
	}
	if name == fsmirror.Index {
		t.kind = index
		return t, true
	}
	if t.id.Version, ok = fsmirror.VersionOf(name); ok {
		t.kind = release
		return t, true
	}
	rest, _ := strings.CutPrefix(name, sources.FilePrefix+t.id.Provider.Type+"_")
	text, _, _ := strings.Cut(rest, "_")
	if t.id.Version, ok = fsmirror.VersionOf(text + ".json"); ok {
		t.kind = archive
		t.id, ok = sources.ParseFilename(name, t.id.Provider, t.id.Version)
	}
	return t, ok
}

// parseEvidence returns what HOST/NAMESPACE/TYPE/VERSION/FILE means.
func parseEvidence(parts []string) (t target, ok bool) {
	if len(parts) != 5 || !slices.Contains(evidence.Names[:], parts[4]) {
		return t, false
	}
	t.kind, t.file = proof, parts[4]
	if t.id.Provider, ok = parseProvider(parts[0], parts[1], parts[2]); ok {
		t.id.Version, ok = fsmirror.VersionOf(parts[3] + ".json")
	}
	return t, ok
}

// parseRegistry returns what NAMESPACE/TYPE/... means by the provider registry protocol. The host of its provider is
// that of the request.
func parseRegistry(parts []string) (t target, ok bool) {
	if len(parts) < 3 {
		return t, false
	}
	if t.id.Provider, ok = parseProvider("example.com", parts[0], parts[1]); !ok {
		return t, false
	}
	t.id.Provider.Host = ""
	if len(parts) == 3 {
		t.kind = versions
		return t, parts[2] == "versions"
	}
	if t.id.Version, ok = fsmirror.VersionOf(parts[2] + ".json"); !ok {
		return t, false
	}
	switch {
	case len(parts) == 6 && parts[3] == "download":
		var err error
		t.kind = download
		t.id.Platform, err = sources.ParsePlatform(parts[4] + "_" + parts[5])
		return t, err == nil
	case len(parts) == 4 && (parts[3] == evidence.Sums || parts[3] == evidence.Signature):
		t.kind, t.file = sums, parts[3]
		return t, true
	}
	return t, false
}

// parseProvider parses the parts of an address. The host may be in punycode.
func parseProvider(host, namespace, typ string) (sources.Provider, bool) {
	h, err := sources.ParsePunycodeHost(host)
	if err != nil || host != string(h) && host != h.ASCII() {
		return sources.Provider{}, false
	}
	p, err := sources.ParseStoredProvider(string(h) + "/" + namespace + "/" + typ)
	return p, err == nil && p.Namespace == namespace && p.Type == typ
}
