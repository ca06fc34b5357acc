package builder

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/store"
)

// versionOf returns the version whose document has this name.
func versionOf(name string) (string, bool) {
	text, ok := strings.CutSuffix(name, ".json")
	if !ok {
		return "", false
	}
	v, err := sources.ParseVersion(text)
	return text, err == nil && v.String() == text
}

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
	err := b.eachHome(func(home string, names []string) {
		for _, name := range names {
			if _, ok := versionOf(name); !ok && name != fsmirror.Index {
				continue
			}
			if shelves[home] == nil {
				shelves[home] = shelf{}
			}
			shelves[home][name] = b.readDocument(filepath.Join(home, name))
		}
	})
	return shelves, err
}

func (b *Builder) readDocument(path string) (d placed) {
	d.text, d.err = b.read(b.relative(path), fsmirror.MaxDocument)
	if d.err == nil {
		d.err = json.Unmarshal(d.text, &d.Document)
	}
	switch isIndex := filepath.Base(path) == fsmirror.Index; {
	case d.err != nil:
	case isIndex && d.Versions == nil:
		d.err = errors.New("has no versions")
	case !isIndex && d.Archives == nil:
		d.err = errors.New("has no archives")
	}
	if d.err != nil {
		d.Document = fsmirror.Document{}
	}
	return d
}

// unindex removes a package from the index, before its archive is replaced. The
// caller holds b.mu.
func (b *Builder) unindex(id sources.PackageID) error {
	for _, home := range b.homes(id.Provider) {
		if err := b.unindexIn(home, id.Version.String(), id.Platform.String()); err != nil {
			return err
		}
	}
	return nil
}

func (b *Builder) unindexIn(home, version, platform string) error {
	path := filepath.Join(home, version+".json")
	doc := b.readDocument(path)
	switch _, ok := doc.Archives[platform]; {
	case errors.Is(doc.err, fs.ErrNotExist), doc.err == nil && !ok:
		return nil
	case disk.IsUnread(doc.err):
		return doc.err
	}
	delete(doc.Archives, platform)
	if len(doc.Archives) > 0 {
		return b.writeDocument(path, doc.Document)
	}
	if err := errors.Join(b.change(), b.unindexVersion(home, version)); err != nil {
		return err
	}
	return b.dir.Remove(b.relative(path))
}

// unindexEvidence removes the evidence for a version from the index, before s
// replaces it. The caller holds b.mu.
func (b *Builder) unindexEvidence(of sources.Release, s *sources.Signed) error {
	files, err := evidence.Pack(s)
	if err != nil {
		return err
	}
	next := &evidence.Extension{Evidence: evidence.Locate(of.Provider, of.Version, files)}
	for _, home := range b.homes(of.Provider) {
		path := filepath.Join(home, of.Version.String()+".json")
		doc := b.readDocument(path)
		if disk.IsUnread(doc.err) {
			return doc.err
		}
		if doc.Larder == nil || reflect.DeepEqual(doc.Larder, next) {
			continue
		}
		doc.Larder = nil
		if err := b.writeDocument(path, doc.Document); err != nil {
			return err
		}
	}
	return nil
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

// documentText returns JSON as engines write it: sorted keys, two spaces, no newline
// after the last line.
func documentText(doc fsmirror.Document) ([]byte, error) {
	text, err := sources.JSON(doc)
	return bytes.TrimSuffix(text, []byte("\n")), err
}

func (b *Builder) writeDocument(path string, doc fsmirror.Document) error {
	text, err := documentText(doc)
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
