package installer

import (
	"context"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
)

// Origins of an imported package.
const (
	Imported  How = "imported"
	WasStored How = "already in the cache"
)

// Import stores a package from an export of another store: its files or its
// directory, and claims about its archive. The contents must match h1 and the
// recorded hashes of the package. Otherwise the error is an
// [acquire.HashMismatchError] or an [acquire.RepublishedError].
//
// Without the archive it is impossible to verify that these contents came from it. So
// the claims count only if the store has recorded the same claims for these contents,
// which requires that it has processed the archive.
func (in *Installer) Import(ctx context.Context, id sources.PackageID, h1 sources.Hash, from sources.Payload, claims sources.Provenance) (Outcome, error) {
	offer := acquire.Offer{
		Package:    sources.Package{ID: id, Hashes: []sources.Hash{h1}, Source: claims.Origin, Kind: sources.FromFilesystem},
		Payload:    &from,
		Provenance: sources.Provenance{Origin: claims.Origin, Imported: true},
	}
	known, err := in.into.Recall(id)
	if err == nil && known.H1 == h1 && known.ZH != "" && known.ZH == claims.ZH {
		offer.Provenance.ZH, offer.Provenance.Filename = known.ZH, known.Filename
		if known.Signed == nil {
			offer.Provenance.Signed, offer.Signed = claims.Signed, claims.Signed
		}
	}
	res, err := in.acquirer.Take(ctx, acquire.Request{ID: id}, offer)
	if err != nil {
		return Outcome{}, err
	}
	outcome := Outcome{Package: res.Package, How: WasStored}
	if res.Fetched {
		outcome.How = Imported
	}
	return outcome, nil
}
