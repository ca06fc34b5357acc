package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
		Usage:     "put providers that lie around into a mirror",
		ArgsUsage: "PATH... --to DIR [FLAG...]",
		Description: "A PATH is an executable, a zip, what terraform-bundle made, or a directory with\n" +
			"any of them, as Terraform 0.12 has it. Each line tells what follows from what.\n" +
			"Nothing at a PATH is changed, and no connection is opened.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "the mirror in `DIR`, which is made if need be"},
			&cli.StringFlag{Name: "namespace", Usage: "`[HOST/]NAMESPACE` of whatever does not tell its own"},
			&cli.StringFlag{Name: "as", Usage: "`ADDRESS@VERSION` of everything, whatever its name"},
			&cli.StringFlag{Name: "platform", Usage: "`OS_ARCH` of whatever does not tell its own"},
			&cli.BoolFlag{Name: "unpacked", Usage: "lay packages out as directories, not as archives"},
			trustKeyFlag(),
			&cli.BoolFlag{Name: "replace", Usage: "replace packages in the mirror that differ"},
			dryRunFlag("tell what would be imported, and write nothing"),
		},
		Action: func(c *cli.Context) error { return importAll(c, out) },
	}
}

// An importing is one run of the command.
type importing struct {
	*rootModule
	to       string // directory of the mirror
	paths    []string
	find     legacy.Options
	unpacked bool
	replace  bool

	mirror *fsmirror.Mirror // what was there before; nil if there was no directory
	store  *builder.Builder // nil with --dry-run
}

// importAll finds all providers below the paths before it imports any: what is refused,
// is refused before anything was written.
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
	im.passed(found.Passed)
	if len(found.Candidates) == 0 && len(found.Problems) == 0 {
		return errors.New("no provider found there")
	}
	there, err := im.importFound(c.Context, found.Candidates)
	if len(there) > 0 {
		im.advise(there)
	}
	return errors.Join(append(found.Problems, err)...)
}

// newImporting reads the arguments and flags. The mirror must not lie below a path that
// is imported from, or the import would find its own packages.
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

// readOptions reads the flags that say what names do not.
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

// parseAs parses ADDRESS@VERSION. The namespace is required: an old provider
// without one is rarely HashiCorp's.
func parseAs(text string, e sources.Engine) (*legacy.As, error) {
	address, version, ok := strings.Cut(text, "@")
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

// apart refuses to write packages where some are imported from, in a part of the
// mirror itself.
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

// unchanging is the error of an import that would write to where it reads.
func unchanging(dir, path string) error {
	err := fmt.Errorf("%s is in %s, which import must not change", dir, path)
	return usageError{sources.WithHint(err, "choose another directory with --to")}
}

// importFound imports candidates, and returns those that are in the mirror then.
func (im *importing) importFound(ctx context.Context, candidates []legacy.Candidate) (there []legacy.Candidate, err error) {
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
	for _, c := range candidates {
		for _, warning := range c.Warnings {
			im.out.Warn("%s: %s", c.Where(), warning)
		}
		if err := im.importOne(ctx, c); err != nil {
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

// How a mirror came by a package, or would, besides those that were alreadyThere.
const (
	imported     installer.How = "imported"
	replaced     installer.How = "replaced"
	wouldImport  installer.How = "would be imported"
	wouldCompare installer.How = "would be compared with what is there"
)

// errSame ends a delivery of what is there already.
var errSame = errors.New("there already")

// importOne imports a candidate unless the mirror has it already. A package that differs
// from the mirror's is an error without --replace.
func (im *importing) importOne(ctx context.Context, c legacy.Candidate) error {
	there, err := im.standing(ctx, c.ID)
	if err != nil {
		return err
	}
	verdict, err := im.vouch(ctx, &c)
	if err != nil {
		return &sources.PackageError{ID: c.ID, Source: c.Where(), Err: err}
	}
	if im.flags.dryRun {
		how := wouldImport
		if there.path != "" {
			how = wouldCompare
		}
		im.told(c, how, sources.Stored{Verdict: verdict})
		return nil
	}
	stored, err := c.Put(ctx, im.store, func(contents sources.Contents) (sources.Verdict, error) {
		return verdict, there.compare(contents, im.replace)
	})
	how := imported
	switch {
	case errors.Is(err, errSame):
		how, stored = alreadyThere, sources.Stored{Dir: there.path, H1: there.h1, Verdict: verdict}
	case err != nil:
		return err
	case there.path != "":
		how = replaced
	}
	im.told(c, how, stored)
	return nil
}

// importedPackage is a package in JSON.
type importedPackage struct {
	ui.PackageID
	How      string       `json:"how"`
	Verdict  string       `json:"verdict"`
	Kind     string       `json:"kind"`
	Path     string       `json:"path"`
	Within   string       `json:"within,omitempty"`
	Inferred ui.PackageID `json:"inferred"`
	Place    string       `json:"place,omitempty"`
	H1       string       `json:"h1,omitempty"`
}

// told writes what became of a candidate.
func (im *importing) told(c legacy.Candidate, how installer.How, s sources.Stored) {
	p := importedPackage{
		PackageID: ui.InJSON(c.ID), How: string(how), Verdict: s.Verdict.String(), Kind: string(c.Kind), Path: c.Path, Within: c.Within,
		Inferred: ui.PackageID(c.Inferred), Place: s.Dir, H1: string(s.H1),
	}
	im.out.Result("imported", p, "%s  %s, %s, from %s (address from %s, version from %s, platform from %s)",
		c.ID, how, s.Verdict, im.out.Shorten(c.Where()), p.Inferred.Provider, p.Inferred.Version, p.Inferred.Platform)
}

// passed tells what was passed over.
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
		im.out.Say("and %d more are skipped", more)
	}
}
