package trust

import (
	"bytes"
	"crypto/dsa" //nolint:staticcheck // it is for reading old keys, which publishers still have
	"crypto/rsa"
	"errors"
	"fmt"
	"io"

	"github.com/ProtonMail/go-crypto/openpgp/ecdsa"
	"github.com/ProtonMail/go-crypto/openpgp/elgamal"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/larder-cli/larder/sources"
)

// The limits of numbers in keys and signatures, in bits. The library refuses RSA exponents of more than 24 bits, and
// curves without a name.
const (
	maxModulus  = 8192 // of RSA, and of any number in a signature
	maxPrime    = 4096 // of DSA and ElGamal
	maxSubgroup = 512  // of DSA
)

// maxUserID is the maximum size of a user ID in bytes.
const maxUserID = 4 << 10

// maxWork is how much work the keys of one evidence may cause, which takes less than half a second. The usual key with
// RSA 4096 causes a thousandth of that.
const maxWork budget = 200_000_000

// A budget is work that may still be done. The unit is a multiplication of two machine words, or the hashing of a byte,
// which takes one or two nanoseconds.
type budget int

var errTooMuchWork = errors.New("verifying its signatures would take too long")

// spend returns an error if there is less than the cost left.
func (b *budget) spend(cost int) error {
	if *b -= budget(cost); *b < 0 {
		*b = 0
		return errTooMuchWork
	}
	return nil
}

// The tags of packets in keys and signatures.
const (
	tagSignature     = 2
	tagPrivateKey    = 5
	tagPublicKey     = 6
	tagPrivateSubkey = 7
	tagMarker        = 10
	tagTrust         = 12
	tagUserID        = 13
	tagPublicSubkey  = 14
	tagUserAttribute = 17
	tagPadding       = 21
	firstUncritical  = 40 // of those that programs may ignore
)

// mostPackets is how many packets of each kind a block of keys may contain. Real keys have up to a few hundred
// signatures of other people, which Larder does not verify, and few of all else.
var mostPackets = map[uint8]int{
	tagSignature: 2000, tagPublicKey: maxKeys, tagPrivateKey: 1, tagPrivateSubkey: 64, tagPublicSubkey: 64, tagUserID: 128,
	tagMarker: 64, tagTrust: 2000, tagUserAttribute: 64, tagPadding: 64,
}

// A checkedKeys is a block of keys within the limits. Its packets are written in a form in which the library reads the
// same ones.
type checkedKeys struct {
	packets []byte
	each    int // the cost of verifying one signature with all keys
	own     int // the cost of verifying the signatures in the block
}

// checkKeys checks a block of keys before the library reads it, which verifies signatures. It parses each packet on its
// own, which does not compute anything. A block with private keys is refused unless they are allowed.
func checkKeys(body io.Reader, private bool) (c checkedKeys, err error) {
	var out bytes.Buffer
	var primary *packet.PublicKey
	dearest, verified, counts := 0, 0, map[uint8]int{}
	for r := packet.NewOpaqueReader(body); ; {
		op, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return c, err
		}
		most, known := mostPackets[op.Tag]
		if counts[op.Tag]++; known && counts[op.Tag] > most {
			return c, fmt.Errorf("more than %d packets of type %d", most, op.Tag)
		}
		if !private && (op.Tag == tagPrivateKey || op.Tag == tagPrivateSubkey) {
			return c, sources.WithHint(errors.New("it is a private key"),
				"gpg --armor --export writes the public key; --sign-key signs with a private one")
		}
		p, err := checkPacket(op)
		if err != nil {
			return c, err
		}
		switch p := p.(type) {
		case *packet.PublicKey:
			cost := costOf(p)
			dearest, c.each = max(dearest, cost), c.each+cost
			if !p.IsSubkey {
				primary = p
			}
		case *packet.Signature:
			if isVerified(p, primary) {
				verified++
			}
			if p.EmbeddedSignature != nil {
				verified++
			}
		}
		_ = op.Serialize(&out) // a buffer never fails
	}
	c.packets, c.own = out.Bytes(), dearest*verified
	return c, nil
}

