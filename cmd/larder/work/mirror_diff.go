package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
	"github.com/larder-cli/larder/sources/netmirror"
)

// CompareMirrors compares two mirrors, as typed. It returns a [report.FoundError] if they differ, and another
// error if one of them could not be read.
func CompareMirrors(ctx context.Context, s *Session, first, second string) error {
	m, err := s.here(ctx)
	if err != nil {
		return err
	}
	a, b, err := m.bothContents(ctx, first, second)
	if err != nil {
		return err
	}
	differences := bundle.Compare(a, b)
	var shown []report.Difference
	for _, d := range differences {
		shown = append(shown, report.DifferenceOf(d))
	}
	report.ShowAll(s.output, shown)
	s.output.Summary(report.Compared{Differences: len(differences), First: len(a.Packages), Second: len(b.Packages)})
	between := fmt.Sprintf("between %s (%s) and %s (%s)",
		first, ui.Count(len(a.Packages), "package"), second, ui.Count(len(b.Packages), "package"))
	if len(differences) == 0 {
		s.output.Say("No difference %s", between)
	}
	return report.Found(len(differences), "difference", between)
}

// bothContents reads both mirrors, the directory first if the other is remote.
func (m *rootModule) bothContents(ctx context.Context, first, second string) (a, b bundle.Contents, err error) {
	switch {
	case isRemote(first) && isRemote(second):
		return a, b, report.Usage(errors.New("two network mirrors cannot be compared, because neither lists its providers"))
	case isRemote(first):
		b, a, err = m.bothContents(ctx, second, first)
		return a, b, err
	}
	if a, err = m.localContents(ctx, first); err != nil {
		return a, b, err
	}
	if isRemote(second) {
		b, err = m.remoteContents(ctx, second, a)
	} else {
		b, err = m.localContents(ctx, second)
	}
	return a, b, err
}

// isRemote reports whether an argument is a URL. It includes http:// so that the error is
// about the scheme, and not about a missing directory.
func isRemote(mirror string) bool {
	return strings.HasPrefix(mirror, "https://") || strings.HasPrefix(mirror, "http://")
}

// localContents reads the mirror in a directory, or a manifest.
func (m *rootModule) localContents(ctx context.Context, dir string) (bundle.Contents, error) {
	if path := Absolute(m.dir, dir); isFile(path) {
		manifest, err := bundle.ReadManifest(path)
		return manifest.Contents(), err
	}
	all := bundle.NewContents()
	dir, err := m.existing(dir)
	if err != nil {
		return all, err
	}
	b, err := m.openMirror(ctx, dir, builder.Options{ReadOnly: true})
	if err != nil {
		return all, err
	}
	defer b.Close()
	entries, err := report.Work(m.output, func(progress report.Report) ([]builder.Entry, error) {
		return b.List(ctx, builder.ListOptions{Hash: true, Report: progress})
	})
	if err != nil {
		return all, fmt.Errorf("reading %s: %w", dir, err)
	}
	read := map[sources.Release]bool{}
	for _, e := range entries {
		all.Packages[e.ID] = append(all.Packages[e.ID], e.Hashes...)
		if release := e.ID.Release(); e.Evidence && !read[release] {
			signed, err := evidence.Of(dir, release.Provider, release.Version)
			if err == nil {
				err = all.AddEvidence(release, signed)
			}
			if err != nil {
				m.output.Warn("the evidence for %s is ignored: %v", release, err)
			}
			read[release] = true
		}
	}
	return all, nil
}

// remoteContents requests from a network mirror the providers of another mirror.
func (m *rootModule) remoteContents(ctx context.Context, url string, other bundle.Contents) (bundle.Contents, error) {
	all, mu := bundle.NewContents(), sync.Mutex{}
	mirror, err := netmirror.New(m.client, url, netmirror.Options{})
	if err != nil {
		return all, err
	}
	providers := map[sources.Provider]bool{}
	for id := range other.Packages {
		providers[id.Provider] = true
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(cmp.Or(m.flags.Jobs, 16))
	for p := range providers {
		group.Go(func() error {
			found, err := m.remoteProvider(ctx, mirror, p)
			mu.Lock()
			defer mu.Unlock()
			all.Add(found)
			return err
		})
	}
	return all, group.Wait()
}

// remoteProvider requests all packages of a provider from a network mirror.
func (m *rootModule) remoteProvider(ctx context.Context, mirror *netmirror.Mirror, p sources.Provider) (bundle.Contents, error) {
	found := bundle.NewContents()
	listing, err := mirror.Versions(ctx, p)
	if errors.Is(err, sources.ErrNotFound) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	for _, v := range listing.Versions {
		release, err := mirror.Release(ctx, p, v)
		if err == nil {
			err = found.AddEvidence(sources.Release{Provider: p, Version: v}, release.Signed)
		}
		if err != nil {
			return found, err
		}
		for _, w := range release.Warnings {
			m.output.Warn("%s: %s", p, w)
		}
		for platform, hashes := range release.Archives {
			found.Packages[sources.PackageID{Provider: p, Version: v, Platform: platform}] = hashes
		}
	}
	return found, nil
}
