package builder

import (
	"context"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
)

// Find says what a package hashes to that was found in the mirror, wherever it
// lies. It reads the package only if no record tells.
func (b *Builder) Find(ctx context.Context, p fsmirror.Package) (sources.Stored, error) {
	path, unpacked := p.Location.Archive, false
	if path == "" {
		path, unpacked = p.Location.Dir, true
	}
	look := func() (record, error) { return b.look(ctx, p.ID, unpacked) }
	if path != b.place(p.ID, unpacked) {
		look = func() (record, error) { return hash(ctx, path) }
	}
	r, err := look()
	if err != nil {
		return sources.Stored{}, named(p.ID, err)
	}
	return b.stored(p.ID, path, r), nil
}
