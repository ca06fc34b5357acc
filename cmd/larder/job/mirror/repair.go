package mirror

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// hintRepair adds the command that repairs the mirror, as typed, to the errors about damaged archives in err.
func hintRepair(err error, typed string) error {
	const hint = "larder mirror repair %s fetches damaged packages again"
	if damaged, ok := errors.AsType[*builder.DamagedError](err); ok {
		for i, err := range damaged.Packages {
			damaged.Packages[i] = sources.WithHint(err, hint, site.ShellQuoted(typed))
		}
	}
	return err
}

// A repair is that of a mirror.
type repair struct {
	*site.Root
	*builder.Builder
	typed string            // its directory
	again map[damaged]error // why a package was not replaced; nil if it was
}

// A damaged package is one that has to be fetched again.
type damaged struct {
	id       sources.PackageID
	unpacked bool
}

// Repair verifies a mirror, and fetches damaged packages again: from the mirrors in the directories of --from, or
// from the place there, or else from the configured sources. It requires the contents that the packages had.
func Repair(ctx context.Context, s *site.Site, dir string) error {
	if err := job.UseMirrors(s, "--from", s.Flags.From); err != nil {
		return err
	}
	m, b, err := openDir(ctx, s, dir, builder.Options{ReadOnly: s.Flags.DryRun})
	if err != nil {
		return err
	}
	m.Repaired = site.Absolute(m.Dir, dir)
	r := &repair{m, b, dir, map[damaged]error{}}
	return errors.Join(r.run(ctx), b.Close())
}

func (r *repair) run(ctx context.Context) error {
	v, err := report.Work(r.Out, func(progress report.Report) (*builder.Verification, error) {
		return r.Verify(ctx, progress)
	})
	if err != nil {
		return err
	}
	sum := report.RepairSum{
		VerifySum: report.VerifySum{Packages: v.Packages, Bytes: v.Bytes, Problems: len(v.Findings)}, DryRun: r.Flags.DryRun,
	}
	if !sum.DryRun {
		err = r.fetch(ctx, v.Findings)
	}
	var differ []builder.Change // documents that still differ from the archives
	if !sum.DryRun && err == nil {
		if differ, _, err = r.Index(ctx, false, true); ctx.Err() == nil {
			err = nil // the errors of the packages include the unreadable files
		}
	}
	if err != nil {
		return err
	}
	var errs []error
	dir := site.ShellQuoted(r.typed)
	for _, f := range v.Findings {
		do, failed := r.Remedy(f), error(nil)
		isAbout := func(c builder.Change) bool { return c.Path == f.Path }
		switch {
		case do == builder.Replace:
			failed = r.again[damaged{*f.Package, builder.Unpacked(f)}]
		case do == builder.Correct && slices.ContainsFunc(differ, isAbout):
			const hint = "larder mirror index %s removes entries of files that are not in the mirror"
			failed = sources.WithHint(error(f), hint, dir)
		case do == builder.Nothing:
			failed = sources.WithHint(error(f), "move the file to another directory")
		}
		if failed != nil {
			do = builder.Nothing
		}
		r.Out.Findings(sum.Add(f, string(do), do == builder.Replace, false))
		if failed != nil && !sum.DryRun {
			errs = append(errs, failed)
		}
	}
	r.WarnUnusedKeys()
	r.Out.Summary(sum)
	r.Out.Conclude("%s", sum.Text(r.Out))
	return errors.Join(report.Unique(errs)...) // several problems may have the same
}

// fetch fetches the packages of findings again, and then makes the index match.
func (r *repair) fetch(ctx context.Context, findings []*store.Finding) error {
	from, err := r.Source(ctx)
	if err != nil {
		return err
	}
	opts := r.InstallerOptions(r.Out.Event)
	opts.Memory = r.Memory()
	in := installer.NewFetcher(from, r.Builder, r.Client, opts)
	for _, unpacked := range []bool{false, true} {
		var ids []sources.PackageID
		for _, f := range findings {
			if r.Remedy(f) == builder.Replace && builder.Unpacked(f) == unpacked && !slices.Contains(ids, *f.Package) {
				ids = append(ids, *f.Package)
			}
		}
		r.StoreAs(unpacked)
		if err := r.fetchAll(ctx, in, ids, unpacked); err != nil {
			return err
		}
	}
	err = r.Finish(ctx)
	if _, known := errors.AsType[*builder.DamagedError](err); known {
		err = nil // the findings have it
	}
	return err
}

// fetchAll fetches packages again, several at a time. The Builder stores packages of their form.
func (r *repair) fetchAll(ctx context.Context, in *installer.Installer, ids []sources.PackageID, unpacked bool) error {
	before := make([][]sources.Hash, len(ids))
	for i, id := range ids {
		before[i] = r.Doubt(id)
	}
	outcomes, errs := make([]installer.Outcome, len(ids)), make([]error, len(ids))
	site.ForEach(len(ids), cmp.Or(r.Flags.Jobs, 16), func(i int) {
		outcomes[i], errs[i] = in.Fetch(ctx, ids[i], before[i])
		r.Out.Forget(ids[i])
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i, id := range ids {
		if r.again[damaged{id, unpacked}] = r.explainUnrepaired(id, errs[i]); errs[i] == nil {
			r.Signers.Saw(outcomes[i].Package)
			r.Out.Show(report.OutcomeOf(outcomes[i]).Again())
		}
	}
	return nil
}

// explainUnrepaired adds hints to the error for a package that couldn't be replaced.
func (r *repair) explainUnrepaired(id sources.PackageID, err error) error {
	if err == nil {
		return nil
	}
	_, here := errors.AsType[*fs.PathError](err)
	here = here || disk.IsFull(err)
	if err = sources.InPackage(id, r.Explain(err)); here { // no other mirror, and no removal of this version, helps
		return err
	}
	dir := site.ShellQuoted(r.typed)
	err = sources.WithHint(err,
		"larder mirror remove %s %s@%s/%s takes it out of the mirror", dir, r.Out.Name(id.Provider), id.Version, id.Platform)
	if len(r.PluginDirs) == 0 && r.Flags.Place.Place == "" {
		err = sources.WithHint(err, "to fetch it from another mirror: larder mirror repair %s --from DIR", dir)
	}
	return err
}
