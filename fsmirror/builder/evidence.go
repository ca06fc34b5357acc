package builder

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
)

// readEvidence reads the evidence for a version. The error matches
// [sources.ErrNotFound] if there is none.
func (b *Builder) readEvidence(p sources.Provider, v sources.Version) (*sources.Signed, error) {
	if b.dir == nil {
		return nil, sources.ErrNotFound
	}
	return evidence.Read(b.dir, evidence.Path(p, v))
}

// Evidence returns the evidence for a version, with the keys marked that a registry
// listed according to the records. The error matches [sources.ErrNotFound] if there
// is none.
func (b *Builder) Evidence(p sources.Provider, v sources.Version) (*sources.Signed, error) {
	kept, err := b.readEvidence(p, v)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.marked(p, v, kept), nil
}

// Recorded returns the platforms for which hashes of a version are recorded.
func (b *Builder) Recorded(p sources.Provider, v sources.Version) ([]sources.Platform, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []sources.Platform
	for key := range b.ledger(p).of(b.opts.Unpacked) {
		if name, ok := strings.CutPrefix(key, v.String()+"/"); ok {
			if platform, err := sources.ParsePlatform(name); err == nil {
				all = append(all, platform)
			}
		}
	}
	return all, nil
}

// marked returns the evidence for a version, with the keys marked according to all
// authenticated records. The caller holds b.mu.
func (b *Builder) marked(p sources.Provider, v sources.Version, kept *sources.Signed) *sources.Signed {
	var references []string
	l := b.ledger(p)
	if l.foreign {
		return kept
	}
	for _, records := range []map[string]record{l.Packed, l.Unpacked} {
		for key, r := range records {
			if strings.HasPrefix(key, v.String()+"/") {
				references = append(references, r.Evidence)
			}
		}
	}
	marked, _ := evidence.Resolve(kept, references...)
	return marked
}

// A ReplacedError reports a package that is refused because the mirror has better
// evidence for its version. That evidence does not verify this package, so clients
// could not install it.
type ReplacedError struct{ Err, Downgrade error }

func (e *ReplacedError) Error() string {
	text := fmt.Sprintf("the mirror's signed checksums do not cover this package: %v", e.Err)
	if e.Downgrade != nil {
		text += "; " + e.Downgrade.Error()
	}
	return text
}

func (e *ReplacedError) Unwrap() []error { return []error{e.Err, e.Downgrade} }

// A ChangedError reports a package that differs from the one that was stored.
type ChangedError struct{ Was, Is sources.Hash }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("it has changed in the mirror: it is %s, and was %s", e.Is, e.Was)
}

// keepEvidence writes the evidence for a version, before the packages that it
// verifies, and makes r refer to it. If the mirror keeps better evidence, that must
// verify the package.
func (b *Builder) keepEvidence(id sources.PackageID, r *record, signed *sources.Signed) error {
	if signed == nil {
		return nil
	}
	b.mu.Lock() // one writer at a time
	defer b.mu.Unlock()
	old, err := b.readEvidence(id.Provider, id.Version)
	isNew, kept := err != nil, signed
	if !isNew {
		old = b.marked(id.Provider, id.Version, old)
		if evidence.Reference(old) != evidence.Reference(signed) {
			var downgrade error
			kept, downgrade = b.opts.Judge.Merge(id.Provider, old, signed)
			if err := b.prove(id.Provider, r, kept); err != nil {
				return sources.WithHint(&ReplacedError{err, downgrade}, "find out which evidence is right; to accept the new evidence, remove this version from the mirror first")
			}
			b.warnOf(id, downgrade)
		}
	}
	if err := errors.Join(b.change(), b.unindexEvidence(id.Provider, id.Version, kept)); err != nil {
		return err
	}
	if err := evidence.Write(b.dir, evidence.Path(id.Provider, id.Version), b.work.Dir, kept); err != nil {
		return err
	}
	r.Evidence = evidence.Reference(kept)
	if isNew {
		b.compareKeys(id, kept)
	}
	return nil
}

// prove sets what is proved about the package of r to what the evidence proves.
func (b *Builder) prove(p sources.Provider, r *record, kept *sources.Signed) error {
	if r.ZH == "" {
		return nil
	}
	proof, err := b.opts.Judge.Prove(p, kept, r.ZH)
	if err == nil {
		r.Proof = r.Proof.And(proof)
	}
	return err
}

// compareKeys warns if the version of id is signed with other keys than the nearest
// version with evidence.
func (b *Builder) compareKeys(id sources.PackageID, now *sources.Signed) {
	dir, err := b.dir.Sub(path.Dir(evidence.Path(id.Provider, id.Version)))
	if err != nil {
		b.warn(err)
		return
	}
	defer dir.Close()
	entries, err := dir.ReadDir()
	b.warn(err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	near, ok := evidence.Nearest(names, id.Version)
	if !ok {
		return
	}
	was, err := b.readEvidence(id.Provider, near)
	if err == nil {
		b.warnOf(id, b.opts.Judge.CompareKeys(id.Provider, near, b.marked(id.Provider, near, was), now))
	}
}

// warnOf is warn for a problem with the version of id.
func (b *Builder) warnOf(id sources.PackageID, err error) {
	if err != nil {
		b.warn(fmt.Errorf("%s %s: %w", id.Provider, id.Version, err))
	}
}

var errEvidenceGone = errors.New("its signed checksums are missing")
