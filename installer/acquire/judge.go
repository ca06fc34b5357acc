package acquire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/trust"
)

// A HashMismatchError is a package whose hashes are not among those that are stated.
type HashMismatchError struct {
	By   string         // what states them; empty if it is the source itself
	From string         // the URL that the package was downloaded from; empty if it was not
	Want []sources.Hash // any one of these would have sufficed
	Got  []sources.Hash // those of the package
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

// downloadedFrom adds the URL to err if that is a mismatch.
func downloadedFrom(url string, err error) error {
	if mismatch := (*HashMismatchError)(nil); errors.As(err, &mismatch) {
		mismatch.From = url
	}
	return err
}

// A NotSignedError is a package without the signature that is required.
type NotSignedError struct {
	Verdict sources.Verdict
	Err     error // the signature that does not count; nil if that isn't the reason
}

func (e *NotSignedError) Unwrap() error { return e.Err }

func (e *NotSignedError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("a signature is required, but the package is %v", e.Err)
	}
	return fmt.Sprintf("a signature is required, but the package is %q", e.Verdict)
}

// IsOther reports whether an error says that a source has a package, but not the one
// that it should be.
func IsOther(err error) bool {
	var mismatch *HashMismatchError
	var republished *RepublishedError
	return errors.As(err, &mismatch) || errors.As(err, &republished)
}

// An Authority states hashes of a package from before.
type Authority struct{ name, hint string }

// The authorities.
var (
	TheLockFile  = Authority{"the dependency lock file", "if the lock file was written for other platforms only, add PLATFORM: larder lock --platform PLATFORM --platform OTHER, with each platform in use; if the package was republished and you trust it, remove its block from the lock file and run the command again"}
	TheOneBefore = Authority{"the one before", "version VERSION was republished with different contents: ask the publisher before using it"}
)

// Refuse is the error of a package that has none of the hashes the authority states.
func (by Authority) Refuse(id sources.PackageID, want []sources.Hash, got ...sources.Hash) error {
	return sources.WithHint(&HashMismatchError{By: by.name, Want: want, Got: got}, "%s", strings.NewReplacer("PLATFORM", id.Platform.String(), "VERSION", id.Version.String()).Replace(by.hint))
}

// verify verifies the signed checksums of a package before any of it is fetched, as far
// as the source states the archive's checksum: registries do, and most network mirrors.
// What a mirror states only ever refuses a package: its evidence counts once the archive
// is here, see judgeArchive.
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

// verifyStated verifies a mirror's evidence for the archive that the mirror states: for
// any of them, if it states several. If it states none, the report is empty.
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

// verifyCarried verifies the signed checksums that a mirror carries. They must list this
// very archive, under whichever name.
func (a *Acquirer) verifyCarried(offer Offer, zh sources.Hash) (trust.Report, error) {
	report, err := trust.VerifyCarried(offer.Signed, zh, a.trust(offer.ID.Provider))
	if err != nil {
		return report, fmt.Errorf("checking the mirror's signed checksums: %w", err)
	}
	return report, nil
}

// judgeOffer refuses an offer that can only be refused once it is downloaded: without the
// signature that is required, or of another archive than is locked.
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

// judgeArchive checks the archive's hash against everything that states one for archives,
// and returns the report on its signature. A mirror or lock file that has h1: hashes
// besides may yet prove right when the contents are known.
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

// refuses reports whether hashes, none of which are of contents, are all of other
// archives.
func refuses(want []sources.Hash, zh sources.Hash) bool {
	return sources.AnyUsable(want) && !sources.MatchesAny(want, zh) && !sources.AnyOf(sources.H1, want)
}

// judgeContents is the last judgement, with everything known, before anything becomes
// visible.
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

// checkSigned is for those who require a signature. A name that is not this
// package's may be that of an older release, whose signature is as good.
func (a *Acquirer) checkSigned(id sources.PackageID, report trust.Report, v sources.Verdict) error {
	switch {
	case !a.SignedEnough(v) && report.Untrusted != nil:
		return sources.WithHint(&NotSignedError{v, report.Untrusted}, "if the publisher has announced the new key, add its fingerprint to trusted_keys")
	case !a.SignedEnough(v):
		return sources.WithHint(&NotSignedError{Verdict: v}, "use the origin registry, or a mirror with signed checksums, such as larder mirror sync makes")
	case report.Signed != id.Filename():
		return fmt.Errorf("a signature is required, but the signed checksums are for %s, not %s", fetch.Printable(report.Signed), id.Filename())
	}
	return nil
}

// checkHashes checks the hashes of the contents, or of the archive, against the source's
// and the lock file's: one of each must match.
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

// provable reports whether the lock file's hashes are of a kind that this package can be
// checked against. A directory has no archive to hash, so engines accept any if only
// archives were locked, and so do we.
func provable(req Request, offer Offer) bool {
	if offer.Location.Dir != "" {
		return sources.AnyOf(sources.H1, req.Locked)
	}
	return len(req.Locked) > 0
}

func sourceHint(err error) error {
	return sources.WithHint(err, "run the command again; if the package still differs, ask its publisher before using it")
}

// verdictOf is the verdict on a package that has passed all checks.
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
