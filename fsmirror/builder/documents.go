package builder

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
)

// The documents of the network mirror protocol, with the engines' spacing.
// https://developer.hashicorp.com/terraform/internals/provider-network-mirror-protocol

type indexDocument struct {
	Versions map[string]struct{} `json:"versions"`
}

type versionDocument struct {
	Archives map[string]archiveEntry `json:"archives"`
	Larder   *evidence.Extension     `json:"larder,omitempty"`
}

type archiveEntry struct {
	Hashes []sources.Hash `json:"hashes,omitempty"`
	URL    string         `json:"url"`
}

const maxDocument = 16 << 20 // in bytes

// versionOf returns the version whose document has this name.
func versionOf(name string) (string, bool) {
	text, ok := strings.CutSuffix(name, ".json")
	if !ok {
		return "", false
	}
	v, err := sources.ParseVersion(text)
	return text, err == nil && v.String() == text
}

// isDocument reports whether a file is a document of the index. The error means that
// it could not be read.
func (b *Builder) isDocument(path string) (bool, error) {
	var err error
	if filepath.Base(path) == "index.json" {
		_, err = b.readIndex(path)
	} else {
		_, err = b.readVersion(path)
	}
	if disk.IsUnread(err) {
		return false, err
	}
	return err == nil, nil
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
	doc, err := b.readVersion(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case disk.IsUnread(err):
		return err
	}
	if _, ok := doc.Archives[platform]; err == nil && !ok {
		return nil
	}
	delete(doc.Archives, platform)
	if err == nil && len(doc.Archives) > 0 {
		return b.writeDocument(path, doc)
	}
	if err := errors.Join(b.change(), b.unindexVersion(home, version)); err != nil {
		return err
	}
	return b.dir.Remove(b.relative(path))
}

// unindexEvidence removes the evidence for a version from the index, before s
// replaces it. The caller holds b.mu.
func (b *Builder) unindexEvidence(p sources.Provider, v sources.Version, s *sources.Signed) error {
	files, err := evidence.Pack(s)
	if err != nil {
		return err
	}
	next := &evidence.Extension{Evidence: evidence.Locate(p, v, files)}
	for _, home := range b.homes(p) {
		path := filepath.Join(home, v.String()+".json")
		doc, err := b.readVersion(path)
		if disk.IsUnread(err) {
			return err
		}
		if err != nil || doc.Larder == nil || reflect.DeepEqual(doc.Larder, next) {
			continue // an invalid document names nothing
		}
		doc.Larder = nil
		if err := b.writeDocument(path, doc); err != nil {
			return err
		}
	}
	return nil
}

// extension returns the part of a VERSION.json besides the archives: the file names
// of the evidence. It is nil if there is no readable evidence.
func (b *Builder) extension(p sources.Provider, v sources.Version) (*evidence.Extension, error) {
	files, err := evidence.ReadFiles(b.dir, evidence.Path(p, v))
	if err == nil {
		_, err = files.Signed()
	}
	var found *evidence.Extension
	if err == nil {
		found = &evidence.Extension{Evidence: evidence.Locate(p, v, files)}
	}
	if !disk.IsUnread(err) {
		err = nil // Verify reports broken evidence, and archives are served without it
	}
	return found, err
}

// unindexVersion removes a version from index.json. It deletes an invalid index.json.
func (b *Builder) unindexVersion(home, version string) error {
	path := filepath.Join(home, "index.json")
	index, err := b.readIndex(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case disk.IsUnread(err):
		return err
	case err != nil:
		return b.dir.Remove(b.relative(path))
	}
	delete(index.Versions, version)
	return b.writeDocument(path, index)
}

func (b *Builder) readIndex(path string) (indexDocument, error) {
	var doc indexDocument
	err := b.readJSON(path, &doc)
	if err == nil && doc.Versions == nil {
		err = errors.New("has no versions")
	}
	return doc, err
}

func (b *Builder) readVersion(path string) (versionDocument, error) {
	var doc versionDocument
	err := b.readJSON(path, &doc)
	if err == nil && doc.Archives == nil {
		err = errors.New("has no archives")
	}
	if err != nil {
		return versionDocument{}, err
	}
	return doc, nil
}

func (b *Builder) readJSON(path string, doc any) error {
	data, err := b.read(b.relative(path), maxDocument)
	if err == nil {
		err = json.Unmarshal(data, doc)
	}
	return err
}

// documentText returns JSON as engines write it: sorted keys, two spaces, no newline
// after the last line.
func documentText(doc any) ([]byte, error) {
	text, err := sources.JSON(doc)
	return bytes.TrimSuffix(text, []byte("\n")), err
}

func (b *Builder) writeDocument(path string, doc any) error {
	text, err := documentText(doc)
	if err != nil {
		return err
	}
	return b.write(path, text)
}

// write replaces the contents of a file by rename, unless data is already its
// contents. The caller holds b.mu.
func (b *Builder) write(path string, data []byte) error {
	if b.holds(path, data) {
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
	err = writeFile(b.work.Dir, document, 0o644, bytes.NewReader(data))
	if err == nil {
		err = disk.Rename(b.work.Dir, document, dir, name)
	}
	if err != nil {
		_ = b.work.Remove(document)
	}
	return err
}

// writeFile creates a file and syncs its contents, but not its directory: see
// [Builder.settle].
func writeFile(in *disk.Dir, name string, mode fs.FileMode, from io.Reader) error {
	out, err := in.Create(name, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Sync(), out.Close())
}

// holds reports whether data is the contents of a file.
func (b *Builder) holds(path string, data []byte) bool {
	old, err := b.read(b.relative(path), int64(len(data)))
	return err == nil && bytes.Equal(old, data)
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