// isVerified reports whether the library verifies a signature in a block of keys. It ignores certifications by others.
func isVerified(s *packet.Signature, primary *packet.PublicKey) bool {
	switch s.SigType {
	case packet.SigTypeGenericCert, packet.SigTypePersonaCert, packet.SigTypeCasualCert, packet.SigTypePositiveCert,
		packet.SigTypeCertificationRevocation:
		return primary != nil && s.CheckKeyIdOrFingerprint(primary)
	}
	return true
}

// checkPacket parses a packet of a key or a signature, and refuses one that is not within the limits. It returns nil
// for a packet that the library skips or refuses.
func checkPacket(op *packet.OpaquePacket) (packet.Packet, error) {
	if _, known := mostPackets[op.Tag]; !known && op.Tag < firstUncritical {
		return nil, fmt.Errorf("a packet of type %d, which neither keys nor signatures contain", op.Tag)
	}
	public := *op
	switch op.Tag { // the library computes with a private key when it parses it; a private key begins as the public one
	case tagPrivateKey:
		public.Tag = tagPublicKey
	case tagPrivateSubkey:
		public.Tag = tagPublicSubkey
	}
	var one bytes.Buffer
	_ = public.Serialize(&one) // a buffer never fails
	p, err := packet.Read(&one)
	switch parsed := err == nil; {
	case !parsed: // the library skips it, or has the same error
		return nil, nil
	case one.Len() > 0 && public.Tag == op.Tag:
		// The library would read the rest as packets.
		return nil, fmt.Errorf("a packet of type %d contains more than it should", op.Tag)
	}
	switch p := p.(type) {
	case *packet.PublicKey:
		return p, checkNumbers(p)
	case *packet.Signature:
		for _, number := range []interface{ BitLength() uint16 }{
			p.RSASignature, p.DSASigR, p.DSASigS, p.ECDSASigR, p.ECDSASigS, p.EdDSASigR, p.EdDSASigS,
		} {
			if number != nil && number.BitLength() > maxModulus {
				return nil, fmt.Errorf("a signature has a number of more than %d bits", maxModulus)
			}
		}
	case *packet.UserId:
		if len(p.Id) > maxUserID {
			return nil, fmt.Errorf("a user ID has more than %d bytes", maxUserID)
		}
	}
	return p, nil
}

// checkNumbers returns an error for a key with a number that is too large.
func checkNumbers(key *packet.PublicKey) error {
	bits, most, name := 0, maxPrime, "DSA"
	switch k := key.PublicKey.(type) {
	case *rsa.PublicKey:
		bits, most, name = k.N.BitLen(), maxModulus, "RSA"
	case *elgamal.PublicKey:
		bits, name = max(k.P.BitLen(), k.G.BitLen(), k.Y.BitLen()), "ElGamal"
	case *dsa.PublicKey:
		bits = max(k.P.BitLen(), k.G.BitLen(), k.Y.BitLen())
		if q := k.Q.BitLen(); q > maxSubgroup {
			return fmt.Errorf("the DSA key %s has a subgroup of %d bits, more than %d", key.KeyIdString(), q, maxSubgroup)
		}
	}
	if bits > most {
		return fmt.Errorf("the %s key %s has %d bits, more than %d", name, key.KeyIdString(), bits, most)
	}
	return nil
}

// costOf returns the cost of verifying a signature with a key within the limits. Those of curves and of other
// algorithms are measured.
func costOf(key *packet.PublicKey) int {
	const least, curve = 100_000, 4_000_000
	words := func(bits int) int { return (bits + 63) / 64 }
	switch k := key.PublicKey.(type) {
	case *rsa.PublicKey:
		return least + words(k.N.BitLen())*words(k.N.BitLen())*24
	case *dsa.PublicKey:
		return least + words(k.P.BitLen())*words(k.P.BitLen())*k.Q.BitLen()*2
	case *ecdsa.PublicKey:
		return curve // of Brainpool, the slowest
	}
	if key.PubKeyAlgo >= packet.PubKeyAlgoMldsa65Ed25519 {
		return curve
	}
	return 2 * least // of Edwards curves
}
