package builder

import (
	"context"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
)

// Find says what a package hashes to that was found in the mirror, wherever it
// lies. It reads the package only if no record tells.
func (b *Builder) Find(ctx context.Context, p fsmirror.Package) (sources.Stored, error) {
	at := spotOf(p)
	r, err := b.look(ctx, at)
	if err != nil {
		return sources.Stored{}, named(p.ID, err)
	}
	return b.stored(at, r), nil
}
