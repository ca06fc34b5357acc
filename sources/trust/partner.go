package trust

import (
	"errors"
	"fmt"

	"github.com/ProtonMail/go-crypto/openpgp"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"github.com/larder-cli/larder/sources"
)

// report says what it is worth that f signed.
func (f *signer) report(opts Options) (Report, error) {
	r := Report{Verdict: sources.SelfSigned, KeyID: f.entity.PrimaryKey.KeyIdString()}
	if identity := f.entity.PrimaryIdentity(); identity != nil {
		r.Signer = identity.Name
	}
	if !f.expired.IsZero() {
		r.Notes = append(r.Notes, fmt.Sprintf("the key %s expired on %s, after it signed the checksums on %s",
			r.KeyID, day(f.expired), day(f.signed)))
	}
	switch {
	case fingerprint(f.entity) == opts.HashiCorpKey:
		r.Verdict = sources.SignedByHashiCorp
	case f.listed.TrustSignature == "" || opts.Engine == sources.OpenTofu:
	default:
		verified, err := f.verifyTrust(opts)
		if err != nil {
			return Report{}, &TrustSignatureError{r.KeyID, err}
		}
		if verified {
			r.Verdict = sources.SignedByPartner
		} else {
			r.Notes = append(r.Notes, fmt.Sprintf("the key %s has a trust signature, "+
				"which cannot be verified without HashiCorp's partner key", r.KeyID))
		}
	}
	return r, nil
}

// verifyTrust reports whether the trust signature is verified, and an error if
// it cannot be right.
func (f *signer) verifyTrust(opts Options) (bool, error) {
	signature, err := dearmor(f.listed.TrustSignature, openpgp.SignatureType, maxSignatureSize)
	if err != nil {
		return false, err
	}
	partners, err := opts.partnerKeyring()
	if err != nil {
		return false, err
	}
	if len(partners) == 0 {
		return false, checkIssuer(signature, opts.PartnerKey)
	}
	key, err := dearmor(f.listed.Armor, openpgp.PublicKeyType, maxKeySize)
	if err != nil {
		return false, err
	}
	_, err = verify(key, signature, partners, opts)
	if errors.Is(err, pgperrors.ErrUnknownIssuer) {
		err = errors.New("not made by HashiCorp's partner key")
	}
	return err == nil, err
}

// partnerKeyring holds the partner key, if we were given it.
func (o Options) partnerKeyring() (openpgp.EntityList, error) {
	var partners openpgp.EntityList
	for _, armored := range o.PartnerKeys {
		keyring, err := readKeys(armored)
		if err != nil {
			return nil, fmt.Errorf("reading the partner key: %w", err)
		}
		for _, entity := range keyring {
			if fingerprint(entity) == o.PartnerKey {
				partners = append(partners, entity)
			}
		}
	}
	return partners, nil
}

// checkIssuer checks that a signature claims to be made by the key with the
// given fingerprint, of which a key id is the end.
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
