package acquire

import (
	"cmp"
	"context"
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
	_, mismatch := errors.AsType[*HashMismatchError](err)
	_, republished := errors.AsType[*RepublishedError](err)
	return mismatch || republished
}

// An Authority is an origin of previously recorded hashes.
type Authority struct{ name, hint string }

// The authorities.
var (
	TheLockFile = Authority{"the dependency lock file", "if the lock file was written for other platforms only, " +
		"run COMMAND --platform PLATFORM --platform OS_ARCH, with each of these platforms; " +
		"if the package was republished and you trust it, remove its block from the lock file and run the command again"}
	TheCompleteLockFile = Authority{TheLockFile.name, // which has hashes of this platform
		"if the package was republished and you trust it, remove its block from the lock file and lock it again"}
	TheOneBefore = Authority{"the earlier package",
		"version VERSION was republished with different contents: ask the publisher before using it"}
)

// Refuse returns the error for a package with none of the authority's hashes.
func (a *Acquirer) Refuse(by Authority, id sources.PackageID, want []sources.Hash, got ...sources.Hash) error {
	command := cmp.Or(a.opts.Lock, "larder lock")
	hint := strings.NewReplacer("COMMAND", command, "PLATFORM", id.Platform.String(),
		"VERSION", id.Version.String()).Replace(by.hint)
	return sources.WithHint(&HashMismatchError{By: by.name, Want: want, Got: got}, "%s", hint)
}

// verify verifies the signed checksums of a package before it is fetched, if the
// source states the archive's checksum: registries do, and most network mirrors.
// Evidence of a mirror can only cause a refusal here. It counts as verification once
// the archive has been fetched, see judgeArchive.
func (a *Acquirer) verify(ctx context.Context, offer Offer) (trust.Verified, error) {
	switch {
	case offer.Signed == nil:
		return trust.Verified{}, nil
	case offer.Kind == sources.FromRegistry:
		verified, err := a.opts.Judge.VerifyFile(ctx, offer.ID.Provider, offer.Signed, offer.Filename, offer.Hashes[0])
		if err != nil && offer.Signed.Origin != "" {
			err = fmt.Errorf("%s: %w", offer.Signed.Origin, err)
		}
		return verified, err
	default:
		_, err := a.verifyCarried(ctx, offer, offer.Hashes...)
		return trust.Verified{}, err
	}
}

// verifyCarried verifies the signed checksums from a mirror for an archive that has one of
// the hashes, under any file name. If several are zh: hashes, one that is signed must
// verify. If none is, nothing is verified.
func (a *Acquirer) verifyCarried(ctx context.Context, offer Offer, hashes ...sources.Hash) (trust.Verified, error) {
	stated := slices.DeleteFunc(slices.Clone(hashes), func(h sources.Hash) bool { return h.Scheme() != sources.ZH })
	if len(stated) == 0 {
		return trust.Verified{}, nil
	}
	sums, _ := trust.ParseSums(offer.Signed.Sums) // Verify returns the error
	unlisted := sources.Without(slices.Clone(stated), sums.Listed()...)
	listed := sources.Without(slices.Clone(stated), unlisted...)
	verified, err := a.opts.Judge.Verify(ctx, offer.ID.Provider, offer.Signed, append(listed, stated...)[0])
	if err != nil {
		err = fmt.Errorf("checking the mirror's signed checksums: %w", err)
	}
	return verified, err
}

// judgeOffer refuses an offer that would be refused after the download: without a
// required signature, or for an archive that is not locked.
func (a *Acquirer) judgeOffer(req Request, offer Offer) error {
	if offer.Payload == nil {
		proof := proofOf(req, offer, offer.Verified).Approved(offer.mayBeApproved())
		report, check := a.report(req.ID, proof), a.opts.Judge.Check
		if offer.Kind != sources.FromRegistry && offer.Signed != nil {
			check = func(id sources.PackageID, r sources.Report) error { return a.opts.Judge.CheckApproved(id, r.Approvals) }
		}
		if err := check(req.ID, report); err != nil {
			return err
		}
	}
	archives := func(hashes []sources.Hash) bool {
		return sources.AnyUsable(hashes) && !sources.AnyOf(sources.H1, hashes)
	}
	contents := offer.Kind == sources.FromOCI && sources.AnyUsable(req.Locked) // which OpenTofu doesn't compare here
	comparable := archives(req.Locked) || contents
	if archives(offer.Hashes) && comparable && !sources.MatchesAny(req.Locked, offer.Hashes...) {
		return a.Refuse(req.By, req.ID, req.Locked, offer.Hashes...)
	}
	return nil
}

