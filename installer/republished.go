package installer

import (
	"errors"
	"fmt"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// A RepublishedError is a package that is not the one there was before of the
// same version and platform.
type RepublishedError struct {
	Was Publication
	Now Publication
}

// A Publication is one of several packages that go by the same name.
type Publication struct {
	Hashes []sources.Hash
	From   string    // a URL, a path or a source
	Signer string    // who signed it, and the key; empty if nobody did
	Since  time.Time // when it was first seen; zero if that is now
}

func (e *RepublishedError) Error() string {
	return fmt.Sprintf("the release was published anew: what was seen on %s is %s; what is there now is %s",
		e.Was.Since.Format(time.DateOnly), e.Was, e.Now)
}

func (p Publication) String() string {
	signer := "signed by nobody"
	if p.Signer != "" {
		signer = "signed by " + p.Signer
	}
	return fmt.Sprintf("%s from %s, %s", list(p.Hashes), p.From, signer)
}

// checkPublished refuses a release whose publisher has signed other archives than those
// that are remembered, before anything is fetched. The archives for all platforms are
// one release.
func (j *job) checkPublished(pkg sources.Package, report trust.Report) error {
	if pkg.Kind != sources.FromRegistry || pkg.Signed == nil || matchesAny(j.lockedHashes(), pkg.Hashes...) {
		return nil
	}
	was, err := j.recall(pkg.ID)
	switch {
	case err != nil && !errors.Is(err, sources.ErrNotFound):
		return err
	case err == nil && was.Signed != nil && matchesAny(pkg.Hashes, was.ZH): // then the others were compared
		return nil
	case err == nil && was.Signed != nil && was.ZH != "":
		return j.republished(was, Publication{Hashes: pkg.Hashes, From: pkg.Source, Signer: signer(report)})
	}
	sums, err := trust.ParseSums(pkg.Signed.Sums)
	if err != nil {
		return err
	}
	for platform, now := range sums.Archives(pkg.ID.Provider, pkg.ID.Version) {
		other := pkg.ID
		other.Platform = platform
		if other == pkg.ID {
			continue
		}
		was, err := j.recall(other)
		if err != nil || was.Signed == nil || was.ZH == "" || was.ZH == now {
			continue // what cannot be read is told of by those who need it
		}
		err = j.republished(was, Publication{Hashes: []sources.Hash{now}, From: pkg.Source, Signer: signer(report)})
		return fmt.Errorf("for %s, %w", platform, err)
	}
	return nil
}

// checkRemembered refuses a package that is another one than is remembered,
// unless it is what the lock file asks for: then somebody has made up his mind.
func (d *delivery) checkRemembered(c sources.Contents) error {
	was, err := d.recall(d.pkg.ID)
	if err != nil {
		return unlessNotFound(err)
	}
	if was.Imported || was.H1 == c.H1 || was.ZH != "" && was.ZH == d.zh {
		return nil
	}
	now := []sources.Hash{c.H1}
	if d.zh != "" {
		now = append(now, d.zh)
	}
	err = d.republished(was, Publication{Hashes: now, From: d.pkg.Source, Signer: signer(d.report)})
	if matchesAny(d.locked, c.H1, c.ZipH1, d.zh) {
		d.warn(d.pkg.ID, []string{err.Error() + ", which is the one that is locked"})
		return nil
	}
	return err
}

// CheckRepublished refuses a package that is not the one that was verified here
// before, as it comes from the file or mirror called from. It is for commands that
// move packages without installing them.
func CheckRepublished(memory Memory, s sources.Stored, from string) error {
	was, err := memory.Recall(s.ID)
	switch {
	case err != nil:
		return unlessNotFound(err)
	case was.Imported, was.ZH != "" && was.ZH == s.ZH, was.H1 != "" && was.H1 == s.H1:
		return nil
	case (was.ZH == "" || s.ZH == "") && (was.H1 == "" || s.H1 == ""):
		return nil
	}
	now := Publication{From: from}
	for _, h := range []sources.Hash{s.H1, s.ZH} {
		if h != "" {
			now.Hashes = append(now.Hashes, h)
		}
	}
	err = (&job{Installer: &Installer{}}).republished(was, now)
	return &sources.PackageError{ID: s.ID, Err: err}
}

// recall returns the hashes that a package had when this user verified it, wherever
// that was: the store, or the memory that all commands share.
func (j *job) recall(id sources.PackageID) (sources.Stored, error) {
	was, err := j.to.Recall(id)
	if (errors.Is(err, sources.ErrNotFound) || was.Imported) && j.opts.Memory != nil {
		if known, knownErr := j.opts.Memory.Recall(id); !errors.Is(knownErr, sources.ErrNotFound) {
			return known, knownErr
		}
	}
	return was, err
}

// unlessNotFound is the error of a record that cannot be read. Without a record there
// is nothing to differ from.
func unlessNotFound(err error) error {
	if errors.Is(err, sources.ErrNotFound) {
		return nil
	}
	return err
}

func (j *job) republished(was sources.Stored, now Publication) error {
	before := Publication{Hashes: []sources.Hash{was.H1}, From: was.Origin, Since: was.Since}
	if was.ZH != "" {
		before.Hashes = append(before.Hashes, was.ZH)
	}
	if was.Signed != nil {
		if report, err := trust.VerifyArchive(was.Signed, was.ZH, j.trustOptions()); err == nil {
			before.Signer = signer(report)
		}
	}
	return sources.WithHint(&RepublishedError{before, now},
		"do not use it before its publisher has explained it; to take it nevertheless, first run larder cache forget %s@%s", was.ID.Provider, was.ID.Version)
}

// signer is who signed, as messages name him.
func signer(r trust.Report) string {
	switch {
	case r.KeyID == "":
		return ""
	case r.Signer == "":
		return "key " + r.KeyID
	}
	return fmt.Sprintf("%s with key %s", r.Signer, r.KeyID)
}
