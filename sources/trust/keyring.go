package trust

import (
	"context"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/larder-cli/larder/sources"
)

// A keyBlock is an entry in the evidence's list of keys, after parsing. It may
// contain several keys.
type keyBlock struct {
	key      sources.Key
	entities openpgp.EntityList
	each     int   // the cost of verifying a signature with these keys
	err      error // why it cannot be read
}

// A keyring collects what all keys contain about each other. It may contain the
// same key in several states, such as before and after it was revoked or
// renewed.
type keyring struct {
	blocks  []keyBlock // the keys in the evidence, followed by other keys
	left    budget     // for verifying signatures with the keys in the evidence
	known   map[sources.Fingerprint]bool
	listed  map[sources.Fingerprint]bool
	revoked map[keyName][]*packet.Signature // revocations, which the library has verified
}

// A keyName identifies a primary key or one of its subkeys. A primary key can
// claim the subkey of another one and revoke it, so the revocation applies only
// below that primary key.
type keyName struct{ primary, key sources.Fingerprint }

// readKeyring reads keys, and others, which can't use up the work that is left for the keys. It skips those that are
// left when the context ends.
func readKeyring(ctx context.Context, keys, others []sources.Key) *keyring {
	r := &keyring{
		known: map[sources.Fingerprint]bool{}, listed: map[sources.Fingerprint]bool{},
		revoked: map[keyName][]*packet.Signature{}, left: maxWork,
	}
	left := maxWork
	for _, key := range keys {
		r.read(ctx, key, &r.left)
	}
	for _, key := range others[:min(len(others), maxKeys)] {
		r.read(ctx, key, &left)
	}
	return r
}

func (r *keyring) read(ctx context.Context, key sources.Key, left *budget) {
	block := keyBlock{key: key, err: ctx.Err()}
	if block.err == nil {
		var checked checkedKeys
		block.entities, checked, block.err = readKeys(key.Armor, false, left)
		block.each = checked.each
	}
	r.blocks = append(r.blocks, block)
	for _, entity := range block.entities {
		r.add(entity, key.Listed())
	}
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
