package work

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
)

// CompareMirrors compares two mirrors, as typed. It returns a [report.FoundError] if they differ, and another
// error if one of them could not be read.
func CompareMirrors(ctx context.Context, s *Session, first, second PlaceRequest) error {
	m, err := s.here(ctx)
	if err != nil {
		return err
	}
	unreadable := &inPlace{}
	a, b, err := m.bothContents(ctx, first, second, unreadable)
	if err != nil {
		return err
	}
	for _, r := range unreadable.unread {
		a.Forget(r.Release)
		b.Forget(r.Release)
	}
	differences := bundle.Compare(a, b)
	var shown []report.Difference
	for _, d := range differences {
		shown = append(shown, report.DifferenceOf(d))
	}
	report.ShowAll(s.output, shown)
	s.output.Summary(report.Compared{Differences: len(differences), First: len(a.Packages), Second: len(b.Packages)})
	between := fmt.Sprintf("between %s (%s) and %s (%s)",
		first.Place, ui.Count(len(a.Packages), "package"), second.Place, ui.Count(len(b.Packages), "package"))
	if err := unreadable.err(); err != nil {
		s.output.Say("%s %s", ui.Count(len(differences), "difference"), between)
		return err
	}
	if len(differences) == 0 {
		s.output.Say("No difference %s", between)
	}
	return report.Found(len(differences), "difference", between)
}

// bothContents reads both mirrors, the directory first if the other is a place. It adds what can't be read.
func (m *rootModule) bothContents(ctx context.Context, first, second PlaceRequest, unreadable *inPlace) (a, b bundle.Contents, err error) {
	if IsPlace(first.Place) && !IsPlace(second.Place) {
		b, a, err = m.bothContents(ctx, second, first, unreadable)
		return a, b, err
	}
	if a, err = m.contentsOf(ctx, first, nil, unreadable); err != nil {
		return a, b, err
	}
	known := map[sources.Provider]bool{}
	for id := range a.Packages {
		known[id.Provider] = true
	}
	b, err = m.contentsOf(ctx, second, slices.AppendSeq([]sources.Provider{}, maps.Keys(known)), unreadable)
	return a, b, err
}

// contentsOf reads a mirror. If it can't list its providers, they are those that are known. It adds what can't be read.
func (m *rootModule) contentsOf(ctx context.Context, r PlaceRequest, known []sources.Provider, unreadable *inPlace) (bundle.Contents, error) {
	if !IsPlace(r.Place) {
		return m.localContents(ctx, r.Place)
	}
	if len(known) > 0 && !slices.ContainsFunc(known, func(p sources.Provider) bool { return p.Host != known[0].Host }) {
		r.host = known[0].Host
	}
	b, err := m.browser(ctx, r)
	if err != nil {
		return bundle.NewContents(), err
	}
	all, err := m.browse(ctx, b, r.Place, nil, known)
	if err != nil {
		return bundle.NewContents(), err
	}
	unreadable.unread = append(unreadable.unread, all.unread...)
	return all.contents()
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
