package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/fsmirror/publish"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// InPlace are the archives that a place has.
type InPlace struct {
	mu       sync.Mutex
	Archives map[sources.PackageID]sources.HeldArchive
	signed   map[sources.Release]*sources.Signed
	Unread   []unread
}

// An unread release is one of a place that can't be read. Without a version, it stands for all releases of its
// provider.
type unread struct {
	sources.Release
	err error
}

// failed records a release that can't be read.
func (all *InPlace) failed(r sources.Release, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.Unread = append(all.Unread, unread{r, err})
}

// Err returns the errors of the releases that can't be read, in their order.
func (all *InPlace) Err() error {
	slices.SortStableFunc(all.Unread, func(a, b unread) int { return a.Compare(b.Release) })
	var errs []error
	for _, u := range all.Unread {
		errs = append(errs, u.err)
	}
	return errors.Join(errs...)
}

// Browse reads what a place has of the providers that the patterns select. If the place can't list its providers, they
// are those that the patterns name in full, or else those given. A release that can't be read is no error, but one of
// the result.
func Browse(
	ctx context.Context, m *site.Root, r site.PlaceRequest, patterns []site.Pattern, known []sources.Provider,
) (*InPlace, error) {
	all := &InPlace{Archives: map[sources.PackageID]sources.HeldArchive{}, signed: map[sources.Release]*sources.Signed{}}
	b, err := m.Browser(ctx, r)
	if err != nil {
		return all, err
	}
	providers, err := named(m, patterns)
	if err != nil || len(providers) < len(patterns) || len(patterns) == 0 {
		providers, err = b.Providers(ctx)
		if errors.Is(err, publish.ErrUnlisted) && known != nil {
			providers, err = known, nil
		}
	}
	if errors.Is(err, publish.ErrUnlisted) {
		err = report.Usage(fmt.Errorf("%s: %w", r.Place, err))
	}
	if err != nil {
		return all, err
	}
	if b.Hostless() {
		patterns = slices.Clone(patterns)
		for i := range patterns {
			patterns[i].Host = "*"
		}
	}
	providers = slices.DeleteFunc(slices.Clone(providers), func(p sources.Provider) bool {
		selects := func(one site.Pattern) bool { return one.MatchesProvider(p) }
		return len(patterns) > 0 && !slices.ContainsFunc(patterns, selects)
	})
	site.ForEach(len(providers), cmp.Or(m.Flags.Jobs, 16), func(i int) {
		browseProvider(ctx, m, b, providers[i], patterns, all)
	})
	return all, ctx.Err()
}

// named returns the providers that patterns without wildcards name.
func named(m *site.Root, patterns []site.Pattern) (providers []sources.Provider, err error) {
	for _, p := range patterns {
		if strings.Contains(p.Namespace+p.Typ, "*") || p.Namespace == "" {
			continue
		}
		host := p.Host
		if strings.Contains(host, "*") {
			host = string(m.Config.Engine.DefaultHost())
		}
		provider, err := sources.ParseProvider(host+"/"+p.Namespace+"/"+p.Typ, m.Config.Engine)
		if err != nil {
			return nil, report.Usage(err)
		}
		providers = append(providers, provider)
	}
	return providers, nil
}

func browseProvider(
	ctx context.Context, m *site.Root, b publish.Browser, p sources.Provider, patterns []site.Pattern, all *InPlace,
) {
	listing, err := b.Versions(ctx, p)
	if err != nil {
		if !errors.Is(err, sources.ErrNotFound) {
			all.failed(sources.Release{Provider: p}, err)
		}
		return
	}
	site.ForEach(len(listing.Versions), 8, func(i int) {
		r := sources.Release{Provider: p, Version: listing.Versions[i]}
		c, err := b.Release(ctx, p, r.Version)
		if err != nil {
			if site.Selected(patterns, sources.PackageID{Provider: r.Provider, Version: r.Version}) {
				all.failed(r, err)
			}
			return
		}
		r.Provider = c.Provider
		for _, w := range c.Warnings {
			m.Output.Warn("%s: %s", r.Provider, w)
		}
		all.mu.Lock()
		defer all.mu.Unlock()
		all.signed[r] = c.Signed
		for platform, a := range c.Archives {
			all.Archives[sources.PackageID{Provider: r.Provider, Version: r.Version, Platform: platform}] = a
		}
	})
}

