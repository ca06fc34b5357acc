package trust

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/larder-cli/larder/sources"
)

// A Fault is a kind of defect of evidence. The errors about it match it by [errors.Is].
// Those about revoked keys match [sources.ErrRevoked].
type Fault string

// The faults.
const (
	WrongChecksum    Fault = "the checksum of a file differs from the signed one, or none is signed"
	BadSignature     Fault = "a signature does not match the file, cannot be read, or is weak"
	SignatureExpired Fault = "a signature is not valid at the current time"
	SignedTooEarly   Fault = "a signature is older than its key, so one of them is forged"
	BadKey           Fault = "a listed key cannot be read"
	UnknownIssuer    Fault = "none of the listed keys made the signature"
	KeyExpired       Fault = "a key has expired, so its signature is invalid"
	UntrustedKey     Fault = "the provider has trusted keys, but other keys signed it"

	// Downgraded evidence is not kept: its checksums differ from those of the kept
	// evidence, and it is signed by other keys or not signed.
	Downgraded Fault = "evidence does not replace better evidence"
	KeyChanged Fault = "the keys that sign a provider have changed"
)

func (f Fault) Error() string { return string(f) }

// A faulty error has a text of its own, and matches its kind.
type faulty struct {
	text string
	kind error
}

func (e *faulty) Error() string { return e.text }
func (e *faulty) Unwrap() error { return e.kind }

func fault(kind error, format string, args ...any) error {
	return &faulty{fmt.Sprintf(format, args...), kind}
}

func badSignature(err error) error {
	return fault(BadSignature, "bad signature: %s", strings.TrimPrefix(err.Error(), "openpgp: "))
}

func keysOf(by []sources.SignedBy) string {
	if len(by) == 0 {
		return "no valid key"
	}
	return "the key " + strings.Join(sources.Texts(by), " and the key ")
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
	if e.Required == RequireTrusted || errors.Is(e.Err, UntrustedKey) {
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
	return required + ", but the package has none" // whatever its hashes were compared with
}
