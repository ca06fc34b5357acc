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
	"fmt"
	"slices"

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
	Provider  string `json:"provider"`
	Version   string `json:"version"`
	Sums      []byte `json:"sums"`
	Signature []byte `json:"signature"`
	Keys      []key  `json:"keys"`
	Origin    string `json:"origin"`
}

// A key is a [sources.Key] with the member names of the registry protocol.
type key struct {
	Armor          string `json:"ascii_armor"`
	TrustSignature string `json:"trust_signature"`
}

func newEvidence(s sources.Stored) evidence {
	e := evidence{
		Provider: s.ID.Provider.String(), Version: s.ID.Version.String(),
		Sums: s.Signed.Sums, Signature: s.Signed.Signature, Keys: []key{}, Origin: s.Signed.Origin,
	}
	for _, k := range s.Signed.Keys {
		e.Keys = append(e.Keys, key{k.Armor, k.TrustSignature})
	}
	return e
}

func (e evidence) signed() *sources.Signed {
	s := &sources.Signed{Sums: e.Sums, Signature: e.Signature, Origin: e.Origin}
	for _, k := range e.Keys {
		s.Keys = append(s.Keys, sources.Key{Armor: k.Armor, TrustSignature: k.TrustSignature})
	}
	return s
}

// parse returns the packages that a manifest describes, without directories.
func parse(data []byte) ([]sources.Stored, error) {
	m := manifest{}
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	if m.Format != format {
		err := fmt.Errorf("format %d is not known", m.Format)
		return nil, sources.WithHint(err, "it may be from a newer larder")
	}
	signed, err := m.signed()
	if err != nil {
		return nil, err
	}
	var all []sources.Stored
	for _, l := range m.Packages {
		s, err := l.stored()
		if err != nil {
			return nil, fmt.Errorf("%.99q %.99q %.99q: %w", l.Provider, l.Version, l.Platform, err)
		}
		if n := len(all); n > 0 && all[n-1].ID.Compare(s.ID) >= 0 {
			return nil, fmt.Errorf("%s: listed twice, or out of order", s.ID)
		}
		if l.Signed {
			if s.Signed = signed[s.ID.Release()]; s.Signed == nil {
				return nil, fmt.Errorf("%s: what has signed it is missing", s.ID)
			}
		}
		all = append(all, s)
	}
	return all, nil
}

func (m manifest) signed() (map[sources.Release]*sources.Signed, error) {
	signed := map[sources.Release]*sources.Signed{}
	for _, e := range m.Evidence {
		id, err := sources.ParsePackageID(e.Provider, e.Version, "any_any")
		if err != nil {
			return nil, fmt.Errorf("evidence for %.99q %.99q: %w", e.Provider, e.Version, err)
		}
		r := id.Release()
		if signed[r] != nil {
			return nil, fmt.Errorf("evidence for %s: listed twice", r)
		}
		signed[r] = e.signed()
	}
	return signed, nil
}

func (l listed) stored() (sources.Stored, error) {
	id, err := sources.ParsePackageID(l.Provider, l.Version, l.Platform)
	if err != nil {
		return sources.Stored{}, err
	}
	if _, err := dirOf(l.H1); err != nil {
		return sources.Stored{}, err
	}
	if l.ZH != "" {
		if _, err := l.ZH.Sum(sources.ZH); err != nil {
			return sources.Stored{}, err
		}
	}
	return sources.Stored{ID: id, H1: l.H1, ZH: l.ZH}, nil
}

// dirOf returns the directory of contents in an export.
func dirOf(h1 sources.Hash) (string, error) {
	sum, err := h1.Sum(sources.H1)
	if err != nil {
		return "", err
	}
	return contentsDir + hex.EncodeToString(sum[:]) + "/", nil
}

// render returns the manifest for sorted packages.
func render(packages []sources.Stored, sizes map[sources.Hash]int64) ([]byte, error) {
	m := manifest{Format: format, Packages: []listed{}, Evidence: []evidence{}}
	for _, s := range packages {
		m.Packages = append(m.Packages, listed{
			Provider: s.ID.Provider.String(), Version: s.ID.Version.String(), Platform: s.ID.Platform.String(),
			H1: s.H1, ZH: s.ZH, Size: sizes[s.H1], Signed: s.Signed != nil,
		})
		if s.Signed == nil {
			continue
		}
		e := newEvidence(s)
		same := func(o evidence) bool { return o.Provider == e.Provider && o.Version == e.Version }
		if !slices.ContainsFunc(m.Evidence, same) {
			m.Evidence = append(m.Evidence, e)
		}
	}
	return sources.JSON(m)
}
