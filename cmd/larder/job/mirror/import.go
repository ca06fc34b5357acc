package mirror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/fsmirror/legacy"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
)

// An importing is a run of larder import.
type importing struct {
	*site.Root
	to      legacy.Target
	paths   []string
	find    legacy.Options
	replace bool

	store *builder.Builder // nil with --dry-run
	sum   report.LegacySum
	rows  []report.Legacy // one for each package
}

// A LegacyRequest says which providers to import into a mirror, and facts that file names do not contain.
type LegacyRequest struct {
	Paths     []string // as typed
	To        string   // directory of the mirror, as typed
	As        *string  // ADDRESS@VERSION of all providers, as typed; may be nil
	Namespace *string  // of providers without one, as typed; may be nil
	Platform  sources.Platform
	Key       string // file with the public key of signed checksums beside the archives, as typed; may be empty
	SignKey   string // file with a private key that signs the archives without a signature, as typed; may be empty
	Unpacked  bool
	Replace   bool
}

// Import finds all providers below the paths before it imports any, so that usage errors
// are reported before it writes anything.
func Import(ctx context.Context, s *site.Site, request LegacyRequest) error {
	im, err := newImporting(ctx, s, request)
	if err != nil {
		return err
	}
	found, err := legacy.Find(ctx, im.paths, im.find)
	if err != nil {
		return err
	}
	if err := im.apart(found.Candidates); err != nil {
		return err
	}
	if err := im.vouch(ctx, found.Candidates, request); err != nil {
		return err
	}
	im.sum = report.LegacySum{Skipped: len(found.Skipped), Failed: len(found.Problems), DryRun: im.Flags.DryRun}
	im.Out.Skipped(found.Skipped)
	if len(found.Candidates) == 0 && len(found.Problems) == 0 {
		err := fmt.Errorf("there is no provider in %s", strings.Join(request.Paths, ", "))
		return sources.WithHint(err, "name a provider's executable or zip file, or a directory that contains some")
	}
	there, err := im.importFound(ctx, found.Candidates)
	im.sum.Failed += len(sources.Errors(err))
	report.Grid(im.Out, im.rows)
	im.Out.Summary(im.sum)
	if im.sum.Packages+im.sum.There > 0 { // else the errors say it all
		im.Out.Conclude("%s", im.sum.Text())
	}
	if len(there) > 0 {
		adviseImport(im.Root, im.to.Dir, there)
	}
	return errors.Join(append(found.Problems, err)...)
}

// newImporting checks a request. The mirror must not be below a path to import
// from, or the import would find its own packages.
func newImporting(ctx context.Context, s *site.Site, request LegacyRequest) (*importing, error) {
	m, err := s.Here(ctx)
	if err != nil {
		return nil, err
	}
	im := &importing{Root: m, to: legacy.Target{Dir: site.Absolute(m.Dir, request.To), Unpacked: request.Unpacked}, replace: request.Replace}
	if err := job.NoCache(im.Root, im.to.Dir); err != nil {
		return nil, err
	}
	for _, path := range request.Paths {
		path, err := site.Existing(m.Dir, path, site.FileOrDir, "name a provider's executable or zip file, or a directory that contains some")
		if err != nil {
			return nil, err
		}
		if site.Within(im.to.Dir, path) {
			return nil, unchanging(im.to.Dir, path)
		}
		if err := im.otherFile(path, request); err != nil {
			return nil, err
		}
		im.paths = append(im.paths, path)
	}
	im.find = legacy.Options{Engine: m.Config.Engine, Platform: request.Platform}
	if request.As != nil {
		if im.find.As, err = parseAs(*request.As, m.Config.Engine); err != nil {
			return nil, report.Usage(fmt.Errorf("--as %w", err))
		}
	}
	if request.Namespace != nil {
		p, err := sources.ParseProvider(*request.Namespace+"/any", m.Config.Engine)
		if err != nil || p.Legacy() || p.BuiltIn() {
			return nil, report.Usage(fmt.Errorf("--namespace is NAMESPACE or HOST/NAMESPACE, not %q", *request.Namespace))
		}
		im.find.Prefix = string(p.Host) + "/" + p.Namespace
	}
	return im, nil
}

// otherFile returns an error for a file that another command imports.
func (im *importing) otherFile(path string, request LegacyRequest) error {
	file := site.ShellQuoted(im.Shown(path))
	b, _ := bundle.Open(path)
	if b == nil {
		return nil
	}
	err := fmt.Errorf("%s is a bundle", path)
	return errors.Join(sources.WithHint(err, "to add its packages to the mirror, run larder bundle import %s %s", file, site.ShellQuoted(request.To)), b.Close())
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
		home := filepath.Join(im.to.Dir, filepath.FromSlash(c.ID.Provider.String()))
		for _, path := range im.paths {
			if site.Within(home, path) {
				return unchanging(home, path)
			}
		}
	}
	return nil
}

