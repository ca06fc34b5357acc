package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

// needMirror is the hint for a path that should be that of a mirror.
const needMirror = "name the directory of a mirror; larder mirror sync creates one"

// existing returns the directory of an existing mirror, which may have no packages any more.
func (s *Session) existing(typed string) (string, error) {
	if err := directoryOnly(typed); err != nil {
		return "", err
	}
	dir, err := Existing(s.workDir, typed, Directory, needMirror)
	return dir, cmp.Or(err, checkMirror(dir, needMirror))
}

// mirrorHere returns the mirror in dir, with the configuration for the working directory. It
// fails for a plugin cache if the job changes the mirror.
func mirrorHere(ctx context.Context, s *Session, dir string, opts builder.Options) (*rootModule, *builder.Builder, error) {
	m, err := s.here(ctx)
	if err != nil {
		return nil, nil, err
	}
	if dir, err = s.existing(dir); err != nil {
		return nil, nil, err
	}
	if !opts.ReadOnly {
		if err := m.noCache(dir); err != nil {
			return nil, nil, err
		}
	}
	b, err := m.openMirror(ctx, dir, opts)
	return m, b, err
}

// checkMirror returns an error, with the hint, if a directory, which exists, is not a mirror. Larder would
// find no problem there, or leave its own files. A misnamed package is the better hint.
func checkMirror(dir, hint string) error {
	if _, err := os.ReadDir(dir); err != nil {
		return fmt.Errorf("%s: %w", dir, disk.Cause(err))
	}
	if _, err := os.Lstat(filepath.Join(dir, ".larder")); err == nil || hasPackages(dir) {
		return nil
	}
	strays, _ := fsmirror.New(dir, fsmirror.Options{}).Strays(context.Background())
	if i := slices.IndexFunc(strays, func(s fsmirror.Stray) bool { return strings.HasPrefix(filepath.Base(s.Path), sources.FilePrefix) }); i >= 0 {
		hint = strays[i].String()
	}
	return sources.WithHint(fmt.Errorf("%s is not a mirror: it contains no packages", dir), "%s", hint)
}

// hasPackages reports whether a directory contains a package in the layout of mirrors and plugin caches, or
// can't be searched. It reads no packages.
func hasPackages(dir string) bool {
	packages, err := fsmirror.New(dir, fsmirror.Options{}).Packages(context.Background())
	return err != nil || len(packages) > 0
}

// ListMirror lists a mirror from its records, without reading packages, or a place.
func ListMirror(ctx context.Context, s *Session, r PlaceRequest, typed []string) error {
	patterns, err := s.readPatterns(typed)
	if err != nil {
		return err
	}
	dir := r.Place
	if IsPlace(dir) {
		m, err := s.here(ctx)
		if err != nil {
			return err
		}
		return m.listPlace(ctx, r, patterns)
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
	unmatched(s.output, patterns, ids)
	entries = slices.DeleteFunc(entries, func(e builder.Entry) bool { return !selected(patterns, e.ID) })
	s.output.Mirrored(entries)
	sum := report.Listed{Packages: len(entries)}
	var damaged []error
	for _, e := range entries {
		sum.Size += e.Size
		if e.Err != nil {
			damaged = append(damaged, hintDamage(e.Err, dir))
		}
	}
	s.output.Summary(sum)
	switch {
	case sum.Packages > 0:
		s.output.Say("%s, %s", ui.Count(sum.Packages, "package"), ui.Size(sum.Size))
	case len(ids) == 0: // otherwise the patterns have had warnings
		s.output.Say("the mirror %s has no packages", Absolute(m.dir, dir))
	}
	return errors.Join(damaged...)
}

// hintDamage adds a hint to an error about a package in the mirror dir, as typed.
func hintDamage(err error, dir string) error {
	if _, ok := errors.AsType[*sources.PackageError](err); !ok || len(sources.Hints(err)) > 0 {
		return err
	}
	return sources.WithHint(err, "larder mirror verify %s lists every problem", shellQuoted(dir))
}

// VerifyMirror verifies a mirror, or a place. It returns a [report.FoundError] if it finds a problem, and another error
// if the verification itself fails.
func VerifyMirror(ctx context.Context, s *Session, r PlaceRequest, typed []string) error {
	dir := r.Place
	if IsPlace(dir) {
		patterns, err := s.readPatterns(typed)
		if err != nil {
			return err
		}
		m, err := s.here(ctx)
		if err != nil {
			return err
		}
		return m.verifyPlace(ctx, r, patterns)
	}
	if len(typed) > 0 {
		return report.Usage(errors.New("all of a directory is verified: patterns are for places"))
	}
	m, b, err := mirrorHere(ctx, s, dir, builder.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer b.Close() // which keeps what was learned
	v, err := report.Work(s.output, func(progress report.Report) (*builder.Verification, error) {
		return b.Verify(ctx, progress)
	})
	if err != nil {
		return err
	}
	var findings []report.Finding
	for _, f := range v.Findings {
		findings = append(findings, report.FindingOf(f.Kind, f.Path, f.Package, f.Text))
	}
	report.ShowAll(s.output, findings)
	inMirror := func(s sources.Stored) string {
		return filepath.ToSlash(strings.TrimPrefix(s.Dir, Absolute(m.dir, dir)+string(filepath.Separator)))
	}
	distrusted, hints := m.trustFindings(m.accept(ctx, v.Sound), v.Sound, inMirror, dir)
	problems := len(v.Findings) + distrusted
	if slices.ContainsFunc(v.Findings, func(f builder.Finding) bool { return b.Remedy(f) != builder.Nothing }) {
		const does = "fetches damaged packages again, and corrects index.json and VERSION.json"
		hints = slices.Insert(hints, 0, fmt.Sprintf("larder mirror repair %s %s", shellQuoted(dir), does))
	}
	all := report.CheckedOf(v.Sound)
	s.output.CheckedInDetail(all)
	s.output.Summary(report.MirrorChecked{Packages: v.Packages, Bytes: v.Bytes, Problems: problems, Unvouched: v.Unvouched})
	read := report.ReadText(s.output, v.Packages, v.Bytes)
	if problems == 0 {
		s.output.Say("No problem in %s%s", read, s.output.Keys(all, "mirror"))
	} else if text := s.output.Keys(all, "mirror"); text != "" {
		s.output.Say("%s", strings.TrimPrefix(text, ". "))
	}
	s.output.KeyList(all, m.suggestsKeys())
	if v.Unvouched > 0 {
		s.output.Say("%s without signed checksums", ui.Count(v.Unvouched, "package"))
	}
	return report.Found(problems, "problem", "in "+read, hints...)
}

// IndexMirror reads all archives and uses no hash records, because it repairs mirrors with
// wrong documents.
func IndexMirror(ctx context.Context, s *Session, dir string) error {
	dry := s.flags.DryRun
	_, b, err := mirrorHere(ctx, s, dir, builder.Options{ReadOnly: dry, Paranoid: true})
	if err != nil {
		return err
	}
	var leftOut []error
	changes, err := report.Work(s.output, func(report.Report) (changes []builder.Change, err error) {
		changes, leftOut, err = b.Index(ctx)
		return changes, err
	})
	sum := report.Indexed{LeftOut: len(leftOut), DryRun: dry}
	for _, change := range changes {
		s.output.Show(sum.Add(change))
	}
	s.output.Summary(sum)
	if err == nil {
		s.output.Conclude("%s", sum.Text())
	}
	return errors.Join(append(leftOut, err, b.Close())...)
}
