package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/legacy"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

func importCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "import",
		Category:  forMirrors,
		Usage:     "add provider executables and zips to a mirror",
		ArgsUsage: "PATH... --to DIR [FLAG...]",
		UsageText: "larder import ~/.terraform.d/plugins --to ./mirror",
		Description: "PATH is an executable, a zip, output of terraform-bundle, or a directory with any\n" +
			"of them, as Terraform 0.12 had it. Changes nothing at PATH, and needs no network.",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "mirror directory `DIR`, created if missing"},
			&cli.StringFlag{Name: "namespace", Usage: "`[HOST/]NAMESPACE` namespace of providers without one"},
			&cli.StringFlag{Name: "as", Usage: "`ADDRESS@VERSION` address of all providers"},
			&cli.StringFlag{Name: "platform", Usage: "`OS_ARCH` platform of packages without one"},
			&cli.BoolFlag{Name: "unpacked", Usage: "write directories, not archives"},
			&cli.BoolFlag{Name: "replace", Usage: "replace different packages in the mirror"},
			dryRunFlag("show what would be imported"),
		}, trustFlags()),
		Action: func(c *cli.Context) error { return importAll(c, out) },
	}
}

// An importing is a run of larder import.
type importing struct {
	*rootModule
	to       string // of the mirror
	paths    []string
	find     legacy.Options
	unpacked bool
	replace  bool

	mirror *fsmirror.Mirror // the mirror before the import; nil if its directory did not exist
	store  *builder.Builder // nil with --dry-run
	sum    importCounts
	rows   []ui.Row // one for each package
}

// importAll finds all providers below the paths before it imports any, so that usage errors
// are reported before it writes anything.
func importAll(c *cli.Context, out *ui.Output) error {
	im, err := newImporting(c, out)
	if err != nil {
		return err
	}
	found, err := legacy.Find(c.Context, im.paths, im.find)
	if err != nil {
		return err
	}
	if err := im.apart(found.Candidates); err != nil {
		return err
	}
	im.sum = importCounts{Skipped: len(found.Passed), Failed: len(found.Problems), DryRun: im.flags.dryRun}
	im.passed(found.Passed)
	if len(found.Candidates) == 0 && len(found.Problems) == 0 {
		return errors.New("no provider found there")
	}
	there, err := im.importFound(c.Context, found.Candidates)
	im.sum.Failed += len(sources.Errors(err))
	im.showFound()
	if len(there) > 0 {
		im.advise(there)
	}
	return errors.Join(append(found.Problems, err)...)
}

// newImporting reads the arguments and flags. The mirror must not be below a path to import
// from, or the import would find its own packages.
func newImporting(c *cli.Context, out *ui.Output) (*importing, error) {
	m, err := here(c, out)
	if err != nil {
		return nil, err
	}
	im := &importing{rootModule: m, unpacked: c.Bool("unpacked"), replace: c.Bool("replace")}
	switch {
	case c.String("to") == "":
		return nil, usageError{errors.New("import needs --to DIR, the mirror to import to")}
	case !c.Args().Present():
		return nil, usageError{errors.New("import needs a PATH, a file or directory to import from")}
	}
	im.to = absolute(m.dir, c.String("to"))
	if err := im.noCache(im.to); err != nil {
		return nil, err
	}
	for _, path := range c.Args().Slice() {
		path = absolute(m.dir, path)
		if within(im.to, path) {
			return nil, unchanging(im.to, path)
		}
		im.paths = append(im.paths, path)
	}
	return im, im.readOptions(c)
}

// readOptions reads the flags for facts that file names do not contain.
func (im *importing) readOptions(c *cli.Context) error {
	im.find.Engine = im.config.Engine
	if text := c.String("as"); c.IsSet("as") {
		as, err := parseAs(text, im.config.Engine)
		if err != nil {
			return usageError{fmt.Errorf("--as %w", err)}
		}
		im.find.As = as
	}
	if text := c.String("namespace"); c.IsSet("namespace") {
		p, err := sources.ParseProvider(text+"/any", im.config.Engine)
		if err != nil || p.Legacy() || p.BuiltIn() {
			return usageError{fmt.Errorf("--namespace is NAMESPACE or HOST/NAMESPACE, not %q", text)}
		}
		im.find.Prefix = string(p.Host) + "/" + p.Namespace
	}
	var err error
	im.find.Platform, err = platform(c)
	return err
}

