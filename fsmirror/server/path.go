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
	set       kind = "set"      // a file of the signed set
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
	file string // of evidence, of the set with its path, or a health check
}

const (
	mostPath   = 1024 // of bytes in a path; the longest real ones have a quarter of that
	registryAt = "/v1/providers/"
	evidenceAt = "/.larder/evidence/"
	setAt      = "/" + evidence.SetPath
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
	ok := false
	switch parts := strings.Split(text[1:], "/"); {
	case strings.HasPrefix(text, registryAt):
		t, ok = parseRegistry(parts[2:])
	case strings.HasPrefix(text, setAt) && slices.Contains(evidence.SetFiles[:], text[len(setAt):]):
		t, ok = target{kind: set, file: text[1:]}, true
	case strings.HasPrefix(text, evidenceAt) && len(parts) == 7: // HOST/NAMESPACE/TYPE/VERSION/FILE
		t = target{kind: proof, file: parts[6]}
		ok = t.provider(parts[2:]) && t.version(parts[5]) && slices.Contains(evidence.Names[:], t.file)
	case len(parts) == 4: // HOST/NAMESPACE/TYPE/NAME by the network mirror protocol
		ok = t.provider(parts) && t.parseName(parts[3])
	}
	if !ok {
		return target{kind: unknown}
	}
	return t
}

// parseName parses the name of a file beside the documents of the target's provider.
func (t *target) parseName(name string) (ok bool) {
	if name == fsmirror.Index {
		t.kind = index
		return true
	}
	if v, isDocument := strings.CutSuffix(name, ".json"); isDocument {
		t.kind = release
		return t.version(v)
	}
	rest, _ := strings.CutPrefix(name, sources.FilePrefix+t.id.Provider.Type+"_")
	text, _, _ := strings.Cut(rest, "_")
	if t.kind = archive; t.version(text) {
		t.id, ok = sources.ParseFilename(name, t.id.Provider, t.id.Version)
	}
	return ok
}

// parseRegistry returns what NAMESPACE/TYPE/... means by the provider registry protocol. The host of its provider is
// that of the request.
func parseRegistry(parts []string) (t target, ok bool) {
	if len(parts) < 3 || !t.provider([]string{"example.com", parts[0], parts[1]}) {
		return t, false
	}
	t.id.Provider.Host = ""
	switch n := len(parts); {
	case n == 3:
		t.kind = versions
		return t, parts[2] == "versions"
	case !t.version(parts[2]):
		return t, false
	case n == 6 && parts[3] == "download":
		var err error
		t.kind = download
		t.id.Platform, err = sources.ParsePlatform(parts[4] + "_" + parts[5])
		return t, err == nil
	case n == 4:
		t.kind, t.file = sums, parts[3]
		return t, t.file == evidence.Sums || t.file == evidence.Signature
	}
	return t, false
}

// version parses the version of a target, and reports whether it is written as in the names of documents.
func (t *target) version(text string) (ok bool) {
	t.id.Version, ok = fsmirror.VersionOf(text + ".json")
	return ok
}

// provider parses the provider of a target, whose parts are the first ones. The host may be in punycode.
func (t *target) provider(parts []string) bool {
	host, namespace, typ := parts[0], parts[1], parts[2]
	h, err := sources.ParsePunycodeHost(host)
	if err != nil || host != string(h) && host != h.ASCII() {
		return false
	}
	p, err := sources.ParseStoredProvider(string(h) + "/" + namespace + "/" + typ)
	t.id.Provider = p
	return err == nil && p.Namespace == namespace && p.Type == typ
}