// judgeArchive compares the archive's hash with all stated archive hashes, and
// verifies its signed checksums.
func (a *Acquirer) judgeArchive(ctx context.Context, req Request, offer Offer, got fetched) (trust.Verified, error) {
	if got.ZH == "" {
		return offer.Verified, nil
	}
	if err := a.checkHashes(req, offer, got.ZH); err != nil {
		return offer.Verified, err
	}
	if offer.Kind == sources.FromRegistry || got.Signed == nil {
		return offer.Verified, nil
	}
	return a.verifyCarried(ctx, offer, got.ZH)
}

// readsContents reports whether the hash of the contents of an archive is required, although signed checksums cover the
// archive: it alone shows that the package is the one that the lock file, the source or a record has.
func readsContents(req Request, offer Offer, zh sources.Hash, known sources.Stored) bool {
	lacks := func(hashes []sources.Hash) bool { return sources.AnyUsable(hashes) && !slices.Contains(hashes, zh) }
	return lacks(req.Locked) || lacks(offer.Hashes) || known.Hashed() && known.ZH != zh
}

// judgeContents is the last check before the package becomes visible, when all hashes
// are known. It returns what is proved about the package.
func (a *Acquirer) judgeContents(
	req Request, offer Offer, signed trust.Verified, got fetched, c sources.Contents, known sources.Stored,
) (sources.Proof, error) {
	proof := proofOf(req, offer, signed).Approved(offer.approvedAs(got.ZH))
	is := sources.Stored{ID: req.ID, H1: c.H1, ZH: got.ZH}
	if known.Same(is) {
		proof = proof.Approved(known.Proof.Approvals)
	}
	if got.Archive != nil {
		if _, err := got.Archive.Stat(); err != nil { // it has changed since it was hashed
			return proof, err
		}
	}
	err := a.checkHashes(req, offer, got.hashes(c)...)
	if err == nil {
		err = a.checkKnown(req, offer, signed.Report, got, c, known)
	}
	if err == nil {
		err = a.opts.Judge.Check(req.ID, a.bestReport(proof, is, known))
	}
	return proof, err
}

// bestReport returns the better of the reports on a proof, and on what was proved here
// before about the same contents.
func (a *Acquirer) bestReport(proof sources.Proof, now, known sources.Stored) sources.Report {
	r := a.report(now.ID, proof)
	if known.Same(now) && known.Report.Verdict > r.Verdict {
		known.Report.Approvals = r.Approvals
		return known.Report
	}
	return r
}

// report returns what a proof is worth by the settings of this run.
func (a *Acquirer) report(id sources.PackageID, proof sources.Proof) sources.Report {
	return a.opts.Judge.Report(id.Provider, proof)
}

// checkHashes compares hashes of the package with those of the source and of the lock
// file: one of each must match. Without the h1: hash of the contents, it accepts an archive
// if they have h1: hashes.
func (a *Acquirer) checkHashes(req Request, offer Offer, got ...sources.Hash) error {
	refuses := func(want []sources.Hash) bool {
		final := sources.AnyOf(sources.H1, got) || !sources.AnyOf(sources.H1, want)
		return final && !sources.MatchesAny(want, got...)
	}
	if sources.AnyUsable(offer.Hashes) && refuses(offer.Hashes) {
		hint := "run the command again; if the package still differs, ask its publisher before using it"
		if offer.Payload != nil {
			hint = "copy the bundle again, or ask the sender for a new one"
		}
		return sources.WithHint(&HashMismatchError{Want: offer.Hashes, Got: got}, "%s", hint)
	}
	if provable(req, offer) && refuses(req.Locked) {
		return a.Refuse(req.By, req.ID, req.Locked, got...)
	}
	return nil
}

// foreknown returns the hashes of an offered package that are known before it is fetched: those that are recorded for
// the same archive, or else those that its source states.
func foreknown(offer Offer, known sources.Stored) []sources.Hash {
	if known.H1 != "" && known.ZH != "" && slices.Contains(offer.Hashes, known.ZH) {
		return slices.Compact(known.Hashes())
	}
	hashes := slices.Clone(offer.Hashes)
	if offer.Stated != "" {
		hashes = append(hashes, offer.Stated)
	}
	return hashes
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

// proofOf returns what is proved about a package that has passed all checks.
func proofOf(req Request, offer Offer, signed trust.Verified) sources.Proof {
	proof := signed.Proof
	proof.Matched = proof.Matched || sources.AnyUsable(offer.Hashes) || provable(req, offer) && !offer.CheckedOut
	return proof
}

func list(hashes []sources.Hash) string {
	return sources.JoinSome(sources.Texts(hashes), 3, " or ", " and %d more")
}
