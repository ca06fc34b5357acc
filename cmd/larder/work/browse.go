package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/fsmirror/publish"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/netmirror"
)

// A PlaceRequest names a place to read from.
type PlaceRequest struct {
	Place    string // as typed; empty if there is none
	Endpoint string // of the store; empty means AWS

	sizes bool // whether sizes are shown

	host sources.Host // of the providers, if the place doesn't state it; empty means that of the engine
}

// browser opens a place to read from. All root modules of an engine share it.
func (m *rootModule) browser(ctx context.Context, r PlaceRequest) (publish.Browser, error) {
	switch scheme := schemeOf(r.Place); {
	case m.flags.Offline:
		return nil, fmt.Errorf("%s: %w", r.Place, sources.ErrOffline)
	case scheme == inOCI:
		template, err := parseOCI(r.Place)
		if err != nil {
			return nil, err
		}
		return publish.BrowseOCI(m.ociMirror(template, false), cmp.Or(r.host, m.config.Engine.DefaultHost())), nil
	case scheme == inBucket:
		b, err := m.openBucket(ctx, r)
		if err != nil {
			return nil, err
		}
		secure := b.URL("").Scheme == "https"
		mirror, err := netmirror.New(m.client, b.URL("").String(), netmirror.Options{Plain: !secure, SecureArchives: secure})
		return publish.BrowseBucket(b, mirror, r.sizes), err
	}
	mirror, err := netmirror.New(m.client, r.Place, netmirror.Options{})
	if err != nil {
		return nil, err
	}
	return publish.BrowseNetwork(mirror), nil
}

// inPlace are the archives that a place has.
type inPlace struct {
	mu       sync.Mutex
	archives map[sources.PackageID]publish.Archive
	signed   map[sources.Release]*sources.Signed
	unread   []unread
}

// An unread release is one of a place that can't be read. Without a version, it stands for all releases of its provider.
type unread struct {
	sources.Release
	err error
}

// failed records a release that can't be read.
func (all *inPlace) failed(r sources.Release, err error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.unread = append(all.unread, unread{r, err})
}

// err returns the errors of the releases that can't be read, in their order.
func (all *inPlace) err() error {
	slices.SortStableFunc(all.unread, func(a, b unread) int { return a.Compare(b.Release) })
	var errs []error
	for _, u := range all.unread {
		errs = append(errs, u.err)
	}
	return errors.Join(errs...)
}

// browse reads what a place has of the providers that the patterns select. If the place can't list its providers, they are
// those that the patterns name in full, or else those given. A release that can't be read is no error, but one of the result.
func (m *rootModule) browse(ctx context.Context, b publish.Browser, typed string, patterns []pattern, known []sources.Provider) (*inPlace, error) {
	all := &inPlace{archives: map[sources.PackageID]publish.Archive{}, signed: map[sources.Release]*sources.Signed{}}
	providers, err := m.named(patterns)
	if err != nil || len(providers) < len(patterns) || len(patterns) == 0 {
		providers, err = b.Providers(ctx)
		if errors.Is(err, publish.ErrUnlisted) && known != nil {
			providers, err = known, nil
		}
	}
	if errors.Is(err, publish.ErrUnlisted) {
		err = report.Usage(fmt.Errorf("%s: %w", typed, err))
	}
	if err != nil {
		return all, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(m.flags.Jobs, 16))
	for _, p := range providers {
		if !selectsProvider(patterns, p, b.Hostless()) {
			continue
		}
		group.Go(func() error {
			m.browseProvider(ctx, b, p, patterns, all)
			return ctx.Err()
		})
	}
	return all, group.Wait()
}

// named returns the providers that patterns without wildcards name.
func (m *rootModule) named(patterns []pattern) (providers []sources.Provider, err error) {
	for _, p := range patterns {
		if strings.Contains(p.namespace+p.typ, "*") || p.namespace == "" {
			continue
		}
		host := p.host
		if strings.Contains(host, "*") {
			host = string(m.config.Engine.DefaultHost())
		}
		provider, err := sources.ParseProvider(host+"/"+p.namespace+"/"+p.typ, m.config.Engine)
		if err != nil {
			return nil, report.Usage(err)
		}
		providers = append(providers, provider)
	}
	return providers, nil
}

// selectsProvider reports whether patterns may select packages of a provider, whose host may be another one.
func selectsProvider(patterns []pattern, p sources.Provider, anyHost bool) bool {
	all := slices.Clone(patterns)
	for i := range all {
		all[i].versions = ""
	}
	return selectsRelease(all, sources.Release{Provider: p}, anyHost)
}

// selectsRelease is like selectsProvider for a release.
func selectsRelease(patterns []pattern, r sources.Release, anyHost bool) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(one pattern) bool {
		if anyHost {
			one.host = "*"
		}
		return one.matches(sources.PackageID{Provider: r.Provider, Version: r.Version})
	})
}

