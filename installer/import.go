package installer

import (
	"context"

	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// Origins of an imported package.
const (
	Imported  How = "imported"
	WasStored How = "already in the cache"
)

// Import stores a package from a bundle with a set, which may be nil. It is verified like that of a mirror, and must
// match the recorded hashes of the package. Otherwise the error is an [acquire.HashMismatchError] or an
// [acquire.RepublishedError].
func (in *Installer) Import(
	ctx context.Context, pkg sources.Package, from sources.Payload, set *trust.Set,
) (Outcome, error) {
	res, err := in.acquirer.Take(ctx, acquire.Request{ID: pkg.ID}, acquire.Offer{Package: pkg, Payload: &from}.In(set))
	if err != nil {
		return Outcome{}, err
	}
	outcome := Outcome{Package: res.Package, How: WasStored}
	if res.Fetched {
		outcome.How = Imported
	}
	return outcome, nil
}

// Foresee describes a package with the checksum zh as [Installer.Import] would store it.
func (in *Installer) Foresee(
	ctx context.Context, pkg sources.Package, zh sources.Hash, set *trust.Set,
) sources.Stored {
	s := sources.Stored{ID: pkg.ID, ZH: zh, Proof: sources.Proof{Matched: true}}
	var recorded []sources.Signer
	if known, err := in.into.Recall(pkg.ID); err == nil && known.ZH == zh {
		s.Proof.Name, s.Proof.Signers = known.Proof.Name, known.Proof.Signers
		recorded = known.Proof.Approvals
	}
	if pkg.Signed != nil {
		if proof, err := in.opts.Judge.Prove(ctx, pkg.ID.Provider, pkg.Signed, zh); err == nil { // otherwise the import fails
			s.Proof = proof
		}
	}
	s.Proof = s.Proof.Approved(recorded).Approved(set.Approvals(pkg.ID, zh))
	s.Report = in.opts.Judge.Report(pkg.ID.Provider, s.Proof)
	return s
}
