package trust

import (
	"errors"

	"github.com/larder-cli/larder/sources"
)

// VerifyArchive is [Verify] for an archive that is here, under whichever name:
// its hash must be one of those signed.
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
			return Verify(s, line.name, zh, opts)
		}
	}
	return Report{}, &UnlistedError{zh}
}

// VerifyCarried is [VerifyArchive] where the evidence came along with the archive,
// as in a mirror. Keys that came so prove no more than that, but HashiCorp's are
// known by their fingerprints wherever they come from.
func VerifyCarried(s *sources.Signed, zh sources.Hash, opts Options) (Report, error) {
	report, err := VerifyArchive(s, zh, opts)
	if report.Verdict == sources.SelfSigned {
		report.Verdict = sources.MirrorEvidence
	}
	return report, err
}

// An UnlistedError is an archive that is none of those whose checksums are signed.
type UnlistedError struct{ Got sources.Hash }

func (e *UnlistedError) Error() string {
	return "archive is " + string(e.Got) + ", which is none of the signed checksums"
}
