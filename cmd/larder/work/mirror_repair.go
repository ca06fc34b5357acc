package work

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// hintRepair adds the command that repairs the mirror, as typed, to the errors about damaged archives in err.
func hintRepair(err error, typed string) error {
	const hint = "larder mirror repair %s fetches damaged packages again"
	if damaged, ok := errors.AsType[*builder.DamagedError](err); ok {
		for i, err := range damaged.Packages {
			damaged.Packages[i] = sources.WithHint(err, hint, shellQuoted(typed))
		}
	}
	return err
}

// A repair is that of a mirror.
type repair struct {
	*rootModule
	*builder.Builder
	typed string            // its directory
	again map[damaged]error // why a package was not replaced; nil if it was
}

// A damaged package is one that has to be fetched again.
type damaged struct {
	id       sources.PackageID
	unpacked bool
}

// RepairMirror verifies a mirror, and fetches damaged packages again: from the mirrors in the directories from, as
// typed, or from a place, or else from the configured sources. It requires the contents that the packages had.
func RepairMirror(ctx context.Context, s *Session, dir string, from []string, place PlaceRequest) error {
	if err := s.useMirrors("--from", from); err != nil {
		return err
	}
	s.place = place
	m, b, err := mirrorHere(ctx, s, dir, builder.Options{ReadOnly: s.flags.DryRun})
	if err != nil {
		return err
	}
	m.repaired = Absolute(m.dir, dir)
	r := &repair{m, b, dir, map[damaged]error{}}
	return errors.Join(r.run(ctx), b.Close())
}

func (r *repair) run(ctx context.Context) error {
	v, err := report.Work(r.out, func(progress report.Report) (*builder.Verification, error) {
		return r.Verify(ctx, progress)
	})
	if err != nil {
		return err
	}
	sum := report.MirrorRepaired{Packages: v.Packages, Bytes: v.Bytes, Problems: len(v.Findings), DryRun: r.flags.DryRun}
	if !sum.DryRun {
		err = r.fetch(ctx, v.Findings)
	}
	var mismatched map[string]bool
	if !sum.DryRun && err == nil {
		if mismatched, err = r.Mismatched(ctx); ctx.Err() == nil {
			err = nil // what can't be read is an error of the packages
		}
	}
	if err != nil {
		return err
	}
	var errs []error
	dir := shellQuoted(r.typed)
	for _, f := range v.Findings {
		do, failed := r.Remedy(f), error(nil)
		switch {
		case do == builder.Replace:
			failed = r.again[damaged{*f.Package, f.Unpacked()}]
		case do == builder.Correct && mismatched[f.Path]:
			const hint = "larder mirror index %s removes entries of files that are not in the mirror"
			failed = sources.WithHint(errors.New(f.String()), hint, dir)
		case do == builder.Nothing:
			failed = sources.WithHint(errors.New(f.String()), "move or remove the file")
		}
		if failed != nil {
			do = builder.Nothing
		}
		r.out.Show(sum.Add(f, do))
		if failed != nil && !sum.DryRun {
			errs = append(errs, failed)
		}
	}
	r.warnUnusedKeys()
	r.out.Summary(sum)
	r.out.Conclude("%s in %s%s", sum.Found(), report.ReadText(r.out, v.Packages, v.Bytes), sum.Text())
	return errors.Join(unique(errs)...)
}

// unique returns each error once: several problems may have the same.
func unique(errs []error) (all []error) {
	said := map[error]bool{}
	for _, err := range errs {
		if !said[err] {
			all = append(all, err)
		}
		said[err] = true
	}
	return all
}

// fetch fetches the packages of findings again, and then makes the index match.
func (r *repair) fetch(ctx context.Context, findings []builder.Finding) error {
	from, err := r.source(ctx)
	if err != nil {
		return err
	}
	opts := r.installerOptions(r.out.Event)
	opts.Memory = r.memory()
	in := installer.NewFetcher(from, r.Builder, r.client, opts)
	var all []damaged
	before := map[damaged][]sources.Hash{}
	for _, f := range findings {
		if r.Remedy(f) != builder.Replace {
			continue
		}
		d := damaged{*f.Package, f.Unpacked()}
		if _, again := before[d]; !again {
			r.StoreAs(d.unpacked)
			before[d], all = r.Doubt(d.id), append(all, d)
		}
	}
	for _, d := range all {
		r.StoreAs(d.unpacked)
		outcome, err := in.Fetch(ctx, d.id, before[d])
		r.out.Forget(d.id)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if r.again[d] = r.explainUnrepaired(d.id, err); err == nil {
			r.signers.saw(outcome.Package)
			r.out.Show(report.OutcomeOf(outcome).Again())
		}
	}
	err = r.Finish(ctx)
	if _, known := errors.AsType[*builder.DamagedError](err); known {
		err = nil // the findings have it
	}
	return err
}

// explainUnrepaired adds hints to the error for a package that couldn't be replaced.
func (r *repair) explainUnrepaired(id sources.PackageID, err error) error {
	if err == nil {
		return nil
	}
	dir := shellQuoted(r.typed)
	err = sources.WithHint(sources.InPackage(id, r.explain(err)),
		"larder mirror remove %s %s@%s/%s takes it out of the mirror", dir, r.out.Name(id.Provider), id.Version, id.Platform)
	if len(r.pluginDirs) == 0 && r.place.Place == "" {
		err = sources.WithHint(err, "to fetch it from another mirror: larder mirror repair %s --from DIR", dir)
	}
	return err
}
