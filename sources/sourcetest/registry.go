package sourcetest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// registryHandler serves the origin registry of all hosts. Its documents:
//
//	/.well-known/terraform.json                        service discovery of the requested host
//	/v1/providers/HOST/NS/TYPE/versions
//	/v1/providers/HOST/NS/TYPE/VERSION/download/OS/ARCH
//	/v2/providers/NS/TYPE                              publication times, as registry.terraform.io has them
//	/registry/docs/providers/NS/TYPE/index.json        the same for registry.opentofu.org
//	/archives/HOST/NS/TYPE/VERSION/FILE                archives, SHA256SUMS, SHA256SUMS.sig
func registryHandler(s *Server) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/terraform.json", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, map[string]any{"providers.v1": "/v1/providers/" + r.Host + "/"})
	})
	mux.HandleFunc("GET /v1/providers/{host}/{ns}/{type}/versions", s.about(versions))
	mux.HandleFunc("GET /v1/providers/{host}/{ns}/{type}/{version}/download/{os}/{arch}", s.about(s.download))
	mux.HandleFunc("GET /v2/providers/{ns}/{type}", s.times)
	mux.HandleFunc("GET /registry/docs/providers/{ns}/{type}/index.json", s.times)
	mux.HandleFunc("GET /archives/{host}/{ns}/{type}/{version}/{file}", s.about(releaseFile))
	return mux
}

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

// about returns a handler that answers with the releases that the server has of the provider, and
// of the version if there is one, in the URL.
func (s *Server) about(answer func(http.ResponseWriter, *http.Request, []*release)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if releases := s.requested(r); len(releases) > 0 {
			answer(w, r, releases)
			return
		}
		http.NotFound(w, r)
	}
}

func versions(w http.ResponseWriter, _ *http.Request, releases []*release) {
	var versions []map[string]any
	var warnings []string
	for _, release := range releases {
		versions = append(versions, map[string]any{
			"version": release.version, "protocols": release.Protocols, "platforms": release.platforms(),
		})
		warnings = append(warnings, release.Warnings...)
	}
	writeJSON(w, map[string]any{"versions": versions, "warnings": warnings})
}

func (r *release) platforms() []map[string]string {
	var platforms []map[string]string
	for _, p := range r.packages {
		os, arch, _ := strings.Cut(p.platform, "_")
		platforms = append(platforms, map[string]string{"os": os, "arch": arch})
	}
	return platforms
}

func (s *Server) download(w http.ResponseWriter, r *http.Request, releases []*release) {
	os, arch := r.PathValue("os"), r.PathValue("arch")
	for _, p := range releases[0].packages {
		if p.platform == os+"_"+arch {
			doc := releases[0].download(p, os, arch)
			s.presign(doc)
			writeJSON(w, doc)
			return
		}
	}
	http.NotFound(w, r)
}

// download returns the registry's description of a package. Its URLs are
// relative, so they lead to the host name that the client has used.
func (r *release) download(p pkg, os, arch string) map[string]any {
	base := "/archives/" + r.dir() + "/"
	keys := []map[string]string{}
	for _, k := range r.Keys {
		keys = append(keys, map[string]string{
			"key_id": k.ID(), "ascii_armor": k.Armor(), "trust_signature": "",
			"source": "Test", "source_url": "",
		})
	}
	doc := map[string]any{
		"protocols": r.Protocols, "os": os, "arch": arch, "filename": p.filename,
		"download_url": base + p.filename, "shasum": fmt.Sprintf("%x", p.sha256),
		"shasums_url": base + r.sumsName(), "shasums_signature_url": base + r.sumsName() + ".sig",
		"signing_keys": map[string]any{"gpg_public_keys": keys},
	}
	if r.Packages {
		doc["packages"] = r.stated()
	}
	if r.EditDownload != nil {
		r.EditDownload(doc)
	}
	return doc
}

// stated returns the hashes and sizes of the packages for all platforms.
func (r *release) stated() map[string]any {
	all := map[string]any{}
	for _, p := range r.packages {
		hashes := slices.DeleteFunc([]string{p.zh(), p.h1}, func(hash string) bool { return hash == "" })
		all[p.platform] = map[string]any{"hashes": hashes, "package_size": p.size}
	}
	return all
}

func (r *release) sumsName() string {
	return "terraform-provider-" + r.providerType() + "_" + r.version + "_SHA256SUMS"
}

func (r *release) sums() []byte {
	var b []byte
	for _, p := range r.packages {
		b = fmt.Appendf(b, "%x  %s\n", p.sha256, p.filename)
	}
	if r.EditSums != nil {
		b = r.EditSums(b)
	}
	return b
}

func (r *release) signature() []byte {
	sig := r.Signer.Sign(r.sums())
	if r.EditSignature != nil {
		sig = r.EditSignature(sig)
	}
	return sig
}

// signed returns the evidence for r, as served by the registry.
func (r *release) signed() *sources.Signed {
	signed := &sources.Signed{
		Sums:      r.sums(),
		Signature: r.signature(),
		Origin:    "https://" + path.Dir(path.Dir(r.provider)) + "/archives/" + r.dir() + "/" + r.sumsName(),
	}
	for _, k := range r.Keys {
		signed.Keys = append(signed.Keys, sources.Key{Armor: k.Armor()})
	}
	return signed
}

func releaseFile(w http.ResponseWriter, r *http.Request, releases []*release) {
	release, file := releases[0], r.PathValue("file")
	switch file {
	case release.sumsName():
		w.Write(release.sums())
	case release.sumsName() + ".sig":
		w.Write(release.signature())
	default:
		release.archive(w, r, file)
	}
}

// archive serves an archive of a release, with support for ranges.
func (r *release) archive(w http.ResponseWriter, req *http.Request, filename string) {
	i := slices.IndexFunc(r.packages, func(p pkg) bool { return p.filename == filename })
	if i < 0 {
		http.NotFound(w, req)
		return
	}
	p := r.packages[i]
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, p.sha256[:8]))
	w.Header().Set("Content-Type", "application/zip")
	http.ServeFile(w, req, p.file)
}

// requested returns the releases for [Server.about].
func (s *Server) requested(r *http.Request) []*release {
	host, err := sources.ParsePunycodeHost(r.PathValue("host"))
	if err != nil {
		return nil
	}
	dir := string(host) + "/" + r.PathValue("ns") + "/" + r.PathValue("type") + "/"
	if version := r.PathValue("version"); version != "" {
		dir += version + "/"
	}
	return s.world.pick(func(id string) bool { return strings.HasPrefix(id, dir) && s.shows(id) })
}

func writeJSON(w http.ResponseWriter, doc any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(doc)
}
