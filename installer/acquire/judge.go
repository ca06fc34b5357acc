package acquire

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// A HashMismatchError reports a package whose hashes are not among the expected ones.
type HashMismatchError struct {
	By   string         // origin of the expected hashes; empty for the source itself
	From string         // URL of the download; empty if there was none
	Want []sources.Hash // the expected hashes; any one would have matched
	Got  []sources.Hash // the hashes of the package
}

func (e *HashMismatchError) Error() string {
	text := fmt.Sprintf("the package is %s, but ", list(e.Got))
	if e.From != "" {
		text = fmt.Sprintf("the package from %s is %s, but ", e.From, list(e.Got))
	}
	if e.By == "" {
		return text + "should be " + list(e.Want)
	}
	return text + e.By + " has " + list(e.Want)
}

// downloadedFrom sets the URL in err if err is a mismatch.
func downloadedFrom(url string, err error) error {
	if mismatch := (*HashMismatchError)(nil); errors.As(err, &mismatch) {
		mismatch.From = url
	}
	return err
}

// IsOther reports whether an error means that a source has a different package from
// the expected one.
func IsOther(err error) bool {
	var mismatch *HashMismatchError
	var republished *RepublishedError
	return errors.As(err, &mismatch) || errors.As(err, &republished)
}

// An Authority is an origin of previously recorded hashes.
type Authority struct{ name, hint string }

// The authorities.
var (
	TheLockFile  = Authority{"the dependency lock file", "if the lock file was written for other platforms only, add PLATFORM: larder lock --platform PLATFORM --platform OTHER, with each platform in use; if the package was republished and you trust it, remove its block from the lock file and run the command again"}
	TheOneBefore = Authority{"the one before", "version VERSION was republished with different contents: ask the publisher before using it"}
)

// Refuse returns the error for a package with none of the authority's hashes.
func (by Authority) Refuse(id sources.PackageID, want []sources.Hash, got ...sources.Hash) error {
	return sources.WithHint(&HashMismatchError{By: by.name, Want: want, Got: got}, "%s", strings.NewReplacer("PLATFORM", id.Platform.String(), "VERSION", id.Version.String()).Replace(by.hint))
}

// verify verifies the signed checksums of a package before it is fetched, if the
// source states the archive's checksum: registries do, and most network mirrors.
// Evidence of a mirror can only cause a refusal here. It counts as verification once
// the archive has been fetched, see judgeArchive.
func (a *Acquirer) verify(offer Offer) (trust.Verified, error) {
	switch {
	case offer.Signed == nil:
		return trust.Verified{}, nil
	case offer.Kind == sources.FromRegistry:
		verified, err := trust.Verify(offer.Signed, offer.Filename, offer.Hashes[0], a.trust(offer.ID.Provider))
		if err != nil && offer.Signed.Origin != "" {
			err = fmt.Errorf("%s: %w", offer.Signed.Origin, err)
		}
		return verified, err
	default:
		_, err := a.verifyStated(offer)
		return trust.Verified{}, err
	}
}

// verifyStated verifies a mirror's evidence for the checksum of the archive that the
// mirror states. If it states several, one that is signed must verify. If it states
// none, nothing is verified.
func (a *Acquirer) verifyStated(offer Offer) (trust.Verified, error) {
	stated := slices.DeleteFunc(slices.Clone(offer.Hashes), func(h sources.Hash) bool { return h.Scheme() != sources.ZH })
	if len(stated) == 0 {
		return trust.Verified{}, nil
	}
	sums, _ := trust.ParseSums(offer.Signed.Sums) // verifyCarried returns the error
	unlisted := sources.Without(slices.Clone(stated), sums.Listed()...)
	if listed := sources.Without(slices.Clone(stated), unlisted...); len(listed) > 0 {
		return a.verifyCarried(offer, listed[0])
	}
	return a.verifyCarried(offer, stated[0])
}

// verifyCarried verifies the signed checksums from a mirror. They must contain this
// archive, under any file name.
func (a *Acquirer) verifyCarried(offer Offer, zh sources.Hash) (trust.Verified, error) {
	verified, err := a.verifyOffered(offer, zh)
	if err != nil {
		return verified, fmt.Errorf("checking the mirror's signed checksums: %w", err)
	}
	return verified, nil
}

// judgeOffer refuses an offer that would be refused after the download: without a
// required signature, or for an archive that is not locked.
func (a *Acquirer) judgeOffer(req Request, offer Offer) error {
	if (offer.Kind == sources.FromRegistry || offer.Signed == nil) && offer.Payload == nil {
		if err := a.opts.Judge.Check(req.ID, a.report(req.ID, proofOf(req, offer, offer.Verified))); err != nil {
			return err
		}
	}
	archives := sources.AnyUsable(offer.Hashes) && !sources.AnyOf(sources.H1, offer.Hashes) && !sources.AnyOf(sources.H1, req.Locked)
	if archives && len(req.Locked) > 0 && !sources.MatchesAny(req.Locked, offer.Hashes...) {
		return req.By.Refuse(req.ID, req.Locked, offer.Hashes...)
	}
	return nil
}

