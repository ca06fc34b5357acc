package mirror

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/publish"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/store"
	"golang.org/x/sync/errgroup"
)

// listPlace returns the packages of a place that patterns select. Unread is why some can't be read.
func listPlace(
	ctx context.Context, s *site.Site, r site.PlaceRequest, patterns []site.Pattern,
) (entries []builder.Entry, unread, err error) {
	m, all, err := browse(ctx, s, r, patterns)
	if err != nil {
		return nil, nil, err
	}
	site.Unmatched(m.Output, patterns, all.Ids())
	entries, _ = job.Entries(ctx, m, all, selectedOf(all, patterns)) // verify shows the errors
	return entries, all.Err(), ctx.Err()
}

// browse reads the documents of a place.
func browse(
	ctx context.Context, s *site.Site, r site.PlaceRequest, patterns []site.Pattern,
) (*site.Root, *job.InPlace, error) {
	m, err := s.Here(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := report.Work(m.Output, func(report.Report) (*job.InPlace, error) {
		return job.Browse(ctx, m, r, patterns, nil)
	})
	return m, all, err
}

// selectedOf returns the packages of a place that patterns select.
func selectedOf(all *job.InPlace, patterns []site.Pattern) []sources.PackageID {
	return slices.DeleteFunc(all.Ids(), func(id sources.PackageID) bool { return !site.Selected(patterns, id) })
}

// verifyPlace verifies a place by its documents and evidence, and looks whether the archives are there. It reads none.
func verifyPlace(ctx context.Context, s *site.Site, r site.PlaceRequest, typed []string) error {
	patterns, err := s.ReadPatterns(typed)
	if err != nil {
		return err
	}
	m, all, err := browse(ctx, s, r, patterns)
	if err != nil {
		return err
	}
	v := verified{Root: m, typed: r.Place, called: func(s sources.Stored) string { return s.ID.String() }}
	found, err := report.Work(m.Output, func(report.Report) ([]*store.Finding, error) {
		return v.examine(ctx, all, selectedOf(all, patterns))
	})
	if err != nil {
		return err
	}
	n := len(found) + len(v.sound)
	if n == 0 && all.Err() == nil {
		site.Unmatched(m.Output, patterns, all.Ids())
		return job.HasNothing(r.Place, patterns)
	}
	for _, f := range found {
		line := fmt.Sprintf("%s: %s: %s (%s)", f.Package, f.Kind, f.Text(), f.Path)
		v.findings = append(v.findings, report.FindingOf(f).Shown(line))
	}
	v.sum.Packages, v.sum.Unread = n, true
	return v.tell(ctx, all.Err())
}

// examine returns the problems of packages in a place, and adds the packages without one.
func (v *verified) examine(ctx context.Context, all *job.InPlace, ids []sources.PackageID) ([]*store.Finding, error) {
	problems := make([]*store.Finding, len(ids))
	var group errgroup.Group
	group.SetLimit(cmp.Or(v.Flags.Jobs, 16))
	for i, id := range ids {
		group.Go(func() (err error) {
			problems[i], err = publish.Examine(ctx, v.Client, all.Archives[id])
			return sources.InPackage(id, err)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	entries, worthless := job.Entries(ctx, v.Root, all, ids)
	var found []*store.Finding
	for i, id := range ids {
		e, f := entries[i], problems[i]
		e.Stored.Origin = e.Path
		if f == nil && worthless[i] != nil {
			f = &store.Finding{Kind: store.BadEvidence, Err: worthless[i]}
		}
		if f != nil {
			f.Path, f.Package = e.Path, &id
			found = append(found, f)
			continue
		}
		v.sound = append(v.sound, e.Stored)
		if !e.Evidence {
			v.sum.Unvouched++
		}
	}
	return found, ctx.Err()
}
