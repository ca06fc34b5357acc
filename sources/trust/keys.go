package trust

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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

// readKeys reads a key block within the limits, and what is left of the budget. It refuses a key without a
// self-signature, and a private key unless that is allowed.
func readKeys(armored string, private bool, left *budget) (openpgp.EntityList, checkedKeys, error) {
	if len(armored) > maxKeySize {
		return nil, checkedKeys{}, fmt.Errorf("more than %d bytes", maxKeySize)
	}
	body, err := openArmor(armored, openpgp.PublicKeyType, openpgp.PrivateKeyType)
	if err != nil {
		return nil, checkedKeys{}, err
	}
	checked, err := checkKeys(body, private)
	if err == nil {
		err = left.spend(checked.own)
	}
	if err != nil {
		return nil, checked, err
	}
	keyring, err := openpgp.ReadKeyRing(bytes.NewReader(checked.packets))
	for _, entity := range keyring {
		// Without a self-signature, the library panics when it verifies with a
		// subkey.
		if self, _ := entity.PrimarySelfSignature(); self == nil {
			return nil, checked, fmt.Errorf("no self-signature on the key %s", entity.PrimaryKey.KeyIdString())
		}
	}
	return keyring, checked, err
}

// openArmor returns the contents of an ASCII-armored block of one of the types.
func openArmor(armored string, types ...string) (io.Reader, error) {
	block, err := armor.Decode(strings.NewReader(armored))
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("not ASCII-armored OpenPGP")
	case err != nil:
		return nil, err
	case !slices.Contains(types, block.Type):
		return nil, fmt.Errorf("%s instead of %s", block.Type, types[0])
	}
	return block.Body, nil
}

// fingerprint returns the fingerprint of a key. Only that of the primary key identifies
// an owner: a key can contain the public key of another owner as a subkey, unless that is
// for signing.
func fingerprint(key *packet.PublicKey) sources.Fingerprint {
	return sources.Fingerprint(fmt.Sprintf("%X", key.Fingerprint))
}

// splitSignature returns the signatures in a binary file, each as a separate
// packet. It skips packets that keys contain, and everything after a truncated packet.
func splitSignature(file []byte) ([][]byte, error) {
	var all [][]byte
	r := packet.NewOpaqueReader(bytes.NewReader(file))
	for {
		p, err := r.Next()
		switch {
		case err != nil && (errors.Is(err, io.EOF) || len(all) > 0):
			return all, nil
		case err != nil:
			return nil, badSignature(err)
		case len(all) == maxSignatures && p.Tag == tagSignature:
			return nil, badSignature(fmt.Errorf("more than %d signatures", maxSignatures))
		}
		if _, err := checkPacket(p); err != nil {
			return nil, badSignature(err)
		}
		if p.Tag != tagSignature {
			continue
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

// KeyIDs returns the ID of the first key in each ASCII-armored block, 16 hexadecimal digits. The ID of a block that
// can't be read is empty. The blocks share the limits of one evidence.
func KeyIDs(ctx context.Context, keys []sources.Key) []string {
	var ids []string
	for _, block := range readKeyring(ctx, keys, nil).blocks {
		id := ""
		if len(block.entities) > 0 {
			id = block.entities[0].PrimaryKey.KeyIdString()
		}
		ids = append(ids, id)
	}
	return ids
}
