package trust

import (
	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/larder-cli/larder/sources"
)

// A keyBlock is an entry in the evidence's list of keys, after parsing. It may
// contain several keys.
type keyBlock struct {
	key      sources.Key
	entities openpgp.EntityList
	err      error // why it cannot be read
}

// A keyring collects what all keys contain about each other. It may contain the
// same key in several states, such as before and after it was revoked or
// renewed.
type keyring struct {
	blocks  []keyBlock // the keys in the evidence, followed by other keys
	known   map[sources.Fingerprint]bool
	listed  map[sources.Fingerprint]bool
	revoked map[keyName][]*packet.Signature // revocations, which the library has verified
}

// A keyName identifies a primary key or one of its subkeys. A primary key can
// claim the subkey of another one and revoke it, so the revocation applies only
// below that primary key.
type keyName struct{ primary, key sources.Fingerprint }

func readKeyring(keys, others []sources.Key) *keyring {
	r := &keyring{
		known: map[sources.Fingerprint]bool{}, listed: map[sources.Fingerprint]bool{},
		revoked: map[keyName][]*packet.Signature{},
	}
	for i, key := range append(keys[:len(keys):len(keys)], others...) {
		if i >= len(keys)+maxKeys {
			break
		}
		block := keyBlock{key: key}
		block.entities, block.err = readKeys(key.Armor)
		r.blocks = append(r.blocks, block)
		for _, entity := range block.entities {
			r.add(entity, key.Listed())
		}
	}
	return r
}

func (r *keyring) add(entity *openpgp.Entity, listed bool) {
	f := fingerprint(entity.PrimaryKey)
	r.known[f], r.listed[f] = true, r.listed[f] || listed
	r.revoked[keyName{f, f}] = append(r.revoked[keyName{f, f}], entity.Revocations...)
	for _, sub := range entity.Subkeys {
		name := keyName{f, fingerprint(sub.PublicKey)}
		r.revoked[name] = append(r.revoked[name], sub.Revocations...)
	}
}

// revocations returns the revocations of a key that signed, from all its states.
func (r *keyring) revocations(by *signer) []*packet.Signature {
	all := r.revoked[keyName{by.Fingerprint, by.Fingerprint}]
	if len(all) == 0 && by.subkey != nil {
		all = r.revoked[keyName{by.Fingerprint, fingerprint(by.subkey.PublicKey)}]
	}
	return all
}
