package fsmirror

import (
	"context"
	"slices"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// Nearby returns a source that gives the same answers as from, with one difference:
// if a mirror has an archive with a hash that from returns, the archive is taken from
// the mirror instead of its URL.
func Nearby(from sources.Source, mirrors []*Mirror) sources.Source {
	return nearby{from, mirrors}
}

// maxArchive exceeds the size in bytes of any archive that can be unpacked.
const maxArchive = 9 << 30

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
			continue // the mirror lacks it, or has no hash for it
		}
		sum, _, err := disk.HashFile(ctx, near.Location.Archive, maxArchive)
		if err == nil && slices.Contains(pkg.Hashes, sources.ZipHash(sum)) {
			pkg.Location, pkg.Size = near.Location, near.Size
			return pkg, nil
		}
	}
	return pkg, ctx.Err()
}
