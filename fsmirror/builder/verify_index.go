package builder

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
)

// A shelf holds the documents of one directory.
type shelf struct {
	home     string
	provider sources.Provider // zero if there are no archives
	named    map[string]bool  // versions in index.json
	versions map[string]versionDocument
}

// index compares the index with the archives. A mirror without documents is a
// filesystem mirror and requires no index.
func (v *verifier) index(packages []fsmirror.Package) error {
	archives := v.packed(packages, nil)
	homes := map[string]sources.Provider{}
	for _, at := range archives {
		for _, home := range v.homes(at.id.Provider) {
			homes[folded(home)] = at.id.Provider
		}
	}
	shelves := map[string]*shelf{}
	err := v.eachHome(func(home string, files []string) {
		p, packages := homes[folded(home)]
		if s := v.readShelf(home, files, packages); s != nil {
			s.provider = p
			shelves[folded(home)] = s
		}
	})
	if err != nil || len(shelves) == 0 {
		return err
	}
	for _, s := range shelves {
		v.checkShelf(s)
	}
	for _, at := range archives {
		for _, home := range v.homes(at.id.Provider) {
			version := at.id.Version.String()
			if s := shelves[folded(home)]; s == nil || !s.names(version, at.id.Platform) {
				v.found(Unindexed, filepath.Join(home, version+".json"), &at.id, "it does not name %s", v.relative(at.path))
			}
		}
	}
	return nil
}

// folded returns the path as a case-insensitive file system compares it.
func folded(path string) string { return strings.ToLower(path) }

func (s *shelf) names(version string, platform sources.Platform) bool {
	_, ok := s.versions[version].Archives[platform.String()]
	return ok
}

// readShelf reads the documents in a directory. It returns nil if there are none. An
// invalid document is a finding if the directory has packages; otherwise it may
// belong to another program.
func (v *verifier) readShelf(home string, files []string, packages bool) *shelf {
	s, found := &shelf{home: home, named: map[string]bool{}, versions: map[string]versionDocument{}}, false
	note := func(path string, err error) {
		if err == nil {
			found = true
		} else if packages {
			found = true
			v.found(BadIndex, path, nil, "it is invalid: %v", err)
		}
	}
	for _, name := range files {
		path := filepath.Join(home, name)
		version, ok := versionOf(name)
		switch {
		case name == "index.json":
			doc, err := v.readIndex(path)
			for version := range doc.Versions {
				s.named[version] = true
			}
			note(path, err)
		case ok:
			doc, err := v.readVersion(path)
			s.versions[version] = doc
			note(path, err)
		}
	}
	if !found {
		return nil
	}
	return s
}

// checkShelf compares the documents of a directory with each other and with the files
// that they name.
func (v *verifier) checkShelf(s *shelf) {
	index := filepath.Join(s.home, "index.json")
	for _, version := range slices.Sorted(maps.Keys(s.named)) {
		if _, ok := s.versions[version]; !ok {
			v.found(BadIndex, index, nil, "it lists %s, but there is no %s.json", version, version)
		}
	}
	for _, version := range slices.Sorted(maps.Keys(s.versions)) {
		doc := s.versions[version]
		if len(doc.Archives) > 0 && !s.named[version] {
			v.found(BadIndex, index, nil, "it does not name %s, for which there is a %s.json", version, version)
		}
		v.checkExtension(s, version)
		for _, platform := range slices.Sorted(maps.Keys(doc.Archives)) {
			v.checkArchive(filepath.Join(s.home, version+".json"), platform, doc.Archives[platform])
		}
	}
}

// checkExtension checks a document's entry for the evidence.
func (v *verifier) checkExtension(s *shelf, version string) {
	id, err := sources.ParseVersion(version)
	if err != nil || s.provider == (sources.Provider{}) || s.versions[version].Archives == nil || v.broken[sources.Release{Provider: s.provider, Version: id}] {
		return // there is another finding
	}
	path, got := filepath.Join(s.home, version+".json"), s.versions[version].Larder
	want, err := v.extension(s.provider, id)
	switch {
	case err != nil:
		v.found(BadIndex, path, nil, "the evidence for it cannot be read: %v", err)
	case reflect.DeepEqual(got, want):
	case want == nil:
		v.found(BadIndex, path, nil, "it names evidence, but %s has none that can be read", v.relative(v.evidence(s.provider, id)))
	case got == nil:
		v.found(BadIndex, path, nil, "it does not name the evidence in %s", v.relative(v.evidence(s.provider, id)))
	default:
		v.found(BadIndex, path, nil, "it names other evidence than that in %s", v.relative(v.evidence(s.provider, id)))
	}
}

// checkArchive checks a document's entry for an archive.
func (v *verifier) checkArchive(doc, platform string, entry archiveEntry) {
	path, ok := v.resolve(doc, entry.URL)
	if !ok {
		v.found(BadIndex, doc, nil, "the archive that it names for %s is not in the mirror: %q", platform, entry.URL)
		return
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		v.found(Missing, doc, nil, "it names %s, which does not exist", v.relative(path))
		return
	}
	fresh, ok := v.fresh[path]
	if !ok { // already a finding, unless the file is not a package
		if !v.broken[path] {
			v.found(BadIndex, doc, nil, "the file that it names for %s is not a package: %s", platform, v.relative(path))
		}
		return
	}
	for _, h := range entry.Hashes {
		if h.Usable() && h != fresh.ZH && h != fresh.H1 && h != fresh.ZipH1 {
			is := fresh.ZH
			if h.Scheme() == sources.H1 {
				is = fresh.H1
			}
			v.found(BadIndex, doc, nil, "it lists %s for %s, but %s is %s", h, platform, v.relative(path), is)
		}
	}
}
