package trust

import (
	"errors"

	"github.com/larder-cli/larder/sources"
)

// VerifyArchive is for an archive that is here, under whichever name: its hash must
// be one of those signed. Only keys that are marked as listed count as a registry's:
// a store marks them in the evidence that it kept. The others came along with the
// archive, as in a mirror, and prove no more than that. HashiCorp's keys and trusted
// ones are known by their fingerprints wherever they come from.
func VerifyArchive(s *sources.Signed, zh sources.Hash, opts Options) (Report, error) {
	if s == nil {
		return Report{}, errors.New("no signed checksums")
	}
	sums, err := ParseSums(s.Sums)
	if err != nil {
		return Report{}, err
	}
	for _, line := range sums.lines {
		if sum, ok := line.parse(); ok && sources.ZipHash(sum) == zh {
			return verifyFile(s, line.name, zh, opts)
		}
	}
	return Report{}, &UnlistedError{zh}
}

// VerifyCarried is [VerifyArchive] where all of the evidence came along.
func VerifyCarried(s *sources.Signed, zh sources.Hash, opts Options) (Report, error) {
	return VerifyArchive(marked(s, false), zh, opts)
}

// An UnlistedError is an archive that is none of those whose checksums are signed.
type UnlistedError struct{ Got sources.Hash }

func (e *UnlistedError) Error() string {
	return "archive is " + string(e.Got) + ", which is none of the signed checksums"
}
