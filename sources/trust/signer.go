package trust

import (
	"bytes"
	"cmp"
	"context"
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
// signatures of several keys, because [Judge.Merge] creates such files.
type examination struct {
	*keyring
	rules
	good        []*signer             // those that are valid longest first, each once
	bad         error                 // the error of the first invalid signature
	revokedKeys []sources.Fingerprint // revoked keys that signed
	strange     []string              // ids of the listed keys that made none of the signatures
}

// examine finds the keys that signed the checksums. Whether a signature is too old, or its
// key is trusted, is not examined here: see [rules.accept]. The keys in also provide
// additional states of keys: that a registry listed them, or that they were revoked. It
// fails for an invalid signature only if none is valid, so that adding one does not
// invalidate evidence. It ends with the context, between two keys.
func examine(ctx context.Context, s *sources.Signed, by rules, also ...sources.Key) (*examination, error) {
	x := &examination{rules: by}
	if err := checkShape(s); err != nil {
		return x, err
	}
	packets, err := splitSignature(s.Signature)
	if err != nil {
		return x, err
	}
	x.keyring = readKeyring(ctx, s.Keys, also)
	for i, block := range x.blocks[:len(s.Keys)] {
		if block.err == nil {
			block.err = x.left.spend(len(packets) * (block.each + len(s.Sums)))
		}
		switch {
		case ctx.Err() != nil:
			return &examination{rules: by}, ctx.Err()
		case block.err == nil:
			x.try(s.Sums, packets, block)
		case len(x.good) == 0:
			return x, fault(BadKey, "signing key %d: %v", i+1, block.err)
		}
	}
	if len(x.good) == 0 {
		return x, x.failure(issuers(packets))
	}
	slices.SortStableFunc(x.good, func(a, b *signer) int {
		return cmp.Or(later(a.SignatureEnds, b.SignatureEnds), later(a.KeyEnds, b.KeyEnds))
	})
	var once []*signer // without further signatures of a key, or those of an older state of it
	for _, f := range x.good {
		if !slices.ContainsFunc(once, func(o *signer) bool { return o.Fingerprint == f.Fingerprint }) {
			once = append(once, f)
		}
	}
	x.good = once
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
		found, err := x.verify(doc, signature, block.entities)
		if errors.Is(err, pgperrors.ErrUnknownIssuer) {
			continue
		}
		issuer = true
		if err != nil {
			x.bad = cmp.Or(x.bad, err)
			continue
		}
		found.listed, found.packet = block.key, signature
		x.describe(found)
		x.good = append(x.good, found)
	}
	if issuer {
		return
	}
	for _, entity := range block.entities {
		x.strange = append(x.strange, entity.PrimaryKey.KeyIdString())
	}
}