// parseAs parses ADDRESS@VERSION. The namespace is required, because most old providers
// without a namespace are not from HashiCorp.
func parseAs(text string, e sources.Engine) (*legacy.As, error) {
	address, version, ok := sources.CutVersion(text)
	if !ok || !strings.Contains(address, "/") {
		return nil, fmt.Errorf("is [HOST/]NAMESPACE/TYPE@VERSION, not %q", text)
	}
	p, err := sources.ParseProvider(address, e)
	if err != nil {
		return nil, err
	}
	v, err := sources.ParseVersion(version)
	switch {
	case err != nil:
		return nil, err
	case p.Legacy(), p.BuiltIn():
		return nil, fmt.Errorf("%s is not a provider that can be installed", p)
	case v.String() == "0.0.0":
		return nil, errors.New("terraform and tofu never choose version 0.0.0")
	}
	return &legacy.As{Provider: p, Version: v}, nil
}

// apart fails if packages would be written to a part of the mirror that is also imported from.
func (im *importing) apart(candidates []legacy.Candidate) error {
	for _, c := range candidates {
		home := filepath.Join(im.to, filepath.FromSlash(c.ID.Provider.String()))
		for _, path := range im.paths {
			if within(home, path) {
				return unchanging(home, path)
			}
		}
	}
	return nil
}

// unchanging returns the error for an import that would write to a directory it reads.
func unchanging(dir, path string) error {
	err := fmt.Errorf("%s is in %s, which import must not change", dir, path)
	return usageError{sources.WithHint(err, "choose another directory with --to")}
}

// importFound imports candidates, and returns those that are then in the mirror.
func (im *importing) importFound(ctx context.Context, candidates []legacy.Candidate) (there []legacy.Candidate, err error) {
	proofs, refused := make([]sources.Proof, len(candidates)), make([]error, len(candidates))
	var provable []sources.Stored
	for i := range candidates {
		if proofs[i], refused[i] = im.prove(ctx, &candidates[i]); refused[i] == nil {
			provable = append(provable, im.proven(candidates[i].ID, proofs[i]))
		}
	}
	if err := im.accept(provable); err != nil {
		return nil, err
	}
	if !im.flags.dryRun && len(candidates) > 0 {
		if im.store, err = im.openMirror(ctx, im.to, builder.Options{Unpacked: im.unpacked}); err != nil {
			return nil, err
		}
		defer im.store.Close()
	}
	if _, err := os.Stat(im.to); err == nil {
		im.mirror = fsmirror.New(im.to, fsmirror.Options{Engine: im.config.Engine})
	}
	var errs []error
	for i, c := range candidates {
		for _, warning := range c.Warnings {
			im.out.Warn("%s: %s", c.Where(), warning)
		}
		if err := im.importOne(ctx, c, proofs[i], refused[i]); err != nil {
			errs = append(errs, err)
			continue
		}
		there = append(there, c)
	}
	if im.store != nil {
		errs = append(errs, im.store.Finish(ctx))
	}
	return there, errors.Join(errs...)
}

// Origins of packages in a mirror, in addition to alreadyThere.
const (
	imported     installer.How = "imported"
	replaced     installer.How = "replaced"
	wouldImport  installer.How = "would be imported"
	wouldCompare installer.How = "would be compared with what is there"
)

// errSame ends the import of a package that the mirror already has.
var errSame = errors.New("there already")

// importOne imports a candidate unless the mirror already has it. Without --replace, a package
// with other contents is an error.
func (im *importing) importOne(ctx context.Context, c legacy.Candidate, proof sources.Proof, refused error) error {
	there, err := im.standing(ctx, c.ID)
	if err != nil {
		return err
	}
	if refused != nil {
		return &sources.PackageError{ID: c.ID, Source: c.Where(), Err: refused}
	}
	if im.flags.dryRun {
		how := wouldImport
		if there.path != "" {
			how = wouldCompare
		}
		im.told(c, how, im.proven(c.ID, proof))
		return nil
	}
	stored, err := c.Put(ctx, im.store, func(contents sources.Contents) (sources.Proof, error) {
		return proof, there.compare(contents, im.replace)
	})
	how := imported
	switch {
	case errors.Is(err, errSame):
		how, stored = alreadyThere, im.proven(c.ID, proof)
		stored.Dir, stored.H1 = there.path, there.h1
	case err != nil:
		return err
	case there.path != "":
		how = replaced
	}
	im.told(c, how, stored)
	return nil
}

