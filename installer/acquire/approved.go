package acquire

import (
	"context"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/trust"
)

// useSet reads the set of an offer's source, if a rule requires approval. A package without the hash of an archive may
// have any that the set lists.
func (a *Acquirer) useSet(ctx context.Context, offer *Offer) error {
	if !a.opts.Judge.NeedsApproval(offer.ID.Provider) {
		return nil
	}
	if set := a.opts.Approved; set != nil {
		*offer = offer.In(set)
		return nil
	}
	if _, err := offer.Approvals(ctx, ""); err != nil {
		return err
	}
	from := offer.Package
	offer.approvals = func(zh sources.Hash) []sources.Signer {
		by, _ := from.Approvals(ctx, zh) // it was read
		return by
	}
	return nil
}

// In returns the offer as one in a set, which may be nil.
func (o Offer) In(set *trust.Set) Offer {
	o.approvals = func(zh sources.Hash) []sources.Signer { return set.Approvals(o.ID, zh) }
	return o
}

// approvedAs returns the keys that approved an archive with a hash, which may be empty for none.
func (o Offer) approvedAs(zh sources.Hash) []sources.Signer {
	if o.approvals == nil || zh == "" {
		return nil
	}
	return o.approvals(zh)
}

// mayBeApproved returns the keys that approved an archive with one of the hashes that a source states, or any archive
// if it states none.
func (o Offer) mayBeApproved() (by []sources.Signer) {
	if o.approvals == nil || o.Location.Dir != "" {
		return nil
	}
	stated := sources.HashesOf(sources.ZH, o.Hashes)
	if len(stated) == 0 {
		return o.approvals("")
	}
	for _, zh := range stated {
		by = append(by, o.approvals(zh)...)
	}
	return by
}
