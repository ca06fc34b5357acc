// Package export writes packages of a plugin cache to one file and reads them from
// it. The packages it reads are unverified: the caller verifies that the contents
// match their hashes, and decides whether to accept the other claims in the file.
//
// It leaves nothing on disk.
//
// # Format
//
// An export is a plain tar archive:
//
//	manifest.json
//	contents/HEX/PATH
//
// The manifest lists the packages, each with its hashes, and the signed checksums
// that were kept with them. HEX is the h1: hash of contents, in hexadecimal. Each
// contents directory is in the archive once, even if several packages have it, in the
// order in which the manifest first names it. Its files are sorted by path. The
// archive contains nothing else, and its bytes do not depend on the time or the
// machine.
package export

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/larder-cli/larder/sources"
)

const (
	format       = 1
	manifestName = "manifest.json"
	contentsDir  = "contents/"
)

// A manifest describes an export. Packages and evidence are sorted, without
// duplicates.
type manifest struct {
	Format   int        `json:"format"`
	Packages []listed   `json:"packages"`
	Evidence []evidence `json:"evidence"`
}

// A listed package is one that is in the export.
type listed struct {
	Provider string       `json:"provider"`
	Version  string       `json:"version"`
	Platform string       `json:"platform"`
	H1       sources.Hash `json:"h1"`
	ZH       sources.Hash `json:"zh,omitempty"`
	Size     int64        `json:"size"`   // of its files, in bytes
	Signed   bool         `json:"signed"` // whether it is covered by the evidence for its version
}

// Evidence is the signed checksums of a version with their signature and keys.
type evidence struct {
	Provider string `json:"provider"`
	Version  string `json:"version"`
	sources.Signed
}

// parse returns the packages that a manifest describes, without directories, and the sizes of contents in bytes.
func parse(data []byte) ([]sources.Stored, map[sources.Hash]int64, error) {
	m := manifest{}
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, nil, err
	}
	if m.Format != format {
		err := fmt.Errorf("unknown format %d", m.Format)
		return nil, nil, sources.WithHint(err, "a newer version of larder may have written it: upgrade larder")
	}
	signed := map[sources.Release]*sources.Signed{}
	for _, e := range m.Evidence {
		id, err := sources.ParsePackageID(e.Provider, e.Version, "any_any")
		if err == nil && signed[id.Release()] != nil {
			err = errors.New("listed twice")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("evidence for %.99q %.99q: %w", e.Provider, e.Version, err)
		}
		signed[id.Release()] = &e.Signed
	}
	var all []sources.Stored
	sizes := map[sources.Hash]int64{}
	for _, l := range m.Packages {
		s, err := l.stored(signed)
		if n := len(all); err == nil && n > 0 && all[n-1].ID.Compare(s.ID) >= 0 {
			err = errors.New("listed twice, or out of order")
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%.99q %.99q %.99q: %w", l.Provider, l.Version, l.Platform, err)
		}
		all = append(all, s)
		sizes[s.H1] = l.Size
	}
	return all, sizes, nil
}

// stored returns the package, with its evidence if it is signed.
func (l listed) stored(signed map[sources.Release]*sources.Signed) (sources.Stored, error) {
	id, err := sources.ParsePackageID(l.Provider, l.Version, l.Platform)
	s := sources.Stored{ID: id, H1: l.H1, ZH: l.ZH}
	if err == nil {
		_, err = dirOf(l.H1)
	}
	if err == nil && l.ZH != "" {
		_, err = l.ZH.Sum(sources.ZH)
	}
	if err == nil && l.Signed {
		if s.Signed = signed[id.Release()]; s.Signed == nil {
			err = errors.New("its signed checksums are missing")
		}
	}
	return s, err
}

// dirOf returns the directory of contents in an export.
func dirOf(h1 sources.Hash) (string, error) {
	sum, err := h1.Sum(sources.H1)
	return contentsDir + hex.EncodeToString(sum[:]) + "/", err
}

// render returns the manifest for sorted packages.
func render(packages []sources.Stored, sizes map[sources.Hash]int64) ([]byte, error) {
	m := manifest{Format: format, Packages: []listed{}, Evidence: []evidence{}}
	described := map[sources.Release]bool{}
	for _, s := range packages {
		provider, version := s.ID.Provider.String(), s.ID.Version.String()
		m.Packages = append(m.Packages, listed{provider, version, s.ID.Platform.String(), s.H1, s.ZH, sizes[s.H1], s.Signed != nil})
		if s.Signed == nil || described[s.ID.Release()] {
			continue
		}
		described[s.ID.Release()] = true
		e := evidence{provider, version, *s.Signed}
		e.Keys = append([]sources.Key{}, e.Keys...) // not null
		m.Evidence = append(m.Evidence, e)
	}
	return sources.JSON(m)
}