func (m *rootModule) browseProvider(ctx context.Context, b publish.Browser, p sources.Provider, patterns []pattern, all *inPlace) {
	listing, err := b.Versions(ctx, p)
	if err != nil {
		if !errors.Is(err, sources.ErrNotFound) {
			all.failed(sources.Release{Provider: p}, err)
		}
		return
	}
	var group errgroup.Group
	group.SetLimit(8)
	for _, v := range listing.Versions {
		group.Go(func() error {
			r := sources.Release{Provider: p, Version: v}
			c, err := b.Read(ctx, r)
			if err != nil {
				if selectsRelease(patterns, r, b.Hostless()) {
					all.failed(r, err)
				}
				return nil
			}
			r.Provider = c.Provider
			for _, w := range c.Warnings {
				m.output.Warn("%s: %s", r.Provider, w)
			}
			all.mu.Lock()
			defer all.mu.Unlock()
			all.signed[r] = c.Signed
			for platform, a := range c.Archives {
				all.archives[sources.PackageID{Provider: r.Provider, Version: v, Platform: platform}] = a
			}
			return nil
		})
	}
	_ = group.Wait()
}

// ids returns the packages, sorted.
func (all *inPlace) ids() (ids []sources.PackageID) {
	for id := range all.archives {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, sources.PackageID.Compare)
	return ids
}

// contents returns the packages and the evidence for a comparison.
func (all *inPlace) contents() (bundle.Contents, error) {
	c := bundle.NewContents()
	for id, a := range all.archives {
		c.Packages[id] = a.Hashes
	}
	for r, signed := range all.signed {
		if err := c.AddEvidence(r, signed); err != nil {
			return c, err
		}
	}
	return c, nil
}

// entry returns a package of a place, with what its evidence is worth. The error is why the evidence proves nothing about
// it.
func (m *rootModule) entry(ctx context.Context, all *inPlace, id sources.PackageID) (builder.Entry, error) {
	a, signed := all.archives[id], all.signed[id.Release()]
	e := builder.Entry{ID: id, Path: a.URL, Size: a.Size, Hashes: a.Hashes, Evidence: signed != nil, Origin: a.URL}
	e.Stored = sources.Stored{ID: id, ZH: hashOf(sources.ZH, a.Hashes), Signed: signed, Filename: id.Filename()}
	if signed == nil || e.Stored.ZH == "" {
		e.Stored.Proof.Matched = sources.AnyUsable(a.Hashes)
		e.Stored.Report = m.judge().Report(id.Provider, e.Stored.Proof)
		return e, nil
	}
	verified, err := m.judge().VerifyFile(ctx, id.Provider, signed, id.Filename(), e.Stored.ZH)
	e.Stored.Proof, e.Stored.Report = verified.Proof, verified.Report
	return e, err
}

// entries returns packages of a place, and why the evidence for them proves nothing. Verifying signatures takes most of the time.
func (m *rootModule) entries(ctx context.Context, all *inPlace, ids []sources.PackageID) ([]builder.Entry, []error) {
	entries, errs := make([]builder.Entry, len(ids)), make([]error, len(ids))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, id := range ids {
		group.Go(func() error {
			entries[i], errs[i] = m.entry(ctx, all, id)
			return nil
		})
	}
	_ = group.Wait()
	return entries, errs
}

// listPlace lists what a place has, by its documents.
func (m *rootModule) listPlace(ctx context.Context, r PlaceRequest, patterns []pattern) error {
	r.sizes = true
	b, err := m.browser(ctx, r)
	if err != nil {
		return err
	}
	all, err := report.Work(m.output, func(report.Report) (*inPlace, error) { return m.browse(ctx, b, r.Place, patterns, nil) })
	if err != nil {
		return err
	}
	ids := all.ids()
	unmatched(m.output, patterns, ids)
	ids = slices.DeleteFunc(ids, func(id sources.PackageID) bool { return !selected(patterns, id) })
	entries, _ := m.entries(ctx, all, ids) // verify shows the errors
	if ctx.Err() != nil {
		return ctx.Err()
	}
	sum := report.Listed{Packages: len(ids)}
	for _, e := range entries {
		sum.Size += e.Size
	}
	m.output.Mirrored(entries)
	m.output.Summary(sum)
	if sum.Packages > 0 {
		m.output.Say("%s%s, as the place states; no archive was read", ui.Count(sum.Packages, "package"), sizeIfKnown(sum.Size))
	} else if len(patterns) == 0 && all.err() == nil {
		m.output.Say("%s has no packages", r.Place)
	}
	return all.err()
}

func sizeIfKnown(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return ", " + ui.Size(bytes)
}

