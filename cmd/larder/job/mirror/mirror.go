// Package mirror contains the jobs of mirrors, bundles and places: sync, verify, repair, prune, remove, diff, push,
// import and bundle. It leaves on disk mirrors and bundles.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/store"
)

// mirrorHere returns the mirror in dir, with the configuration for the working directory. It
// fails for a plugin cache if the job changes the mirror.
func mirrorHere(ctx context.Context, s *site.Site, dir string, opts builder.Options) (*site.Root, *builder.Builder, error) {
	m, err := s.Here(ctx)
	if err != nil {
		return nil, nil, err
	}
	if dir, err = job.Existing(s, dir); err != nil {
		return nil, nil, err
	}
	if !opts.ReadOnly {
		if err := job.NoCache(m, dir); err != nil {
			return nil, nil, err
		}
	}
	b, err := job.OpenMirror(ctx, m, dir, opts)
	return m, b, err
}

// List lists a mirror from its records, without reading packages, or a place.
func List(ctx context.Context, s *site.Site, r site.PlaceRequest, typed []string) error {
	patterns, err := s.ReadPatterns(typed)
	if err != nil {
		return err
	}
	dir := r.Place
	if site.IsPlace(dir) {
		m, err := s.Here(ctx)
		if err != nil {
			return err
		}
		return listPlace(ctx, m, r, patterns)
	}
	m, b, err := mirrorHere(ctx, s, dir, builder.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer b.Close() // which keeps what was learned
	entries, err := b.List(ctx, builder.ListOptions{Proofs: true, Again: true})
	if err != nil {
		return err
	}
	var ids []sources.PackageID
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	site.Unmatched(s.Output, patterns, ids)
	entries = slices.DeleteFunc(entries, func(e builder.Entry) bool { return !site.Selected(patterns, e.ID) })
	s.Output.Mirrored(entries)
	sum := report.Listed{Packages: len(entries)}
	var damaged []error
	for _, e := range entries {
		sum.Size += e.Size
		if e.Err != nil {
			damaged = append(damaged, hintDamage(e.Err, dir))
		}
	}
	s.Output.Summary(sum)
	switch {
	case sum.Packages > 0:
		s.Output.Say("%s, %s", ui.Count(sum.Packages, "package"), ui.Size(sum.Size))
	case len(ids) == 0: // otherwise the patterns have had warnings
		s.Output.Say("the mirror %s has no packages", site.Absolute(m.Dir, dir))
	}
	return errors.Join(damaged...)
}

// hintDamage adds a hint to an error about a package in the mirror dir, as typed.
func hintDamage(err error, dir string) error {
	if _, ok := errors.AsType[*sources.PackageError](err); !ok || len(sources.Hints(err)) > 0 {
		return err
	}
	return sources.WithHint(err, "larder mirror verify %s lists every problem", site.ShellQuoted(dir))
}

// Verify verifies a mirror, or a place. It returns a [report.FoundError] if it finds a problem, and another error
// if the verification itself fails.
func Verify(ctx context.Context, s *site.Site, r site.PlaceRequest, typed []string) error {
	dir := r.Place
	if site.IsPlace(dir) {
		patterns, err := s.ReadPatterns(typed)
		if err != nil {
			return err
		}
		m, err := s.Here(ctx)
		if err != nil {
			return err
		}
		return verifyPlace(ctx, m, r, patterns)
	}
	if len(typed) > 0 {
		return report.Usage(errors.New("all of a directory is verified: patterns are for places"))
	}
	m, b, err := mirrorHere(ctx, s, dir, builder.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer b.Close() // which keeps what was learned
	v, err := report.Work(s.Output, func(progress report.Report) (*builder.Verification, error) {
		return b.Verify(ctx, progress)
	})
	if err != nil {
		return err
	}
	s.Output.Findings(report.FindingsOf(v.Findings)...)
	inMirror := func(s sources.Stored) string {
		return filepath.ToSlash(strings.TrimPrefix(s.Dir, site.Absolute(m.Dir, dir)+string(filepath.Separator)))
	}
	distrusted, hints := m.TrustFindings(m.Accept(ctx, v.Sound), v.Sound, inMirror, dir)
	problems := len(v.Findings) + distrusted
	if slices.ContainsFunc(v.Findings, func(f *store.Finding) bool { return b.Remedy(f) != builder.Nothing }) {
		const does = "fetches damaged packages again, and corrects index.json and VERSION.json"
		hints = slices.Insert(hints, 0, fmt.Sprintf("larder mirror repair %s %s", site.ShellQuoted(dir), does))
	}
	all := report.CheckedOf(v.Sound)
	s.Output.CheckedInDetail(all)
	sum := report.VerifySum{Packages: v.Packages, Bytes: v.Bytes, Problems: problems, Unvouched: v.Unvouched}
	s.Output.Summary(sum)
	read := sum.Text(s.Output)
	if problems == 0 {
		s.Output.Say("No problem in %s%s", read, s.Output.Keys(all, "mirror"))
	} else if text := s.Output.Keys(all, "mirror"); text != "" {
		s.Output.Say("%s", strings.TrimPrefix(text, ". "))
	}
	s.Output.KeyList(all, m.SuggestsKeys())
	if v.Unvouched > 0 {
		s.Output.Say("%s without signed checksums", ui.Count(v.Unvouched, "package"))
	}
	return report.Found(problems, "problem", "in "+read, hints...)
}

// Index reads all archives and uses no hash records, because it repairs mirrors with
// wrong documents.
func Index(ctx context.Context, s *site.Site, dir string) error {
	dry := s.Flags.DryRun
	_, b, err := mirrorHere(ctx, s, dir, builder.Options{ReadOnly: dry, Paranoid: true})
	if err != nil {
		return err
	}
	var leftOut []error
	changes, err := report.Work(s.Output, func(report.Report) (changes []builder.Change, err error) {
		changes, leftOut, err = b.Index(ctx, dry)
		return changes, err
	})
	sum := report.Indexed{LeftOut: len(leftOut), DryRun: dry}
	for _, change := range changes {
		s.Output.Show(sum.Add(change))
	}
	s.Output.Summary(sum)
	if err == nil {
		s.Output.Conclude("%s", sum.Text())
	}
	return errors.Join(append(leftOut, err, b.Close())...)
}
