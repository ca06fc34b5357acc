package trust

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/larder-cli/larder/sources"
)

// Limits. Real signatures and keys have a few kilobytes, and a list has one or
// two keys.
const (
	maxSignatureSize = 64 << 10
	maxSignatures    = 64
	maxKeySize       = 256 << 10
	maxKeysSize      = 1 << 20 // for all keys together
	maxKeys          = 64
)

// checkShape returns an error for evidence that is too large or has an invalid
// format.
func checkShape(s *sources.Signed) error {
	size := 0
	for _, k := range s.Keys {
		size += len(k.Armor) + len(k.TrustSignature)
	}
	switch {
	case size > maxKeysSize && len(s.Keys) > 1:
		return fmt.Errorf("signing keys: more than %d bytes", maxKeysSize)
	case len(s.Keys) > maxKeys:
		return fmt.Errorf("%d signing keys listed, more than %d", len(s.Keys), maxKeys)
	case len(s.Signature) > maxSignatureSize:
		return badSignature(fmt.Errorf("more than %d bytes", maxSignatureSize))
	case len(s.Signature) == 0:
		return badSignature(errors.New("empty"))
	case bytes.HasPrefix(bytes.TrimSpace(s.Signature), []byte("-----BEGIN PGP")):
		return sources.WithHint(badSignature(errors.New("ASCII-armored, but must be binary")),
			"the publisher makes a binary one with gpg --detach-sign, without --armor")
	case s.Signature[0]&0x80 == 0: // the first byte of every packet has this bit set
		return badSignature(errors.New("not in the OpenPGP format"))
	}
	return nil
}

// readKeys reads a key block. It refuses a key without a self-signature.
func readKeys(armored string) (openpgp.EntityList, error) {
	if len(armored) > maxKeySize {
		return nil, fmt.Errorf("more than %d bytes", maxKeySize)
	}
	keyring, err := openpgp.ReadArmoredKeyRing(strings.NewReader(armored))
	if err != nil {
		return nil, err
	}
	for _, entity := range keyring {
		// Without a self-signature, the library panics when it verifies with a
		// subkey.
		if self, _ := entity.PrimarySelfSignature(); self == nil {
			return nil, fmt.Errorf("no self-signature on the key %s", entity.PrimaryKey.KeyIdString())
		}
	}
	return keyring, nil
}

// dearmor returns the contents of an ASCII-armoured signature.
func dearmor(armored string) ([]byte, error) {
	if len(armored) > maxSignatureSize {
		return nil, fmt.Errorf("more than %d bytes", maxSignatureSize)
	}
	block, err := armor.Decode(strings.NewReader(armored))
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("not ASCII-armored OpenPGP")
	case err != nil:
		return nil, err
	case block.Type != openpgp.SignatureType:
		return nil, fmt.Errorf("%s instead of %s", block.Type, openpgp.SignatureType)
	}
	return io.ReadAll(block.Body)
}

// fingerprint returns the fingerprint of a key. Only that of the primary key identifies
// an owner: a key can contain the public key of another owner as a subkey, unless that is
// for signing.
func fingerprint(key *packet.PublicKey) sources.Fingerprint {
	return sources.Fingerprint(fmt.Sprintf("%X", key.Fingerprint))
}

// splitSignature returns the signatures in a binary file, each as a separate
// packet. It skips other packets, and everything after a truncated packet.
func splitSignature(file []byte) ([][]byte, error) {
	const signatureTag = 2
	var all [][]byte
	r := packet.NewOpaqueReader(bytes.NewReader(file))
	for {
		p, err := r.Next()
		switch {
		case err != nil && (errors.Is(err, io.EOF) || len(all) > 0):
			return all, nil
		case err != nil:
			return nil, badSignature(err)
		case p.Tag != signatureTag:
			continue
		case len(all) == maxSignatures:
			return nil, badSignature(fmt.Errorf("more than %d signatures", maxSignatures))
		}
		var one bytes.Buffer
		_ = p.Serialize(&one) // a buffer never fails
		all = append(all, one.Bytes())
	}
}

// issuers returns the key ids in signatures.
func issuers(signatures [][]byte) []string {
	var ids []string
	for _, signature := range signatures {
		p, err := packet.Read(bytes.NewReader(signature))
		if sig, ok := p.(*packet.Signature); err == nil && ok && sig.IssuerKeyId != nil {
			ids = append(ids, fmt.Sprintf("%016X", *sig.IssuerKeyId))
		}
	}
	return ids
}

// KeyID returns the ID of the first key in an ASCII-armored block, 16 hexadecimal digits.
func KeyID(armored string) (string, error) {
	keys, err := readKeys(armored)
	if err != nil || len(keys) == 0 {
		return "", cmp.Or(err, errors.New("there is no key"))
	}
	return keys[0].PrimaryKey.KeyIdString(), nil
}
