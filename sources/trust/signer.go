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
	sources.Signer
	listed sources.Key // the entry in the evidence that contains the key
	packet []byte      // the signature as a separate packet
	entity *openpgp.Entity
	subkey *openpgp.Subkey // the subkey that signed; nil if the primary key did
}

// An examination checks each signature with each key. A file may contain the
// signatures of several keys, because Merge creates such files.
type examination struct {
	*keyring
	opts    Options
	good    []*signer
	bad     error // the error of the first invalid signature
	revoked []sources.Fingerprint
	unknown UnknownIssuerError
}

// examine returns the keys that signed the checksums, those that are valid longest
// first. Whether a signature is too old, or its key is trusted, is not examined here:
// see [Options.accept]. The keys in also provide additional states of keys: that a
// registry listed them, or that they were revoked. It fails for an invalid signature
// only if none is valid, so that adding one does not invalidate evidence.
func examine(s *sources.Signed, opts Options, also ...sources.Key) ([]*signer, error) {
	x, err := newExamination(s, opts, also...)
	if err != nil {
		return nil, err
	}
	return x.good, nil
}

// newExamination is examine with all that was found.
func newExamination(s *sources.Signed, opts Options, also ...sources.Key) (*examination, error) {
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
		return cmp.Or(cmp.Compare(len(a.Partner), len(b.Partner)), later(a.SignatureEnds, b.SignatureEnds), later(a.KeyEnds, b.KeyEnds))
	})
	x.good = onceEach(x.good)
	return x, nil
}

// later compares the ends of periods, the latest first. The zero time means that a
// period does not end.
func later(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return a.Compare(b)
	}
	return b.Compare(a)
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
		if revoked := (*RevokedKeyError)(nil); errors.As(err, &revoked) {
			x.revoked = append(x.revoked, revoked.Fingerprint)
		}
		if err != nil {
			x.bad = cmp.Or(x.bad, err)
			continue
		}
		found.listed, found.packet = block.key, signature
		found.describe(x.keyring, x.opts)
		x.good = append(x.good, found)
	}
	if !issuer {
		x.unknown.Listed = append(x.unknown.Listed, keyIDs(block.entities)...)
	}
}

// describe adds what the record of a signer contains about its key.
func (f *signer) describe(ring *keyring, opts Options) {
	f.Fingerprint, f.From = fingerprint(f.entity), sources.KeyFromMirror
	if identity := f.entity.PrimaryIdentity(); identity != nil {
		f.UserID = shortened(identity.Name)
	}
	switch {
	case f.Fingerprint == hashicorpKey:
		f.From = sources.KeyBuiltIn
	case ring.listed[f.Fingerprint]:
		f.From = sources.KeyFromRegistry
	}
	if f.listed.TrustSignature != "" {
		f.Partner = sources.PartnerClaimed
		if err := checkPartner(f.listed.TrustSignature, opts.PartnerKey); err != nil {
			f.Partner = err.Error()
		}
	}
}

// shortened returns a user id, which may have any length, shortened for messages.
func shortened(id string) string {
	const most = 100
	if runes := []rune(id); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return id
}

// checkPartner checks a trust signature as far as possible without HashiCorp's partner
// key: it must name that key as its issuer. A key id is the end of a fingerprint.
func checkPartner(armored string, partner sources.Fingerprint) error {
	signature, err := dearmor(armored, openpgp.SignatureType, maxSignatureSize)
	if err != nil {
		return err
	}
	ids := issuers(signature)
	if len(ids) == 0 {
		return errors.New("not an OpenPGP signature")
	}
	if !slices.ContainsFunc(ids, func(id string) bool { return strings.HasSuffix(string(partner), id) }) {
		return fmt.Errorf("made by the key %s instead of HashiCorp's partner key", ids[0])
	}
	return nil
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
	case len(x.unknown.Listed) == 0:
		return sources.WithHint(&x.unknown, "the registry lists no signing keys for this provider")
	}
	return sources.WithHint(&x.unknown, "the registry lists the keys %s", strings.Join(x.unknown.Listed, ", "))
}