// describe adds what the record of a signer contains about its key.
func (x *examination) describe(f *signer) {
	f.From = sources.KeyFromMirror
	if identity := f.entity.PrimaryIdentity(); identity != nil {
		f.UserID = shortened(identity.Name)
	}
	switch {
	case f.Fingerprint == hashicorpKey:
		f.From = sources.KeyBuiltIn
	case x.listed[f.Fingerprint]:
		f.From = sources.KeyFromRegistry
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

// failure returns the reason why no signature is valid.
func (x *examination) failure(issuers []string) error {
	if x.bad != nil {
		return x.bad
	}
	err := fault(UnknownIssuer, "signed by an unknown key")
	if len(issuers) > 0 {
		err = fault(UnknownIssuer, "signed by the unknown key %s", strings.Join(issuers, ", "))
	}
	if len(x.strange) == 0 {
		return sources.WithHint(err, "the registry lists no signing keys for this provider")
	}
	return sources.WithHint(err, "the registry lists the keys %s", strings.Join(x.strange, ", "))
}

// verify verifies a detached signature of doc. If no key is its issuer, the
// error is [pgperrors.ErrUnknownIssuer]. A signature or a key that has expired since is
// no error.
func (x *examination) verify(doc, signature []byte, keys openpgp.EntityList) (*signer, error) {
	sig, entity, found := openpgp.VerifyDetachedSignature(keys, bytes.NewReader(doc), bytes.NewReader(signature),
		&packet.Config{Time: func() time.Time { return x.now }})
	switch {
	case errors.Is(found, pgperrors.ErrUnknownIssuer):
		return nil, found
	case entity == nil:
		return nil, badSignature(found)
	case weak(sig.Hash):
		return nil, fault(BadSignature, "bad signature: made with the weak digest %s", sig.Hash)
	}
	f := &signer{entity: entity, subkey: subkeyOf(entity, *sig.IssuerKeyId)}
	f.Fingerprint, f.Signed = fingerprint(entity.PrimaryKey), sig.CreationTime.UTC()
	f.SignatureEnds, f.KeyEnds = lifeEnd(sig.CreationTime, sig.SigLifetimeSecs), f.keyEnd()
	if err := x.checkRevoked(f, found); err != nil {
		return nil, err
	}
	return f, f.checkTimes(found, x.now)
}

// checkRevoked returns an error if a key was revoked in any of its states. It is stricter
// than the library, whose result is found: for some reasons of revocation, such as a key
// being retired, the library accepts signatures from before the revocation.
func (x *examination) checkRevoked(f *signer, found error) error {
	by := x.revocations(f)
	if len(by) == 0 && !errors.Is(found, pgperrors.ErrKeyRevoked) {
		return nil
	}
	x.revokedKeys = append(x.revokedKeys, f.Fingerprint)
	reason := ""
	if len(by) > 0 && by[len(by)-1].RevocationReasonText != "" {
		reason = fmt.Sprintf(": %q", by[len(by)-1].RevocationReasonText)
	}
	err := fault(sources.ErrRevoked, "signed by the key %s, which was revoked%s", f.KeyID(), reason)
	return sources.WithHint(err, "ask the publisher before using this version")
}

// checkTimes returns an error for a key that signed before it was created or after it
// expired, and for an error of the library that is not about the times of f.
func (f *signer) checkTimes(found error, now time.Time) error {
	aged := errors.Is(found, pgperrors.ErrKeyExpired) || errors.Is(found, pgperrors.ErrSignatureExpired)
	tooOld := ended(f.SignatureEnds, now) || ended(f.KeyEnds, now) || f.Signed.After(now)
	switch created := f.key().CreationTime.UTC(); {
	case f.Signed.Before(created):
		err := fault(SignedTooEarly, "signed on %s by the key %s, which was only created on %s",
			f.Signed.Format(time.RFC3339), f.KeyID(), created.Format(time.RFC3339))
		return sources.WithHint(err, "ask the publisher before using this version")
	case found != nil && !(aged && tooOld):
		return badSignature(found)
	case ended(f.KeyEnds, f.Signed) && !ended(f.SignatureEnds, now) && !f.Signed.After(now):
		return sources.WithHint(expiredKey(f.Signer), "ask the publisher to sign with a key that is valid")
	}
	return nil
}

func expiredKey(s sources.Signer) error {
	return fault(KeyExpired, "signed on %s by the key %s, which expired on %s", day(s.Signed), s.KeyID(), day(s.KeyEnds))
}

// ended reports whether a period has ended by now. The zero time means that it does
// not end.
func ended(end, now time.Time) bool { return !end.IsZero() && end.Before(now) }

func weak(h crypto.Hash) bool { return h == crypto.SHA1 || h == crypto.MD5 || h == crypto.RIPEMD160 }

// key returns the key that signed.
func (f *signer) key() *packet.PublicKey {
	if f.subkey != nil {
		return f.subkey.PublicKey
	}
	return f.entity.PrimaryKey
}

// keyEnd returns the time at which the signing key stops being valid: the earliest of
// those of the primary key, of the subkey and of its bindings. Zero means no limit.
func (f *signer) keyEnd() (first time.Time) {
	self, _ := f.entity.PrimarySelfSignature()
	ends := bindingEnds(f.entity.PrimaryKey, self)
	if sub := f.subkey; sub != nil {
		ends = append(ends, bindingEnds(sub.PublicKey, sub.Sig)...)
		if cross := sub.Sig.EmbeddedSignature; cross != nil {
			ends = append(ends, lifeEnd(cross.CreationTime, cross.SigLifetimeSecs))
		}
	}
	return slices.MaxFunc(ends, later)
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

// subkeyOf returns the subkey with a key id, or nil if that is the primary key's.
func subkeyOf(entity *openpgp.Entity, id uint64) *openpgp.Subkey {
	i := slices.IndexFunc(entity.Subkeys, func(s openpgp.Subkey) bool { return s.PublicKey.KeyId == id })
	if i < 0 {
		return nil
	}
	return &entity.Subkeys[i]
}
