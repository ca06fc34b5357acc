package acquire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
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

// A NotSignedError reports a package without the required signature.
type NotSignedError struct {
	Verdict sources.Verdict
	Err     error // why the signature is not accepted; nil if there is none
}

func (e *NotSignedError) Unwrap() error { return e.Err }

func (e *NotSignedError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("a signature is required, but the package is %v", e.Err)
	}
	return fmt.Sprintf("a signature is required, but the package is %q", e.Verdict)
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
func (a *Acquirer) verify(offer Offer) (trust.Report, error) {
	switch {
	case offer.Signed == nil:
		return trust.Report{}, nil
	case offer.Kind == sources.FromRegistry:
		report, err := trust.Verify(offer.Signed, offer.Filename, offer.Hashes[0], a.trust(offer.ID.Provider))
		if err != nil && offer.Signed.Origin != "" {
			err = fmt.Errorf("%s: %w", offer.Signed.Origin, err)
		}
		return report, err
	default:
		_, err := a.verifyStated(offer)
		return trust.Report{}, err
	}
}

// verifyStated verifies a mirror's evidence for the checksum of the archive that the
// mirror states. If it states several, one must verify. If it states none, the report
// is empty.
func (a *Acquirer) verifyStated(offer Offer) (trust.Report, error) {
	var refused error
	for _, h := range offer.Hashes {
		if h.Scheme() != sources.ZH {
			continue
		}
		report, err := a.verifyCarried(offer, h)
		if err == nil {
			return report, nil
		}
		refused = err
	}
	return trust.Report{}, refused
}

// verifyCarried verifies the signed checksums from a mirror. They must contain this
// archive, under any file name.
func (a *Acquirer) verifyCarried(offer Offer, zh sources.Hash) (trust.Report, error) {
	report, err := a.verifyOffered(offer, zh)
	if err != nil {
		return report, fmt.Errorf("checking the mirror's signed checksums: %w", err)
	}
	return report, nil
}

// judgeOffer refuses an offer that would be refused after the download: without a
// required signature, or for an archive that is not locked.
func (a *Acquirer) judgeOffer(req Request, offer Offer) error {
	if a.opts.RequireSigned && (offer.Kind == sources.FromRegistry || offer.Signed == nil) && offer.Payload == nil {
		if err := a.checkSigned(req.ID, offer.Report, verdictOf(req, offer, offer.Report)); err != nil {
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
// returns the report on its signature. If a mirror or lock file also has h1: hashes,
// a mismatch is not final before the contents are known.
func (a *Acquirer) judgeArchive(req Request, offer Offer, got fetched) (trust.Report, error) {
	if got.ZH == "" {
		return offer.Report, nil
	}
	if refuses(offer.Hashes, got.ZH) {
		return offer.Report, sourceHint(&HashMismatchError{Want: offer.Hashes, Got: []sources.Hash{got.ZH}})
	}
	if refuses(req.Locked, got.ZH) {
		return offer.Report, req.By.Refuse(req.ID, req.Locked, got.ZH)
	}
	if offer.Kind == sources.FromRegistry || got.Signed == nil {
		return offer.Report, nil
	}
	return a.verifyCarried(offer, got.ZH)
}

// refuses reports whether the archive hash contradicts hashes: none matches, and
// there are no h1: hashes that may match the contents.
func refuses(want []sources.Hash, zh sources.Hash) bool {
	return sources.AnyUsable(want) && !sources.MatchesAny(want, zh) && !sources.AnyOf(sources.H1, want)
}

// judgeContents is the last check before the package becomes visible, when all hashes
// are known.
func (a *Acquirer) judgeContents(req Request, offer Offer, report trust.Report, got fetched, c sources.Contents, known sources.Stored) (sources.Verdict, error) {
	err := got.unchanged()
	if err == nil {
		err = checkHashes(req, offer, got, c)
	}
	if err == nil {
		err = a.checkKnown(req, offer, report, got, c, known)
	}
	verdict := verdictOf(req, offer, report)
	if err == nil && a.opts.RequireSigned {
		err = a.checkSigned(req.ID, report, verdict)
	}
	return verdict, err
}

// checkSigned checks the signature requirement. If the checksums contain the archive
// under another package's file name, the signature may be that of an older release,
// so it is not accepted.
func (a *Acquirer) checkSigned(id sources.PackageID, report trust.Report, v sources.Verdict) error {
	switch {
	case !a.SignedEnough(v) && report.Untrusted != nil:
		return sources.WithHint(&NotSignedError{v, report.Untrusted}, "if the publisher has announced the new key, add its fingerprint to trusted_keys")
	case !a.SignedEnough(v):
		if v == sources.MirrorEvidence {
			return sources.WithHint(&NotSignedError{Verdict: v}, "the key came with the mirror: compare its fingerprint (larder mirror verify DIR) with the publisher's, then add --trust-key FINGERPRINT")
		}
		return sources.WithHint(&NotSignedError{Verdict: v}, "use the origin registry, or a mirror with signed checksums, such as larder mirror sync makes")
	case report.Signed != id.Filename():
		return fmt.Errorf("a signature is required, but the signed checksums are for %s, not %s", fetch.Printable(report.Signed), id.Filename())
	}
	return nil
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

// verdictOf returns the verdict on a package that has passed all checks.
func verdictOf(req Request, offer Offer, report trust.Report) sources.Verdict {
	switch {
	case report.Verdict > sources.HashOnly:
		return report.Verdict
	case sources.AnyUsable(offer.Hashes), provable(req, offer):
		return sources.HashOnly
	default:
		return sources.Unverified
	}
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