// verify verifies a detached signature of doc. If no key is its issuer, the
// error is [pgperrors.ErrUnknownIssuer]. A signature or a key that has expired since is
// no error.
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
	v := validity{entity, sig}
	if err := v.checkRevocation(err); err != nil {
		return nil, err
	}
	f := &signer{entity: entity, subkey: v.subkey(), Signer: sources.Signer{
		Signed: sig.CreationTime.UTC(), SignatureEnds: lifeEnd(sig.CreationTime, sig.SigLifetimeSecs), KeyEnds: v.keyEnd(),
	}}
	if created := v.created(); f.Signed.Before(created) {
		err := &EarlySignatureError{f.entity.PrimaryKey.KeyIdString(), f.Signed, created}
		return nil, sources.WithHint(err, "ask the publisher before using this version")
	}
	return f, f.checkTimes(err, opts.Now())
}

// checkTimes returns an error for a key that signed after it expired, and for an error
// of the library that is not about the times of f.
func (f *signer) checkTimes(found error, now time.Time) error {
	tooOld := ended(f.SignatureEnds, now) || ended(f.KeyEnds, now) || f.Signed.After(now)
	switch {
	case found != nil && !(ofAge(found) && tooOld):
		return &SignatureError{found}
	case ended(f.KeyEnds, f.Signed) && !ended(f.SignatureEnds, now) && !f.Signed.After(now):
		err := &ExpiredKeyError{f.entity.PrimaryKey.KeyIdString(), f.Signed, f.KeyEnds}
		return sources.WithHint(err, "ask the publisher to sign with a key that is valid")
	}
	return nil
}

// ended reports whether a period has ended by now. The zero time means that it does
// not end.
func ended(end, now time.Time) bool { return !end.IsZero() && end.Before(now) }

func weak(h crypto.Hash) bool { return h == crypto.SHA1 || h == crypto.MD5 || h == crypto.RIPEMD160 }

// validity is a signature that matches its key, with their revocations and times.
type validity struct {
	entity    *openpgp.Entity
	signature *packet.Signature
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
	revoked := &RevokedKeyError{KeyID: entity.PrimaryKey.KeyIdString(), Fingerprint: fingerprint(entity)}
	for _, r := range by {
		revoked.Reason = r.RevocationReasonText
	}
	return sources.WithHint(revoked, "ask the publisher before using this version")
}

// ofAge reports whether the library found only that a key or signature has
// expired.
func ofAge(found error) bool {
	return errors.Is(found, pgperrors.ErrKeyExpired) || errors.Is(found, pgperrors.ErrSignatureExpired)
}

// created returns the time at which the signing key was created.
func (v validity) created() time.Time {
	key := v.entity.PrimaryKey
	if sub := v.subkey(); sub != nil {
		key = sub.PublicKey
	}
	return key.CreationTime.UTC()
}

// keyEnd returns the time at which the signing key stops being valid: the earliest of
// those of the primary key, of the subkey and of its bindings. Zero means no limit.
func (v validity) keyEnd() (first time.Time) {
	self, _ := v.entity.PrimarySelfSignature()
	ends := bindingEnds(v.entity.PrimaryKey, self)
	if sub := v.subkey(); sub != nil {
		ends = append(ends, bindingEnds(sub.PublicKey, sub.Sig)...)
		if cross := sub.Sig.EmbeddedSignature; cross != nil {
			ends = append(ends, lifeEnd(cross.CreationTime, cross.SigLifetimeSecs))
		}
	}
	for _, end := range ends {
		if !end.IsZero() && (first.IsZero() || end.Before(first)) {
			first = end
		}
	}
	return first
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
	return start.UTC().Add(time.Duration(*seconds) * time.Second)
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
