package sourcetest

import (
	"archive/zip"
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
)

// mirrorHandler serves a network mirror below /providers/:
//
//	/providers/HOST/NS/TYPE/index.json
//	/providers/HOST/NS/TYPE/VERSION.json
//	/providers/HOST/NS/TYPE/terraform-provider-TYPE_VERSION_OS_ARCH.zip
func mirrorHandler(s *Server) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /providers/{host}/{ns}/{type}/{file}", s.about(mirrorFile))
	return mux
}

func mirrorFile(w http.ResponseWriter, r *http.Request, releases []*release) {
	w.Header().Set("Content-Type", "application/json")
	file := r.PathValue("file")
	if file == "index.json" {
		versions := map[string]struct{}{}
		for _, release := range releases {
			versions[release.version] = struct{}{}
		}
		w.Write(indented(map[string]any{"versions": versions}))
		return
	}
	for _, release := range releases {
		if file == release.version+".json" {
			w.Write(release.versionJSON())
			return
		}
		if slices.ContainsFunc(release.packages, func(p pkg) bool { return p.filename == file }) {
			release.archive(w, r, file)
			return
		}
	}
	http.NotFound(w, r)
}

func (r *release) versionJSON() []byte {
	archives := map[string]any{}
	for _, p := range r.packages {
		archives[p.platform] = map[string]any{"hashes": []string{p.h1, p.zh()}, "url": p.filename}
	}
	return indented(map[string]any{"archives": archives})
}

// indented returns doc as terraform providers mirror would write it.
func indented(doc any) []byte {
	return bytes.TrimSuffix(must(sources.JSON(doc)), []byte("\n"))
}

// WritePacked writes a packed filesystem mirror to dir, with the packages whose
// HOST/NAMESPACE/TYPE/VERSION/OS_ARCH matches one of only, or with all
// packages.
func (w *World) WritePacked(dir string, only ...string) {
	w.t.Helper()
	for _, r := range w.matching(only) {
		for _, p := range r.packages {
			at := filepath.Join(dir, filepath.FromSlash(r.provider), p.filename)
			Check(w.t, os.MkdirAll(filepath.Dir(at), 0o755))
			Check(w.t, os.WriteFile(at, ReadFile(w.t, p.file), 0o644))
		}
	}
}

// WriteUnpacked is like WritePacked, for an unpacked filesystem mirror.
func (w *World) WriteUnpacked(dir string, only ...string) {
	w.t.Helper()
	for _, r := range w.matching(only) {
		for _, p := range r.packages {
			archive, err := zip.OpenReader(p.file)
			Check(w.t, err)
			Check(w.t, os.CopyFS(filepath.Join(dir, filepath.FromSlash(r.dir()), p.platform), archive))
			Check(w.t, archive.Close())
		}
	}
}

// WriteEvidence writes the evidence for packages to dir, as Larder stores it.
func (w *World) WriteEvidence(dir string, only ...string) {
	w.t.Helper()
	for _, r := range w.matching(only) {
		provider, err := sources.ParseProvider(r.provider, sources.Terraform)
		Check(w.t, err)
		version, err := sources.ParseVersion(r.version)
		Check(w.t, err)
		Check(w.t, evidence.WriteTo(filepath.Join(dir, filepath.FromSlash(evidence.Path(provider, version))), r.signed()))
	}
}

func (w *World) matching(only []string) []*release {
	return w.pick(func(id string) bool { return len(only) == 0 || globAny(only, id) })
}