// verifyPlace verifies a place by its documents and evidence, and looks whether the archives are there. It reads none.
func (m *rootModule) verifyPlace(ctx context.Context, r PlaceRequest, patterns []pattern) error {
	b, err := m.browser(ctx, r)
	if err != nil {
		return err
	}
	var found []builder.Finding
	var sound []sources.Stored
	unvouched := 0
	all, err := report.Work(m.output, func(report.Report) (*inPlace, error) {
		all, err := m.browse(ctx, b, r.Place, patterns, nil)
		if err != nil {
			return all, err
		}
		found, sound, unvouched, err = m.examine(ctx, all, patterns)
		return all, err
	})
	if err != nil {
		return err
	}
	if len(found)+len(sound) == 0 && all.err() == nil {
		unmatched(m.output, patterns, all.ids())
		return hasNothing(r.Place, patterns)
	}
	var findings []report.Finding
	for _, f := range found {
		line := fmt.Sprintf("%s: %s: %s (%s)", f.Package, f.Kind, f.Text, f.Path)
		findings = append(findings, report.FindingOf(f.Kind, f.Path, f.Package, f.Text).Shown(line))
	}
	report.ShowAll(m.output, findings)
	distrusted, hints := m.trustFindings(m.accept(ctx, sound), sound, func(s sources.Stored) string { return s.ID.String() }, r.Place)
	checked := report.CheckedOf(sound)
	m.output.CheckedInDetail(checked)
	n := len(found) + len(sound)
	m.output.Summary(report.MirrorChecked{Packages: n, Problems: len(found) + distrusted, Unvouched: unvouched, Unread: true})
	text := ui.Count(n, "package")
	if len(found)+distrusted == 0 && all.err() == nil {
		m.output.Say("No problem in %s%s", text, m.output.Keys(checked, "mirror"))
	}
	m.output.KeyList(checked, m.suggestsKeys())
	if unvouched > 0 {
		m.output.Say("%s without signed checksums", ui.Count(unvouched, "package"))
	}
	m.output.Say("Archives were looked for, and not read. To verify their contents, run larder mirror sync DIR --from %s --cache CACHE, with two empty directories", shellQuoted(r.Place))
	if all.err() != nil {
		return all.err()
	}
	return report.Found(len(found)+distrusted, "problem", "in "+text, hints...)
}

// examine returns the problems of packages in a place, and the packages without one.
func (m *rootModule) examine(ctx context.Context, all *inPlace, patterns []pattern) (found []builder.Finding, sound []sources.Stored, unvouched int, err error) {
	ids := slices.DeleteFunc(all.ids(), func(id sources.PackageID) bool { return !selected(patterns, id) })
	missing := make([]error, len(ids))
	var group errgroup.Group
	group.SetLimit(cmp.Or(m.flags.Jobs, 16))
	for i, id := range ids {
		group.Go(func() error {
			missing[i] = all.archives[id].Exists(ctx, m.client)
			if size := (*publish.SizeError)(nil); missing[i] == nil || errors.Is(missing[i], sources.ErrNotFound) || errors.As(missing[i], &size) {
				return nil
			}
			return sources.InPackage(id, missing[i])
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, 0, err
	}
	entries, worthless := m.entries(ctx, all, ids)
	if ctx.Err() != nil {
		return nil, nil, 0, ctx.Err()
	}
	for i, id := range ids {
		e, bad := entries[i], worthless[i]
		e.Stored.Origin = e.Path
		f := builder.Finding{Path: e.Path, Package: &id}
		switch {
		case errors.Is(missing[i], sources.ErrNotFound):
			f.Kind, f.Text = builder.Missing, "the place has no archive there"
		case missing[i] != nil:
			f.Kind, f.Text = builder.Broken, missing[i].Error()
		case bad != nil:
			f.Kind, f.Text = builder.BadEvidence, bad.Error()
		default:
			sound = append(sound, e.Stored)
			if !e.Evidence {
				unvouched++
			}
			continue
		}
		found = append(found, f)
	}
	return found, sound, unvouched, ctx.Err()
}

// everything returns requests for all packages that a place has, for the platforms of the flags, if there are any.
func (m *rootModule) everything(ctx context.Context, r PlaceRequest) ([]installer.Selected, error) {
	b, err := m.browser(ctx, r)
	if err != nil {
		return nil, err
	}
	all, err := m.browse(ctx, b, r.Place, nil, nil)
	if err == nil && len(all.archives) == 0 && all.err() == nil {
		err = hasNothing(r.Place, nil)
	}
	var selected []installer.Selected
	wants := map[sources.Provider]*installer.Want{}
	for _, id := range all.ids() {
		if len(m.flags.Platforms) > 0 && !slices.Contains(m.flags.Platforms, id.Platform) {
			continue
		}
		if wants[id.Provider] == nil {
			wants[id.Provider] = &installer.Want{Requirement: sources.Requirement{Provider: id.Provider}}
		}
		selected = append(selected, installer.Selected{ID: id, Wants: []*installer.Want{wants[id.Provider]}})
	}
	if err == nil && len(selected) == 0 && all.err() == nil {
		platforms := ui.List("or", sources.Texts(m.flags.Platforms))
		err = sources.WithHint(fmt.Errorf("%s has no packages for %s", r.Place, platforms), "larder mirror list %s shows what it has", shellQuoted(r.Place))
	}
	return selected, errors.Join(err, all.err())
}
