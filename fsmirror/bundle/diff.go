package bundle

import (
	"maps"
	"slices"

	"github.com/larder-cli/larder/sources"
)

// Contents describe a mirror for a comparison: the hashes of its packages, and its evidence.
type Contents struct {
	Packages map[sources.PackageID][]sources.Hash

	evidence map[sources.Release]string // checksums of the files except the origin, which makes no difference
}

// NewContents returns empty contents.
func NewContents() Contents {
	return Contents{map[sources.PackageID][]sources.Hash{}, map[sources.Release]string{}}
}

// Forget removes a release, or all releases of its provider if it has no version.
func (c Contents) Forget(r sources.Release) {
	is := func(other sources.Release) bool {
		return other == r || r.Version == sources.Version{} && other.Provider == r.Provider
	}
	maps.DeleteFunc(c.Packages, func(id sources.PackageID, _ []sources.Hash) bool { return is(id.Release()) })
	maps.DeleteFunc(c.evidence, func(other sources.Release, _ string) bool { return is(other) })
}

// Contents returns the contents of a mirror or a bundle with this manifest.
func (m Manifest) Contents() Contents {
	c := NewContents()
	for _, p := range m.Packages {
		c.Packages[p.ID] = p.hashes()
	}
	for _, e := range m.Evidence {
		c.add(e)
	}
	return c
}

// AddEvidence adds the evidence for a release, unless signed is nil.
func (c Contents) AddEvidence(r sources.Release, signed *sources.Signed) error {
	if signed == nil {
		return nil
	}
	e, err := newEvidence(r, signed)
	c.add(e)
	return err
}

func (c Contents) add(e Evidence) {
	sums := ""
	for _, f := range e.Files {
		if f.Name != "origin" {
			sums += string(f.SHA256[:])
		}
	}
	c.evidence[e.Release] = sums
}

// hashes returns the hashes that identify the package, without mere claims.
func (p Package) hashes() []sources.Hash {
	if p.Unpacked() {
		return []sources.Hash{p.H1}
	}
	return []sources.Hash{p.ZH, p.H1}
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
func Compare(a, b Contents) []Difference {
	all := maps.Clone(a.Packages)
	maps.Copy(all, b.Packages)
	var differences []Difference
	compared := map[sources.Release]bool{}
	for _, id := range slices.SortedFunc(maps.Keys(all), sources.PackageID.Compare) {
		first, inFirst := a.Packages[id]
		second, inSecond := b.Packages[id]
		both := inFirst && inSecond
		switch {
		case !both:
			differences = append(differences, Difference{ID: id, First: inFirst, Second: inSecond})
		case !alike(first, second):
			differences = append(differences, Difference{id, true, true, [2][]sources.Hash{first, second}})
		}
		r := id.Release()
		if !both || compared[r] {
			continue
		}
		compared[r] = true
		here, inFirst := a.evidence[r]
		there, inSecond := b.evidence[r]
		if here != there {
			id := sources.PackageID{Provider: r.Provider, Version: r.Version}
			differences = append(differences, Difference{ID: id, First: inFirst, Second: inSecond})
		}
	}
	return differences
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
