package server

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"sync"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
)

// A mirror is the directory that is served: the packages in its index whose archives exist. It reads documents again
// when their files have changed. Links in the directory are not followed.
type mirror struct {
	warn func(error) // may be nil

	mu   sync.Mutex
	open *disk.Dir
	read map[string]document // by path; those that are damaged, too
}

// A document is an index.json or a VERSION.json, as it was when its file had this state.
type document struct {
	state    string
	versions []sources.Version            // of an index.json
	archives map[sources.Platform]offered // of a VERSION.json
	evidence *evidence.Location           // of a VERSION.json; may be nil
	damaged  *DamagedError                // nil if it is not
}

// An offered archive is one that VERSION.json names.
type offered struct {
	hashes []sources.Hash
	path   string // in the mirror, with forward slashes; empty if only upstream has it
}

// mostRead is how many documents are in memory.
const mostRead = 20_000

// dir returns the directory: another one if it has taken the place of the first, such as a restored backup. The one before
// that may be in use, and is closed when nothing refers to it.
func (m *mirror) dir() *disk.Dir {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open.Moved() {
		if d, err := disk.Open(m.open.Path("")); err == nil {
			m.open, m.read = d, nil
		}
	}
	return m.open
}

// versions returns the versions of a provider that the index lists and that have an archive here, sorted.
func (m *mirror) versions(p sources.Provider) ([]sources.Version, error) {
	d, err := m.document(p, fsmirror.Index)
	if err != nil {
		return nil, err
	}
	var all []sources.Version
	damaged := (*DamagedError)(nil)
	for _, v := range d.versions {
		here, err := m.release(sources.Release{Provider: p, Version: v})
		switch {
		case err == nil && len(here.archives) > 0:
			all = append(all, v)
		case errors.As(err, &damaged): // the other versions are served
		case err != nil && !errors.Is(err, sources.ErrNotFound):
			return nil, err
		}
	}
	slices.SortFunc(all, sources.Version.Compare)
	if len(all) == 0 && damaged != nil {
		return nil, damaged
	}
	return all, nil
}

// add adds what upstream has to the document of a version.
func (d *document) add(theirs Offer) {
	archives := map[sources.Platform]offered{}
	for platform, hashes := range theirs.Archives {
		archives[platform] = offered{hashes: hashes}
	}
	maps.Copy(archives, d.archives)
	d.archives = archives
	if d.evidence == nil {
		d.evidence = theirs.Evidence
	}
}

// release returns the document of a version with the archives that exist. The error matches [sources.ErrNotFound] if
// there is none.
func (m *mirror) release(r sources.Release) (document, error) {
	d, err := m.document(r.Provider, r.Version.String()+".json")
	if err != nil {
		return d, err
	}
	d.archives = maps.Clone(d.archives)
	maps.DeleteFunc(d.archives, func(_ sources.Platform, a offered) bool {
		info, err := m.dir().Lstat(a.path)
		return err != nil || !info.Mode().IsRegular()
	})
	return d, nil
}

// openArchive opens the archive of a package, and returns the hashes that its document states.
func (m *mirror) openArchive(id sources.PackageID) (f *os.File, info fs.FileInfo, stated []sources.Hash, err error) {
	d, err := m.document(id.Provider, id.Version.String()+".json")
	if err != nil {
		return nil, nil, nil, err
	}
	a, ok := d.archives[id.Platform]
	if !ok {
		return nil, nil, nil, sources.ErrNotFound
	}
	f, info, err = m.openFile(a.path)
	return f, info, a.hashes, err
}

// openFile opens a regular file. The error matches [sources.ErrNotFound] if there is none, or if it is reached through
// a link.
func (m *mirror) openFile(name string) (*os.File, fs.FileInfo, error) {
	f, info, err := m.dir().OpenFile(name)
	return f, info, absent(err)
}

// absent turns the error of a missing file, or of anything in its place that is not served, into [sources.ErrNotFound].
func absent(err error) error {
	if stray := (*disk.StrayError)(nil); errors.Is(err, fs.ErrNotExist) || errors.As(err, &stray) || errors.Is(err, disk.ErrNotRegular) {
		return sources.ErrNotFound
	}
	return err
}

// document returns a document of a provider. The error matches [sources.ErrNotFound] if there is none.
func (m *mirror) document(p sources.Provider, name string) (document, error) {
	at := p.String() + "/" + name
	info, err := m.dir().Lstat(at)
	if err != nil {
		return document{}, absent(err)
	}
	state := disk.Print(m.dir().Path(at), info)
	m.mu.Lock()
	d, ok := m.read[at]
	m.mu.Unlock()
	if ok && d.state == state {
		return d, d.err()
	}
	text, info, err := m.dir().ReadFile(at, fsmirror.MaxDocument)
	if err != nil {
		return document{}, absent(err)
	}
	d, err = parseDocument(p, text)
	if err != nil {
		d = document{damaged: &DamagedError{Path: m.dir().Path(at), Err: err}}
		if m.warn != nil {
			m.warn(sources.WithHint(d.damaged, "larder mirror index writes the documents again"))
		}
	}
	d.state = disk.Print(m.dir().Path(at), info)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read == nil || len(m.read) >= mostRead {
		m.read = map[string]document{}
	}
	m.read[at] = d
	return d, d.err()
}

// err returns why a document can't be used.
func (d document) err() error {
	if d.damaged == nil {
		return nil
	}
	return d.damaged
}

// A DamagedError is a document in the mirror that can't be read as one, or an archive that is not what was stored.
type DamagedError struct {
	Path string
	Err  error
}

func (e *DamagedError) Error() string { return e.Path + ": " + e.Err.Error() }
func (e *DamagedError) Unwrap() error { return e.Err }

// parseDocument parses a document of a provider. It leaves out names that engines would not use, and archives outside
// of the provider's directory.
func parseDocument(p sources.Provider, text []byte) (document, error) {
	var file fsmirror.Document
	if err := json.Unmarshal(text, &file); err != nil {
		return document{}, err
	}
	d := document{archives: map[sources.Platform]offered{}}
	for name := range file.Versions {
		if v, ok := parseVersion(name); ok {
			d.versions = append(d.versions, v)
		}
	}
	for name, entry := range file.Archives {
		platform, err := sources.ParsePlatform(name)
		u, urlErr := url.Parse(entry.URL)
		if err != nil || urlErr != nil || u.Scheme != "" || u.Host != "" || u.Path == "" || path.Base(u.Path) != u.Path {
			continue
		}
		var hashes []sources.Hash
		for _, h := range entry.Hashes {
			if h.Usable() {
				hashes = append(hashes, h.Canonical())
			}
		}
		d.archives[platform] = offered{hashes, p.String() + "/" + u.Path}
	}
	if file.Larder != nil {
		d.evidence = file.Larder.Evidence
	}
	return d, nil
}
