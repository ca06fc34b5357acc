// Package mirror contains the jobs of mirrors, bundles and places: sync, verify, repair, prune, remove, diff, push,
// import and bundle. It leaves on disk mirrors and bundles.
package mirror

import (
	"cmp"
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

// openDir returns the mirror in dir, with the configuration for the working directory. It
// fails for a plugin cache if the job changes the mirror.
func openDir(ctx context.Context, s *site.Site, dir string, o builder.Options) (*site.Root, *builder.Builder, error) {
	m, err := s.Here(ctx)
	if err != nil {
		return nil, nil, err
	}
	if dir, err = job.Existing(s, dir); err != nil {
		return nil, nil, err
	}
	if !o.ReadOnly {
		if err := job.NoCache(m, dir); err != nil {
			return nil, nil, err
		}
	}
	b, err := job.OpenMirror(ctx, m, dir, o)
	return m, b, err
}

// List lists a mirror from its records, without reading packages, or a place by its documents.
func List(ctx context.Context, s *site.Site, r site.PlaceRequest, typed []string) error {
	patterns, err := s.ReadPatterns(typed)
	if err != nil {
		return err
	}
	list, totals := listMirror, "%s%s"
	if site.IsPlace(r.Place) {
		list, totals = listPlace, "%s%s, as the place states; no archive was read"
	}
	entries, unread, err := list(ctx, s, r, patterns)
	if err != nil {
		return err
	}
	report.GridOf(s.Output, entries, report.MirroredOf)
	sum := report.Listed{Packages: len(entries)}
	for _, e := range entries {
		sum.Size += e.Size
		if e.Err != nil {
			unread = errors.Join(unread, hintDamage(e.Err, r.Place))
		}
	}
	s.Output.Summary(sum)
	size := ""
	if sum.Size > 0 { // a place may not state sizes
		size = ", " + ui.Size(sum.Size)
	}
	if sum.Packages > 0 {
		s.Output.Say(totals, ui.Count(sum.Packages, "package"), size)
	} else if len(patterns) == 0 && unread == nil {
		s.Output.Say("%s has no packages", r.Place)
	}
	return unread
}

// listMirror returns the packages of a mirror that patterns select. Those that are damaged have errors.
func listMirror(
	ctx context.Context, s *site.Site, r site.PlaceRequest, patterns []site.Pattern,
) (entries []builder.Entry, unread, err error) {
	_, b, err := openDir(ctx, s, r.Place, builder.Options{ReadOnly: true})
	if err != nil {
		return nil, nil, err
	}
	defer b.Close() // which keeps what was learned
	if entries, err = b.List(ctx, builder.ListOptions{Again: true}); err != nil {
		return nil, nil, err
	}
	var ids []sources.PackageID
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	site.Unmatched(s.Output, patterns, ids)
	return slices.DeleteFunc(entries, func(e builder.Entry) bool { return !site.Selected(patterns, e.ID) }), nil, nil
}

// hashed returns the directory of a mirror, as typed, and its packages with their hashes.
func hashed(
	ctx context.Context, m *site.Root, typed string, opts builder.ListOptions,
) (dir string, entries []builder.Entry, err error) {
	_, b, err := openDir(ctx, m.Site, typed, builder.Options{ReadOnly: true})
	if err != nil {
		return "", nil, err
	}
	defer b.Close()
	entries, err = report.Work(m.Output, func(progress report.Report) ([]builder.Entry, error) {
		opts.Hash, opts.Report = true, progress
		return b.List(ctx, opts)
	})
	if dir = site.Absolute(m.Dir, typed); err != nil {
		err = fmt.Errorf("reading %s: %w", dir, err)
	}
	return dir, entries, err
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
	if site.IsPlace(r.Place) {
		return verifyPlace(ctx, s, r, typed)
	}
	if len(typed) > 0 {
		return report.Usage(errors.New("all of a directory is verified: patterns are for places"))
	}
	m, b, err := openDir(ctx, s, r.Place, builder.Options{ReadOnly: true})
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
	all := verified{Root: m, typed: r.Place, findings: report.FindingsOf(v.Findings), sound: v.Sound}
	all.sum = report.VerifySum{Packages: v.Packages, Bytes: v.Bytes, Unvouched: v.Unvouched}
	all.called = func(s sources.Stored) string {
		return filepath.ToSlash(strings.TrimPrefix(s.Dir, site.Absolute(m.Dir, r.Place)+string(filepath.Separator)))
	}
	if slices.ContainsFunc(v.Findings, func(f *store.Finding) bool { return b.Remedy(f) != builder.Nothing }) {
		const does = "fetches damaged packages again, and corrects index.json and VERSION.json"
		all.hints = []string{fmt.Sprintf("larder mirror repair %s %s", site.ShellQuoted(r.Place), does)}
	}
	if set, err := b.Set(); err == nil {
		m.Signers.SawKeys(set)
	}
	isSet := func(f *store.Finding) bool {
		return slices.Contains([]store.Kind{builder.BadSet, builder.NotInSet, builder.Wanting}, f.Kind)
	}
	if slices.ContainsFunc(v.Findings, isSet) {
		all.hints = append(all.hints, fmt.Sprintf("larder mirror sign %s --sign-key FILE signs what the mirror has; "+
			"larder mirror sync %[1]s --snapshot FILE makes it equal to a signed set", site.ShellQuoted(r.Place)))
	}
	return all.tell(ctx, nil)
}

// A verified mirror is one that was verified, or a place.
type verified struct {
	*site.Root
	typed    string
	findings []report.Finding
	sound    []sources.Stored            // packages without a problem
	called   func(sources.Stored) string // names a package in messages
	hints    []string                    // about the findings
	sum      report.VerifySum            // except the problems
}

// tell shows the problems, with packages that the rules of the run don't accept, and what was verified. It returns the
// error for them. Unread is why a part of a place couldn't be verified.
func (v verified) tell(ctx context.Context, unread error) error {
	v.Out.Findings(v.findings...)
	refused := v.AcceptKept(ctx, site.Absolute(v.WorkDir, v.typed), v.sound)
	distrusted, hints, accepted := v.TrustFindings(refused, v.sound, v.called, v.typed)
	hints = append(v.hints, hints...)
	v.sum.Problems = len(v.findings) + distrusted
	all := report.CheckedOf(v.sound)
	v.Out.CheckedInDetail(report.CheckedOf(accepted))
	v.Out.Summary(v.sum)
	read, keys := v.sum.Text(v.Out), v.Out.Keys(all, "mirror")
	if v.sum.Problems == 0 && unread == nil {
		v.Out.Say("No problem in %s%s", read, keys)
	} else if keys != "" {
		v.Out.Say("%s", strings.TrimPrefix(keys, ". "))
	}
	v.Out.KeyList(all, v.sum.Problems == 0 && v.SuggestsKeys())
	if v.sum.Unvouched > 0 {
		v.Out.Say("%s without signed checksums", ui.Count(v.sum.Unvouched, "package"))
	}
	if v.sum.Unread {
		sync := "larder mirror sync DIR --from " + site.ShellQuoted(v.typed) + " --cache CACHE"
		v.Out.Say("Archives were looked for, and not read. To verify their contents, run %s, with two empty directories",
			sync)
	}
	return cmp.Or(unread, report.Found(v.sum.Problems, "problem", "in "+read, hints...))
}

// Index reads all archives and uses no hash records, because it repairs mirrors with
// wrong documents. Hashes requests the hash of the contents of each archive, and html the page for people.
func Index(ctx context.Context, s *site.Site, dir string, hashes, html bool) error {
	dry := s.Flags.DryRun
	opts := builder.Options{ReadOnly: dry, Paranoid: true}
	if html {
		if err := job.RequestPage(ctx, site.Absolute(s.WorkDir, dir), &opts); err != nil {
			return err
		}
	}
	_, b, err := openDir(ctx, s, dir, opts)
	if err != nil {
		return err
	}
	var leftOut []error
	changes, err := report.Work(s.Output, func(report.Report) (changes []builder.Change, err error) {
		changes, leftOut, err = b.Index(ctx, hashes, dry)
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
