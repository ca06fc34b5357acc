package mirror

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
)

// A BundleImportRequest says what to import, and where to put it.
type BundleImportRequest struct {
	File        string // as typed
	Dir         string // of the mirror, as typed
	ModulesTo   string // as typed; may be empty
	EngineTo    string // as typed; may be empty
	EngineSum   [sha256.Size]byte
	Replace     bool
	Keep        bool   // the packages that the sender has removed
	WriteConfig string // as typed; may be empty
}

// ImportBundle verifies the whole bundle before it changes anything.
func ImportBundle(ctx context.Context, s *site.Site, request BundleImportRequest) error {
	m, err := s.Here(ctx)
	if err != nil {
		return err
	}
	file, err := m.BundleAt(request.File)
	if err != nil {
		return err
	}
	dir := site.Absolute(m.Dir, request.Dir)
	if info, err := os.Stat(dir); err == nil && !info.IsDir() || err != nil && filepath.Ext(dir) == ".tar" {
		return report.Usage(sources.WithHint(fmt.Errorf("%s is not the directory of a mirror", dir),
			"write the DIR of the mirror last: larder bundle import FILE DIR"))
	}
	config, err := job.NewMirrorConfig(m, request.WriteConfig, dir)
	if err != nil {
		return err
	}
	if request.ModulesTo != "" && m.Config.DataDir != filepath.Join(m.Dir, bundle.DataPath) {
		s.Output.Warn("modules are put into %s, where engines with this TF_DATA_DIR do not find them", bundle.DataPath)
	}
	opts := bundle.ImportOptions{
		Check:        func(all []sources.Stored) error { return checkKnown(m, file, all) },
		Accept:       func(all []sources.Stored) error { return m.Accept(ctx, all) },
		ModulesTo:    site.AbsoluteIfAny(m.Dir, request.ModulesTo),
		EngineTo:     site.AbsoluteIfAny(m.Dir, request.EngineTo),
		EngineSHA256: request.EngineSum, Replace: request.Replace, KeepRemoved: request.Keep,
	}
	if opts.Options, err = job.MirrorOptions(ctx, m, dir, builder.Options{ReadOnly: s.Flags.DryRun}); err != nil {
		return err
	}
	opts.Judge, opts.WithPage = m.BundleJudge(), job.WritePage(ctx, dir, true)
	opts.Warn = func(err error) { s.Output.WarnAll(sources.Errors(hintRepair(err, request.Dir))) }
	imported, err := report.Work(s.Output, func(progress report.Report) (bundle.Imported, error) {
		opts.Report = progress
		return bundle.Import(ctx, file, dir, opts)
	})
	if err != nil {
		return err
	}
	added := s.Output.BundleImported(imported, opts.ReadOnly)
	warnIdle(s, "--modules-to", request.ModulesTo, imported, bundle.RootModules, "modules")
	warnIdle(s, "--engine-to", request.EngineTo, imported, bundle.EngineBinary, "engine")
	tellLeft(s, imported)
	if opts.ReadOnly {
		return nil
	}
	tellSet(s, imported, request.Dir)
	total, err := tellTotal(ctx, m, dir)
	if err != nil {
		return err
	}
	return job.FinishConfig(m, config, total == added)
}

// tellSet tells whether the mirror in dir, as typed, is now the signed set of the bundle, if that has one.
func tellSet(s *site.Site, imported bundle.Imported, dir string) {
	if n := imported.Differs; n > 0 {
		s.Output.WarnHint("larder mirror list "+site.ShellQuoted(dir)+" shows what it has",
			"%s differs from the signed set of the bundle in %s, so the set is not stored there", dir, ui.Count(n, "package"))
	}
	if imported.Set != nil {
		s.Output.Say("%s is now the %s", dir, report.SetText(imported.Set))
	}
}

// warnIdle warns of a flag for a directory if the bundle has nothing to put there.
func warnIdle(s *site.Site, flag, dir string, from bundle.Imported, kind bundle.PayloadKind, what string) {
	if dir != "" && !slices.ContainsFunc(from.Placed, func(p bundle.Placed) bool { return p.Kind == kind }) {
		s.Output.Warn("%s has no effect: the bundle contains no %s", flag, what)
	}
}

// tellTotal prints the totals of the mirror, and returns the number of its packages.
func tellTotal(ctx context.Context, m *site.Root, dir string) (int, error) {
	b, err := job.OpenMirror(ctx, m, dir, builder.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	entries, err := b.Entries(ctx)
	if err == nil {
		m.Out.Say("%s", report.MirrorText(dir, entries))
	}
	return len(entries), errors.Join(err, b.Close())
}

// tellLeft reports how to get the payload that was not requested.
func tellLeft(s *site.Site, imported bundle.Imported) {
	if len(imported.Left) == 0 {
		return
	}
	flags := map[bundle.PayloadKind]string{
		bundle.RootModules: "--modules-to DIR", bundle.EngineBinary: "--engine-to DIR --engine-sha256 SUM",
	}
	var add []string
	for _, p := range imported.Left {
		add = append(add, flags[p.Kind])
	}
	s.Output.PayloadLeft(imported.Left)
	s.Output.Hint("to import that too, run the command again with %s", strings.Join(report.Unique(add), " and "))
}
