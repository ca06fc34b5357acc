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
	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/fsmirror/legacy"
	"github.com/larder-cli/larder/sources"
)

// An importing is a run of larder import.
type importing struct {
	*site.Root
	dir     string // of the mirror
	request LegacyRequest
	paths   []string
	find    legacy.Options

	store  *builder.Builder
	exists bool // the mirror did, before the import
	sum    report.ImportSum
	rows   []report.Imported // one for each package
}

// A LegacyRequest says which providers to import into a mirror, and facts that file names do not contain.
type LegacyRequest struct {
	Paths     []string // as typed
	To        string   // directory of the mirror, as typed
	As        string   // ADDRESS@VERSION of all providers, as typed; may be empty
	Namespace string   // of providers without one, as typed; may be empty
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
	im.Out.WarnAll(found.Warnings)
	im.sum = report.ImportSum{Skipped: len(found.Skipped), Failed: len(found.Problems), DryRun: im.Flags.DryRun}
	im.Out.Skipped(found.Skipped)
	if len(found.Candidates) == 0 && len(found.Problems) == 0 {
		return im.nothing(ctx)
	}
	if len(found.Candidates) > 0 {
		err = im.run(ctx, found.Candidates)
	}
	im.sum.Failed += len(sources.Errors(err))
	report.Grid(im.Out, im.rows)
	im.Out.Summary(im.sum)
	if im.sum.Packages+im.sum.There > 0 { // else the errors say it all
		im.Out.Conclude("%s", im.sum.Text())
	}
	return errors.Join(append(found.Problems, err)...)
}

// nothing returns the error for paths without a provider to import. A mirror has providers in the layout of its own.
func (im *importing) nothing(ctx context.Context) error {
	err := fmt.Errorf("there is no provider to import in %s", strings.Join(im.request.Paths, ", "))
	for i, path := range im.paths {
		if there, _ := im.Mirror(path).Providers(ctx); len(there) > 0 {
			from, to := site.ShellQuoted(im.request.Paths[i]), site.ShellQuoted(im.request.To)
			err = sources.WithHint(err, "to copy the mirror's packages, run %s, and then %s",
				im.Again("bundle create packages.tar --mirror "+from), im.Again("bundle import packages.tar "+to))
			return sources.WithHint(err, "%s is a mirror already: %s installs from it",
				from, im.Again("install --plugin-dir "+from))
		}
	}
	return sources.WithHint(err, "name a provider's executable or zip file, or a directory that contains some")
}

// newImporting checks a request. The mirror must not be below a path to import
// from, or the import would find its own packages.
func newImporting(ctx context.Context, s *site.Site, request LegacyRequest) (*importing, error) {
	m, err := s.Here(ctx)
	if err != nil {
		return nil, err
	}
	im := &importing{Root: m, dir: site.Absolute(m.Dir, request.To), request: request}
	if err := job.NoCache(im.Root, im.dir); err != nil {
		return nil, err
	}
	for _, path := range request.Paths {
		path, err := site.Existing(m.Dir, path, site.FileOrDir,
			"name a provider's executable or zip file, or a directory that contains some")
		if err != nil {
			return nil, err
		}
		if site.Within(im.dir, path) {
			return nil, unchanging(im.dir, path)
		}
		if b, _ := bundle.Open(path); b != nil {
			err := sources.WithHint(fmt.Errorf("%s is a bundle", path),
				"to add its packages to the mirror, run larder bundle import %s %s",
				site.ShellQuoted(im.Shown(path)), site.ShellQuoted(request.To))
			return nil, errors.Join(err, b.Close())
		}
		im.paths = append(im.paths, path)
	}
	im.find = legacy.Options{Engine: m.Config.Engine, Platform: request.Platform}
	if request.As != "" {
		if im.find.As, err = parseAs(request.As, m.Config.Engine); err != nil {
			return nil, report.Usage(fmt.Errorf("--as %w", err))
		}
	}
	if request.Namespace != "" {
		p, err := sources.ParseProvider(request.Namespace+"/any", m.Config.Engine)
		if err != nil || p.Legacy() || p.BuiltIn() {
			return nil, report.Usage(fmt.Errorf("--namespace is NAMESPACE or HOST/NAMESPACE, not %q", request.Namespace))
		}
		im.find.Prefix = string(p.Host) + "/" + p.Namespace
	}
	return im, nil
}

// parseAs parses ADDRESS@VERSION. The namespace is required, because most old providers
// without a namespace are not from HashiCorp.
func parseAs(text string, e sources.Engine) (*sources.Release, error) {
	if address, _, ok := sources.CutVersion(text); !ok || !strings.Contains(address, "/") {
		return nil, fmt.Errorf("is [HOST/]NAMESPACE/TYPE@VERSION, not %q", text)
	}
	p, v, err := job.ParseRelease(text, e)
	switch {
	case err != nil:
		return nil, err
	case p.Legacy(), p.BuiltIn():
		return nil, fmt.Errorf("%s is not a provider that can be installed", p)
	case v.String() == "0.0.0":
		return nil, errors.New("terraform and tofu never choose version 0.0.0")
	}
	return &sources.Release{Provider: p, Version: v}, nil
}

