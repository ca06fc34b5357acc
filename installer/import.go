package installer

import (
	"context"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
)

// The ways to get a package that is imported.
const (
	Imported  How = "imported"
	WasStored How = "already in the cache"
)

// Import stores a package that was taken out of another store: its files or its
// directory, with what is claimed of its archive. The contents must hash to h1, and to
// what is recorded of such a package, else the error is a [acquire.HashMismatchError] or
// a [acquire.RepublishedError].
//
// Without the archive it can't be verified that these contents came out of it. So the
// claims count only if the store has recorded the same of these contents, which it has
// if it has seen the archive.
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