// proven returns a package with what was proved about it.
func (im *importing) proven(id sources.PackageID, proof sources.Proof) sources.Stored {
	return sources.Stored{ID: id, Proof: proof, Report: im.judge().Report(id.Provider, proof)}
}

// importedPackage is a package in JSON.
type importedPackage struct {
	ui.PackageID
	How string `json:"how"`
	ui.Verification
	Kind     string       `json:"kind"`
	Path     string       `json:"path"`
	Within   string       `json:"within,omitempty"`
	Inferred ui.PackageID `json:"inferred"`
	Place    string       `json:"place,omitempty"`
	H1       string       `json:"h1,omitempty"`
}

// told prints the result for a candidate.
func (im *importing) told(c legacy.Candidate, how installer.How, s sources.Stored) {
	p := importedPackage{
		PackageID: ui.InJSON(c.ID), How: string(how), Verification: ui.VerificationOf(s.Report), Kind: string(c.Kind), Path: c.Path, Within: c.Within,
		Inferred: ui.PackageID(c.Inferred), Place: s.Dir, H1: string(s.H1),
	}
	mark := ui.Span{Text: " +", Paint: ui.Added}
	switch how {
	case alreadyThere:
		im.sum.There++
		mark = ui.Span{Text: "  "}
	case replaced, wouldCompare:
		mark = ui.Span{Text: " ~", Paint: ui.Changed}
		fallthrough
	default:
		im.sum.Packages++
	}
	if how == alreadyThere && !im.out.JSON && im.out.Level != ui.Verbose {
		return
	}
	im.rows = append(im.rows, ui.Row{Value: p, Cells: []ui.Span{
		mark, {Text: im.out.Name(c.ID.Provider), Paint: ui.Bold}, {Text: c.ID.Version.String()}, {Text: c.ID.Platform.String()},
		{Text: ui.VerifiedAs(s.Report)}, {Text: "from " + im.out.Shorten(c.Where()), Paint: ui.Faint},
		{Text: fmt.Sprintf("(address from %s, version from %s, platform from %s)", p.Inferred.Provider, p.Inferred.Version, p.Inferred.Platform), Paint: ui.Faint},
	}})
}

// importCounts are the totals of an import, in JSON.
type importCounts struct {
	Packages int  `json:"packages"` // imported or replaced, or that would be
	There    int  `json:"already_there"`
	Skipped  int  `json:"skipped"` // files and directories that are no providers
	Failed   int  `json:"failed"`
	DryRun   bool `json:"dry_run,omitempty"`
}

// showFound writes what became of the packages, and the sum of it.
func (im *importing) showFound() {
	im.out.Grid("imported", []ui.Column{{}, {Shorten: true}, {}, {Drop: 1}, {Drop: 2}, {Drop: 3}, {Drop: 4}}, im.rows)
	im.out.Summary(im.sum)
	text := "Imported "
	if im.sum.DryRun {
		text = "Would import "
	}
	text += ui.Count(im.sum.Packages, "package") + there(im.sum.There)
	if im.sum.Skipped > 0 {
		text += fmt.Sprintf("; %d skipped", im.sum.Skipped)
	}
	if im.sum.Failed > 0 {
		text += fmt.Sprintf("; %d failed", im.sum.Failed)
	}
	if im.sum.Packages+im.sum.There > 0 { // else the errors say it all
		im.out.Conclude("%s", text)
	}
}

// passed says what was skipped.
func (im *importing) passed(all []legacy.Passed) {
	const most = 50 // those beyond are of the same sort, as a rule
	for i, p := range all {
		switch {
		case im.out.JSON:
			im.out.Object("passed", struct {
				Path   string `json:"path"`
				Reason string `json:"reason"`
			}{p.Path, p.Reason})
		case i < most:
			im.out.Say("%s", p)
		}
	}
	if more := len(all) - most; more > 0 {
		im.out.Say("and %d more skipped", more)
	}
}
