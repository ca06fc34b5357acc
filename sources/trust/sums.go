package trust

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// Sums are the contents of a SHA256SUMS file. Each line has a SHA-256 in
// hexadecimal and a file name, separated by white space.
type Sums struct{ lines []sumsLine }

type sumsLine struct {
	sum, name string // name may be empty
}

// Real files have a few kilobytes, and one line for each platform.
const (
	maxSumsSize  = 4 << 20
	maxSumsLines = 10_000
)

// ParseSums splits doc into lines and skips blank ones. A malformed line is an
// error only if that line is required.
func ParseSums(doc []byte) (Sums, error) {
	if len(doc) > maxSumsSize {
		return Sums{}, fmt.Errorf("checksums: more than %d bytes", maxSumsSize)
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
		s.lines = append(s.lines, sumsLine{fields[0], fields[1]})
	}
	return s, nil
}

// find returns the first line with the file name, and false if there is none. A
// "*" before the name means that sha256sum read the file in binary mode, which
// makes no difference.
func (s Sums) find(filename string) (sumsLine, bool) {
	for _, line := range s.lines {
		if strings.TrimPrefix(line.name, "*") == filename && filename != "" {
			return line, true
		}
	}
	return sumsLine{}, false
}

// nameOf returns the file name for a hash, and false if the hash is not listed.
func (s Sums) nameOf(zh sources.Hash) (string, bool) {
	for _, line := range s.lines {
		if sum, ok := line.parse(); ok && sources.ZipHash(sum) == zh {
			return line.name, true
		}
	}
	return "", false
}

// readable reports whether at least one line has the expected format, or there
// are no lines.
func (s Sums) readable() bool {
	for _, line := range s.lines {
		if _, ok := line.parse(); ok && line.name != "" {
			return true
		}
	}
	return len(s.lines) == 0
}

// Hashes returns the zh: hashes of all lines, or none if any line is malformed.
func (s Sums) Hashes() []sources.Hash {
	hashes := make([]sources.Hash, 0, len(s.lines))
	for _, line := range s.lines {
		sum, ok := line.parse()
		if !ok || line.name == "" {
			return nil
		}
		hashes = append(hashes, sources.ZipHash(sum))
	}
	return hashes
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
		id, ok := sources.ParseFilename(strings.TrimPrefix(line.name, "*"), p, v)
		sum, readable := line.parse()
		if ok && readable {
			archives[id.Platform] = sources.ZipHash(sum)
		}
	}
	return archives
}

func (l sumsLine) parse() (sum [32]byte, ok bool) {
	if len(l.sum) != hex.EncodedLen(len(sum)) {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(l.sum))
	return sum, err == nil
}
