package fsmirror

import (
	"context"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Nearby returns a source that answers as from does, except that it takes an
// archive from one of the mirrors, and not from its URL, if a mirror has one with
// a hash that from states.
func Nearby(from sources.Source, mirrors []*Mirror) sources.Source {
	return nearby{from, mirrors}
}

type nearby struct {
	sources.Source
	mirrors []*Mirror
}

func (n nearby) Package(ctx context.Context, id sources.PackageID) (sources.Package, error) {
	pkg, err := n.Source.Package(ctx, id)
	if err != nil || pkg.Location.URL == "" {
		return pkg, err
	}
	for _, m := range n.mirrors {
		near, err := m.Package(ctx, id)
		if err != nil || near.Location.Archive == "" || pkg.Size > 0 && near.Size != pkg.Size {
			continue // it is not there, or not known to be
		}
		sum, _, err := disk.HashFile(ctx, near.Location.Archive)
		if err == nil && slices.Contains(pkg.Hashes, sources.ZipHash(sum)) {
			pkg.Location = near.Location
			return pkg, nil
		}
	}
	return pkg, ctx.Err()
}
