package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/policy"
)

// Export writes the packages that lock files select to a bundle. What an earlier export in the same file has isn't
// fetched again. With partial, it leaves out the packages that it can't get.
func Export(ctx context.Context, s *site.Site, typed string, roots []string, partial bool) error {
	if err := job.TakeRoots(s, roots); err != nil {
		return err
	}
	t, err := job.ReadLocked(ctx, s)
	if err != nil {
		return err
	}
	file, err := s.ParentOf(typed)
	if err != nil {
		return err
	}
	m, err := s.Here(ctx)
	if err != nil {
		return err
	}
	records, err := m.Records()
	if err != nil {
		return err
	}
	dir, done, err := temporaryMirror(file, false, s.Output.WarnOf)
	if err != nil {
		return err
	}
	defer done()
	opts := bundle.CreateOptions{Records: temporaryRecords(dir, records), Temporary: true}
	f := job.NewLocked(s, t)
	if err = reuse(ctx, m, dir, file, opts); err == nil {
		err = fillBundle(ctx, f, m, dir, opts, func(_ context.Context, _ sources.Source, s installer.Selected) bool {
			return m.Judge().NeedsApproval(s.ID.Provider)
		})
	}
	open, left := unlocked(t), unapproved(m, t)
	switch {
	case disk.IsFull(err):
		return fullBundle(err, file, "with an earlier FILE, three times")
	case ctx.Err() != nil:
		return ctx.Err()
	case partial:
		s.Output.WarnAll(slices.Concat(open, left, sources.Errors(err)))
	case err != nil || len(open)+len(left) > 0:
		nothing := sources.WithHint(errors.New("nothing was exported"), "--partial exports the other packages")
		if len(open) > 0 {
			nothing = sources.WithHint(nothing, "%s installs the providers, and writes the lock files", m.Again("install"))
		}
		return errors.Join(slices.Concat(open, left, []error{err, nothing})...)
	}
	opts.Only = f.Got
	return createBundle(ctx, m, dir, file, opts)
}

// reuse puts the packages of an earlier export into the temporary mirror of the next one. It verifies the whole file,
// and warns if it can't use that.
func reuse(ctx context.Context, m *site.Root, dir, file string, opts bundle.CreateOptions) error {
	made, err := disk.Make(dir) // there may be nothing to put into it
	if err != nil {
		return err
	}
	made.Close()
	if !site.IsFile(file) {
		return nil
	}
	opts.Records.Dir = "" // the lock file decides, not what the file had
	in := bundle.ImportOptions{
		Options: m.Sharing(forBundle(m, opts)),
		Accept:  func(all []sources.Stored) error { return m.Require(ctx, all) },
	}
	in.Judge = m.BundleJudge()
	_, err = report.Work(m.Out, func(progress report.Report) (bundle.Imported, error) {
		in.Report = progress
		return bundle.Import(ctx, file, dir, in)
	})
	if err == nil || ctx.Err() != nil || disk.IsFull(err) {
		return err
	}
	for _, err := range sources.Errors(err) { // the hints are for the import of the file
		m.Out.Warn("%s", sources.Text(err))
	}
	m.Out.Warn("%s is not used, so its packages are fetched again", m.Shown(file))
	return nil
}

// unlocked returns why providers of root modules without a lock file are not exported.
func unlocked(t *job.Tree) (all []error) {
	const most = 10 // root modules shown for one provider
	open := map[sources.Provider][]string{}
	for _, r := range t.Open {
		open[r.Provider] = append(open[r.Provider], r.Module)
	}
	for _, p := range slices.SortedFunc(maps.Keys(open), sources.Provider.Compare) {
		err := errors.New("no version is locked in " + ui.Some(open[p], most))
		all = append(all, &sources.ProviderError{Provider: p, Err: err})
	}
	return all
}

// unapproved returns why providers that require approval are not exported: a set lists archives of one source.
func unapproved(m *site.Root, t *job.Tree) (all []error) {
	seen := map[sources.Provider]bool{}
	for _, l := range t.Locked {
		rules := m.Judge().Options.Policy.ApproversOf(l.Provider)
		if len(rules) == 0 || seen[l.Provider] {
			continue
		}
		seen[l.Provider] = true
		rule := (&policy.Violation{Rule: rules[0], Provider: l.Provider}).Because()
		err := &sources.ProviderError{Provider: l.Provider, Err: fmt.Errorf("%s, and an exported file has no set", rule)}
		all = append(all, sources.WithHint(err, "install without this file, from a signed mirror, or import a bundle that "+
			"larder bundle create FILE --mirror DIR writes of such a mirror"))
	}
	return all
}
