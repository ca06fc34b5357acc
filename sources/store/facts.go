// Package store contains the common parts of all stores of packages: the facts that they record about a package, the
// evidence for a version, the transaction that adds a package, and the verification of the packages in a store. A
// store, such as a plugin cache or a mirror, adds a layout: it determines the paths of a package, its record and its
// lock, and moves the package into place.
//
// The caller of a [sources.Tx] verifies new packages, and a [sources.Judge] computes
// verdicts from evidence.
package store

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
)

// Facts are what a record contains about a package, in each kind of store. They contain
// no verdict, which depends on the settings of each run.
type Facts struct {
	H1       sources.Hash  `json:"h1,omitempty"` // empty if only the archive was hashed, which a signature covers
	ZipH1    sources.Hash  `json:"zip_h1,omitempty"`
	ZH       sources.Hash  `json:"zh,omitempty"`
	Filename string        `json:"filename,omitempty"`
	Origin   string        `json:"origin,omitempty"`
	Proof    sources.Proof `json:"proof,omitzero"`
	Evidence string        `json:"evidence,omitempty"` // the evidence for the proof, see [evidence.Reference]
	Since    time.Time     `json:"since,omitzero"`     // when the hashes were first recorded
	Sums     Sums          `json:"sums,omitempty"`     // of its files; empty if unknown
}

// Sums maps the path of each file of a package to its SHA-256 in hexadecimal.
type Sums map[string]string

// SumsOf returns the sums of an unpacked package.
func SumsOf(c sources.Contents) Sums {
	s := make(Sums, len(c.Files))
	for _, f := range c.Files {
		s[f.Path] = hex.EncodeToString(f.SHA256[:])
	}
	return s
}

// Differ describes how the files of a package differ from their previous sums. It
// returns "" if the previous sums are unknown. The text since follows the description
// of a difference.
func (now Sums) Differ(was Sums, since string) string {
	if len(was) == 0 || len(now) == 0 {
		return ""
	}
	var texts []string
	for _, path := range slices.Sorted(maps.Keys(was)) {
		switch sum, ok := now[path]; {
		case !ok:
			texts = append(texts, path+" is missing")
		case sum != was[path]:
			texts = append(texts, path+" differs"+since)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(now)) {
		if _, ok := was[path]; !ok {
			texts = append(texts, path+" was added")
		}
	}
	const most = 3
	if len(texts) > most {
		texts = append(texts[:most], fmt.Sprintf("%d more files differ", len(texts)-most))
	}
	return strings.Join(texts, "; ")
}

// Format is the number of the format of records.
const Format = 4

// New returns the facts about a package with these contents.
func New(c sources.Contents, by sources.Provenance, now time.Time) Facts {
	return Facts{
		H1: c.H1, ZipH1: c.ZipH1, ZH: by.ZH, Filename: by.Filename, Origin: by.Origin, Proof: by.Proof, Since: now.UTC(),
	}
}

// Of returns the facts about a stored package.
func Of(s sources.Stored) Facts {
	return Facts{
		H1: s.H1, ZipH1: s.ZipH1, ZH: s.ZH, Filename: s.Filename, Origin: s.Origin,
		Proof: s.Proof, Evidence: evidence.Reference(s.Signed), Since: s.Since,
	}
}

// Reference returns the reference to the evidence.
func (f Facts) Reference() string { return f.Evidence }

// Proven reports whether anything was proved about the package.
func (f Facts) Proven() bool { return f.Proof.Any() || f.Evidence != "" }

// Hashes returns the hashes of the package as lock files have them.
func (f Facts) Hashes() []sources.Hash {
	return sources.Stored{H1: f.H1, ZH: f.ZH}.Hashes()
}

// Improved returns the facts after better evidence was found for the package.
func (f Facts) Improved(by sources.Provenance) Facts {
	matched := f.Proof.Matched || by.Proof.Matched
	f.Proof = by.Proof.Approved(f.Proof.Approvals)
	f.Proof.Matched = matched
	return f
}
