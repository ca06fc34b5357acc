package trust

import (
	"cmp"
	"slices"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/larder-cli/larder/sources"
)

// A keyBlock is one of the keys in evidence, read. It may have several keys in it.
type keyBlock struct {
	key      sources.Key
	entities openpgp.EntityList
	err      error // why it can't be read
}

// A keyring is all that keys tell of one another. The same key may be there as it was
// before and after it was revoked or renewed.
type keyring struct {
	blocks  []keyBlock // of the keys in evidence, and then of others
	listed  map[sources.Fingerprint]bool
	revoked map[keyName][]*packet.Signature
}

// A keyName is a primary key or one of its subkeys. Any primary key can claim
// another's subkey, and revoke that for itself.
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

// revoke notes revocations, which the library has verified.
func (r *keyring) revoke(name keyName, by []*packet.Signature) {
	if len(by) > 0 {
		r.revoked[name] = append(r.revoked[name], by...)
	}
}

// fingerprints are those of all keys in it.
func (r *keyring) fingerprints() map[sources.Fingerprint]bool {
	all := map[sources.Fingerprint]bool{}
	for _, block := range r.blocks {
		for _, entity := range block.entities {
			all[fingerprint(entity)] = true
		}
	}
	return all
}

// checkRevoked is for a key that was revoked where it is listed once more.
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

// Listed are the zh: hashes of all lines that can be read. Unlike [Sums.Hashes] it
// skips a malformed line: whether a hash is listed doesn't depend on other lines.
func (s Sums) Listed() []sources.Hash {
	var hashes []sources.Hash
	for _, line := range s.lines {
		if sum, ok := line.parse(); ok && line.name != "" {
			hashes = append(hashes, sources.ZipHash(sum))
		}
	}
	return hashes
}

// Platforms are the platforms for which the checksums list an archive of the
// version, sorted: those in file names that [sources.ParseFilename] accepts.
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
