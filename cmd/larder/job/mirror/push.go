package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/publish"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/evidence"
)

// target returns the place to push to.
func target(ctx context.Context, m *site.Root, r site.PlaceRequest) (publish.Target, error) {
	typed := r.Place
	switch scheme := site.SchemeOf(typed); {
	case m.Flags.Offline:
		return nil, fmt.Errorf("%s: %w", typed, sources.ErrOffline)
	case scheme == site.InBucket:
		b, err := m.OpenBucket(ctx, r)
		if err != nil {
			return nil, err
		}
		return publish.NewBucket(b), nil
	case scheme == site.InOCI:
		return m.OpenOCI(r, true)
	case scheme != "":
		return nil, report.Usage(sources.WithHint(fmt.Errorf("%s: Larder can't write to web servers", typed),
			"copy the directory to the server, or name an oci:// or s3:// place"))
	}
	return nil, report.Usage(sources.WithHint(fmt.Errorf("%s is not a place to push to", typed),
		"write 'oci://HOST/TEMPLATE' or s3://BUCKET/PREFIX"))
}

// A PushRequest says what to push where.
type PushRequest struct {
	Dir            string // as typed
	To             site.PlaceRequest
	Patterns       []string // of the providers; empty means all
	Replace, Prune bool
}

// Push publishes what a mirror has in an OCI registry or a bucket.
func Push(ctx context.Context, s *site.Site, request PushRequest) error {
	patterns, err := s.ReadPatterns(request.Patterns)
	if err != nil {
		return err
	}
	m, err := s.Here(ctx)
	if err != nil {
		return err
	}
	target, err := target(ctx, m, request.To)
	if err != nil {
		return err
	}
	mirror, err := readPublishable(ctx, m, request.Dir, patterns)
	if err != nil {
		return err
	}
	sum := &report.PushSum{DryRun: s.Flags.DryRun}
	s.Output.Summary(sum)
	opts := publish.Options{
		Replace: request.Replace, DryRun: s.Flags.DryRun, Judge: m.Judge(), Jobs: s.Flags.Jobs,
		Holder: report.Holder(), Wait: s.Output.WaitingForPlace(request.To.Place),
	}
	if request.Prune {
		opts.Prune = func(id sources.PackageID) bool {
			_, has := mirror.has[id]
			return !has && site.Selected(patterns, id)
		}
	}
	result, err := report.Work(s.Output, func(progress report.Report) (publish.Result, error) {
		opts.Report = progress
		return publish.Push(ctx, target, mirror.releases, opts)
	})
	if in, ok := target.(*publish.Bucket); ok && mirror.page && !s.Flags.DryRun && ctx.Err() == nil {
		err = errors.Join(err, job.PushPage(ctx, m, in, request.To, mirror.has))
	}
	err = errors.Join(append(mirror.problems, err)...)
	s.Output.Pushed(result, sum)
	if err != nil {
		sum.Failed = mirror.selected - sum.Same - sum.Differ - sum.Added - sum.Replaced
	}
	s.Output.Conclude("%s", sum.Text(request.To.Place))
	return err
}

// A publishable is what a mirror has to publish.
type publishable struct {
	releases []publish.Release                   // that the patterns select
	selected int                                 // packages, with those that can't be published
	problems []error                             // why packages can't be published
	has      map[sources.PackageID]builder.Entry // all packages of the mirror
	page     bool                                // it has a page for people
}

// readPublishable reads a mirror, as typed.
func readPublishable(ctx context.Context, m *site.Root, typed string, patterns []site.Pattern) (*publishable, error) {
	dir, entries, err := hashed(ctx, m, typed, builder.ListOptions{Again: true})
	if err != nil {
		return nil, err
	}
	all := &publishable{has: map[sources.PackageID]builder.Entry{}}
	all.page, _ = job.OwnPage(dir)
	unpacked := 0
	for _, e := range entries {
		_, another := all.has[e.ID]
		if !another || !e.Unpacked {
			all.has[e.ID] = e
		}
		if !site.Selected(patterns, e.ID) {
			continue
		}
		if !another {
			all.selected++
		}
		zh := cmp.Or(sources.HashesOf(sources.ZH, e.Hashes)...)
		if e.Unpacked {
			unpacked++
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(e.Path))
		if err := unfit(e, zh, site.Within(path, dir), typed); err != nil {
			all.problems = append(all.problems, err)
			continue
		}
		if n := len(all.releases); n == 0 || all.releases[n-1].Release != e.ID.Release() {
			all.releases = append(all.releases, publish.Release{Release: e.ID.Release()})
		}
		r := &all.releases[len(all.releases)-1]
		if n := len(r.Packages); n > 0 && r.Packages[n-1].ID == e.ID {
			continue // under another name
		}
		r.Packages = append(r.Packages, publish.Package{ID: e.ID, Path: path, Size: e.Size, ZH: zh, Hashes: e.Hashes})
	}
	if site.Unmatched(m.Output, patterns, slices.Collect(maps.Keys(all.has))); all.selected == 0 {
		return nil, job.HasNothing(typed, patterns)
	}
	if unpacked > 0 {
		const text = "not pushed, because places have only archives: %s in directories"
		all.problems = append(all.problems, sources.WithHint(fmt.Errorf(text, ui.Count(unpacked, "package")),
			"create a mirror of archives with mirror sync, without --unpacked"))
	}
	for i := range all.releases {
		r := &all.releases[i]
		r.Signed, err = evidence.Of(dir, r.Provider, r.Version)
		if err != nil && !errors.Is(err, sources.ErrNotFound) {
			m.Output.Warn("the evidence for %s is not pushed: %v", r.Release, err)
		}
	}
	return all, nil
}

// unfit returns why an archive of a mirror, as typed, can't be published, or nil. Inside reports whether the archive is
// in the mirror: a checkout must not choose what is published.
func unfit(e builder.Entry, zh sources.Hash, inside bool, typed string) error {
	switch {
	case e.Err != nil:
		return hintDamage(e.Err, typed)
	case !inside:
		err := errors.New("it is a link to a file outside of the mirror, and is not pushed")
		return sources.WithHint(&sources.PackageError{ID: e.ID, Err: err}, "copy the file into the mirror")
	case e.Stored.Differs != "" || zh == "":
		err := errors.New("the archive has changed since it was stored, and is not pushed")
		return hintDamage(&sources.PackageError{ID: e.ID, Err: err}, typed)
	}
	return nil
}
