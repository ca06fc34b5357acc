package bundle

import (
	"maps"
	"slices"

	"github.com/larder-cli/larder/sources"
)

// Contents describe a mirror for a comparison: the hashes of its packages. An ID without a platform stands for the
// evidence for a release, with the hashes of its files except the origin, which makes no difference.
type Contents map[sources.PackageID][]sources.Hash

// IsEvidence reports whether an ID in [Contents] stands for the evidence for a release.
func IsEvidence(id sources.PackageID) bool { return id.Platform == sources.Platform{} }

// Packages returns the number of packages.
func (c Contents) Packages() (n int) {
	for id := range c {
		if !IsEvidence(id) {
			n++
		}
	}
	return n
}

// Forget removes a release, or all releases of its provider if it has no version.
func (c Contents) Forget(r sources.Release) {
	maps.DeleteFunc(c, func(id sources.PackageID, _ []sources.Hash) bool {
		return id.Release() == r || r.Version == sources.Version{} && id.Provider == r.Provider
	})
}

// Contents returns the contents of a mirror or a bundle with this manifest.
func (m Manifest) Contents() Contents {
	c := Contents{}
	for _, p := range m.Packages {
		c[p.ID] = []sources.Hash{p.ZH, p.H1}
	}
	for _, e := range m.Evidence {
		c.add(e)
	}
	return c
}

// AddEvidence adds the evidence for a release, unless signed is nil.
func (c Contents) AddEvidence(r sources.Release, signed *sources.Signed) {
	if signed != nil {
		c.add(newEvidence(r, signed))
	}
}

func (c Contents) add(e Evidence) {
	var hashes []sources.Hash
	for _, f := range e.Files {
		if f.Name != "origin" {
			hashes = append(hashes, sources.ZipHash(f.SHA256))
		}
	}
	c[sources.PackageID{Provider: e.Release.Provider, Version: e.Release.Version}] = hashes
}

// A Difference is a package, or the evidence for a release, that differs between two mirrors or
// is missing from one.
type Difference struct {
	ID            sources.PackageID // without a platform if it is about evidence
	First, Second bool              // which of the mirrors have it

	Hashes [2][]sources.Hash // of a package that both have
}

// Compare returns the differences in order. It compares evidence only for releases that have
// packages in both mirrors.
func Compare(a, b Contents) (differences []Difference) {
	common := map[sources.Release]bool{}
	for id := range a {
		if _, both := b[id]; both && !IsEvidence(id) {
			common[id.Release()] = true
		}
	}
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, id := range slices.SortedFunc(maps.Keys(all), sources.PackageID.Compare) {
		first, inFirst := a[id]
		second, inSecond := b[id]
		same := inFirst && inSecond && alike(first, second)
		if IsEvidence(id) {
			same = !common[id.Release()] || slices.Equal(first, second)
		}
		if !same {
			differences = append(differences, Difference{id, inFirst, inSecond, [2][]sources.Hash{first, second}})
		}
	}
	return differences
}

// Unhashed reports whether only the h1: hash shows if a package that both have is the same, and one of them lacks it.
func Unhashed(a, b Contents) bool {
	for id, hashes := range a {
		other, both := b[id]
		if both && !sources.MatchesAny(hashes, other...) &&
			sources.AnyOf(sources.H1, hashes) != sources.AnyOf(sources.H1, other) {
			return true
		}
	}
	return false
}

// alike reports whether two packages may be identical. A common hash proves that they are.
// Packages without hashes of the same scheme also count as identical.
func alike(a, b []sources.Hash) bool {
	comparable := false
	for _, h := range a {
		for _, k := range b {
			if h == k {
				return true
			}
			comparable = comparable || h.Scheme() == k.Scheme()
		}
	}
	return !comparable
}
