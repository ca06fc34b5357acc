package sources

import (
	"errors"
	"fmt"
	"strings"
)

// A Fingerprint identifies an OpenPGP key: 40 (version 4) or 64 (version 6)
// hexadecimal digits in upper case, without spaces.
type Fingerprint string

// ParseFingerprint parses a fingerprint in either case, with or without spaces.
// It rejects key ids: they are so short that an attacker can create a key with a
// given id.
func ParseFingerprint(s string) (Fingerprint, error) {
	digits := strings.ToUpper(strings.Join(strings.Fields(s), ""))
	other := func(r rune) bool { return !strings.ContainsRune("0123456789ABCDEF", r) }
	switch n := len(digits); {
	case strings.ContainsFunc(digits, other):
		return "", fingerprintHint(fmt.Errorf("%.80q is not a fingerprint", s))
	case n == 40, n == 64:
		return Fingerprint(digits), nil
	case n == 0:
		return "", fingerprintHint(errors.New("the fingerprint is empty"))
	case n <= 16:
		err := fmt.Errorf("%q is a key id, not a fingerprint", s)
		return "", WithHint(err,
			"give the fingerprint of 40 or 64 digits that gpg --fingerprint shows: another key can have the same id")
	default:
		return "", fingerprintHint(fmt.Errorf("%.80q has %d digits; fingerprints have 40 or 64", s, n))
	}
}

func fingerprintHint(err error) error {
	return WithHint(err, "give the 40 or 64 hexadecimal digits that gpg --fingerprint shows")
}

// Spaced returns the fingerprint in groups of four digits, which are easier to
// compare.
func (f Fingerprint) Spaced() string {
	var groups []string
	for text := string(f); text != ""; {
		n := min(4, len(text))
		groups = append(groups, text[:n])
		text = text[n:]
	}
	return strings.Join(groups, " ")
}

// TrustedKeys are the only keys whose signatures are valid for the providers
// that match a pattern.
type TrustedKeys struct {
	Providers Pattern
	Keys      []Fingerprint
}

// KeyID returns the id of the key, 16 digits: the end of a version 4 fingerprint,
// or the beginning of a version 6 one.
func (f Fingerprint) KeyID() string {
	const digits = 16
	switch {
	case len(f) < digits:
		return string(f)
	case len(f) == 64:
		return string(f[:digits])
	}
	return string(f[len(f)-digits:])
}
