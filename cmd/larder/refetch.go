package main

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/fetch"
	"github.com/larder-cli/larder/sources/trust"
)

// replacer fetches packages again that are wrong in the cache, from where the
// configuration says. Those that no source has are only named.
func (k *keeper) replacer(ctx context.Context) (cachedir.Replacer, error) {
	from, err := k.source(ctx, nil)
	if err != nil {
		return nil, err
	}
	in := installer.New(from, k.cache, k.client, installer.Options{
		Engine: k.config.Engine, Trust: k.trustOptions(), Report: k.out.Event,
	})
	return func(ctx context.Context, m cachedir.Mending) (gone bool, err error) {
		outcome, err := in.Fetch(ctx, *m.Package, k.before(m))
		k.out.Forget(*m.Package)
		switch {
		case err == nil:
			again := outcome
			again.How += " again"
			k.out.Result("package", ui.OutcomeInJSON(outcome), "%s: %s", outcome.Package.ID, ui.OutcomeText(again))
		case errors.Is(err, sources.ErrNotFound), errors.Is(err, fetch.ErrOffline):
			k.out.Missing(*m.Package, err, "not fetched again: %v", err)
			return true, nil
		}
		return installer.IsOther(err), k.explain(err)
	}, nil
}

// before are the hashes of a package that was set aside: those that were
// recorded, else those that were signed.
func (k *keeper) before(m cachedir.Mending) []sources.Hash {
	if len(m.Stored) > 0 {
		return m.Stored
	}
	signed, err := k.cache.Evidence(m.Package.Provider, m.Package.Version)
	if err != nil {
		return nil
	}
	sums, err := trust.ParseSums(signed.Sums)
	if err != nil {
		return nil
	}
	return sums.Hashes()
}
