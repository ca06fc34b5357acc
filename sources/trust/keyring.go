package trust

import (
	"cmp"
	"slices"

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
	listed  map[sources.Fingerprint]bool
	revoked map[keyName][]*packet.Signature
}

// A keyName identifies a primary key or one of its subkeys. A primary key can
// claim the subkey of another one and revoke it, so the revocation applies only
// below that primary key.
type keyName struct{ primary, key sources.Fingerprint }

func readKeyring(keys, others []sources.Key) *keyring {
	r := &keyring{listed: map[sources.Fingerprint]bool{}, revoked: map[keyName][]*packet.Signature{}}
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
	f := fingerprint(entity)
	r.listed[f] = r.listed[f] || listed
	r.revoke(keyName{f, f}, entity.Revocations)
	for _, sub := range entity.Subkeys {
		r.revoke(keyName{f, fingerprintOf(sub.PublicKey)}, sub.Revocations)
	}
}

// revoke records revocations, which the library has verified.
func (r *keyring) revoke(name keyName, by []*packet.Signature) {
	if len(by) > 0 {
		r.revoked[name] = append(r.revoked[name], by...)
	}
}

// fingerprints returns the fingerprints of all keys in the keyring.
func (r *keyring) fingerprints() map[sources.Fingerprint]bool {
	all := map[sources.Fingerprint]bool{}
	for _, block := range r.blocks {
		for _, entity := range block.entities {
			all[fingerprint(entity)] = true
		}
	}
	return all
}

// checkRevoked returns an error if a key was revoked in any of its copies.
func (r *keyring) checkRevoked(found *signer) error {
	f := fingerprint(found.entity)
	by := r.revoked[keyName{f, f}]
	if len(by) == 0 && found.subkey != nil {
		by = r.revoked[keyName{f, fingerprintOf(found.subkey.PublicKey)}]
	}
	if len(by) == 0 {
		return nil
	}
	return revokedKey(found.entity, by)
}

// Listed returns the zh: hashes of all valid lines. Unlike [Sums.Hashes], it
// skips malformed lines, because whether a hash is listed does not depend on
// other lines.
func (s Sums) Listed() []sources.Hash {
	var hashes []sources.Hash
	for _, line := range s.lines {
		if sum, ok := line.parse(); ok && line.name != "" {
			hashes = append(hashes, sources.ZipHash(sum))
		}
	}
	return hashes
}

// Platforms returns the platforms of the archives that the checksums list for
// the version, sorted. It ignores file names that [sources.ParseFilename] does
// not accept.
func (s Sums) Platforms(p sources.Provider, v sources.Version) []sources.Platform {
	var platforms []sources.Platform
	for _, line := range s.lines {
		id, ok := sources.ParseFilename(line.name, p, v)
		if _, readable := line.parse(); ok && readable {
			platforms = append(platforms, id.Platform)
		}
	}
	slices.SortFunc(platforms, func(a, b sources.Platform) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(platforms)
}
