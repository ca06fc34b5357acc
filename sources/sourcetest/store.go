package sourcetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/larder-cli/larder/sources"
)

// A Store is the part of a store that stores packages; see [sources.Tx].
type Store interface {
	Begin(ctx context.Context, id sources.PackageID, purpose sources.Purpose) (sources.Held, sources.Tx, error)
}

// A Supply provides a package for a store.
type Supply struct {
	Purpose sources.Purpose // to store it unless set

	// Accept reports whether the package in the store meets the request.
	Accept func(sources.Stored) bool

	// Improve returns better evidence for an accepted package. It may be nil.
	Improve func(sources.Stored) (*sources.Signed, sources.Proof)

	// Fetch writes the package's archive to the stage, or returns its location.
	Fetch func(ctx context.Context, stage sources.Stage) (Supplied, error)

	// Judge returns what is proved about the contents, or an error to reject them.
	Judge func(sources.Contents) (sources.Proof, error)
}

// Supplied is a package after Fetch. Its proof is that of Judge.
type Supplied struct {
	sources.Payload
	sources.Provenance
}

// Put stores a package, or records its hashes.
func Put(ctx context.Context, to Store, id sources.PackageID, from Supply) (sources.Stored, error) {
	held, tx, err := to.Begin(ctx, id, from.Purpose)
	if err != nil {
		return sources.Stored{}, err
	}
	defer tx.Close()
	there := held.Package
	if from.Purpose == sources.ToHash {
		there = held.Known
	}
	if there.Hashed() && from.Accept(there) {
		if from.Improve == nil {
			return there, nil
		}
		signed, proof := from.Improve(there)
		return tx.Commit(ctx, sources.Provenance{ZH: there.ZH, Signed: signed, Proof: proof})
	}
	stage, err := tx.Stage(nil)
	if err != nil {
		return sources.Stored{}, err
	}
	got, err := from.Fetch(ctx, stage)
	if err != nil {
		return sources.Stored{}, sources.InPackage(id, err)
	}
	contents, err := tx.Unpack(ctx, got.Payload)
	if err != nil {
		return sources.Stored{}, err
	}
	if got.Proof, err = from.Judge(contents); err != nil {
		return sources.Stored{}, sources.InPackage(id, err)
	}
	return tx.Commit(ctx, got.Provenance)
}

// ByRegistryKey is the proof of a package that a key signed which the registry lists.
// Nothing in these tests verifies the signature.
var ByRegistryKey = sources.Proof{Matched: true, Name: "widget.zip", Signers: []sources.Signer{{
	Fingerprint: "0123456789ABCDEF0123456789ABCDEF01234567", From: sources.KeyFromRegistry,
}}}

// AllVerdicts are all verdicts, from best to worst.
var AllVerdicts = []sources.Verdict{
	sources.SignedByHashiCorp, sources.SignedByTrusted, sources.SelfSigned,
	sources.MirrorEvidence, sources.HashOnly, sources.Unverified,
}

// Verdicts is a [sources.Judge] with the given answers. Without them, all evidence proves [ByRegistryKey], and
// replaces what is kept.
type Verdicts struct {
	OnProve func(*sources.Signed, sources.Hash) (sources.Proof, error)
	OnMerge func(kept, new *sources.Signed) (*sources.Signed, error)
	OnKeys  func(other sources.Version, was, now *sources.Signed) error
}

// Prove implements [sources.Judge].
func (j Verdicts) Prove(
	_ context.Context, _ sources.Provider, s *sources.Signed, zh sources.Hash,
) (sources.Proof, error) {
	if j.OnProve == nil {
		return ByRegistryKey, nil
	}
	return j.OnProve(s, zh)
}

// Report implements [sources.Judge].
func (j Verdicts) Report(_ sources.Provider, p sources.Proof) sources.Report {
	r := sources.Report{Signed: p.Name}
	for _, s := range p.Signers {
		by := sources.SignedBy{Verdict: sources.MirrorEvidence, Fingerprint: s.Fingerprint, From: s.From}
		if s.From == sources.KeyFromRegistry {
			by.Verdict = sources.SelfSigned
		}
		r.By, r.Verdict = append(r.By, by), max(r.Verdict, by.Verdict)
	}
	if p.Matched {
		r.Verdict = max(r.Verdict, sources.HashOnly)
	}
	return r
}

// Merge implements [sources.Judge].
func (j Verdicts) Merge(_ context.Context, _ sources.Provider, kept, new *sources.Signed) (*sources.Signed, error) {
	if j.OnMerge == nil {
		return new, nil
	}
	return j.OnMerge(kept, new)
}

// CompareKeys implements [sources.Judge].
func (j Verdicts) CompareKeys(
	_ context.Context, _ sources.Provider, other sources.Version, was, now *sources.Signed,
) error {
	if j.OnKeys == nil {
		return nil
	}
	return j.OnKeys(other, was, now)
}

// A Buffer is a stage in memory that keeps no interrupted downloads.
type Buffer struct {
	bytes.Buffer
	Observer sources.Observer // may be nil
	size     int64            // of the archive
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	n, _ := b.Buffer.Write(p) // never fails
	return n, b.tell()
}

// Expect implements [sources.Stage].
func (b *Buffer) Expect(size int64) error {
	b.size = size
	return b.tell()
}

func (b *Buffer) tell() error {
	if b.Observer == nil {
		return nil
	}
	return b.Observer(sources.Arriving{Done: int64(b.Len()), Size: b.size})
}

// Begin implements [sources.Stage].
func (b *Buffer) Begin(string) error {
	b.Buffer.Reset()
	return b.tell()
}

// Resume implements [sources.Stage].
func (b *Buffer) Resume(sources.Hash) (held io.Reader, note string, err error) { return nil, "", nil }

// Recent implements [sources.Stage].
func (b *Buffer) Recent(context.Context, sources.Hash) (sources.Archive, error) {
	return nil, fs.ErrNotExist
}

// Spool implements [sources.Stage].
func (b *Buffer) Spool(int64) (sources.Spool, error) { return nil, errors.ErrUnsupported }
