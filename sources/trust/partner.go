package trust

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/larder-cli/larder/sources"
)

// judge determines the verdict for the signature, and the origin of its key.
func (f *signer) judge(ring *keyring, opts Options) error {
	f.KeyID, f.Fingerprint = f.entity.PrimaryKey.KeyIdString(), fingerprint(f.entity)
	if identity := f.entity.PrimaryIdentity(); identity != nil {
		f.UserID = shortened(identity.Name)
	}
	if !f.expired.IsZero() {
		f.notes = append(f.notes, fmt.Sprintf("the key %s expired on %s, after it signed the checksums on %s",
			f.KeyID, day(f.expired), day(f.signed)))
	}
	f.Verdict, f.From = sources.MirrorEvidence, cmp.Or(opts.Carrier, FromMirror)
	if ring.listed[f.Fingerprint] {
		f.Verdict, f.From = sources.SelfSigned, FromRegistry
	}
	if slices.Contains(opts.accepted(), sources.Fingerprint(f.Fingerprint)) {
		f.Verdict, f.From = sources.SignedByTrusted, Trusted
	}
	if err := f.judgeKnown(opts); err != nil {
		return err
	}
	if f.untrusted = opts.untrusted(f.Fingerprint); f.untrusted {
		f.Verdict = min(f.Verdict, sources.MirrorEvidence)
	}
	return nil
}

// shortened returns a user id, which may have any length, shortened for
// messages.
func shortened(id string) string {
	const most = 100
	if runes := []rune(id); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return id
}

// judgeKnown detects HashiCorp's key, and checks the trust signatures of other
// keys.
func (f *signer) judgeKnown(opts Options) error {
	switch {
	case string(f.Fingerprint) == opts.HashiCorpKey:
		f.Verdict, f.From = sources.SignedByHashiCorp, Known
	case f.listed.TrustSignature == "" || opts.Engine == sources.OpenTofu:
	default:
		if err := f.checkTrust(opts); err != nil {
			return &TrustSignatureError{f.KeyID, err}
		}
		f.notes = append(f.notes, fmt.Sprintf("the key %s has a trust signature, "+
			"which cannot be verified without HashiCorp's partner key", f.KeyID))
	}
	return nil
}

// checkTrust checks the trust signature as far as possible without HashiCorp's
// partner key.
func (f *signer) checkTrust(opts Options) error {
	signature, err := dearmor(f.listed.TrustSignature, openpgp.SignatureType, maxSignatureSize)
	if err != nil {
		return err
	}
	return checkIssuer(signature, opts.PartnerKey)
}

// checkIssuer checks that a signature names the key with the given fingerprint
// as its issuer. A key id is the end of a fingerprint.
func checkIssuer(signature []byte, wanted string) error {
	ids := issuers(signature)
	if len(ids) == 0 {
		return errors.New("not an OpenPGP signature")
	}
	for _, id := range ids {
		if id == wanted[max(0, len(wanted)-len(id)):] {
			return nil
		}
	}
	return fmt.Errorf("made by the key %s instead of HashiCorp's partner key", ids[0])
}