// unchanging returns the error for an import that would write to a directory it reads.
func unchanging(dir, path string) error {
	err := fmt.Errorf("%s is in %s, and import doesn't change the files that it reads", dir, path)
	return report.Usage(sources.WithHint(err, "choose another directory with --to"))
}

// importFound imports candidates, and returns those that are then in the mirror.
func (im *importing) importFound(ctx context.Context, candidates []legacy.Candidate) (there []legacy.Candidate, err error) {
	proofs, refused := make([]sources.Proof, len(candidates)), make([]error, len(candidates))
	var provable []sources.Stored
	for i := range candidates {
		if proofs[i], refused[i] = im.to.Prove(ctx, &candidates[i], im.Judge()); refused[i] == nil {
			provable = append(provable, im.proven(candidates[i].ID, proofs[i]))
		}
	}
	if err := im.Accept(ctx, provable); err != nil {
		return nil, err
	}
	if !im.Flags.DryRun && len(candidates) > 0 {
		if im.store, err = job.OpenMirror(ctx, im.Root, im.to.Dir, builder.Options{Unpacked: im.to.Unpacked}); err != nil {
			return nil, err
		}
		defer func() {
			_, abortErr := im.store.Abort()
			err = errors.Join(err, abortErr)
		}()
	}
	if _, err := os.Stat(im.to.Dir); err == nil {
		im.to.Mirror = fsmirror.New(im.to.Dir, fsmirror.Options{Engine: im.Config.Engine})
	}
	var errs []error
	for i, c := range candidates {
		if err := im.importOne(ctx, c, proofs[i], refused[i]); err != nil {
			errs = append(errs, err)
			continue
		}
		there = append(there, c)
	}
	if im.store != nil {
		errs = append(errs, hintRepair(im.store.Finish(ctx), im.to.Dir))
	}
	return there, errors.Join(errs...)
}

// Origins of packages in a mirror, in addition to alreadyThere.
const (
	imported installer.How = "imported"
	replaced installer.How = "replaced"
	vouched  installer.How = job.AlreadyThere + ", signed checksums added"
)

// importOne imports a candidate unless the mirror already has it, with the evidence that came with it. Without
// --replace, it refuses a package with different contents.
func (im *importing) importOne(ctx context.Context, c legacy.Candidate, proof sources.Proof, refused error) error {
	there, err := im.to.Standing(ctx, c.ID, im.Output.WarnOf)
	if err != nil {
		return err
	}
	if refused != nil {
		return &sources.PackageError{ID: c.ID, Source: c.Path, Err: refused}
	}
	has := false
	check := func(contents sources.Contents) (sources.Proof, error) {
		has = there.Has(contents)
		return proof, there.Check(c, contents, im.replace)
	}
	stored, err := im.put(ctx, c, there, check)
	how := imported
	switch {
	case errors.Is(err, legacy.ErrSame):
		how, stored = job.AlreadyThere, im.proven(c.ID, proof)
		stored.Dir, stored.H1 = there.Path, there.H1
	case err != nil:
		return err
	case has: // stored again, since evidence is stored with a package
		how = vouched
	case there.Path != "":
		how = replaced
	}
	im.told(c, how, stored)
	return nil
}

// put stores a candidate, or only checks it with --dry-run.
func (im *importing) put(ctx context.Context, c legacy.Candidate, there legacy.Standing, check func(sources.Contents) (sources.Proof, error)) (stored sources.Stored, err error) {
	if !im.Flags.DryRun {
		return c.Put(ctx, im.store, check)
	}
	var contents sources.Contents
	if there.Path != "" { // else there is nothing to compare with
		if contents, err = c.Contents(ctx); err != nil {
			return stored, err
		}
	}
	proof, err := check(contents)
	return im.proven(c.ID, proof), sources.InPackage(c.ID, err)
}

// proven returns a package with what was proved about it.
func (im *importing) proven(id sources.PackageID, proof sources.Proof) sources.Stored {
	return sources.Stored{ID: id, Proof: proof, Report: im.Judge().Report(id.Provider, proof)}
}

// told notes the result for a candidate.
func (im *importing) told(c legacy.Candidate, how installer.How, s sources.Stored) {
	mark := ui.Added.Of(" +")
	switch how {
	case job.AlreadyThere:
		im.sum.There++
		mark = ui.Plain.Of("  ")
	case vouched:
		im.sum.There++
		im.sum.Evidence++
		mark = ui.Changed.Of(" ~")
	case replaced:
		mark = ui.Changed.Of(" ~")
		fallthrough
	default:
		im.sum.Packages++
	}
	im.rows = append(im.rows, report.LegacyOf(c, im.did(how), s, mark, how == job.AlreadyThere))
}

// did says what was done with a package, or would be with --dry-run.
func (im *importing) did(how installer.How) string {
	switch {
	case !im.Flags.DryRun || how == job.AlreadyThere:
		return string(how)
	case how == vouched:
		return string(job.AlreadyThere) + ", signed checksums would be added"
	}
	return "would be " + string(how)
}
