package acquire

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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
	return fmt.Sprintf("the release was republished: what was seen on %s is %s; what is there now is %s",
		e.Was.Since.Format(time.DateOnly), e.Was, e.Now)
}

func (p Publication) String() string {
	signer := "unsigned"
	if p.Signer != "" {
		signer = "signed by " + p.Signer
	}
	return fmt.Sprintf("%s from %s, %s", list(p.Hashes), p.From, signer)
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
	sums, err := trust.ParseSums(offer.Signed.Sums)
	if err != nil {
		return err
	}
	listed := sums.Archives(req.ID.Provider, req.ID.Version)
	for _, platform := range a.recorded(req.ID) {
		other := req.ID
		other.Platform = platform
		zh, ok := listed[platform]
		if !ok || other == req.ID {
			continue
		}
		was, err := a.recall(other)
		if err != nil || was.Signed == nil || was.ZH == "" || was.ZH == zh {
			continue // requests for the package of an unreadable record fail
		}
		now.Hashes = []sources.Hash{zh}
		return fmt.Errorf("for %s, %w", platform, republished(was, now))
	}
	return nil
}

// CheckRelease is the check of [Acquirer.Take] for a package that is not fetched: the
// publisher must not have signed other archives before. known is the store's record
// of the package, without H1 if there is none.
func (a *Acquirer) CheckRelease(req Request, offer Offer, known sources.Stored) error {
	known, err := a.verified(req.ID, known)
	if err == nil {
		err = a.checkRelease(req, offer, known)
	}
	if err != nil {
		err = fail(req.ID, offer.Source, err)
	}
	return err
}

// recorded returns the platforms for which hashes of the version are recorded
// anywhere.
func (a *Acquirer) recorded(id sources.PackageID) []sources.Platform {
	all, _ := a.into.Recorded(id.Provider, id.Version)
	if a.opts.Memory != nil {
		elsewhere, _ := a.opts.Memory.Recorded(id.Provider, id.Version)
		all = append(all, elsewhere...)
	}
	slices.SortFunc(all, func(p, q sources.Platform) int { return strings.Compare(p.String(), q.String()) })
	return slices.Compact(all)
}

// checkKnown refuses a package that differs from the recorded one, unless the lock
// file contains it: then a user has decided to use it.
func (a *Acquirer) checkKnown(req Request, offer Offer, report sources.Report, got fetched, c sources.Contents, known sources.Stored) error {
	if err := a.checkContents(req.ID, got.ZH, c.H1, known); err != nil {
		return err
	}
	if known.H1 == "" || known.Imported || known.H1 == c.H1 {
		return nil
	}
	now := []sources.Hash{c.H1}
	if got.ZH != "" {
		now = append(now, got.ZH)
	}
	err := republished(known, Publication{Hashes: now, From: offer.Source, Signer: signer(report)})
	if sources.MatchesAny(req.Locked, c.H1, c.ZipH1, got.ZH) {
		a.Warn(req.ID, err.Error()+", which is the one that is locked")
		return nil
	}
	return err
}

// checkContents refuses contents that the archive with this hash didn't have before, for
// any platform, whatever the lock file contains: another program has changed the archive
// or what was unpacked from it.
func (a *Acquirer) checkContents(id sources.PackageID, zh, h1 sources.Hash, known sources.Stored) error {
	if zh == "" {
		return nil
	}
	others := slices.DeleteFunc(a.recorded(id), func(p sources.Platform) bool { return p == id.Platform })
	for _, was := range append(a.recordedFor(id, others), known) {
		if was.ZH == zh && was.H1 != "" && was.H1 != h1 && !was.Imported {
			return otherContents(zh, was.H1, h1)
		}
	}
	return nil
}

func otherContents(zh, was, now sources.Hash) error {
	err := &HashMismatchError{By: fmt.Sprintf("the archive %s, as verified before,", zh), Want: []sources.Hash{was}, Got: []sources.Hash{now}}
	return sources.WithHint(err, "do not use it, and find out which program changes the archive while larder reads it")
}

// CheckRepublished refuses a package that differs from the one that was verified here
// before. The package is from the file or mirror called from. Commands use it if they
// move packages without installing them.
func CheckRepublished(memory Memory, s sources.Stored, from string) error {
	was, err := memory.Recall(s.ID)
	switch {
	case err != nil:
		return UnlessNotFound(err)
	case was.Imported, was.H1 != "" && was.H1 == s.H1:
		return nil
	case was.ZH != "" && was.ZH == s.ZH:
		if was.H1 == "" || s.H1 == "" {
			return nil
		}
		return &sources.PackageError{ID: s.ID, Err: otherContents(s.ZH, was.H1, s.H1)}
	case (was.ZH == "" || s.ZH == "") && (was.H1 == "" || s.H1 == ""):
		return nil
	}
	now := Publication{From: from, Signer: signer(s.Report)}
	for _, h := range []sources.Hash{s.H1, s.ZH} {
		if h != "" {
			now.Hashes = append(now.Hashes, h)
		}
	}
	return &sources.PackageError{ID: s.ID, Err: republished(was, now)}
}

// recall returns the hashes of a package that this user has verified, from the store
// or from another record. Without a record it returns none.
func (a *Acquirer) recall(id sources.PackageID) (sources.Stored, error) {
	known, err := a.into.Recall(id)
	if err := UnlessNotFound(err); err != nil {
		return known, err
	}
	return a.verified(id, known)
}

// verified returns the store's record of a package. If there is none, or only an
// import's claim, it returns this user's record from elsewhere.
func (a *Acquirer) verified(id sources.PackageID, known sources.Stored) (sources.Stored, error) {
	if known.H1 != "" && !known.Imported || a.opts.Memory == nil {
		return known, nil
	}
	elsewhere, err := a.opts.Memory.Recall(id)
	if errors.Is(err, sources.ErrNotFound) {
		return known, nil
	}
	return elsewhere, err
}

// UnlessNotFound returns the error of a record that cannot be read. It returns nil if
// there is no record, because there is then nothing to compare with.
func UnlessNotFound(err error) error {
	if errors.Is(err, sources.ErrNotFound) {
		return nil
	}
	return err
}

func republished(was sources.Stored, now Publication) error {
	before := Publication{Hashes: []sources.Hash{was.H1}, From: was.Origin, Since: was.Since}
	if was.ZH != "" {
		before.Hashes = append(before.Hashes, was.ZH)
	}
	before.Signer = signer(was.Report)
	return sources.WithHint(&RepublishedError{before, now},
		"ask the publisher before using it; to accept the new contents, first run larder cache forget %s@%s", was.ID.Provider, was.ID.Version)
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
