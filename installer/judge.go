package installer

import (
	"fmt"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/trust"
)

// A HashMismatchError is a package that is none of those that somebody vouches
// for.
type HashMismatchError struct {
	By   string         // who vouches; empty if it is the source itself
	Want []sources.Hash // any of which would have sufficed
	Got  []sources.Hash // what the package hashes to
}

func (e *HashMismatchError) Error() string {
	if e.By == "" {
		return fmt.Sprintf("the package is %s, but should be %s", list(e.Got), list(e.Want))
	}
	return fmt.Sprintf("the package is %s, but %s has %s", list(e.Got), e.By, list(e.Want))
}

// A NotSignedError is a package that is vouched for less well than was required.
type NotSignedError struct {
	Verdict sources.Verdict
	Err     error // whose signature does not count; nil if that isn't the reason
}

func (e *NotSignedError) Unwrap() error { return e.Err }

func (e *NotSignedError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("a signature is required, and the package is %v", e.Err)
	}
	return fmt.Sprintf("a signature is required, and the package is %q", e.Verdict)
}

// A promise is that of somebody who has hashes of the package from before.
type promise struct{ by, hint string }

var (
	theLockFile  = promise{"the dependency lock file", "perhaps it is locked for other platforms alone: then larder lock with --platform for each of them and this one completes the lock file; if it was published anew or packed anew, and you trust it, remove its block and try again"}
	theOneBefore = promise{"the one before", "it was published anew under the same version; do not use it before its publisher has explained it"}
)

// checkSigned is for those who require a signature. A name that is not this
// package's may be that of an older release, whose signature is as good.
func (d *delivery) checkSigned(v sources.Verdict) error {
	id := d.pkg.ID
	name := id.Filename()
	switch {
	case !d.signedEnough(v) && d.report.Untrusted != nil:
		return sources.WithHint(&NotSignedError{v, d.report.Untrusted}, "if the publisher has announced the new key, add its fingerprint to trusted_keys")
	case !d.signedEnough(v):
		return sources.WithHint(&NotSignedError{Verdict: v}, "origin registries have signed packages, and so have mirrors of HashiCorp's and its partners' that carry the evidence")
	case d.report.Signed != name:
		return fmt.Errorf("a signature is required, and what is signed is %s, not %s", fetch.Printable(d.report.Signed), name)
	}
	return nil
}

// checkArchive checks the archive's hash against whatever states one for
// archives. A mirror or lock file that has h1: hashes besides may yet prove
// right once the contents are known.
func (d *delivery) checkArchive() error {
	if err := early(d.pkg.Hashes, d.zh, ""); err != nil {
		return sourceHint(err)
	}
	if err := early(d.locked, d.zh, d.lockedBy.by); err != nil {
		return d.lockedBy.broken(err)
	}
	return d.checkEvidence()
}

func early(want []sources.Hash, zh sources.Hash, by string) error {
	if !usable(want) || matchesAny(want, zh) || hasContentHash(want) {
		return nil
	}
	return &HashMismatchError{By: by, Want: want, Got: []sources.Hash{zh}}
}

// checkEvidence checks the signed checksums that a mirror carries. They must
// list this very archive, under whichever name.
func (d *delivery) checkEvidence() error {
	if d.pkg.Kind == sources.FromRegistry || d.pkg.Signed == nil {
		return nil
	}
	report, err := trust.VerifyCarried(d.pkg.Signed, d.zh, d.trustOptions())
	if err != nil {
		return fmt.Errorf("checking the evidence that the mirror carries: %w", err)
	}
	d.report = report
	return nil
}

// checkContents checks the hashes of the contents, or of the archive, against
// the source's and the lock file's: one of each must match.
func (d *delivery) checkContents(c sources.Contents) error {
	got := []sources.Hash{c.H1}
	if c.ZipH1 != c.H1 && c.ZipH1 != "" {
		got = append(got, c.ZipH1)
	}
	if d.zh != "" {
		got = append(got, d.zh)
	}
	if usable(d.pkg.Hashes) && !matchesAny(d.pkg.Hashes, got...) {
		return sourceHint(&HashMismatchError{Want: d.pkg.Hashes, Got: got})
	}
	if d.provable() && !matchesAny(d.locked, got...) {
		return d.lockedBy.broken(&HashMismatchError{By: d.lockedBy.by, Want: d.locked, Got: got})
	}
	return nil
}

// provable reports whether the lock file's hashes are of a kind that can be
// held against this package. A directory has no archive to hash, so engines
// take one on trust if only archives were locked, and so do we.
func (d *delivery) provable() bool {
	if d.pkg.Location.Dir != "" {
		return hasContentHash(d.locked)
	}
	return len(d.locked) > 0
}

func sourceHint(err error) error {
	return sources.WithHint(err, "it was damaged on the way or replaced; try again, and if this stays so do not use it before its publisher has explained it")
}

func (p promise) broken(err error) error { return sources.WithHint(err, "%s", p.hint) }

// verdict is how well the package is vouched for, all checks having passed.
func (d *delivery) verdict() sources.Verdict {
	switch {
	case d.report.Verdict > sources.HashOnly:
		return d.report.Verdict
	case usable(d.pkg.Hashes), d.provable():
		return sources.HashOnly
	default:
		return sources.Unverified
	}
}

func hasContentHash(hashes []sources.Hash) bool {
	return slices.ContainsFunc(hashes, func(h sources.Hash) bool { return h.Scheme() == sources.H1 })
}

// matchesAny reports whether any of got is among want.
func matchesAny(want []sources.Hash, got ...sources.Hash) bool {
	return slices.ContainsFunc(got, func(h sources.Hash) bool {
		return h.Usable() && slices.Contains(want, h)
	})
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
