package cache

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// Import imports the packages of bundles, one after another. A failed file does not stop the import
// of other files, and a failed package does not stop the import of later packages.
func Import(ctx context.Context, s *site.Site, files []string) error {
	k, err := job.FindCache(ctx, s)
	if err != nil {
		return err
	}
	if k.Cache, err = k.OpenCache(k.Path, func(*cachedir.Options) {}); err != nil {
		return err
	}
	release, err := k.Cache.Use(ctx) // protects the imported packages until they are copied
	if err != nil {
		return err
	}
	defer release()
	opts := k.InstallerOptions(nil)
	opts.Judge = k.BundleJudge()
	im := &importer{TargetCache: k, into: installer.New(nil, k.Cache, k.Client, opts)}
	defer func() {
		for _, from := range im.bundles {
			from.Close()
		}
	}()
	var errs []error
	for _, file := range files {
		errs = append(errs, im.open(ctx, file))
	}
	if err := im.acceptAll(ctx); err != nil {
		return err
	}
	for _, from := range im.bundles {
		errs = append(errs, im.read(ctx, from))
	}
	err = errors.Join(errs...)
	im.show(len(sources.Errors(err)))
	return err
}

// An importer imports packages, and counts them.
type importer struct {
	*job.TargetCache
	into    *installer.Installer
	bundles []*bundle.Bundle

	changes []report.Change
}

// show prints the result for each package.
func (im *importer) show(failed int) {
	im.Out.Changes(im.changes)
	sum := report.ImportSum{Failed: failed}
	for _, c := range im.changes {
		if c.Unchanged {
			sum.There++
		} else {
			sum.Packages++
		}
	}
	im.Out.Summary(sum)
	im.Out.Conclude("%s", sum.Text())
}

// open opens a file, and reads its manifest and its evidence.
func (im *importer) open(ctx context.Context, name string) (err error) {
	if name, err = im.BundleAt(name); err != nil {
		return err
	}
	from, err := bundle.Open(name)
	if err != nil {
		return err
	}
	if err := from.ReadEvidence(ctx); err != nil {
		return errors.Join(err, from.Close())
	}
	im.bundles = append(im.bundles, from)
	return nil
}

// acceptAll fails before anything is imported if a package doesn't meet the requirement of the
// flags.
func (im *importer) acceptAll(ctx context.Context) error {
	var all []sources.Stored
	for _, from := range im.bundles {
		for _, p := range from.Manifest.Packages {
			all = append(all, im.into.Foresee(ctx, offered(from, p), p.ZH, from.Set()))
		}
	}
	return im.Accept(ctx, all)
}

// offered returns what a bundle states about a package, which is verified when it is imported.
func offered(b *bundle.Bundle, p bundle.Package) sources.Package {
	return sources.Package{
		ID: p.ID, Hashes: []sources.Hash{p.ZH}, Source: b.Name(), Kind: sources.FromFilesystem, Filename: p.ID.Filename(),
		Signed: b.Manifest.Signed(p.ID.Release()),
	}
}

// read imports the packages of a bundle. A package that fails does not stop it.
func (im *importer) read(ctx context.Context, from *bundle.Bundle) error {
	var errs []error
	for _, p := range from.Manifest.Packages {
		outcome, err := im.into.Import(ctx, offered(from, p), from.Payload(p), from.Set())
		if err == nil {
			im.changes = append(im.changes, report.Change{Outcome: &outcome, Unchanged: outcome.How != installer.Imported})
			continue
		}
		if errs = append(errs, err); ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
	if len(from.Manifest.Payload) > 0 {
		im.Out.PayloadLeft(from.Manifest.Payload)
		im.Out.Hint("larder help bundle import shows how to put that into directories")
	}
	return errors.Join(errs...)
}