// apart fails if packages would be written to a part of the mirror that is also imported from.
func (im *importing) apart(candidates []legacy.Candidate) error {
	for _, c := range candidates {
		home := filepath.Join(im.dir, filepath.FromSlash(c.ID.Provider.String()))
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

// run imports candidates.
func (im *importing) run(ctx context.Context, candidates []legacy.Candidate) (err error) {
	_, statErr := os.Stat(im.dir)
	im.exists = statErr == nil
	opts := builder.Options{Unpacked: im.request.Unpacked, ReadOnly: im.Flags.DryRun}
	im.store, err = job.OpenMirror(ctx, im.Root, im.dir, opts)
	if err != nil {
		return err
	}
	defer func() {
		_, abortErr := im.store.Abort()
		err = errors.Join(err, abortErr)
	}()
	if err := im.vouch(ctx, candidates); err != nil {
		return err
	}
	news, refused := make([]bool, len(candidates)), make([]error, len(candidates))
	var provable []sources.Stored
	for i := range candidates {
		if news[i], refused[i] = im.prove(ctx, &candidates[i]); refused[i] == nil {
			provable = append(provable, im.proven(candidates[i]))
		}
	}
	if err := im.Accept(ctx, provable); err != nil {
		return hintKeys(err)
	}
	var errs []error
	for i, c := range candidates {
		errs = append(errs, im.importOne(ctx, c, news[i], refused[i]))
	}
	if !im.Flags.DryRun {
		errs = append(errs, hintRepair(im.store.Finish(ctx), im.dir))
	}
	return errors.Join(errs...)
}

// importOne imports a candidate unless the mirror already has it. Without --replace, it refuses a package with
// different contents. News reports whether the mirror lacks its evidence, and refused is why it can't be imported.
func (im *importing) importOne(ctx context.Context, c legacy.Candidate, news bool, refused error) error {
	there, other, err := im.there(ctx, c.ID)
	if err == nil && refused != nil {
		err = &sources.PackageError{ID: c.ID, Source: c.Path, Err: refused}
	}
	if err != nil {
		return err
	}
	stored, how := im.proven(c), bundle.Added
	if there.Dir != "" {
		h1, err := c.H1(ctx)
		if err != nil {
			return err
		}
		if there, err = im.store.Read(ctx, there); err != nil {
			return err
		}
		switch same := h1 == there.H1; {
		case same && !news:
			stored.Dir, stored.H1 = there.Dir, there.H1
			im.told(c, bundle.Known, stored)
			return nil
		case other:
			err := fmt.Errorf("%s exists, in the other layout", there.Dir)
			return sources.WithHint(err, "keep its layout: use --unpacked only if it is a directory")
		case same: // stored again, since evidence is stored with a package
			how = bundle.Vouched
		case !im.request.Replace:
			err := sources.InPackage(c.ID, fmt.Errorf("%s exists, with different contents", there.Dir))
			return sources.WithHint(err, "find out which package is right; to replace the one in the mirror, add --replace")
		default:
			how = bundle.Replaced
		}
	}
	if !im.Flags.DryRun {
		if stored, err = c.Put(ctx, im.store); err != nil {
			return err
		}
	}
	im.told(c, how, stored)
	return nil
}

// there returns the package that the mirror already has, and whether it is in the other layout. One that can't be used
// has no hash.
func (im *importing) there(ctx context.Context, id sources.PackageID) (s sources.Stored, other bool, err error) {
	if !im.exists {
		return s, false, nil
	}
	found, err := fsmirror.New(im.dir, fsmirror.Options{Engine: im.Config.Engine}).Package(ctx, id)
	if errors.Is(err, sources.ErrNotFound) {
		return s, false, nil
	}
	if err != nil {
		return s, false, err
	}
	s, err = im.store.Find(ctx, fsmirror.Package{ID: id, Location: found.Location})
	if err != nil && ctx.Err() == nil {
		im.Output.WarnOf(fmt.Errorf("the mirror's package is unusable: %w", err))
		err = nil
	}
	s.Dir = found.Location.Archive + found.Location.Dir
	return s, (found.Location.Dir != "") != im.request.Unpacked, err
}

// proven returns a candidate as it would be stored.
func (im *importing) proven(c legacy.Candidate) sources.Stored {
	return sources.Stored{ID: c.ID, Proof: c.Proof, Report: im.Judge().Report(c.ID.Provider, c.Proof)}
}

// told notes the result for a candidate.
func (im *importing) told(c legacy.Candidate, how bundle.How, s sources.Stored) {
	switch how {
	case bundle.Vouched:
		im.sum.Evidence++
		im.sum.There++
	case bundle.Known:
		im.sum.There++
	default:
		im.sum.Packages++
	}
	im.rows = append(im.rows, report.ImportedFrom(c, how, im.Flags.DryRun, s))
}
