package trust

import (
	"bytes"
	"cmp"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/larder-cli/larder/sources"
)

// A signer is a key that made a valid signature.
type signer struct {
	listed  sources.Key
	entity  *openpgp.Entity
	subkey  *openpgp.Subkey // the subkey that signed; nil if the primary key did
	packet  []byte          // the signature as a separate packet
	signed  time.Time
	expired time.Time // when the key expired; zero if it has not
	SignedBy
	notes []string
}

// An examination checks each signature with each key. A file may contain the
// signatures of several keys, because Merge creates such files.
type examination struct {
	*keyring
	opts    Options
	good    []*signer
	bad     error            // the error of the first invalid signature
	late    *ExpiredKeyError // a signature that is invalid because its key has expired
	unknown UnknownIssuerError
}

// examine returns the keys that signed the checksums, the best verdict first.
// The keys in also provide additional states of keys: that a registry listed
// them, or that they were revoked. An invalid signature is an error only if no
// signature is valid, so that adding one does not invalidate evidence.
func examine(s *sources.Signed, opts Options, also ...sources.Key) ([]*signer, error) {
	if err := checkShape(s); err != nil {
		return nil, err
	}
	packets, err := splitSignature(s.Signature)
	if err != nil {
		return nil, err
	}
	x := &examination{keyring: readKeyring(s.Keys, also), opts: opts, unknown: UnknownIssuerError{Issuers: issuers(s.Signature)}}
	for i, block := range x.blocks[:len(s.Keys)] {
		switch {
		case block.err == nil:
			x.try(s.Sums, packets, block)
		case len(x.good) == 0:
			return nil, &KeyError{i + 1, block.err}
		}
	}
	if len(x.good) == 0 {
		return nil, x.failure()
	}
	slices.SortStableFunc(x.good, func(a, b *signer) int {
		return cmp.Or(cmp.Compare(b.Verdict, a.Verdict), a.expired.Compare(b.expired))
	})
	return onceEach(x.good), nil
}

// try checks all signatures with the keys in a block.
func (x *examination) try(doc []byte, packets [][]byte, block keyBlock) {
	issuer := false
	for _, signature := range packets {
		found, err := verify(doc, signature, block.entities, x.opts)
		if errors.Is(err, pgperrors.ErrUnknownIssuer) {
			continue
		}
		issuer = true
		if err == nil {
			err = x.checkRevoked(found)
		}
		if err == nil {
			found.listed, found.packet = block.key, signature
			err = found.judge(x.keyring, x.opts)
		}
		switch late := (*ExpiredKeyError)(nil); {
		case err == nil:
			x.good = append(x.good, found)
		case errors.As(err, &late):
			x.late = late
		case x.bad == nil:
			x.bad = err
		}
	}
	if !issuer {
		x.unknown.Listed = append(x.unknown.Listed, keyIDs(block.entities)...)
	}
}

// onceEach drops further signatures of the same key, including those of an
// older state of a renewed key.
func onceEach(all []*signer) []*signer {
	var once []*signer
	for _, f := range all {
		if !slices.ContainsFunc(once, func(o *signer) bool { return o.Fingerprint == f.Fingerprint }) {
			once = append(once, f)
		}
	}
	return once
}

// failure returns the reason why no signature is valid.
func (x *examination) failure() error {
	switch {
	case x.bad != nil:
		return x.bad
	case x.late != nil && x.late.Signed.Before(x.late.Ends):
		return sources.WithHint(x.late, "the key was valid then; unset OPENTOFU_ENFORCE_GPG_EXPIRATION to accept it")
	case x.late != nil:
		return sources.WithHint(x.late, "ask the publisher to sign with a key that is valid")
	case len(x.unknown.Listed) == 0:
		return sources.WithHint(&x.unknown, "the registry lists no signing keys for this provider")
	}
	return sources.WithHint(&x.unknown, "the registry lists the keys %s", strings.Join(x.unknown.Listed, ", "))
}

// verify verifies a detached signature of doc. If no key is its issuer, the
// error is [pgperrors.ErrUnknownIssuer].
func verify(doc, signature []byte, keyring openpgp.EntityList, opts Options) (*signer, error) {
	sig, entity, err := openpgp.VerifyDetachedSignature(keyring, bytes.NewReader(doc), bytes.NewReader(signature),
		&packet.Config{Time: opts.Now})
	switch {
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return nil, err
	case entity == nil:
		return nil, &SignatureError{err}
	case weak(sig.Hash):
		return nil, &SignatureError{fmt.Errorf("made with the weak digest %s", sig.Hash)}
	}
	v := validity{entity: entity, signature: sig, now: opts.Now()}
	if err := v.checkRevocation(err); err != nil {
		return nil, err
	}
	expired, err := v.checkExpiry(err)
	if err == nil && !expired.IsZero() && opts.EnforceGPGExpiration {
		err = v.keyExpired(expired)
	}
	return &signer{entity: entity, subkey: v.subkey(), signed: sig.CreationTime, expired: expired}, err
}

