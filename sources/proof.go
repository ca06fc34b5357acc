package sources

import (
	"fmt"
	"slices"
	"time"
)

// A Proof is what was proved about a package: facts that don't depend on the
// trust settings of the run that proved them. Records keep Proofs. Package trust
// computes what a Proof is worth, with the settings of the current run.
type Proof struct {
	// Matched reports that the package has a hash that its source or a lock file
	// stated.
	Matched bool `json:"matched,omitempty"`

	// Name is the name of the archive in the signed checksums. Signers are the
	// keys that signed these. Both are empty if the package has no evidence.
	Name    string   `json:"name,omitempty"`
	Signers []Signer `json:"signers,omitempty"`

	// Approvals are the keys that signed a set which lists the package with the checksum of its archive.
	Approvals []Signer `json:"approvals,omitempty"`

	// Revoked are keys that signed, but were revoked, in the evidence at hand. It is not
	// part of records.
	Revoked []Fingerprint `json:"-"`
}

// And returns what is proved by p and by now, which the package's evidence proves today. A
// signature stays proved if the evidence no longer contains it, unless its key was revoked.
func (p Proof) And(now Proof) Proof {
	now.Matched = now.Matched || p.Matched
	now.Signers = slices.Clone(now.Signers)
	for _, was := range p.Signers {
		i := now.indexOf(was)
		switch {
		case i < 0 && !slices.Contains(now.Revoked, was.Fingerprint):
			now.Signers = append(now.Signers, was)
		case i >= 0 && was.From.rank() > now.Signers[i].From.rank():
			now.Signers[i].From = was.From
		}
	}
	if now.Name == "" {
		now.Name = p.Name
	}
	return now.Approved(p.Approvals)
}

// Approved returns p with these approvals, too. Of those of a key, the newest stays.
func (p Proof) Approved(by []Signer) Proof {
	p.Approvals = slices.Clone(p.Approvals)
	for _, s := range by {
		i := slices.IndexFunc(p.Approvals, func(was Signer) bool { return was.Fingerprint == s.Fingerprint })
		switch {
		case i < 0:
			p.Approvals = append(p.Approvals, s)
		case s.Signed.After(p.Approvals[i].Signed):
			p.Approvals[i] = s
		}
	}
	return p
}

// indexOf returns the index of the same key among the signers, or -1.
func (p Proof) indexOf(key Signer) int {
	return slices.IndexFunc(p.Signers, func(s Signer) bool { return s.Fingerprint == key.Fingerprint })
}

// Signed reports whether a key signed the checksum of the package.
func (p Proof) Signed() bool { return len(p.Signers) > 0 }

// Any reports whether anything was proved.
func (p Proof) Any() bool { return p.Matched || p.Signed() }

// Lost returns an error if now, which the same package's evidence proves, lacks the best
// signers of p. Others may be gone: when a publisher signs new checksums for a version,
// the signatures of other keys over the old ones are not kept.
func (p Proof) Lost(now Proof) error {
	if !p.Signed() {
		return nil
	}
	best := slices.MaxFunc(p.Signers, func(a, b Signer) int { return a.From.rank() - b.From.rank() })
	for _, was := range p.Signers {
		if was.From.rank() == best.From.rank() && now.indexOf(was) >= 0 {
			return nil
		}
	}
	return fmt.Errorf("the signature of the key %s is missing", best.KeyID())
}

// A Signer is a key that made a valid signature.
type Signer struct {
	Fingerprint Fingerprint `json:"fingerprint"` // of the primary key
	UserID      string      `json:"user_id,omitempty"`
	From        KeyOrigin   `json:"from"`   // KeyBuiltIn, KeyFromRegistry or KeyFromMirror
	Signed      time.Time   `json:"signed"` // when the signature was made

	// Times at which the signature and the key stop being valid; zero if they don't.
	SignatureEnds time.Time `json:"signature_ends,omitzero"`
	KeyEnds       time.Time `json:"key_ends,omitzero"`
}

// KeyID returns the last 16 digits of the fingerprint.
func (s Signer) KeyID() string { return s.Fingerprint.KeyID() }

// A KeyOrigin is how a key became known.
type KeyOrigin string

// The origins of keys. Keys that came with a mirror or a bundle prove only that
// its contents match each other.
const (
	KeyFromMirror   KeyOrigin = "mirror"
	KeyFromBundle   KeyOrigin = "bundle"
	KeyFromRegistry KeyOrigin = "registry" // listed for the provider by its registry
	KeyTrusted      KeyOrigin = "trusted"  // by the user's configuration, or a flag
	KeyBuiltIn      KeyOrigin = "known"    // HashiCorp's key, by its fingerprint
)

// rank orders the origins that a [Signer] can have.
func (o KeyOrigin) rank() int {
	return slices.Index([]KeyOrigin{KeyFromMirror, KeyFromRegistry, KeyBuiltIn}, o)
}

// A SignedBy is a key that signed the checksums, with the verdict on its signature by
// the settings of this run.
type SignedBy struct {
	Verdict     Verdict
	KeyID       string      // of the primary key, 16 hexadecimal digits
	Fingerprint Fingerprint // of the primary key
	UserID      string      // as written by the key's owner
	From        KeyOrigin
}

func (s SignedBy) String() string {
	if s.UserID == "" {
		return string(s.Fingerprint)
	}
	return fmt.Sprintf("%s %q", s.Fingerprint, s.UserID)
}

// A Report is what the Proof of a package is worth by the settings of this run. It
// is never recorded.
type Report struct {
	Verdict Verdict
	By      []SignedBy // all keys that signed, best first
	Signed  string     // the name of the signed file; empty if no signature was verified
	Notes   []string   // additional information for the user, worded like errors

	Approvals []Signer // of the proof, also those of keys that have expired since

	// Refused is the reason why the signatures are not accepted, such as that the
	// provider has trusted keys and these are others.
	Refused error
}

// Best returns the best key that signed. It is zero if none did.
func (r Report) Best() SignedBy {
	if len(r.By) == 0 {
		return SignedBy{}
	}
	return r.By[0]
}
