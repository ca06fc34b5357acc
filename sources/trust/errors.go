package trust

import (
	"fmt"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// A ChecksumError means that a file's signed checksum differs from the required
// one.
type ChecksumError struct {
	Filename  string
	Want, Got sources.Hash // Got is empty if the file has no checksum
}

func (e *ChecksumError) Error() string {
	name, _, query := strings.Cut(e.Filename, "?")
	if query {
		name += "?…" // the query may be a secret
	}
	if e.Got == "" {
		return fmt.Sprintf("no checksum for %s among those signed", name)
	}
	return fmt.Sprintf("checksum of %s is signed as %s, but should be %s", name, e.Got, e.Want)
}

// An UnknownIssuerError means that none of the listed keys made the signature.
type UnknownIssuerError struct {
	Issuers []string // ids of the keys in the signature
	Listed  []string // ids of the listed keys
}

func (e *UnknownIssuerError) Error() string {
	if len(e.Issuers) == 0 {
		return "signed by an unknown key"
	}
	return "signed by the unknown key " + strings.Join(e.Issuers, ", ")
}

// A RevokedKeyError means that the signing key was revoked.
type RevokedKeyError struct {
	KeyID       string
	Fingerprint sources.Fingerprint // of the primary key
	Reason      string              // as stated by its owner; may be empty
}

func (e *RevokedKeyError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("signed by the key %s, which was revoked", e.KeyID)
	}
	return fmt.Sprintf("signed by the key %s, which was revoked: %q", e.KeyID, e.Reason)
}

// Is reports whether target is [sources.ErrRevoked].
func (e *RevokedKeyError) Is(target error) bool { return target == sources.ErrRevoked }

// An ExpiredKeyError means that the signing key has expired, and the signature
// is therefore invalid.
type ExpiredKeyError struct {
	KeyID        string
	Signed, Ends time.Time // when the signature was made and when the key expired
}

func (e *ExpiredKeyError) Error() string {
	return fmt.Sprintf("signed on %s by the key %s, which expired on %s", day(e.Signed), e.KeyID, day(e.Ends))
}

// An EarlySignatureError means that the date of the signature is before the
// creation of the signing key, so one of the two is forged.
type EarlySignatureError struct {
	KeyID           string
	Signed, Created time.Time
}

func (e *EarlySignatureError) Error() string {
	return fmt.Sprintf("signed on %s by the key %s, which was only created on %s", e.Signed.UTC().Format(time.RFC3339), e.KeyID, e.Created.UTC().Format(time.RFC3339))
}

// An ExpiredSignatureError means that the signature is not valid at the current
// time.
type ExpiredSignatureError struct {
	KeyID        string
	Signed, Ends time.Time // Ends is zero if the signature does not expire
}

func (e *ExpiredSignatureError) Error() string {
	if e.Ends.IsZero() {
		return fmt.Sprintf("the signature is dated in the future: %s", day(e.Signed))
	}
	return fmt.Sprintf("signature expired on %s", day(e.Ends))
}

// A SignatureError means that a signature does not match the signed file,
// cannot be read, or is weak.
type SignatureError struct{ Err error }

func (e *SignatureError) Error() string {
	return "bad signature: " + strings.TrimPrefix(e.Err.Error(), "openpgp: ")
}

func (e *SignatureError) Unwrap() error { return e.Err }

// A KeyError means that a listed key cannot be read.
type KeyError struct {
	Number int // its position in the list, counted from 1
	Err    error
}

func (e *KeyError) Error() string { return fmt.Sprintf("signing key %d: %v", e.Number, e.Err) }
func (e *KeyError) Unwrap() error { return e.Err }

// A TrustSignatureError means that a trust signature is invalid.
type TrustSignatureError struct {
	KeyID string // of the publisher's key
	Err   error
}

func (e *TrustSignatureError) Error() string {
	return fmt.Sprintf("trust signature of the key %s: %v", e.KeyID, e.Err)
}
func (e *TrustSignatureError) Unwrap() error { return e.Err }

// A DowngradeError means that new evidence does not replace better evidence:
// its checksums are different, and it is signed by other keys or not signed.
type DowngradeError struct {
	Kept, Refused []sources.SignedBy // the keys that signed each
}

func (e *DowngradeError) Error() string {
	return fmt.Sprintf("the new evidence has other checksums and is signed by %s; the evidence kept here is signed by %s", keysOf(e.Refused), keysOf(e.Kept))
}

// A KeyChangeError means that the keys that sign a provider have changed.
type KeyChangeError struct {
	Version  sources.Version // the version of Was; zero if it is the same version
	Was, Now []sources.SignedBy
}

func (e *KeyChangeError) Error() string {
	before := "the evidence before"
	if e.Version != (sources.Version{}) {
		before = e.Version.String()
	}
	return fmt.Sprintf("the signing key changed: %s is signed by %s, this version by %s", before, keysOf(e.Was), keysOf(e.Now))
}

func keysOf(by []sources.SignedBy) string {
	if len(by) == 0 {
		return "no valid key"
	}
	var all []string
	for _, s := range by {
		all = append(all, "the key "+s.String())
	}
	return strings.Join(all, " and ")
}

// An UntrustedKeyError is the reason why signatures are not trusted: the
// provider has trusted keys, and other keys signed.
type UntrustedKeyError struct {
	By      []sources.SignedBy
	Trusted []sources.Fingerprint
}

func (e *UntrustedKeyError) Error() string {
	var trusted []string
	for _, f := range e.Trusted {
		trusted = append(trusted, string(f))
	}
	return fmt.Sprintf("signed by %s, but the only trusted keys for this provider are %s", keysOf(e.By), strings.Join(trusted, ", "))
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// A NotSignedError reports a package without the required signature.
type NotSignedError struct {
	Required Requirement
	Verdict  sources.Verdict
	By       sources.SignedBy // the best key that signed; empty if none did
	Signed   string           // name of another archive that the signed checksums are for
	Err      error            // why the signature is not accepted; nil if there is no other reason
}

func (e *NotSignedError) Unwrap() error { return e.Err }

func (e *NotSignedError) Error() string {
	required := "a signature is required"
	if e.Required == RequireTrusted {
		required = "a signature by a trusted key is required"
	}
	switch {
	case e.Err != nil:
		return fmt.Sprintf("%s, but the package is %v", required, e.Err)
	case e.Signed != "":
		return fmt.Sprintf("%s, but the signed checksums are for %.200q", required, e.Signed)
	case e.Verdict == sources.MirrorEvidence:
		return fmt.Sprintf("%s, but the package is signed with the key %s from the %s", required, e.By.Fingerprint, e.By.From)
	case e.By.Fingerprint != "":
		return fmt.Sprintf("%s, but the package is %q, with the key %s", required, e.Verdict, e.By.Fingerprint)
	}
	return fmt.Sprintf("%s, but the package is %q", required, e.Verdict)
}
