package store

import (
	"context"
	"slices"
	"strings"

	"github.com/larder-cli/larder/sources"
)

// Known are the hashes of all packages that a user has ever verified, in any store.
type Known struct{ *Ledger[Facts] }

// NewKnown returns the known hashes.
func NewKnown(opts LedgerOptions) Known { return Known{NewLedger[Facts](opts)} }

// KeyOf returns the key of a package in a ledger.
func KeyOf(id sources.PackageID) string { return id.Version.String() + "/" + id.Platform.String() }

// Of returns what is known about a package. The error is that of [Ledger.Find].
func (k Known) Of(id sources.PackageID) (Facts, error) { return k.Find(id.Provider, KeyOf(id)) }

// Keep records facts about a package and returns what is known then. Facts about the same contents that were known
// before stay if they are worth as much, and so does the time at which the hashes were first recorded. [Ledger.Write]
// writes the facts.
func (k Known) Keep(judge sources.Judge, id sources.PackageID, f Facts) Facts {
	worth := func(f Facts) sources.Verdict { return judge.Report(id.Provider, f.Proof).Verdict }
	if old, err := k.Of(id); err == nil {
		switch same := old.Same(f); {
		case old.H1 == "" && f.ZH == "" && worth(old) > worth(f): // nothing shows that it is the same package
			return f
		case same && (old.ZH == f.ZH || f.ZH == ""):
			f = f.With(old)
			approved := old.Proof.Approved(f.Proof.Approvals).Approvals
			f.Proof.Approvals = approved
			if worth(old) >= worth(f) && (old.Evidence != "") == (f.Evidence != "") {
				if old.H1 == f.H1 && slices.Equal(old.Proof.Approvals, approved) {
					return old
				}
				f = old.With(f)
				f.Proof.Approvals = approved
				break
			}
			f.Since = old.Since
		}
	}
	k.Set(id.Provider, KeyOf(id), f)
	return f
}

// Forget removes what is known about a package.
func (k Known) Forget(ctx context.Context, id sources.PackageID) error {
	k.Remove(id.Provider, KeyOf(id))
	return k.Write(ctx)
}

// Packages returns the packages of a provider whose hashes are known.
func (k Known) Packages(p sources.Provider) ([]sources.PackageID, error) {
	facts, err := k.All(p)
	return packagesOf(p, facts), err
}

// PackagesOf is [Known.Packages] for a version.
func (k Known) PackagesOf(r sources.Release) ([]sources.PackageID, error) {
	facts, err := k.OfVersion(r)
	return packagesOf(r.Provider, facts), err
}

// packagesOf returns the packages with these keys, sorted.
func packagesOf(p sources.Provider, facts map[string]Facts) (ids []sources.PackageID) {
	for key := range facts {
		version, platform, _ := strings.Cut(key, "/")
		v, versionErr := sources.ParseVersion(version)
		on, platformErr := sources.ParsePlatform(platform)
		if versionErr == nil && platformErr == nil {
			ids = append(ids, sources.PackageID{Provider: p, Version: v, Platform: on})
		}
	}
	slices.SortFunc(ids, sources.PackageID.Compare)
	return ids
}
