package builder

import (
	"bytes"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/store"
)

// A shelf holds the documents of one directory by name, as they are in the mirror.
type shelf map[string]placed

// A placed document is a document in the mirror.
type placed struct {
	fsmirror.Document
	text []byte
	err  error // why it is invalid; there is then no document
}

// readShelves reads the documents in each HOST/NAMESPACE/TYPE, including hosts in
// punycode. Other programs have files with these names too.
func (b *Builder) readShelves() (map[string]shelf, error) {
	shelves := map[string]shelf{}
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			_, versioned := fsmirror.VersionOf(e.Name())
			_, noHost := sources.ParsePunycodeHost(e.Name())
			switch {
			case depth == 3 && e.Type().IsRegular() && (versioned || e.Name() == fsmirror.Index):
				if shelves[dir] == nil {
					shelves[dir] = shelf{}
				}
				shelves[dir][e.Name()] = b.readDocument(path)
			case depth == 3 || !e.IsDir() || strings.HasPrefix(e.Name(), ".") || depth == 0 && noHost != nil:
			default:
				if err := walk(path, depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return shelves, walk(b.path, 0)
}

func (b *Builder) readDocument(path string) (d placed) {
	if d.text, d.err = b.read(b.relative(path), fsmirror.MaxDocument); d.err == nil {
		d.Document, d.err = fsmirror.ParseDocument(filepath.Base(path), d.text)
	}
	return d
}

// unindex removes a package from the index, before its archive is replaced. The
// caller holds b.mu.
func (b *Builder) unindex(id sources.PackageID) error {
	platform := id.Platform.String()
	return b.edit(id.Release(), func(doc *placed) bool {
		_, named := doc.Archives[platform]
		delete(doc.Archives, platform)
		return named || doc.err != nil
	})
}

// unindexEvidence removes the evidence for a version from the index, before s
// replaces it. The caller holds b.mu.
func (b *Builder) unindexEvidence(of sources.Release, s *sources.Signed) error {
	files, err := evidence.Pack(s)
	if err != nil {
		return err
	}
	next := &evidence.Extension{Evidence: evidence.Locate(of.Provider, of.Version, files)}
	return b.edit(of, func(doc *placed) bool {
		old := doc.Larder
		doc.Larder = nil
		return old != nil && !reflect.DeepEqual(old, next)
	})
}

// edit changes the documents of a version. A document that names no archives any more leaves index.json and is removed.
func (b *Builder) edit(of sources.Release, change func(*placed) bool) error {
	for _, home := range b.homes(of.Provider) {
		path := b.document(home, of.Version)
		doc := b.readDocument(path)
		switch {
		case errors.Is(doc.err, fs.ErrNotExist):
			continue
		case disk.IsUnread(doc.err):
			return doc.err
		case !change(&doc):
			continue
		case len(doc.Archives) > 0:
			if err := b.writeDocument(path, doc.Document); err != nil {
				return err
			}
			continue
		}
		if err := errors.Join(b.change(), b.unindexVersion(home, of.Version.String())); err != nil {
			return err
		}
		if err := b.dir.Remove(b.relative(path)); err != nil {
			return err
		}
	}
	return nil
}

// document returns the path of the document of a version in the directory of a provider.
func (b *Builder) document(home string, v sources.Version) string {
	return filepath.Join(home, v.String()+".json")
}

// extension returns the part of a VERSION.json besides the archives: the file names
// of the evidence. It is nil if there is no readable evidence.
func (b *Builder) extension(p sources.Provider, v sources.Version) (*evidence.Extension, error) {
	files, err := b.evidence.Files(sources.Release{Provider: p, Version: v})
	if err != nil {
		if !disk.IsUnread(err) {
			err = nil // Verify reports broken evidence, and archives are served without it
		}
		return nil, err
	}
	return &evidence.Extension{Evidence: evidence.Locate(p, v, files)}, nil
}

// unindexVersion removes a version from index.json. It deletes an invalid index.json.
func (b *Builder) unindexVersion(home, version string) error {
	path := filepath.Join(home, fsmirror.Index)
	index := b.readDocument(path)
	switch {
	case errors.Is(index.err, fs.ErrNotExist):
		return nil
	case disk.IsUnread(index.err):
		return index.err
	case index.err != nil:
		return b.dir.Remove(b.relative(path))
	}
	delete(index.Versions, version)
	return b.writeDocument(path, index.Document)
}

func (b *Builder) writeDocument(path string, doc fsmirror.Document) error {
	text, err := doc.Text()
	if err != nil {
		return err
	}
	return b.write(path, text)
}

// write replaces the contents of a file by rename, unless data is already its
// contents. The caller holds b.mu.
func (b *Builder) write(path string, data []byte) error {
	if old, err := b.read(b.relative(path), int64(len(data))); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := b.change(); err != nil {
		return err
	}
	dir, name, err := b.within(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	const document = "document" // only one is written at a time
	err = store.WriteFile(b.work.Dir, document, 0o644, bytes.NewReader(data))
	if err == nil {
		err = disk.Rename(b.work.Dir, document, dir, name)
	}
	if err != nil {
		_ = b.work.Remove(document)
	}
	return err
}

// read reads a file of the mirror's own: a record or a document. A link to one, or to
// a directory above it, is a [disk.StrayError].
func (b *Builder) read(name string, limit int64) ([]byte, error) {
	if b.dir == nil {
		return nil, fs.ErrNotExist
	}
	data, _, err := b.dir.ReadFile(name, limit)
	return data, err
}

// resolve returns the path of the file in the mirror that a URL in a document refers
// to.
func (b *Builder) resolve(doc, text string) (path string, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Path == "" || strings.HasPrefix(u.Path, "/") {
		return "", false
	}
	path = filepath.Join(filepath.Dir(doc), filepath.FromSlash(u.Path))
	rel, err := filepath.Rel(b.path, path)
	return path, err == nil && filepath.IsLocal(rel)
}
