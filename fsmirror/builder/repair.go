package builder

import (
	"context"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/store"
	"github.com/larder-cli/larder/sources/trust"
)

// A Remedy is what repairs a finding.
type Remedy string

// The remedies.
const (
	Replace Remedy = "replaced"     // fetching the package again, with its evidence
	Correct Remedy = "corrected"    // [Builder.Finish]
	Nothing Remedy = "not repaired" // Larder did not store the file
)

// Remedy returns what repairs the finding.
func (b *Builder) Remedy(f *store.Finding) Remedy {
	switch f.Kind {
	case store.Broken, store.Changed, store.Unreadable, store.BadEvidence:
		if at := b.place(*f.Package, Unpacked(f)); b.relative(at.path) == f.Path {
			return Replace
		}
	case store.Missing:
		if f.Package != nil {
			return Replace
		}
		return Correct
	case Unindexed, BadIndex, Unfinished:
		return Correct
	}
	return Nothing
}

// Unpacked reports whether the finding is about a package that is a directory.
func Unpacked(f *store.Finding) bool { return f.Package != nil && f.Path == f.Package.Path() }

// StoreAs sets whether packages are stored as directories from now on. It must not be called while
// packages are being stored.
func (b *Builder) StoreAs(unpacked bool) { b.opts.Unpacked = unpacked }

// Doubt makes the Builder read a damaged package again, even if its fingerprint matches its record. Until the package is
// replaced, Finish keeps its entry in the index. Doubt returns the hashes that the package had, from its record, or else
// from its signed checksums or the index. For an archive, it returns only the checksum, because a damaged archive may
// still have the same contents.
func (b *Builder) Doubt(id sources.PackageID) []sources.Hash {
	at := b.place(id, b.opts.Unpacked)
	b.mu.Lock()
	b.doubted = append(b.doubted, id)
	b.mu.Unlock()
	if r, err := b.recall(at); err == nil {
		r.Mark = ""
		b.note(at, r)
		if at.unpacked {
			return []sources.Hash{r.H1, r.ZH}
		}
		return []sources.Hash{r.ZH}
	}
	if signed, err := b.Evidence(id.Provider, id.Version); err == nil {
		if sums, err := trust.ParseSums(signed.Sums); err == nil {
			if zh := sums.Archives(id.Provider, id.Version)[id.Platform]; zh != "" {
				return []sources.Hash{zh}
			}
		}
	}
	doc := b.readDocument(b.document(b.home(id.Provider), id.Version))
	stated := doc.Archives[id.Platform.String()].Hashes
	if sources.AnyOf(sources.ZH, stated) {
		stated = slices.DeleteFunc(stated, func(h sources.Hash) bool { return h.Scheme() != sources.ZH })
	}
	return stated
}

// Mismatched returns the paths of the documents that still differ from the archives after Finish.
func (b *Builder) Mismatched(ctx context.Context) (map[string]bool, error) {
	found, err := b.survey(ctx, nil)
	if err != nil {
		return nil, err
	}
	steps, err := b.planIndex(found, dropOthers)
	paths := map[string]bool{}
	for _, change := range b.changes(steps) {
		paths[change.Path] = true
	}
	return paths, err
}
