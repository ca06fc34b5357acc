package trust

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// Sums are the contents of a SHA256SUMS document: lines of a SHA-256 in
// hexadecimal and a file name, with white space between them.
type Sums struct{ lines []sumsLine }

type sumsLine struct {
	sum, name string // name is empty if there is none
}

// Real documents have some kilobytes and a line for each platform.
const (
	maxSumsSize  = 4 << 20
	maxSumsLines = 10_000
)

// ParseSums splits doc into lines, of which it skips the blank ones. What is
// wrong with a line matters only to who needs the line.
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

// find is the first line that names the file, and false if there is none. A "*" before
// the name says that the sum was made of a binary file, as all are.
func (s Sums) find(filename string) (sumsLine, bool) {
	for _, line := range s.lines {
		if strings.TrimPrefix(line.name, "*") == filename && filename != "" {
			return line, true
		}
	}
	return sumsLine{}, false
}

// nameOf is the name under which a hash is listed, and false if it is not.
func (s Sums) nameOf(zh sources.Hash) (string, bool) {
	for _, line := range s.lines {
		if sum, ok := line.parse(); ok && sources.ZipHash(sum) == zh {
			return line.name, true
		}
	}
	return "", false
}

// readable reports whether any line has the form that is expected, or there is none.
func (s Sums) readable() bool {
	for _, line := range s.lines {
		if _, ok := line.parse(); ok && line.name != "" {
			return true
		}
	}
	return len(s.lines) == 0
}

// Hashes are the zh: hashes of all lines, and none if any line is malformed.
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

// Archives are the zh: hashes of a version's archives, by platform: of the lines
// whose name [sources.ParseFilename] accepts. There are at most 100, which no release has.
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
