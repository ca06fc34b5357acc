package acquire

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// A RepublishedError reports a package that differs from the one that was verified
// before for the same version and platform.
type RepublishedError struct {
	Was Publication
	Now Publication
}

// A Publication is one of several packages with the same ID.
type Publication struct {
	Hashes []sources.Hash
	From   string    // a URL, a path or a source
	Signer string    // the signer and the key; empty if it is unsigned
	Since  time.Time // when it was first seen; zero for now
}

func (e *RepublishedError) Error() string {
	if !sources.AnyOf(sources.H1, e.Was.Hashes) { // its contents weren't hashed, and may be the same
		return "the release was republished as another archive" + e.both()
	}
	return "the release was republished with different contents" + e.both()
}

// both describes both publications, on lines of their own.
func (e *RepublishedError) both() string {
	return fmt.Sprintf("\nseen on %s: %s\nnow: %s", e.Was.Since.Format(time.DateOnly), e.Was, e.Now)
}

// String returns the source and the signer, and a line for each hash.
func (p Publication) String() string {
	text := "from " + p.From + ", unsigned"
	if p.Signer != "" {
		text = "from " + p.From + ", signed by " + p.Signer
	}
	return text + "\n  " + sources.JoinSome(sources.Texts(p.Hashes), 3, "\n  ", "\n  and %d more")
}

// checkRelease refuses a release whose publisher has signed other archives than the
// recorded ones, before anything is fetched. The archives for all platforms form one
// release.
func (a *Acquirer) checkRelease(req Request, offer Offer, known sources.Stored) error {
	if offer.Kind != sources.FromRegistry || offer.Signed == nil || sources.MatchesAny(req.Locked, offer.Hashes...) {
		return nil
	}
	now := Publication{Hashes: offer.Hashes, From: offer.Source, Signer: signer(offer.Verified.Report)}
	switch {
	case known.Signed != nil && sources.MatchesAny(offer.Hashes, known.ZH): // the others were compared at that time
		return nil
	case known.Signed != nil && known.ZH != "":
		return republished(known, now)
	}
	sums, _ := trust.ParseSums(offer.Signed.Sums) // they are verified
	listed := sums.Archives(req.ID.Provider, req.ID.Version)
	for _, was := range a.Recorded(req.ID) {
		zh, ok := listed[was.ID.Platform]
		if !ok || was.Signed == nil || was.ZH == "" || was.ZH == zh {
			continue
		}
		now.Hashes = []sources.Hash{zh}
		return fmt.Errorf("for %s, %w", was.ID.Platform, republished(was, now))
	}
	return nil
}

// CheckRelease is the check of [Acquirer.Take] before a package is fetched, also for one
// that is not: the publisher must not have signed other archives before. known is the store's record
// of the package, without hashes if there is none. It returns what this user has verified.
func (a *Acquirer) CheckRelease(req Request, offer Offer, known sources.Stored) (sources.Stored, error) {
	known, err := a.verified(req.ID, known)
	if err == nil {
		err = a.checkRelease(req, offer, known)
	}
	if err != nil {
		err = fail(req.ID, offer.Source, err)
	}
	return known, err
}

// checkKnown refuses a package that differs from the recorded one, unless the lock
// file contains it: then a user has decided to use it. It refuses contents that the archive
// with this hash didn't have before, for any platform, whatever the lock file contains:
// another program has changed the archive or what was unpacked from it.
func (a *Acquirer) checkKnown(
	req Request, offer Offer, report sources.Report, got fetched, c sources.Contents, known sources.Stored,
) error {
	now := sources.Stored{H1: c.H1, ZH: got.ZH, Report: report}
	for _, was := range a.Recorded(req.ID) {
		if now.ZH == "" || was.ZH != now.ZH {
			continue
		}
		if err := compare(was, now, offer.Source); err != nil {
			return err
		}
	}
	if !known.Hashed() {
		return nil
	}
	err := compare(known, now, offer.Source)
	if republished, ok := errors.AsType[*RepublishedError](err); ok && sources.MatchesAny(req.Locked, got.hashes(c)...) {
		a.Warn(req.ID, "the release was republished, and the lock file has the new contents"+republished.both())
		return nil
	}
	return err
}

// compare returns an error if a package is not the recorded one. Hashes that one of them
// lacks are not compared.
func compare(was, now sources.Stored, from string) error {
	differ := func(a, b sources.Hash) bool { return a != "" && b != "" && a != b }
	switch {
	case was.ZH != "" && was.ZH == now.ZH && differ(was.H1, now.H1):
		err := &HashMismatchError{
			By:   fmt.Sprintf("the archive %s, as verified before,", now.ZH),
			Want: []sources.Hash{was.H1}, Got: []sources.Hash{now.H1},
		}
		return sources.WithHint(err, "do not use it, and find out which program changes the archive while larder reads it")
	case was.H1 != "" && was.H1 == now.H1, !differ(was.H1, now.H1) && !differ(was.ZH, now.ZH):
		return nil
	}
	return republished(was, Publication{Hashes: hashesOf(now), From: from, Signer: signer(now.Report)})
}

// hashesOf returns the known hashes of a package for messages.
func hashesOf(s sources.Stored) []sources.Hash {
	return slices.DeleteFunc([]sources.Hash{s.H1, s.ZH}, func(h sources.Hash) bool { return h == "" })
}

// CheckRepublished refuses a package that differs from the one that was verified here
// before. The package is from the file or mirror called from. Commands use it if they
// move packages without installing them.
func CheckRepublished(memory Memory, s sources.Stored, from string) error {
	was, err := memory.Recall(s.ID)
	if err != nil {
		return UnlessNotFound(err)
	}
	if err = compare(was, s, from); err != nil {
		return &sources.PackageError{ID: s.ID, Err: err}
	}
	return nil
}

func republished(was sources.Stored, now Publication) error {
	before := Publication{Hashes: hashesOf(was), From: was.Origin, Signer: signer(was.Report), Since: was.Since}
	err := sources.WithHint(&RepublishedError{before, now},
		"ask the publisher before using it; to accept the new contents, first run larder cache forget %s@%s",
		was.ID.Provider, was.ID.Version)
	if was.H1 == "" && sources.AnyOf(sources.H1, now.Hashes) {
		err = sources.WithHint(err, "larder mirror index DIR --hashes compares the contents too, "+
			"if the mirror in DIR has the archive that was seen")
	}
	return err
}

// signer returns the name of a package's signer for messages.
func signer(r sources.Report) string {
	switch best := r.Best(); {
	case best.KeyID == "":
		return ""
	case best.UserID == "":
		return "key " + best.KeyID
	default:
		return fmt.Sprintf("%s with key %s", best.UserID, best.KeyID)
	}
}
