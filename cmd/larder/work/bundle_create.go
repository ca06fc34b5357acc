package work

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// A BundleRequest says what to bundle besides packages, and how.
type BundleRequest struct {
	FillRequest
	Mirror  string // directory of the mirror to take everything from, as typed; may be empty
	Since   string // manifest, bundle or mirror of the receiver, as typed; may be empty
	Modules bool   // the modules of root modules
	Engine  string // path of an engine, as typed; may be empty
}

// CreateBundle writes a bundle to the file that is one of the arguments. Without a mirror it first makes a
// temporary one beside the file, on the same file system. So there is only one way to make bundles: from
// a mirror.
func CreateBundle(ctx context.Context, s *Session, request BundleRequest) error {
	f := newFilling(s, request.FillRequest)
	typed, others, err := f.pick(target{"bundle create", "the FILE to write", mayBeBundle}, request.Arguments)
	if err != nil {
		return err
	}
	if err := f.take(others); err != nil {
		return err
	}
	if request.Mirror != "" && len(f.addresses) > 0 {
		return ErrAddresses
	}
	opts := bundle.CreateOptions{DryRun: f.flags.DryRun}
	if opts.Payload, err = f.gatherPayload(ctx, request); err != nil {
		return err
	}
	file, err := f.parentOf(typed)
	if err != nil {
		return err
	}
	m, err := f.here(ctx)
	if err != nil {
		return err
	}
	if opts.Records, err = m.records(); err != nil {
		return err
	}
	if request.Since != "" {
		since, err := Existing(f.workDir, request.Since, FileOrDir, needReceiver)
		if err != nil {
			return err
		}
		if opts.Since, err = receiverAt(ctx, since, opts.Records, f.output.WarnOf); err != nil {
			return err
		}
	}
	if request.Mirror != "" {
		dir, err := f.existing(request.Mirror)
		if err != nil {
			return err
		}
		return hintDamage(m.bundle(ctx, dir, file, opts), request.Mirror)
	}
	return f.bundleSelected(ctx, m, file, typed, opts)
}

// gatherPayload reads what a request adds to a bundle besides packages.
func (w *wanted) gatherPayload(ctx context.Context, request BundleRequest) ([]bundle.Payload, error) {
	engine := ""
	if request.Engine != "" {
		engine = Absolute(w.workDir, request.Engine)
	}
	var roots []bundle.Root
	if request.Modules {
		var err error
		if roots, err = w.bundleRoots(ctx); err != nil {
			return nil, err
		}
	}
	payload, err := bundle.Gather(ctx, roots, engine, w.output.WarnOf)
	if err == nil && request.Modules && !slices.ContainsFunc(payload, func(p bundle.Payload) bool { return p.Kind == bundle.RootModules }) {
		w.output.WarnHint("terraform get or tofu get installs modules", "no modules are installed for the root modules")
	}
	return payload, err
}

// bundleSelected bundles what the filling selects, without what the receiver has, if there is one.
func (f *filling) bundleSelected(ctx context.Context, m *rootModule, file, typed string, opts bundle.CreateOptions) error {
	dir, done, err := temporaryMirror(file, opts.DryRun, f.output.WarnOf)
	if err != nil {
		return err
	}
	defer done()
	opts.Records = store.Records{Key: opts.Records.Key} // no record outlives the mirror
	err = f.runMirror(ctx, func() (*builder.Builder, error) {
		return builder.Open(ctx, dir, m.sharing(builder.Options{
			Records: opts.Records, Judge: m.judge(), ReadOnly: opts.DryRun, Warn: f.output.WarnOf, Place: "the bundle", Temporary: true,
		}))
	}, skipsFor(opts.Since), func(_ *builder.Builder, sum report.FillSum) error {
		if opts.DryRun {
			tellReceived(f.output, opts.Since, sum, opts.Payload)
		}
		return nil
	})
	if disk.IsFull(err) {
		return fullBundle(err, file, typed)
	}
	if err == nil && f.empty {
		err = sources.WithHint(errors.New("nothing to bundle: no provider is required here"),
			"run it in a root module, or name the providers: larder bundle create %s hashicorp/aws", typed)
	}
	if err != nil || opts.DryRun {
		return err
	}
	return m.bundle(ctx, dir, file, opts)
}

