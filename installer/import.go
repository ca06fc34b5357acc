package installer

import (
	"context"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// The ways to come by a package that is imported.
const (
	Imported  How = "imported"
	WasStored How = "already in the cache"
)

// Import has the store take a package that was taken out of another store: a
// parcel of files or a directory, with what is claimed of its archive. The
// contents must hash to h1, and to what is remembered of such a package, else the
// error is a [HashMismatchError] or a [RepublishedError].
//
// That these contents came out of the archive that is claimed, and signed,
// nobody can tell without the archive. So the claims count only if the store
// remembers the same of these contents, which it does if it has seen the archive.
func (in *Installer) Import(ctx context.Context, id sources.PackageID, h1 sources.Hash, parcel sources.Parcel) (Outcome, error) {
	j := &job{Installer: in, req: sources.Requirement{Provider: id.Provider}, version: id.Version}
	d := j.newDelivery(sources.Package{
		ID: id, Hashes: []sources.Hash{h1}, Source: parcel.Origin, Kind: sources.FromFilesystem,
	}, trust.Report{})
	err := d.claim(h1, parcel)
	if err != nil {
		return Outcome{}, j.fail(id, parcel.Origin, err)
	}
	s, err := d.put(ctx)
	if err != nil {
		return Outcome{}, j.fail(id, parcel.Origin, err)
	}
	outcome := Outcome{Package: s, How: WasStored}
	if d.fetched {
		outcome.How = Imported
	}
	return outcome, nil
}

// claim makes a parcel that is at hand what is delivered. Of what it claims it
// keeps what is known already, and what that proves.
func (d *delivery) claim(h1 sources.Hash, parcel sources.Parcel) error {
	d.parcel = &sources.Parcel{Dir: parcel.Dir, Files: parcel.Files, Origin: parcel.Origin, Imported: true}
	known, err := d.to.Recall(d.pkg.ID)
	if err != nil || known.H1 != h1 || known.ZH == "" || known.ZH != parcel.ZH {
		return nil //nolint:nilerr // then there are only claims
	}
	d.zh, d.parcel.Filename = known.ZH, known.Filename
	if known.Signed == nil {
		d.pkg.Signed = parcel.Signed
	}
	return d.checkEvidence()
}
