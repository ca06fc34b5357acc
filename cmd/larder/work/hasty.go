package work

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

// A hasty source gives up on a slow server, because the user waits for the answer to a question. The answer then says
// that the server is slow.
type hasty struct{ sources.Source }

// Versions returns the versions of the source.
func (h hasty) Versions(ctx context.Context, p sources.Provider) (listing sources.Listing, err error) {
	err = h.within(ctx, func(ctx context.Context) error {
		listing, err = h.Source.Versions(ctx, p)
		return err
	}, func(err error) error { return &sources.ProviderError{Provider: p, Source: h.String(), Err: err} })
	return listing, err
}

// Package returns the package of the source.
func (h hasty) Package(ctx context.Context, id sources.PackageID) (pkg sources.Package, err error) {
	err = h.within(ctx, func(ctx context.Context) error {
		pkg, err = h.Source.Package(ctx, id)
		return err
	}, func(err error) error { return &sources.PackageError{ID: id, Source: h.String(), Err: err} })
	return pkg, err
}

// Detail returns the detail of the source, if it has any.
func (h hasty) Detail(ctx context.Context, r sources.Release) (detail sources.Detail, err error) {
	detailer, ok := h.Source.(sources.Detailer)
	if !ok {
		return detail, nil
	}
	err = h.within(ctx, func(ctx context.Context) error {
		detail, err = detailer.Detail(ctx, r)
		return err
	}, func(err error) error { return err })
	return detail, err
}

// within calls ask, and replaces the error if the time is up.
func (h hasty) within(ctx context.Context, ask func(context.Context) error, about func(error) error) error {
	limited, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := ask(limited)
	if err != nil && ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) {
		return about(fmt.Errorf("%w: no complete answer within %s", fetch.ErrStalled, answerTime))
	}
	return err
}
