package legacy

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/evidence"
)

// A Release is the archives of one version in one directory, as a build of a provider leaves them, with the files
//
//	terraform-provider-TYPE_VERSION_SHA256SUMS
//	terraform-provider-TYPE_VERSION_SHA256SUMS.sig
//	terraform-provider-TYPE_VERSION_manifest.json
//
// which goreleaser writes, see https://developer.hashicorp.com/terraform/registry/providers/publishing
type Release struct {
	sources.Release
	Sums      []byte // nil if there are no checksums
	Signature []byte // nil if there is no signature
	SumsPath  string // of the checksums, which may not exist
	Manifest  []byte // nil if there is none

	Archives []*Candidate
}

// Releases returns the releases of the archives among candidates.
func Releases(candidates []Candidate) ([]*Release, error) {
	var all []*Release
	for i := range candidates {
		c := &candidates[i]
		if c.Kind != Archive {
			continue
		}
		name := fmt.Sprintf("%s%s_%s%s", sources.FilePrefix, c.ID.Provider.Type, c.ID.Version, sumsSuffix)
		path := filepath.Join(filepath.Dir(c.Path), name)
		at := slices.IndexFunc(all, func(r *Release) bool { return r.SumsPath == path && r.Release == c.ID.Release() })
		if at < 0 {
			r := &Release{Release: c.ID.Release(), SumsPath: path}
			err := errors.Join(read(path, &r.Sums), read(path+".sig", &r.Signature), read(r.ManifestPath(), &r.Manifest))
			if err != nil {
				return nil, err
			}
			at, all = len(all), append(all, r)
		}
		all[at].Archives = append(all[at].Archives, c)
	}
	return all, nil
}

// besideArchives reports whether a build of a provider has a file of this name beside its archives, besides those.
func besideArchives(name string) bool {
	return strings.HasSuffix(strings.TrimSuffix(name, ".sig"), sumsSuffix) || strings.HasSuffix(name, manifestSuffix)
}

const (
	sumsSuffix     = "_SHA256SUMS"
	manifestSuffix = "_manifest.json"
)

// ManifestPath returns the path of the manifest, which may not exist.
func (r *Release) ManifestPath() string {
	return strings.TrimSuffix(r.SumsPath, sumsSuffix) + manifestSuffix
}

// read reads a file if it exists.
func read(path string, to *[]byte) (err error) {
	if *to, err = disk.ReadFile(path, evidence.Max); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// NewSums returns checksums for the archives in a release and for others. The zh: hashes of all are known.
func NewSums(hashes map[sources.PackageID]sources.Hash) ([]byte, error) {
	var lines []string
	for id, zh := range hashes {
		sum, err := zh.Sum(sources.ZH)
		if err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sum, id.Filename()))
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, "")), nil
}
