package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/publish"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/store"
	"golang.org/x/sync/errgroup"
)

// listPlace lists what a place has, by its documents.
func listPlace(ctx context.Context, m *site.Root, r site.PlaceRequest, patterns []site.Pattern) error {
	r.Sizes = true
	b, err := m.Browser(ctx, r)
	if err != nil {
		return err
	}
	all, err := report.Work(m.Output, func(report.Report) (*job.InPlace, error) { return job.Browse(ctx, m, b, r.Place, patterns, nil) })
	if err != nil {
		return err
	}
	ids := all.Ids()
	site.Unmatched(m.Output, patterns, ids)
	ids = slices.DeleteFunc(ids, func(id sources.PackageID) bool { return !site.Selected(patterns, id) })
	entries, _ := job.Entries(ctx, m, all, ids) // verify shows the errors
	if ctx.Err() != nil {
		return ctx.Err()
	}
	sum := report.Listed{Packages: len(ids)}
	for _, e := range entries {
		sum.Size += e.Size
	}
	m.Output.Mirrored(entries)
	m.Output.Summary(sum)
	if sum.Packages > 0 {
		m.Output.Say("%s%s, as the place states; no archive was read", ui.Count(sum.Packages, "package"), sizeIfKnown(sum.Size))
	} else if len(patterns) == 0 && all.Err() == nil {
		m.Output.Say("%s has no packages", r.Place)
	}
	return all.Err()
}

func sizeIfKnown(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return ", " + ui.Size(bytes)
}

// verifyPlace verifies a place by its documents and evidence, and looks whether the archives are there. It reads none.
func verifyPlace(ctx context.Context, m *site.Root, r site.PlaceRequest, patterns []site.Pattern) error {
	b, err := m.Browser(ctx, r)
	if err != nil {
		return err
	}
	var found []*store.Finding
	var sound []sources.Stored
	unvouched := 0
	all, err := report.Work(m.Output, func(report.Report) (*job.InPlace, error) {
		all, err := job.Browse(ctx, m, b, r.Place, patterns, nil)
		if err != nil {
			return all, err
		}
		found, sound, unvouched, err = examine(ctx, m, all, patterns)
		return all, err
	})
	if err != nil {
		return err
	}
	if len(found)+len(sound) == 0 && all.Err() == nil {
		site.Unmatched(m.Output, patterns, all.Ids())
		return job.HasNothing(r.Place, patterns)
	}
	var findings []report.Finding
	for _, f := range found {
		line := fmt.Sprintf("%s: %s: %s (%s)", f.Package, f.Kind, f.Text(), f.Path)
		findings = append(findings, report.FindingOf(f).Shown(line))
	}
	m.Output.Findings(findings...)
	distrusted, hints := m.TrustFindings(m.Accept(ctx, sound), sound, func(s sources.Stored) string { return s.ID.String() }, r.Place)
	checked := report.CheckedOf(sound)
	m.Output.CheckedInDetail(checked)
	n := len(found) + len(sound)
	m.Output.Summary(report.VerifySum{Packages: n, Problems: len(found) + distrusted, Unvouched: unvouched, Unread: true})
	text := ui.Count(n, "package")
	if len(found)+distrusted == 0 && all.Err() == nil {
		m.Output.Say("No problem in %s%s", text, m.Output.Keys(checked, "mirror"))
	}
	m.Output.KeyList(checked, m.SuggestsKeys())
	if unvouched > 0 {
		m.Output.Say("%s without signed checksums", ui.Count(unvouched, "package"))
	}
	m.Output.Say("Archives were looked for, and not read. To verify their contents, run larder mirror sync DIR --from %s --cache CACHE, with two empty directories", site.ShellQuoted(r.Place))
	if all.Err() != nil {
		return all.Err()
	}
	return report.Found(len(found)+distrusted, "problem", "in "+text, hints...)
}

// examine returns the problems of packages in a place, and the packages without one.
func examine(ctx context.Context, m *site.Root, all *job.InPlace, patterns []site.Pattern) (found []*store.Finding, sound []sources.Stored, unvouched int, err error) {
	ids := slices.DeleteFunc(all.Ids(), func(id sources.PackageID) bool { return !site.Selected(patterns, id) })
	missing := make([]error, len(ids))
	var group errgroup.Group
	group.SetLimit(cmp.Or(m.Flags.Jobs, 16))
	for i, id := range ids {
		group.Go(func() error {
			missing[i] = publish.Exists(ctx, m.Client, all.Archives[id])
			if size := (*publish.SizeError)(nil); missing[i] == nil || errors.Is(missing[i], sources.ErrNotFound) || errors.As(missing[i], &size) {
				return nil
			}
			return sources.InPackage(id, missing[i])
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, 0, err
	}
	entries, worthless := job.Entries(ctx, m, all, ids)
	if ctx.Err() != nil {
		return nil, nil, 0, ctx.Err()
	}
	for i, id := range ids {
		e, bad := entries[i], worthless[i]
		e.Stored.Origin = e.Path
		f := &store.Finding{Path: e.Path, Package: &id}
		switch {
		case errors.Is(missing[i], sources.ErrNotFound):
			f.Kind, f.Err = store.Missing, errors.New("the place has no archive there")
		case missing[i] != nil:
			f.Kind, f.Err = store.Broken, missing[i]
		case bad != nil:
			f.Kind, f.Err = store.BadEvidence, bad
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
