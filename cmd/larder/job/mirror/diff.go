package mirror

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
)

// Diff compares two mirrors, as typed. It returns a [report.FoundError] if they differ, and another
// error if one of them could not be read.
func Diff(ctx context.Context, s *site.Site, first, second site.PlaceRequest) error {
	m, err := s.Here(ctx)
	if err != nil {
		return err
	}
	unreadable := &job.InPlace{}
	a, b, err := bothContents(ctx, m, first, second, unreadable)
	if err != nil {
		return err
	}
	for _, r := range unreadable.Unread {
		a.Forget(r.Release)
		b.Forget(r.Release)
	}
	differences := bundle.Compare(a, b)
	for _, d := range differences {
		s.Output.Show(report.DifferenceOf(d))
	}
	s.Output.Summary(report.Compared{Differences: len(differences), First: a.Packages(), Second: b.Packages()})
	between := fmt.Sprintf("between %s (%s) and %s (%s)",
		first.Place, ui.Count(a.Packages(), "package"), second.Place, ui.Count(b.Packages(), "package"))
	if err := unreadable.Err(); err != nil {
		s.Output.Say("%s %s", ui.Count(len(differences), "difference"), between)
		return err
	}
	if len(differences) == 0 {
		s.Output.Say("No difference %s", between)
	}
	return report.Found(len(differences), "difference", between)
}

// bothContents reads both mirrors, the directory first if the other is a place. It adds what can't be read.
func bothContents(
	ctx context.Context, m *site.Root, first, second site.PlaceRequest, unreadable *job.InPlace,
) (a, b bundle.Contents, err error) {
	if site.IsPlace(first.Place) && !site.IsPlace(second.Place) {
		b, a, err = bothContents(ctx, m, second, first, unreadable)
		return a, b, err
	}
	if a, err = contentsOf(ctx, m, first, nil, false, unreadable); err != nil {
		return a, b, err
	}
	known := append([]sources.Provider{}, site.ProvidersOf(slices.Collect(maps.Keys(a)))...) // not nil
	if b, err = contentsOf(ctx, m, second, known, false, unreadable); err != nil || !bundle.Unhashed(a, b) {
		return a, b, err
	}
	if !site.IsPlace(first.Place) {
		a, err = contentsOf(ctx, m, first, nil, true, unreadable)
	}
	if err == nil && !site.IsPlace(second.Place) {
		b, err = contentsOf(ctx, m, second, known, true, unreadable)
	}
	return a, b, err
}

// contentsOf reads a mirror. If it can't list its providers, they are those that are known. Whole requests the h1:
// hashes of signed archives in a directory. It adds what can't be read.
func contentsOf(
	ctx context.Context, m *site.Root, r site.PlaceRequest, known []sources.Provider, whole bool,
	unreadable *job.InPlace,
) (bundle.Contents, error) {
	if !site.IsPlace(r.Place) {
		return localContents(ctx, m, r.Place, whole)
	}
	if len(known) > 0 && !slices.ContainsFunc(known, func(p sources.Provider) bool { return p.Host != known[0].Host }) {
		r.Host = known[0].Host
	}
	all, err := job.Browse(ctx, m, r, nil, known)
	if err != nil {
		return nil, err
	}
	unreadable.Unread = append(unreadable.Unread, all.Unread...)
	return all.Contents(), nil
}

// localContents reads the mirror in a directory, or a manifest.
func localContents(ctx context.Context, m *site.Root, dir string, whole bool) (bundle.Contents, error) {
	if path := site.Absolute(m.Dir, dir); site.IsFile(path) {
		manifest, err := bundle.ReadManifest(path)
		return manifest.Contents(), err
	}
	all := bundle.Contents{}
	dir, entries, err := hashed(ctx, m, dir, builder.ListOptions{Contents: whole})
	if err != nil {
		return all, err
	}
	read := map[sources.Release]bool{}
	for _, e := range entries {
		all[e.ID] = append(all[e.ID], e.Hashes...)
		if release := e.ID.Release(); e.Evidence && !read[release] {
			signed, err := evidence.Of(dir, release.Provider, release.Version)
			if all.AddEvidence(release, signed); err != nil {
				m.Output.Warn("the evidence for %s is ignored: %v", release, err)
			}
			read[release] = true
		}
	}
	return all, nil
}
