package work

import (
	"cmp"
	"context"
	"os"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer/acquire"
	"github.com/larder-cli/larder/sources"
)

// ShowBundle shows the manifest of a bundle. That is what the bundle claims: nothing is verified.
func ShowBundle(s *Session, file string) error {
	path, err := s.bundleAt(file)
	if err != nil {
		return err
	}
	b, err := bundle.Open(path)
	if err != nil {
		return err
	}
	defer b.Close()
	m := b.Manifest
	s.output.Bundled(m)
	s.output.Summary(report.BundleSumOf(m, false))
	s.output.Tell(report.BundleOf(b.Name(), m, 0))
	s.output.Say("%s", report.ContentsText(m))
	return nil
}

// VerifyBundle verifies a bundle. It returns a [report.FoundError] if it finds a problem, and another error
// if the verification itself fails.
func VerifyBundle(ctx context.Context, s *Session, file string) error {
	m, err := s.here(ctx)
	if err != nil {
		return err
	}
	path, err := m.bundleAt(file)
	if err != nil {
		return err
	}
	v, err := report.Work(s.output, func(progress report.Report) (bundle.Verification, error) {
		return bundle.Verify(ctx, path, m.bundleJudge(), progress)
	})
	if err != nil {
		return err
	}
	var findings []report.Finding
	for _, f := range v.Findings {
		found := report.FindingOf(f.Kind, f.File, f.Package, sources.Text(f.Err))
		findings = append(findings, found.Shown(s.output.Shorten(sources.Text(f))))
	}
	report.ShowAll(s.output, findings)
	packages := bundledAs(v.Packages)
	distrusted, hints := m.trustFindings(m.accept(ctx, packages), packages, func(sources.Stored) string { return file }, file)
	problems := len(v.Findings) + distrusted
	if len(v.Findings) > 0 {
		hints = slices.Insert(hints, 0, "copy the bundle again, or ask the sender for a new one; larder bundle import refuses damaged files")
	}
	all := report.CheckedOf(packages)
	s.output.Checked(all)
	s.output.Payload(v.Payload, "")
	s.output.BundledRemovals(v.Removed)
	s.output.Summary(report.MirrorChecked{Packages: len(v.Packages), Bytes: v.Bytes, Problems: problems, Payloads: len(v.Payload)})
	besides := report.PayloadText(v.Payload) + report.RemovesText(v.Removed)
	packed := ui.Count(len(v.Packages), "package")
	s.output.Say("Verified %s, %s%s%s", packed, ui.Size(v.Bytes), besides, s.output.Keys(all, "bundle"))
	s.output.KeyList(all, m.suggestsKeys())
	return report.Found(problems, "problem", "in the bundle", hints...)
}

// ShowManifest writes the unchanged manifest of a mirror to standard output, for redirection into a
// file. That file can be used where the next bundle is made.
func ShowManifest(ctx context.Context, s *Session, dir string) error {
	m, err := s.here(ctx)
	if err != nil {
		return err
	}
	typed := dir
	dir, err = m.receiver(dir)
	if err != nil {
		return err
	}
	records, err := m.records()
	if err != nil {
		return err
	}
	manifest, err := report.Work(s.output, func(report.Report) (bundle.Manifest, error) {
		return bundle.Describe(ctx, dir, records, s.output.WarnOf)
	})
	if err == nil {
		s.output.ShowText(string(manifest.Text()), report.Manifest{Of: manifest})
	}
	if err == nil && len(manifest.Packages) == 0 {
		s.output.Say("%s has no packages, so a bundle since this manifest has all of them", dir)
	}
	return hintDamage(err, typed)
}

// receiver returns the directory of a mirror that receives bundles. It may be empty.
func (s *Session) receiver(typed string) (string, error) {
	const hint = "name the mirror that receives the bundle; for a new one, create an empty directory"
	dir, err := Existing(s.workDir, typed, Directory, hint)
	return dir, cmp.Or(err, checkReceiver(dir, hint))
}

// checkReceiver returns an error, with the hint, if a directory is neither a mirror nor empty.
func checkReceiver(dir, hint string) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) == 0 {
		return nil
	}
	return checkMirror(dir, hint)
}

// known fails for a package of a bundle whose contents differ from those recorded here.
func (m *rootModule) known(from string) func(bundle.Verified) error {
	memory := m.memory()
	return func(p bundle.Verified) error {
		if memory == nil {
			return nil
		}
		return acquire.CheckRepublished(memory, sources.Stored{ID: p.ID, ZH: p.ZH, H1: p.H1, Report: p.Report}, from)
	}
}