func weak(h crypto.Hash) bool { return h == crypto.SHA1 || h == crypto.MD5 || h == crypto.RIPEMD160 }

// validity checks the revocations and times of a signature that matches its
// key.
type validity struct {
	entity    *openpgp.Entity
	signature *packet.Signature
	now       time.Time
}

// checkRevocation is stricter than the library, whose result is found. For some
// reasons of revocation, such as a key being retired, the library accepts
// signatures from before the revocation.
func (v validity) checkRevocation(found error) error {
	revocations := v.entity.Revocations
	if sub := v.subkey(); sub != nil {
		revocations = append(revocations[:len(revocations):len(revocations)], sub.Revocations...)
	}
	if len(revocations) == 0 && !errors.Is(found, pgperrors.ErrKeyRevoked) {
		return nil
	}
	return revokedKey(v.entity, revocations)
}

func revokedKey(entity *openpgp.Entity, by []*packet.Signature) error {
	revoked := &RevokedKeyError{KeyID: entity.PrimaryKey.KeyIdString()}
	for _, r := range by {
		revoked.Reason = r.RevocationReasonText
	}
	return sources.WithHint(revoked, "ask the publisher before using this version")
}

// checkExpiry returns the time at which the key expired, if it has. It returns
// an error if the key signed after that, and for other errors of the library.
func (v validity) checkExpiry(found error) (expired time.Time, err error) {
	switch {
	case v.signature.CreationTime.After(v.now):
		return expired, sources.WithHint(v.signatureExpired(time.Time{}), "check the clock of this machine")
	case v.signature.SigExpired(v.now):
		return expired, v.signatureExpired(lifeEnd(v.signature.CreationTime, v.signature.SigLifetimeSecs))
	}
	for _, end := range v.keyEnds() {
		if !end.IsZero() && end.Before(v.now) && (expired.IsZero() || end.Before(expired)) {
			expired = end
		}
	}
	switch {
	case found != nil && (expired.IsZero() || !ofAge(found)):
		return expired, &SignatureError{found}
	case !expired.IsZero() && expired.Before(v.signature.CreationTime):
		return expired, v.keyExpired(expired)
	}
	return expired, nil
}

// ofAge reports whether the library found only that a key or signature has
// expired.
func ofAge(found error) bool {
	return errors.Is(found, pgperrors.ErrKeyExpired) || errors.Is(found, pgperrors.ErrSignatureExpired)
}

func (v validity) signatureExpired(end time.Time) error {
	return &ExpiredSignatureError{v.entity.PrimaryKey.KeyIdString(), v.signature.CreationTime, end}
}

func (v validity) keyExpired(end time.Time) error {
	return &ExpiredKeyError{v.entity.PrimaryKey.KeyIdString(), v.signature.CreationTime, end}
}

// keyEnds returns the times at which the signing key stops being valid; the
// earliest one counts. Zero means no limit.
func (v validity) keyEnds() []time.Time {
	self, _ := v.entity.PrimarySelfSignature()
	ends := bindingEnds(v.entity.PrimaryKey, self)
	if sub := v.subkey(); sub != nil {
		ends = append(ends, bindingEnds(sub.PublicKey, sub.Sig)...)
		if cross := sub.Sig.EmbeddedSignature; cross != nil {
			ends = append(ends, lifeEnd(cross.CreationTime, cross.SigLifetimeSecs))
		}
	}
	return ends
}

func bindingEnds(key *packet.PublicKey, binding *packet.Signature) []time.Time {
	return []time.Time{
		lifeEnd(key.CreationTime, binding.KeyLifetimeSecs),
		lifeEnd(binding.CreationTime, binding.SigLifetimeSecs),
	}
}

// lifeEnd returns start plus a lifetime in seconds, or zero if there is no
// limit.
func lifeEnd(start time.Time, seconds *uint32) time.Time {
	if seconds == nil || *seconds == 0 {
		return time.Time{}
	}
	return start.Add(time.Duration(*seconds) * time.Second)
}

// subkey returns the subkey that made the signature, or nil if the primary key
// did.
func (v validity) subkey() *openpgp.Subkey {
	for i := range v.entity.Subkeys {
		if sub := &v.entity.Subkeys[i]; sub.PublicKey.KeyId == *v.signature.IssuerKeyId {
			return sub
		}
	}
	return nil
}