// judgeArchive compares the archive's hash with all stated archive hashes, and
// verifies its signed checksums. If a mirror or lock file also has h1: hashes,
// a mismatch is not final before the contents are known.
func (a *Acquirer) judgeArchive(req Request, offer Offer, got fetched) (trust.Verified, error) {
	if got.ZH == "" {
		return offer.Verified, nil
	}
	if refuses(offer.Hashes, got.ZH) {
		return offer.Verified, sourceHint(&HashMismatchError{Want: offer.Hashes, Got: []sources.Hash{got.ZH}})
	}
	if refuses(req.Locked, got.ZH) {
		return offer.Verified, req.By.Refuse(req.ID, req.Locked, got.ZH)
	}
	if offer.Kind == sources.FromRegistry || got.Signed == nil {
		return offer.Verified, nil
	}
	return a.verifyCarried(offer, got.ZH)
}

// refuses reports whether the archive hash contradicts hashes: none matches, and
// there are no h1: hashes that may match the contents.
func refuses(want []sources.Hash, zh sources.Hash) bool {
	return sources.AnyUsable(want) && !sources.MatchesAny(want, zh) && !sources.AnyOf(sources.H1, want)
}

// judgeContents is the last check before the package becomes visible, when all hashes
// are known. It returns what is proved about the package.
func (a *Acquirer) judgeContents(req Request, offer Offer, signed trust.Verified, got fetched, c sources.Contents, known sources.Stored) (sources.Proof, error) {
	proof := proofOf(req, offer, signed)
	err := got.unchanged()
	if err == nil {
		err = checkHashes(req, offer, got, c)
	}
	if err == nil {
		err = a.checkKnown(req, offer, signed.Report, got, c, known)
	}
	if err == nil {
		err = a.opts.Judge.Check(req.ID, a.bestReport(req.ID, proof, c, known))
	}
	return proof, err
}

// bestReport returns the better of the reports on a proof, and on what was proved here
// before about the same contents.
func (a *Acquirer) bestReport(id sources.PackageID, proof sources.Proof, c sources.Contents, known sources.Stored) sources.Report {
	r := a.report(id, proof)
	if known.H1 == c.H1 && !known.Imported && known.Report.Verdict > r.Verdict {
		return known.Report
	}
	return r
}

// report returns what a proof is worth by the settings of this run.
func (a *Acquirer) report(id sources.PackageID, proof sources.Proof) sources.Report {
	return a.opts.Judge.Report(id.Provider, proof)
}

// checkHashes compares the hashes of the contents or of the archive with those of the
// source and of the lock file: one of each must match.
func checkHashes(req Request, offer Offer, f fetched, c sources.Contents) error {
	got := []sources.Hash{c.H1}
	if c.ZipH1 != c.H1 && c.ZipH1 != "" {
		got = append(got, c.ZipH1)
	}
	if f.ZH != "" {
		got = append(got, f.ZH)
	}
	if sources.AnyUsable(offer.Hashes) && !sources.MatchesAny(offer.Hashes, got...) {
		return sourceHint(&HashMismatchError{Want: offer.Hashes, Got: got})
	}
	if provable(req, offer) && !sources.MatchesAny(req.Locked, got...) {
		return req.By.Refuse(req.ID, req.Locked, got...)
	}
	return nil
}

// provable reports whether this package can have hashes of the same kind as the lock
// file's. A directory has no archive hash, so if only archive hashes are locked,
// Larder accepts any directory, as the engines do.
func provable(req Request, offer Offer) bool {
	if offer.Location.Dir != "" {
		return sources.AnyOf(sources.H1, req.Locked)
	}
	return len(req.Locked) > 0
}

func sourceHint(err error) error {
	return sources.WithHint(err, "run the command again; if the package still differs, ask its publisher before using it")
}

// proofOf returns what is proved about a package that has passed all checks.
func proofOf(req Request, offer Offer, signed trust.Verified) sources.Proof {
	proof := signed.Proof
	proof.Matched = proof.Matched || sources.AnyUsable(offer.Hashes) || provable(req, offer) && !offer.CheckedOut
	return proof
}

func list(hashes []sources.Hash) string {
	const most = 3
	text := ""
	for i, h := range hashes {
		switch {
		case i == most:
			return fmt.Sprintf("%s and %d more", text, len(hashes)-most)
		case i > 0:
			text += " or "
		}
		text += string(h)
	}
	return text
}
