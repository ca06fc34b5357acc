package trust

import (
	"cmp"
	"slices"
	"strings"

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
// version, sorted. They come from the file names, which must be
// terraform-provider-TYPE_VERSION_OS_ARCH.zip.
func (s Sums) Platforms(p sources.Provider, v sources.Version) []sources.Platform {
	prefix := "terraform-provider-" + p.Type + "_" + v.String() + "_"
	var platforms []sources.Platform
	for _, line := range s.lines {
		name, ok := strings.CutPrefix(line.name, prefix)
		name, isZip := strings.CutSuffix(name, ".zip")
		platform, err := sources.ParsePlatform(name)
		if _, readable := line.parse(); ok && isZip && err == nil && readable {
			platforms = append(platforms, platform)
		}
	}
	slices.SortFunc(platforms, func(a, b sources.Platform) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(platforms)
}