// Ids returns the packages, sorted.
func (all *InPlace) Ids() []sources.PackageID {
	return slices.SortedFunc(maps.Keys(all.Archives), sources.PackageID.Compare)
}

// Contents returns the packages and the evidence for a comparison.
func (all *InPlace) Contents() bundle.Contents {
	c := bundle.Contents{}
	for id, a := range all.Archives {
		c[id] = a.Hashes
	}
	for r, signed := range all.signed {
		c.AddEvidence(r, signed)
	}
	return c
}

// entry returns a package of a place, with what its evidence is worth. The error is why the evidence proves nothing
// about it.
func entry(ctx context.Context, m *site.Root, all *InPlace, id sources.PackageID) (builder.Entry, error) {
	a, signed := all.Archives[id], all.signed[id.Release()]
	e := builder.Entry{ID: id, Path: a.URL, Size: a.Size, Hashes: a.Hashes, Evidence: signed != nil, Origin: a.URL}
	zh := cmp.Or(sources.HashesOf(sources.ZH, a.Hashes)...)
	e.Stored = sources.Stored{ID: id, ZH: zh, Signed: signed, Filename: id.Filename()}
	if signed == nil || e.Stored.ZH == "" {
		e.Stored.Proof.Matched = sources.AnyUsable(a.Hashes)
		e.Stored.Report = m.Judge().Report(id.Provider, e.Stored.Proof)
		return e, nil
	}
	verified, err := m.Judge().VerifyFile(ctx, id.Provider, signed, id.Filename(), e.Stored.ZH)
	e.Stored.Proof, e.Stored.Report = verified.Proof, verified.Report
	return e, err
}

// Entries returns packages of a place, and why the evidence for them proves nothing. Verifying signatures takes most of
// the time.
func Entries(ctx context.Context, m *site.Root, all *InPlace, ids []sources.PackageID) ([]builder.Entry, []error) {
	entries, errs := make([]builder.Entry, len(ids)), make([]error, len(ids))
	site.ForEach(len(ids), runtime.GOMAXPROCS(0), func(i int) { entries[i], errs[i] = entry(ctx, m, all, ids[i]) })
	return entries, errs
}

// everything returns requests for all packages that a place has, for the platforms of the flags, if there are any.
func everything(ctx context.Context, m *site.Root, r site.PlaceRequest) ([]installer.Selected, error) {
	all, err := Browse(ctx, m, r, nil, nil)
	if err == nil && len(all.Archives) == 0 && all.Err() == nil {
		err = HasNothing(r.Place, nil)
	}
	var selected []installer.Selected
	wants := map[sources.Provider]*installer.Want{}
	for _, id := range all.Ids() {
		if len(m.Flags.Platforms) > 0 && !slices.Contains(m.Flags.Platforms, id.Platform) {
			continue
		}
		if wants[id.Provider] == nil {
			wants[id.Provider] = &installer.Want{Requirement: sources.Requirement{Provider: id.Provider}}
		}
		selected = append(selected, installer.Selected{ID: id, Wants: []*installer.Want{wants[id.Provider]}})
	}
	if err == nil && len(selected) == 0 && all.Err() == nil {
		platforms := ui.List("or", sources.Texts(m.Flags.Platforms))
		err = sources.WithHint(fmt.Errorf("%s has no packages for %s", r.Place, platforms), listHint,
			site.ShellQuoted(r.Place))
	}
	return selected, errors.Join(err, all.Err())
}

const listHint = "larder mirror list %s shows what it has"

// HasNothing returns the error for a mirror or a place without packages, or without those that the patterns select.
func HasNothing(typed string, patterns []site.Pattern) error {
	if len(patterns) > 0 {
		return sources.WithHint(fmt.Errorf("%s has no packages that match", typed), listHint, site.ShellQuoted(typed))
	}
	return sources.WithHint(fmt.Errorf("%s has no packages", typed), "name the place exactly as mirror push did")
}
