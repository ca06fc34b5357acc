package trust

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/larder-cli/larder/sources"
)

// Sign signs checksums with an ASCII-armored private key without a passphrase. It returns the evidence, whose only key
// is the public one.
func Sign(sums []byte, armored string) (*sources.Signed, error) {
	left := maxWork
	keys, _, err := readKeys(armored, true, &left)
	switch {
	case err != nil:
		return nil, err
	case len(keys) != 1:
		return nil, fmt.Errorf("%d keys instead of one", len(keys))
	case keys[0].PrivateKey == nil:
		return nil, sources.WithHint(errors.New("it is a public key, which can't sign"),
			"gpg --armor --export-secret-keys writes a private key")
	case keys[0].PrivateKey.Encrypted:
		return nil, sources.WithHint(errors.New("it has a passphrase"),
			"sign the checksums with gpg --detach-sign instead, or use a copy of the key without a passphrase")
	}
	if _, can := keys[0].SigningKey(time.Now()); !can {
		return nil, errors.New("it can't sign now: it has expired, or was revoked")
	}
	var signature, text bytes.Buffer
	if err := openpgp.DetachSign(&signature, keys[0], bytes.NewReader(sums), &packet.Config{}); err != nil {
		return nil, err
	}
	w, err := armor.Encode(&text, openpgp.PublicKeyType, nil)
	if err == nil {
		err = errors.Join(keys[0].Serialize(w), w.Close())
	}
	if err != nil {
		return nil, err
	}
	return &sources.Signed{Sums: sums, Signature: signature.Bytes(), Keys: []sources.Key{{Armor: text.String()}}}, nil
}

// PublicKey checks that a text is an ASCII-armored public key.
func PublicKey(armored string) (sources.Key, error) {
	left := maxWork
	keys, _, err := readKeys(armored, false, &left)
	switch {
	case err != nil:
		return sources.Key{}, err
	case len(keys) == 0:
		return sources.Key{}, errors.New("there is no key in it")
	}
	return sources.Key{Armor: armored}, nil
}

// Binary returns a detached signature in binary, as registries serve it. It may be ASCII-armored.
func Binary(signature []byte) ([]byte, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(signature), []byte("-----BEGIN PGP")) {
		return signature, nil
	}
	if len(signature) > maxSignatureSize {
		return nil, fmt.Errorf("more than %d bytes", maxSignatureSize)
	}
	body, err := openArmor(string(signature), openpgp.SignatureType)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(body)
}
