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
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/store"
)

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
	there, err := v.readShelves()
	if err != nil {
		return err
	}
	shelves := map[string]shelf{}
	for home, docs := range there {
		p, packages := homes[folded(home)]
		if v.valid(home, docs, packages) {
			shelves[folded(home)] = docs
			v.checkShelf(home, p, docs)
		}
	}
	if len(shelves) == 0 {
		return nil
	}
	for _, at := range archives {
		if v.broken[at.path] { // larder mirror index leaves it out
			continue
		}
		for _, home := range v.homes(at.id.Provider) {
			name := at.id.Version.String() + ".json"
			if _, ok := shelves[folded(home)][name].Archives[at.id.Platform.String()]; !ok {
				v.found(Unindexed, filepath.Join(home, name), &at.id, "it does not name %s", v.relative(at.path))
			}
		}
	}
	return nil
}

// folded returns the path as a case-insensitive file system compares it.
func folded(path string) string { return strings.ToLower(path) }

// valid reports whether the documents in a directory are an index. An invalid document is a
// finding if the directory has packages; otherwise it may belong to another program.
func (v *verifier) valid(home string, docs shelf, packages bool) (found bool) {
	for name, doc := range docs {
		found = found || doc.err == nil || packages
		if doc.err != nil && packages {
			v.found(BadIndex, filepath.Join(home, name), nil, "it is invalid: %v", doc.err)
		}
	}
	return found
}

// checkShelf compares the documents of a directory with each other and with the files
// that they name. The provider is zero if there are no archives.
func (v *verifier) checkShelf(home string, p sources.Provider, docs shelf) {
	index, listed := filepath.Join(home, fsmirror.Index), docs[fsmirror.Index].Versions
	for _, version := range slices.Sorted(maps.Keys(listed)) {
		if _, ok := docs[version+".json"]; !ok {
			v.found(BadIndex, index, nil, "it lists %s, but there is no %s.json", version, version)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		of, ok := fsmirror.VersionOf(name)
		if !ok {
			continue
		}
		version := of.String()
		doc, path := docs[name], filepath.Join(home, name)
		if _, ok := listed[version]; len(doc.Archives) > 0 && !ok {
			v.found(BadIndex, index, nil, "it does not list %s, but there is a %s.json", version, version)
		}
		v.checkExtension(path, p, version, doc.Document)
		for _, platform := range slices.Sorted(maps.Keys(doc.Archives)) {
			v.checkArchive(path, version, platform, doc.Archives[platform])
		}
	}
}

// checkExtension checks a document's entry for the evidence.
func (v *verifier) checkExtension(path string, p sources.Provider, version string, doc fsmirror.Document) {
	id, err := sources.ParseVersion(version)
	if err != nil || p == (sources.Provider{}) || doc.Archives == nil || v.broken[sources.Release{Provider: p, Version: id}] {
		return // there is another finding
	}
	got := doc.Larder
	want, err := v.extension(p, id)
	switch {
	case err != nil:
		v.found(BadIndex, path, nil, "the evidence for it cannot be read: %v", err)
	case reflect.DeepEqual(got, want):
	case want == nil:
		v.found(BadIndex, path, nil, "it names evidence, but %s contains no readable evidence", evidence.Path(p, id))
	case got == nil:
		v.found(BadIndex, path, nil, "it does not name the evidence in %s", evidence.Path(p, id))
	default:
		v.found(BadIndex, path, nil, "the evidence that it names differs from the evidence in %s", evidence.Path(p, id))
	}
}

// checkArchive checks a document's entry for an archive.
func (v *verifier) checkArchive(doc, version, platform string, entry fsmirror.Archive) {
	path, ok := v.resolve(doc, entry.URL)
	if !ok {
		v.found(BadIndex, doc, nil, "the archive that it names for %s is not in the mirror: %q", platform, entry.URL)
		return
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		var missing *sources.PackageID
		id, err := sources.ParsePackageID(v.relative(filepath.Dir(doc)), version, platform)
		if err == nil && path == v.place(id, false).path {
			missing = &id
			isStray := func(f *store.Finding) bool { return f.Kind == Astray && f.Path == v.relative(path) }
			v.Findings = slices.DeleteFunc(v.Findings, isStray) // the package will replace it
		}
		if _, err := os.Lstat(path); err != nil {
			v.found(store.Missing, doc, missing, "it names %s, which does not exist", v.relative(path))
		} else { // a link may lead nowhere
			v.found(store.Missing, path, missing, "%s names it, and it is not a regular file", v.relative(doc))
		}
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
