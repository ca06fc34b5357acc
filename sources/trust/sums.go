package trust

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// Sums are the contents of a SHA256SUMS file. Each line has a SHA-256 in
// hexadecimal and a file name, separated by white space.
type Sums struct{ lines []sumsLine }

type sumsLine struct {
	sum  string       // as written
	zh   sources.Hash // of sum; empty if the line is malformed
	name string       // may be empty
}

// maxSumsLines is enough for files that have one line for each platform.
const maxSumsLines = 2000

// ParseSums splits doc into lines and skips blank ones. A malformed line is an
// error only if that line is required. A "*" before a name means that sha256sum read
// the file in binary mode, which makes no difference.
func ParseSums(doc []byte) (Sums, error) {
	if len(doc) > sources.MaxSums {
		return Sums{}, fmt.Errorf("checksums: more than %d bytes", sources.MaxSums)
	}
	var s Sums
	for line := range strings.SplitSeq(string(doc), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(s.lines) == maxSumsLines {
			return Sums{}, fmt.Errorf("checksums: more than %d lines", maxSumsLines)
		}
		fields = append(fields, "")
		l := sumsLine{sum: fields[0], name: strings.TrimPrefix(fields[1], "*")}
		zh := sources.Hash(sources.ZH + ":" + l.sum).Canonical()
		if _, err := zh.Sum(sources.ZH); err == nil && l.name != "" {
			l.zh = zh
		}
		s.lines = append(s.lines, l)
	}
	return s, nil
}

// find returns the first line with the file name, and false if there is none.
func (s Sums) find(filename string) (sumsLine, bool) {
	i := slices.IndexFunc(s.lines, func(l sumsLine) bool { return l.name == filename && filename != "" })
	if i < 0 {
		return sumsLine{}, false
	}
	return s.lines[i], true
}

// nameOf returns the first file name for a hash, and false if the hash is not listed.
func (s Sums) nameOf(zh sources.Hash) (string, bool) {
	i := slices.IndexFunc(s.lines, func(l sumsLine) bool { return l.zh == zh && zh != "" })
	if i < 0 {
		return "", false
	}
	return s.lines[i].name, true
}

// And returns the lines of both.
func (s Sums) And(more Sums) Sums { return Sums{slices.Concat(s.lines, more.lines)} }

// Has reports whether the hash is listed.
func (s Sums) Has(zh sources.Hash) bool {
	_, ok := s.nameOf(zh)
	return ok
}

// Listed returns the zh: hashes of all valid lines. Unlike [Sums.Hashes], it
// skips malformed lines, because whether a hash is listed does not depend on
// other lines.
func (s Sums) Listed() []sources.Hash {
	var hashes []sources.Hash
	for _, line := range s.lines {
		if line.zh != "" {
			hashes = append(hashes, line.zh)
		}
	}
	return hashes
}

// Hashes returns the zh: hashes of all lines, or none if any line is malformed.
func (s Sums) Hashes() []sources.Hash {
	if listed := s.Listed(); len(listed) == len(s.lines) {
		return listed
	}
	return nil
}

// Archives returns the zh: hashes of a version's archives by platform, from the
// lines with names that [sources.ParseFilename] accepts. It returns at most 100
// archives; no real release has that many.
func (s Sums) Archives(p sources.Provider, v sources.Version) map[sources.Platform]sources.Hash {
	const most = 100
	archives := map[sources.Platform]sources.Hash{}
	for _, line := range s.lines {
		if len(archives) == most {
			break
		}
		if id, ok := sources.ParseFilename(line.name, p, v); ok && line.zh != "" {
			archives[id.Platform] = line.zh
		}
	}
	return archives
}

// Platforms returns the platforms of [Sums.Archives], sorted.
func (s Sums) Platforms(p sources.Provider, v sources.Version) []sources.Platform {
	return slices.SortedFunc(maps.Keys(s.Archives(p, v)), sources.Platform.Compare)
}
