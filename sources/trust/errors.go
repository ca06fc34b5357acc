package trust

import (
	"fmt"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// A ChecksumError is a file whose signed checksum is not the one wanted.
type ChecksumError struct {
	Filename  string
	Want, Got sources.Hash // Got is empty if the file has no checksum
}

func (e *ChecksumError) Error() string {
	if e.Got == "" {
		return fmt.Sprintf("no checksum for %s among those signed", e.Filename)
	}
	return fmt.Sprintf("checksum of %s is signed as %s, but should be %s", e.Filename, e.Got, e.Want)
}

// An UnknownIssuerError is a signature by none of the keys listed.
type UnknownIssuerError struct {
	Issuers []string // ids of the keys that the signature names
	Listed  []string // ids of the keys listed
}

func (e *UnknownIssuerError) Error() string {
	if len(e.Issuers) == 0 {
		return "signed by an unknown key"
	}
	return "signed by the unknown key " + strings.Join(e.Issuers, ", ")
}

// A RevokedKeyError is a signature by a key that was revoked.
type RevokedKeyError struct {
	KeyID  string
	Reason string // its owner's words; may be empty
}

func (e *RevokedKeyError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("signed by the key %s, which was revoked", e.KeyID)
	}
	return fmt.Sprintf("signed by the key %s, which was revoked: %q", e.KeyID, e.Reason)
}

// An ExpiredKeyError is a signature by a key that has expired, and does not
// count for that.
type ExpiredKeyError struct {
	KeyID        string
	Signed, Ends time.Time // when the signature was made and when the key expired
}

func (e *ExpiredKeyError) Error() string {
	return fmt.Sprintf("signed on %s by the key %s, which expired on %s", day(e.Signed), e.KeyID, day(e.Ends))
}

// An ExpiredSignatureError is a signature that is not valid now.
type ExpiredSignatureError struct {
	KeyID        string
	Signed, Ends time.Time // Ends is zero if it does not expire
}

func (e *ExpiredSignatureError) Error() string {
	if e.Ends.IsZero() {
		return fmt.Sprintf("the signature is dated in the future: %s", day(e.Signed))
	}
	return fmt.Sprintf("signature expired on %s", day(e.Ends))
}

// A SignatureError is a signature that does not fit what it should sign, or is
// unreadable or weak.
type SignatureError struct{ Err error }

func (e *SignatureError) Error() string {
	return "bad signature: " + strings.TrimPrefix(e.Err.Error(), "openpgp: ")
}

func (e *SignatureError) Unwrap() error { return e.Err }

// A KeyError is a listed key that cannot be read.
type KeyError struct {
	Number int // its place in the list, from 1
	Err    error
}

func (e *KeyError) Error() string { return fmt.Sprintf("signing key %d: %v", e.Number, e.Err) }
func (e *KeyError) Unwrap() error { return e.Err }

// A TrustSignatureError is a trust signature that does not hold.
type TrustSignatureError struct {
	KeyID string // of the publisher's key
	Err   error
}

func (e *TrustSignatureError) Error() string {
	return fmt.Sprintf("trust signature of the key %s: %v", e.KeyID, e.Err)
}
func (e *TrustSignatureError) Unwrap() error { return e.Err }

// A DowngradeError is evidence that does not replace better evidence: it has other
// checksums, and other keys or none signed it.
type DowngradeError struct {
	Kept, Refused []SignedBy // the keys that signed each
}

func (e *DowngradeError) Error() string {
	return fmt.Sprintf("the new evidence has other checksums and is signed by %s; the evidence kept here is signed by %s", keysOf(e.Refused), keysOf(e.Kept))
}

// A KeyChangeError is a change of the keys that sign a provider.
type KeyChangeError struct {
	Version  sources.Version // that Was is for; zero if it is the same version
	Was, Now []SignedBy
}

func (e *KeyChangeError) Error() string {
	before := "the evidence before"
	if e.Version != (sources.Version{}) {
		before = e.Version.String()
	}
	return fmt.Sprintf("the signing key changed: %s is signed by %s, this version by %s", before, keysOf(e.Was), keysOf(e.Now))
}

func keysOf(by []SignedBy) string {
	if len(by) == 0 {
		return "no valid key"
	}
	var all []string
	for _, s := range by {
		all = append(all, "the key "+s.String())
	}
	return strings.Join(all, " and ")
}

// An UntrustedKeyError is why signatures don't count as such: the provider has trusted
// keys, and others signed.
type UntrustedKeyError struct {
	By      []SignedBy
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