// fullBundle explains the errors of err that are about a full disk, which name the temporary mirror.
func fullBundle(err error, file, typed string) error {
	errs := sources.Errors(err)
	for i, err := range errs {
		full, ok := errors.AsType[*disk.FullError](err)
		if !ok {
			continue
		}
		full.Path = filepath.Dir(file)
		errs[i] = sources.WithHint(err, "until it is complete, a bundle takes the space of its packages twice; larder bundle create %s --mirror DIR needs it once", typed)
	}
	return errors.Join(errs...)
}

// mayBeBundle reports whether path is a file that may be replaced with a bundle, and not a
// file that lists required providers.
func mayBeBundle(path string, info os.FileInfo) bool {
	return !info.IsDir() && !listsProviders(path)
}

// ErrAddresses is the usage error for addresses of providers beside a mirror to bundle.
var ErrAddresses = report.Usage(errors.New("--mirror takes every package there and cannot be combined with provider addresses"))

// temporaryMirror creates a directory for a mirror beside the file. The function done
// removes it, and the next run removes those of killed runs. If nothing is to be written, the
// directory does not exist.
func temporaryMirror(file string, dryRun bool, warn func(error)) (dir string, done func(), err error) {
	if dryRun {
		return file + ".larder-mirror", func() {}, nil
	}
	in, err := disk.Open(filepath.Dir(file))
	if err != nil {
		return "", nil, err
	}
	const prefix = ".larder-bundle-"
	in.Sweep(prefix, time.Now(), warn)
	scratch, err := in.Scratch(prefix)
	if err != nil {
		in.Close()
		return "", nil, cannotWrite(filepath.Dir(file), err)
	}
	return scratch.Path("mirror"), func() { scratch.Close(); in.Close() }, nil
}

// bundle writes the mirror in dir to a file.
func (m *rootModule) bundle(ctx context.Context, dir, file string, opts bundle.CreateOptions) error {
	opts.Check, opts.Judge, opts.Warn = m.known(dir), m.bundleJudge(), m.out.WarnOf
	var packages []sources.Stored
	opts.Accept = func(all []bundle.Verified) error {
		packages = bundledAs(all)
		return m.require(ctx, packages)
	}
	created, err := report.Work(m.out, func(progress report.Report) (bundle.Created, error) {
		opts.Report = progress
		return bundle.Create(ctx, dir, file, opts)
	})
	if gone := (*bundle.ArchivesError)(nil); errors.As(err, &gone) {
		return m.explainArchives(gone)
	}
	if err != nil {
		return err
	}
	m.warnUnusedKeys()
	if !opts.DryRun {
		m.out.Private(m.shown(file), created.Private)
	}
	for _, p := range report.CheckedOf(packages) {
		m.out.Tell(p)
	}
	manifest := created.Manifest
	m.out.Payload(manifest.Payload, bundle.Added)
	m.out.BundledRemovals(manifest.Removed)
	m.out.Show(report.BundleOf(file, manifest, created.Size))
	did := "Wrote"
	switch {
	case opts.DryRun:
		did = "Would write"
	case created.Unchanged:
		did = m.shown(file) + " is unchanged:"
	}
	if len(manifest.Packages)+len(manifest.Payload)+len(manifest.Removed) == 0 {
		m.out.Say("The receiver has everything already")
	}
	m.out.Summary(report.BundleSumOf(manifest, opts.DryRun))
	m.out.Say("%s %s", did, report.ContentsText(manifest))
	return nil
}

// explainArchives adds hints on how to get the archives of a mirror or a plugin cache.
func (m *rootModule) explainArchives(gone *bundle.ArchivesError) error {
	var addresses, platforms []string
	for _, id := range gone.Packages {
		addresses = append(addresses, id.Provider.String()+"@"+id.Version.String())
		platforms = append(platforms, id.Platform.String())
	}
	slices.Sort(platforms)
	addresses, platforms = slices.Compact(addresses), slices.Compact(platforms)
	const few = 5
	if len(addresses) > few {
		addresses = append(addresses[:few], "…")
	}
	what := strings.Join(addresses, " ") + " --platform " + strings.Join(platforms, ",")
	fetch, carry := "mirror sync "+m.shown(gone.Dir)+" "+what, "copy the directory, which is a filesystem mirror"
	if cachedir.IsCache(gone.Dir) {
		fetch, carry = "bundle create FILE "+what, "larder cache export FILE -R writes the packages of root modules for larder cache import"
	}
	hinted := sources.WithHint(errors.New(gone.Error()), "without a network: %s", carry)
	hinted = sources.WithHint(hinted, "to fetch the archives: larder %s", fetch)
	return errors.Join(append([]error{hinted}, gone.Unwrap()...)...)
}
