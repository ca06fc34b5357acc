package server

import (
	"context"
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

	read sources.Memo[documentFile, document] // those that are damaged, too
}

// A documentFile is the file of a document in some state.
type documentFile struct{ path, state string }

// A document is an index.json or a VERSION.json.
type document struct {
	versions []sources.Version            // of an index.json
	archives map[sources.Platform]offered // of a VERSION.json
	evidence *evidence.Location           // of a VERSION.json; may be nil
	files    *evidence.Files              // that upstream has; may be nil
}

// An offered archive is one that VERSION.json names.
type offered struct {
	hashes []sources.Hash
	path   string // in the mirror, with forward slashes; empty if only upstream has it
}

// mostRead is how many bytes of documents are in memory.
const mostRead = 32 << 20

// size returns about how many bytes of memory the document takes.
func (d document) size() int {
	n := 1<<10 + sizeOf(d.versions)
	for _, a := range d.archives {
		n += 100 * (2 + len(a.hashes))
	}
	return n
}

// dir returns the directory: another one if it has taken the place of the first, such as a restored backup. The one before
// that may be in use, and is closed when nothing refers to it.
func (m *mirror) dir() *disk.Dir {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open.Moved() {
		if d, err := disk.Open(m.open.Path("")); err == nil {
			m.open = d
		}
	}
	return m.open
}

// versions returns the versions of a provider that the index lists and that have an archive here, sorted.
func (m *mirror) versions(ctx context.Context, p sources.Provider) ([]sources.Version, error) {
	d, err := m.document(ctx, p, fsmirror.Index)
	if err != nil {
		return nil, err
	}
	var all []sources.Version
	damaged := (*DamagedError)(nil)
	for _, v := range d.versions {
		here, err := m.release(ctx, sources.Release{Provider: p, Version: v})
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
func (d *document) add(r sources.Release, theirs Offer) {
	archives := map[sources.Platform]offered{}
	for platform, hashes := range theirs.Archives {
		archives[platform] = offered{hashes: hashes}
	}
	maps.Copy(archives, d.archives)
	d.archives = archives
	if d.files = theirs.Evidence; d.files != nil && d.evidence == nil {
		d.evidence = evidence.Locate(r.Provider, r.Version, *d.files)
	}
}

// release returns the document of a version with the archives that exist. The error matches [sources.ErrNotFound] if
// there is none.
func (m *mirror) release(ctx context.Context, r sources.Release) (document, error) {
	d, err := m.document(ctx, r.Provider, r.Version.String()+".json")
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

// openArchive opens the archive of a package, and returns what its document states.
func (m *mirror) openArchive(ctx context.Context, id sources.PackageID) (*os.File, fs.FileInfo, offered, error) {
	d, err := m.document(ctx, id.Provider, id.Version.String()+".json")
	a, ok := d.archives[id.Platform]
	if err == nil && !ok {
		err = sources.ErrNotFound
	}
	if err != nil {
		return nil, nil, a, err
	}
	f, info, err := m.openFile(a.path)
	return f, info, a, err
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
func (m *mirror) document(ctx context.Context, p sources.Provider, name string) (document, error) {
	dir, at := m.dir(), p.String()+"/"+name
	info, err := dir.Lstat(at)
	if err != nil {
		return document{}, absent(err)
	}
	key := documentFile{at, disk.Print(dir.Path(at), info)}
	d, err := m.read.Get(ctx, key, func() (document, error) {
		text, _, err := dir.ReadFile(at, fsmirror.MaxDocument)
		if err != nil {
			return document{}, absent(err)
		}
		d, err := parseDocument(p, text)
		if err != nil {
			err = &DamagedError{Path: dir.Path(at), Err: err}
			if m.warn != nil {
				m.warn(sources.WithHint(err, "larder mirror index writes the documents again"))
			}
		}
		return d, err
	})
	if damaged := (*DamagedError)(nil); err != nil && !errors.As(err, &damaged) {
		m.read.Forget(key) // it may not last
	}
	return d, err
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
