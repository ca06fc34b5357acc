package bundle

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
	"github.com/larder-cli/larder/sources/disk"
)

// Of describes unpacked packages of a store, for [Write], by the recorded checksums of their files. [Write] reads the
// files, and fails if one differs.
func Of(ctx context.Context, packages []sources.Stored) (m Manifest, err error) {
	byID := func(a, b sources.Stored) int { return a.ID.Compare(b.ID) }
	signed := map[sources.Release]*sources.Signed{}
	packages = slices.SortedFunc(slices.Values(packages), byID)
	for _, s := range packages {
		p, err := unpackedOf(ctx, s)
		if err != nil {
			return m, sources.InPackage(s.ID, err)
		}
		m.Packages = append(m.Packages, p)
		if r := s.ID.Release(); s.Signed != nil && signed[r] == nil {
			signed[r] = s.Signed
			e, err := newEvidence(r, s.Signed)
			if err != nil {
				return m, sources.InPackage(s.ID, err)
			}
			m.Evidence = append(m.Evidence, e)
		}
	}
	for i, s := range packages {
		if s.Signed == nil && signed[s.ID.Release()] != nil { // for other archives
			m.Packages[i].ZH = ""
		}
	}
	_, err = ParseManifest(m.Text())
	return m, err
}

// unpackedOf describes an unpacked package.
func unpackedOf(ctx context.Context, s sources.Stored) (p Package, err error) {
	files, err := filesOf(ctx, s)
	if err != nil {
		return p, err
	}
	p = Package{ID: s.ID, ZH: s.ZH, H1: s.H1}
	private, err := privateIn(s)
	if err != nil {
		return p, err
	}
	for _, f := range files {
		path := filepath.Join(s.Dir, filepath.FromSlash(f.Path))
		info, err := os.Stat(path)
		if err != nil {
			return p, err
		}
		p.Size += info.Size()
		p.Files = append(p.Files, PayloadFile{
			File:       File{f.Path, info.Size(), f.SHA256},
			Executable: info.Mode()&0o111 != 0,
			source:     source{fileOpener(path), private},
		})
	}
	return p, nil
}

// filesOf returns the files of an unpacked package with their recorded checksums, sorted. It hashes a package whose
// checksums are not recorded.
func filesOf(ctx context.Context, s sources.Stored) ([]sources.File, error) {
	var files []sources.File
	for _, path := range slices.Sorted(maps.Keys(s.Sums)) {
		f := sources.File{Path: path}
		if n, err := hex.Decode(f.SHA256[:], []byte(s.Sums[path])); err != nil || n != len(f.SHA256) {
			return nil, fmt.Errorf("%s: the recorded checksum is malformed", path)
		}
		files = append(files, f)
	}
	if archive.H1(files) == s.H1 {
		return files, nil
	}
	c, err := archive.Hash(ctx, s.Dir)
	if err == nil && c.H1 != s.H1 {
		err = fmt.Errorf("its contents are %s; those stored were %s", c.H1, s.H1)
		err = sources.WithHint(err, hintRepair)
	}
	return c.Files, err
}

const hintRepair = "larder cache repair replaces damaged packages"

// privateIn returns the path of a file in a package that not all users can read, or of the
// place that the package came from. It returns "" if there is none.
func privateIn(s sources.Stored) (string, error) {
	dir, err := disk.Resolve(s.Dir)
	if err != nil {
		return "", err
	}
	private := ""
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if link := disk.IsLink(e.Type()); err == nil && (!link && disk.HiddenBy(info) != 0 || link && disk.Hidden(name) != 0) {
			private, err = name, fs.SkipAll
		}
		return err
	})
	if private == "" && !s.Public() && disk.Hidden(s.Dir) != 0 {
		private = s.Dir
	}
	if private != "" && !s.Public() {
		private = cmp.Or(s.Origin, private)
	}
	return private, err
}

// checkUnpacked checks the files of an unpacked package. Their checksums determine the hash.
func (p Package) checkUnpacked() error {
	size := int64(0)
	var files []sources.File
	for _, f := range p.Files {
		size += f.Size
		files = append(files, sources.File{Path: f.Name, SHA256: f.SHA256})
	}
	err := checkFiles(p.Files, func(name string) error {
		if !fs.ValidPath(name) {
			return errors.New("not a path inside a directory")
		}
		return nil
	})
	switch h1 := archive.H1(files); {
	case err != nil:
	case size != p.Size:
		err = fmt.Errorf("its files have %d bytes instead of %d", size, p.Size)
	case h1 != p.H1 || p.ZipH1 != "":
		err = fmt.Errorf("its files are %s, but should be %s", h1, p.H1)
	}
	return err
}

// Payload returns the unverified contents of a package, for a store. A bundle that [Receive]
// reads has each only once, in the order of the manifest. An error of the bundle itself is a
// [Finding].
func (b *Bundle) Payload(p Package) sources.Payload {
	if !p.Unpacked() {
		return sources.Payload{Arriving: b.reader(b.archive(p)), Hidden: b.hidden}
	}
	return sources.Payload{Hidden: b.hidden, Files: func(yield func(sources.Incoming, error) bool) {
		for _, e := range b.files(p.Path(), p.Files) {
			if !yield(sources.Incoming{Path: e.relative, Executable: e.executable, Data: b.reader(e)}, nil) {
				return
			}
		}
	}}
}

// fileOpener returns a function that opens a file.
func fileOpener(path string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		f, _, err := disk.OpenFile(path)
		return f, err
	}
}
