package server

import (
	"cmp"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path"
	"slices"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
)

// inMirror reads something in the mirror. The error matches [sources.ErrNotFound] if it is missing, or reached through
// a link. The mirror is opened each time, because another directory may take its place, such as a restored backup.
func (s *Server) inMirror(read func(*disk.Dir) error) error {
	dir, err := disk.Open(s.dir)
	if err != nil {
		return unusable(err, "the server can't read its mirror")
	}
	defer dir.Close()
	err = read(dir)
	_, stray := errors.AsType[*disk.StrayError](err)
	if stray || errors.Is(err, fs.ErrNotExist) || errors.Is(err, disk.ErrNotRegular) {
		return sources.ErrNotFound
	}
	return err
}

// document reads a document of a provider. The error is a [DamagedError] if it can't be read as one.
func (s *Server) document(p sources.Provider, name string) (d fsmirror.Document, err error) {
	err = s.inMirror(func(dir *disk.Dir) error {
		at := p.String() + "/" + name
		text, _, err := dir.ReadFile(at, fsmirror.MaxDocument)
		if err != nil {
			return err
		}
		if d, err = fsmirror.ParseDocument(name, text); err != nil {
			return &DamagedError{dir.Path(at), sources.WithHint(err, "larder mirror index DIR writes the documents again")}
		}
		return nil
	})
	return d, err
}

// A DamagedError is a document in the mirror that can't be read as one, or an archive that is not what was stored.
type DamagedError struct {
	Path string
	Err  error
}

func (e *DamagedError) Error() string { return e.Path + ": " + e.Err.Error() }
func (e *DamagedError) Unwrap() error { return e.Err }

func isDamaged(err error) bool {
	_, damaged := errors.AsType[*DamagedError](err)
	return damaged
}

// indexed returns the versions of a provider that the mirror's index lists, sorted. It leaves out names that engines
// would not use.
func (s *Server) indexed(p sources.Provider) (all []sources.Version, err error) {
	d, err := s.document(p, fsmirror.Index)
	for name := range d.Versions {
		if v, ok := fsmirror.VersionOf(name + ".json"); ok {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, sources.Version.Compare)
	return all, err
}

// An offered version is what clients can have of it.
type offered struct {
	archives map[sources.Platform][]sources.Hash
	evidence *evidence.Location // may be nil
	files    *evidence.Files    // the evidence that upstream has; may be nil
}

// mirrored returns what the mirror has of a version.
func (s *Server) mirrored(of sources.Release) (offered, error) {
	d, err := s.document(of.Provider, of.Version.String()+".json")
	has := offered{archives: map[sources.Platform][]sources.Hash{}}
	for name, a := range d.Archives {
		if platform, err := sources.ParsePlatform(name); err == nil && besideDocument(a.URL) != "" {
			has.archives[platform] = a.Hashes
		}
	}
	if d.Larder != nil {
		has.evidence = d.Larder.Evidence
	}
	return has, err
}

// besideDocument returns the name of the file to which the URL of an archive leads, or nothing if that is not beside
// the document.
func besideDocument(text string) string {
	u, err := url.Parse(text)
	if err != nil || cmp.Or(u.Scheme, u.Host) != "" || path.Base(u.Path) != u.Path {
		return ""
	}
	return u.Path
}

// openArchive opens the archive of a package in the mirror, and returns the hashes in its document.
func (s *Server) openArchive(id sources.PackageID) (f *os.File, info fs.FileInfo, stated []sources.Hash, err error) {
	d, err := s.document(id.Provider, id.Version.String()+".json")
	if err != nil {
		return nil, nil, nil, err
	}
	a := d.Archives[id.Platform.String()]
	name := besideDocument(a.URL)
	if name == "" {
		return nil, nil, nil, sources.ErrNotFound
	}
	err = s.inMirror(func(dir *disk.Dir) (err error) {
		f, info, err = dir.OpenFile(id.Provider.String() + "/" + name)
		return err
	})
	return f, info, a.Hashes, err
}
