package trust

import (
	"cmp"
	"slices"

	"github.com/larder-cli/larder/sources"
)

// Listed are the zh: hashes of all lines that can be read. Unlike [Sums.Hashes] it
// skips a malformed line: whether a hash is listed doesn't depend on other lines.
func (s Sums) Listed() []sources.Hash {
	var hashes []sources.Hash
	for _, line := range s.lines {
		if sum, ok := line.parse(); ok && line.name != "" {
			hashes = append(hashes, sources.ZipHash(sum))
		}
	}
	return hashes
}

// Platforms are the platforms for which the checksums list an archive of the
// version, sorted: those in file names that [sources.ParseFilename] accepts.
func (s Sums) Platforms(p sources.Provider, v sources.Version) []sources.Platform {
	var platforms []sources.Platform
	for _, line := range s.lines {
		id, ok := sources.ParseFilename(line.name, p, v)
		if _, readable := line.parse(); ok && readable {
			platforms = append(platforms, id.Platform)
		}
	}
	slices.SortFunc(platforms, func(a, b sources.Platform) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(platforms)
}
