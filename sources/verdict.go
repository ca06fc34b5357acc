package sources

// A Verdict is the verification result of a package. Greater is better.
type Verdict int

// The verdicts, from worst to best.
const (
	Unverified        Verdict = iota // no hash or signature to check it with
	HashOnly                         // a hash matched, from a mirror or the lock file
	MirrorEvidence                   // signed checksums matched, with a key that came along in the mirror
	SelfSigned                       // signed with a key that the registry lists
	SignedByTrusted                  // signed with a key that the user trusts, wherever the key came from
	SignedByHashiCorp                // signed with HashiCorp's release key
)

var verdictTexts = [...]string{"unverified", "hash only", "signed, key from the mirror",
	"self-signed", "signed by a trusted key", "signed by HashiCorp"}

// String returns the text for people and JSON.
func (v Verdict) String() string { return verdictTexts[v] }

// MarshalText returns the text of String.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }
