package mirror

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
)

// ShowBundle shows the manifest of a bundle. That is what the bundle claims: nothing is verified.
func ShowBundle(_ context.Context, s *site.Site, file string) error {
	path, err := s.BundleAt(file)
	if err != nil {
		return err
	}
	b, err := bundle.Open(path)
	if err != nil {
		return err
	}
	defer b.Close()
	m := b.Manifest
	s.Output.Bundled(m)
	s.Output.Summary(report.BundleSumOf(b.Name(), m, false))
	s.Output.Say("%s", report.ContentsText(m))
	return nil
}

// VerifyBundle verifies a bundle. It returns a [report.FoundError] if it finds a problem, and another error
// if the verification itself fails.
func VerifyBundle(ctx context.Context, s *site.Site, file string) error {
	m, err := s.Here(ctx)
	if err != nil {
		return err
	}
	path, err := m.BundleAt(file)
	if err != nil {
		return err
	}
	v, err := report.Work(s.Output, func(progress report.Report) (bundle.Verification, error) {
		return bundle.Verify(ctx, path, m.BundleJudge(), progress)
	})
	if err != nil {
		return err
	}
	s.Output.Findings(report.FindingsOf(v.Findings)...)
	packages := v.Packages
	if v.Set != nil {
		m.Signers.SawKeys(v.Set)
	}
	at := func(sources.Stored) string { return file }
	distrusted, hints, accepted := m.TrustFindings(m.Accept(ctx, packages), packages, at, file)
	problems := len(v.Findings) + distrusted
	if len(v.Findings) > 0 {
		hints = slices.Insert(hints, 0,
			"copy the bundle again, or ask the sender for a new one")
	}
	all := report.CheckedOf(packages)
	report.Grid(s.Output, report.CheckedOf(accepted))
	s.Output.Payload(v.Payload, "")
	s.Output.BundledRemovals(v.Removed)
	s.Output.Summary(report.VerifySum{
		Packages: len(v.Packages), Bytes: v.Bytes, Problems: problems, Payloads: len(v.Payload),
	})
	besides := report.PayloadText(v.Payload) + report.RemovesText(v.Removed)
	packed := ui.Count(len(v.Packages), "package")
	s.Output.Say("Verified %s, %s%s%s", packed, ui.Size(v.Bytes), besides, s.Output.Keys(all, "bundle"))
	if v.Set != nil {
		s.Output.Say("In a %s", report.SetText(v.Set))
	}
	s.Output.KeyList(all, problems == 0 && m.SuggestsKeys())
	return report.Found(problems, "problem", "in the bundle", hints...)
}

// ShowManifest writes the unchanged manifest of a mirror to standard output, for redirection into a
// file. That file can be used where the next bundle is made.
func ShowManifest(ctx context.Context, s *site.Site, typed string) error {
	m, err := s.Here(ctx)
	if err != nil {
		return err
	}
	const hint = "name the mirror that receives the bundle; for a new one, create an empty directory"
	dir, err := site.Existing(m.WorkDir, typed, site.Directory, hint)
	if err = cmp.Or(err, job.CheckMirrorOrEmpty(dir, hint)); err != nil {
		return err
	}
	records, err := m.Records()
	if err != nil {
		return err
	}
	manifest, err := report.Work(s.Output, func(report.Report) (bundle.Manifest, error) {
		return bundle.Describe(ctx, dir, records, s.Output.WarnOf)
	})
	if err == nil {
		s.Output.ShowText(string(manifest.Text()), report.Manifest{Of: manifest})
	}
	if err == nil && len(manifest.Packages) == 0 {
		s.Output.Say("%s has no packages, so a bundle since this manifest has all of them", dir)
	}
	return hintDamage(err, typed)
}

// checkKnown fails for packages of a bundle whose contents differ from those recorded here.
func checkKnown(m *site.Root, from string, all []sources.Stored) error {
	memory := m.Memory()
	if memory == nil {
		return nil
	}
	var errs []error
	for _, s := range all {
		errs = append(errs, acquire.CheckRepublished(memory, s, from))
	}
	return errors.Join(errs...)
}
