package site

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
)

// answerTime is how long a question waits for all answers of a source about a provider.
const answerTime = 20 * time.Second

// A Hasty source gives up on a slow server, because the user waits for the answer to a question. The answer then says
// that the server is slow.
type Hasty struct{ sources.Source }

// Versions returns the versions of the source.
func (h Hasty) Versions(ctx context.Context, p sources.Provider) (sources.Listing, error) {
	about := func(err error) error { return &sources.ProviderError{Provider: p, Source: h.String(), Err: err} }
	return InTime(ctx, about, func(ctx context.Context) (sources.Listing, error) { return h.Source.Versions(ctx, p) })
}

// Package returns the package of the source.
func (h Hasty) Package(ctx context.Context, id sources.PackageID) (sources.Package, error) {
	about := func(err error) error { return &sources.PackageError{ID: id, Source: h.String(), Err: err} }
	return InTime(ctx, about, func(ctx context.Context) (sources.Package, error) { return h.Source.Package(ctx, id) })
}

// Detail returns the detail of the source, if it has any.
func (h Hasty) Detail(ctx context.Context, r sources.Release) (detail sources.Detail, err error) {
	detailer, ok := h.Source.(sources.Detailer)
	if !ok {
		return detail, nil
	}
	about := func(err error) error { return err }
	return InTime(ctx, about, func(ctx context.Context) (sources.Detail, error) { return detailer.Detail(ctx, r) })
}

// Approvals returns the approvals of the source, if it has any.
func (h Hasty) Approvals(ctx context.Context, id sources.PackageID, zh sources.Hash) ([]sources.Signer, error) {
	approver, ok := h.Source.(sources.Approver)
	if !ok {
		return nil, nil
	}
	about := func(err error) error { return err }
	return InTime(ctx, about, func(ctx context.Context) ([]sources.Signer, error) {
		return approver.Approvals(ctx, id, zh)
	})
}

// InTime calls ask, and replaces the error if the time is up.
func InTime[T any](
	ctx context.Context, about func(error) error, ask func(context.Context) (T, error),
) (answer T, err error) {
	limited, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	answer, err = ask(limited)
	if err != nil && ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) {
		err = about(fmt.Errorf("%w: no complete answer within %s", fetch.ErrStalled, answerTime))
	}
	return answer, err
}
