package bundle

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/archive"
)

// Of describes unpacked packages of a store, for [Write], by the recorded checksums of their files. [Write] reads the
// files, and fails if one differs.
func Of(ctx context.Context, packages []sources.Stored) (m Manifest, err error) {
	packages = slices.SortedFunc(slices.Values(packages), func(a, b sources.Stored) int { return a.ID.Compare(b.ID) })
	signed := map[sources.Release]*sources.Signed{}
	for _, s := range packages {
		if s.Signed != nil && signed[s.ID.Release()] == nil {
			signed[s.ID.Release()] = s.Signed
		}
	}
	for i := range packages {
		if s := &packages[i]; s.Signed == nil && signed[s.ID.Release()] != nil { // for other archives
			s.ZH = ""
		}
	}
	err = m.add(packages, func(p *Package, s sources.Stored) error { return unpackedOf(ctx, p, s) },
		func(s sources.Stored) (*sources.Signed, error) { return signed[s.ID.Release()], nil })
	return m, err
}

// unpackedOf describes an unpacked package.
func unpackedOf(ctx context.Context, p *Package, s sources.Stored) error {
	files, err := filesOf(ctx, s)
	for _, f := range files {
		path := filepath.Join(s.Dir, filepath.FromSlash(f.Path))
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		p.Files = append(p.Files, File{
			Name: f.Path, Size: info.Size(), SHA256: f.SHA256, Executable: info.Mode()&0o111 != 0,
			source: source{path: path, origin: s.Origin, public: s.Public()},
		})
	}
	p.Size = sizeOf(p.Files)
	return err
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
