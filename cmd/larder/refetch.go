package main

import (
	"context"
	"errors"
	"strings"

	"github.com/larder-cli/larder/cachedir"
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
		Engine: k.config.Engine, Trust: k.trustOptions(), Report: k.out.event,
	})
	return func(ctx context.Context, m cachedir.Mending) (gone bool, err error) {
		outcome, err := in.Fetch(ctx, *m.Package, k.before(m))
		k.out.followed().end(itemKey{id: *m.Package})
		switch {
		case err == nil:
			k.fetchedAgain(outcome)
		case errors.Is(err, sources.ErrNotFound), errors.Is(err, fetch.ErrOffline):
			k.notFetched(*m.Package, err)
			return true, nil
		}
		return installer.IsOther(err), k.explain(err)
	}, nil
}

func (k *keeper) fetchedAgain(o installer.Outcome) {
	words := about(o)
	words[0] += " again"
	k.out.result("package", inJSON(o), "%s: %s", o.Package.ID, strings.Join(words, ", "))
}

// missingPackage is a package that is not to be had, in JSON.
type missingPackage struct {
	Provider string `json:"provider"`
	Version  string `json:"version"`
	Platform string `json:"platform"`
	Text     string `json:"text"`
}

func (k *keeper) notFetched(id sources.PackageID, why error) {
	k.out.result("missing", missingPackage{id.Provider.String(), id.Version.String(), id.Platform.String(), why.Error()}, "not fetched again: %v", why)
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
