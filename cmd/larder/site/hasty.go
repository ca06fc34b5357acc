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
func (h Hasty) Versions(ctx context.Context, p sources.Provider) (listing sources.Listing, err error) {
	err = h.Within(ctx, func(ctx context.Context) error {
		listing, err = h.Source.Versions(ctx, p)
		return err
	}, func(err error) error { return &sources.ProviderError{Provider: p, Source: h.String(), Err: err} })
	return listing, err
}

// Package returns the package of the source.
func (h Hasty) Package(ctx context.Context, id sources.PackageID) (pkg sources.Package, err error) {
	err = h.Within(ctx, func(ctx context.Context) error {
		pkg, err = h.Source.Package(ctx, id)
		return err
	}, func(err error) error { return &sources.PackageError{ID: id, Source: h.String(), Err: err} })
	return pkg, err
}

// Detail returns the detail of the source, if it has any.
func (h Hasty) Detail(ctx context.Context, r sources.Release) (detail sources.Detail, err error) {
	detailer, ok := h.Source.(sources.Detailer)
	if !ok {
		return detail, nil
	}
	err = h.Within(ctx, func(ctx context.Context) error {
		detail, err = detailer.Detail(ctx, r)
		return err
	}, func(err error) error { return err })
	return detail, err
}

// Within calls ask, and replaces the error if the time is up.
func (h Hasty) Within(ctx context.Context, ask func(context.Context) error, about func(error) error) error {
	limited, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := ask(limited)
	if err != nil && ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) {
		return about(fmt.Errorf("%w: no complete answer within %s", fetch.ErrStalled, answerTime))
	}
	return err
}
