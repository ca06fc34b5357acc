package builder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
)

// The documents of the network mirror protocol, with the engines' spacing.
// https://developer.hashicorp.com/terraform/internals/provider-network-mirror-protocol

type indexDocument struct {
	Versions map[string]struct{} `json:"versions"`
}

type versionDocument struct {
	Archives map[string]archiveEntry `json:"archives"`
}

type archiveEntry struct {
	Hashes []sources.Hash `json:"hashes"`
	URL    string         `json:"url"`
}

const maxDocument = 16 << 20 // bytes

// documents are those of one provider, by version.
type documents map[string]versionDocument

// Finish makes the index say what is there, and returns when everything is on
// the medium. An archive that cannot be read is left out, and told to Warn.
func (b *Builder) Finish(ctx context.Context) error {
	wanted, err := b.survey(ctx)
	if err != nil {
		return err
	}
	if err := b.writeAll(wanted); err != nil {
		return refusal(err)
	}
	return b.settle(ctx)
}

// writeAll writes records and the index.
func (b *Builder) writeAll(wanted map[sources.Provider]documents) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.keepLedgers(); err != nil {
		return err
	}
	for _, p := range slices.SortedFunc(maps.Keys(wanted), sources.Provider.Compare) {
		if err := b.index(p, wanted[p]); err != nil {
			return fmt.Errorf("%s: writing the index: %w", p, err)
		}
	}
	return nil
}

// survey is what the index shall say.
func (b *Builder) survey(ctx context.Context) (map[sources.Provider]documents, error) {
	packages, err := fsmirror.New(b.dir, fsmirror.Options{}).Packages(ctx)
	if err != nil {
		return nil, err
	}
	wanted := map[sources.Provider]documents{}
	for _, pkg := range packages {
		at := pkg.Location.Archive
		if at == "" || filepath.Base(at) != Filename(pkg.ID) {
			continue
		}
		r, err := b.look(ctx, pkg.ID, false)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			b.warn(fmt.Errorf("left out of the index: %w", err))
			continue
		}
		p, v := pkg.ID.Provider, pkg.ID.Version.String()
		if wanted[p] == nil {
			wanted[p] = documents{}
		}
		if wanted[p][v].Archives == nil {
			wanted[p][v] = versionDocument{map[string]archiveEntry{}}
		}
		wanted[p][v].Archives[pkg.ID.Platform.String()] = entryOf(filepath.Base(at), r)
	}
	return wanted, nil
}

func entryOf(name string, r record) archiveEntry {
	hashes := []sources.Hash{r.H1, r.ZH}
	if r.ZipH1 != "" && r.ZipH1 != r.H1 {
		hashes = append(hashes, r.ZipH1) // what engines compute that hash the archive as it is
	}
	slices.Sort(hashes)
	return archiveEntry{hashes, name}
}

// index writes the documents of a provider, as far as they are not so already.
func (b *Builder) index(p sources.Provider, wanted documents) error {
	home := b.home(p)
	index := indexDocument{map[string]struct{}{}}
	for _, v := range slices.Sorted(maps.Keys(wanted)) {
		index.Versions[v] = struct{}{}
		if err := b.writeDocument(filepath.Join(home, v+".json"), wanted[v]); err != nil {
			return err
		}
	}
	if err := b.writeDocument(filepath.Join(home, "index.json"), index); err != nil {
		return err
	}
	return b.removeStale(home, wanted)
}

// removeStale removes documents of versions that are not there.
func (b *Builder) removeStale(home string, wanted documents) error {
	entries, err := os.ReadDir(home)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		v, isJSON := trimJSON(name)
		if _, ok := wanted[v]; ok || !isJSON || name == "index.json" || !isVersion(v) {
			continue
		}
		if err := errors.Join(b.change(), os.Remove(filepath.Join(home, name))); err != nil {
			return err
		}
	}
	return nil
}

func trimJSON(name string) (string, bool) {
	ext := filepath.Ext(name)
	return name[:len(name)-len(ext)], ext == ".json"
}

func isVersion(s string) bool {
	v, err := sources.ParseVersion(s)
	return err == nil && v.String() == s
}

// unindex takes a package out of the index, before something happens to its
// archive.
func (b *Builder) unindex(id sources.PackageID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	path := filepath.Join(b.home(id.Provider), id.Version.String()+".json")
	doc, err := readDocument(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, ok := doc.Archives[id.Platform.String()]; err == nil && !ok {
		return nil
	}
	delete(doc.Archives, id.Platform.String())
	if err == nil && len(doc.Archives) > 0 {
		return b.writeDocument(path, doc)
	}
	if err := errors.Join(b.change(), b.unindexVersion(id)); err != nil {
		return err
	}
	return os.Remove(path)
}

// unindexVersion takes a version out of the index.
func (b *Builder) unindexVersion(id sources.PackageID) error {
	path := filepath.Join(b.home(id.Provider), "index.json")
	data, err := readLimited(path, maxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var index indexDocument
	if err == nil {
		err = json.Unmarshal(data, &index)
	}
	if err != nil {
		return os.Remove(path) // it makes no sense as it is
	}
	delete(index.Versions, id.Version.String())
	return b.writeDocument(path, index)
}

func readDocument(path string) (versionDocument, error) {
	var doc versionDocument
	data, err := readLimited(path, maxDocument)
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	return doc, err
}

// writeDocument writes JSON as engines write it: keys in order, two spaces, no
// line end after the last line.
func (b *Builder) writeDocument(path string, doc any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(doc); err != nil {
		return err
	}
	return b.write(path, bytes.TrimSuffix(text.Bytes(), []byte("\n")))
}

// write makes data the contents of a file, by rename, unless they are already.
func (b *Builder) write(path string, data []byte) error {
	if old, err := readLimited(path, int64(len(data))); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := errors.Join(b.change(), os.MkdirAll(filepath.Dir(path), 0o755)); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(b.state("tmp"), "json-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // nothing is left of it once renamed
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Chmod(0o644), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
