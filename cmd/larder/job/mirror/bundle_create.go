package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/job"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
	"github.com/larder-cli/larder/sources/store"
)

// A BundleRequest says what to bundle besides packages, and how.
type BundleRequest struct {
	job.FillRequest
	Mirror  string // directory of the mirror to take everything from, as typed; may be empty
	Since   string // manifest, bundle or mirror of the receiver, as typed; may be empty
	Modules bool   // the modules of root modules
	Engine  string // path of an engine, as typed; may be empty
	Force   bool   // replace an existing file
	SignKey string // file with a private key that signs the set of packages, as typed; may be empty
}

// CreateBundle writes a bundle to the file that is one of the arguments. Without a mirror it first makes a
// temporary one beside the file, on the same file system. So there is only one way to make bundles: from
// a mirror.
func CreateBundle(ctx context.Context, s *site.Site, request BundleRequest) error {
	f := job.NewFilling(s, request.FillRequest)
	target := job.Target{Command: "bundle create", What: "the FILE to write", Example: "usb.tar"}
	target.Is = func(path string, info os.FileInfo) bool { return !info.IsDir() && !job.ListsProviders(path) }
	typed, others, err := job.Pick(f.Wanted.Site, target, request.Arguments)
	if err != nil {
		return err
	}
	if err := f.Take(others); err != nil {
		return err
	}
	if request.Mirror != "" && len(f.Addresses) > 0 {
		return ErrAddresses
	}
	opts := bundle.CreateOptions{DryRun: f.Flags.DryRun}
	if opts.Sign, err = signWith(f.WorkDir, request.SignKey); err != nil {
		return err
	}
	if opts.Payload, err = gatherPayload(ctx, f.Wanted, request); err != nil {
		return err
	}
	file, err := f.ParentOf(typed)
	if err != nil {
		return err
	}
	if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() && !request.Force {
		return sources.WithHint(fmt.Errorf("%s already exists", typed), "choose another file, or replace it with --force")
	}
	m, err := f.Here(ctx)
	if err != nil {
		return err
	}
	if opts.Records, err = m.Records(); err != nil {
		return err
	}
	if request.Since != "" {
		since, err := site.Existing(f.WorkDir, request.Since, site.FileOrDir, needReceiver)
		if err != nil {
			return err
		}
		if opts.Since, err = receiverAt(ctx, since, opts.Records, f.Output.WarnOf); err != nil {
			return err
		}
	}
	if request.Mirror != "" {
		dir, err := job.Existing(f.Wanted.Site, request.Mirror)
		if err != nil {
			return err
		}
		if cachedir.IsCache(dir) {
			err := fmt.Errorf("%s is a plugin cache, which has no archives", request.Mirror)
			return sources.WithHint(err, "to fetch the archives, name the providers instead of --mirror")
		}
		return hintDamage(createBundle(ctx, m, dir, file, opts), request.Mirror)
	}
	return bundleSelected(ctx, f, m, file, typed, opts)
}

// gatherPayload reads what a request adds to a bundle besides packages.
func gatherPayload(ctx context.Context, w *job.Wanted, request BundleRequest) ([]bundle.Payload, error) {
	var roots []bundle.Root
	if request.Modules {
		var err error
		if roots, err = bundleRoots(ctx, w); err != nil {
			return nil, err
		}
	}
	engine := site.AbsoluteIfAny(w.WorkDir, request.Engine)
	payload, err := bundle.Gather(ctx, roots, engine, w.Output.WarnOf)
	isModules := func(p bundle.Payload) bool { return p.Kind == bundle.RootModules }
	if err == nil && request.Modules && !slices.ContainsFunc(payload, isModules) {
		w.Output.WarnHint("terraform get or tofu get installs modules", "no modules are installed for the root modules")
	}
	return payload, err
}

// bundleSelected bundles what the filling selects, without what the receiver has, if there is one.
func bundleSelected(
	ctx context.Context, f *job.Filling, m *site.Root, file, typed string, opts bundle.CreateOptions,
) error {
	dir, done, err := temporaryMirror(file, opts.DryRun, f.Output.WarnOf)
	if err != nil {
		return err
	}
	defer done()
	opts.Records, opts.Temporary = temporaryRecords(dir, opts.Records), true
	err = fillBundle(ctx, f, m, dir, opts, skipsFor(opts.Since))
	if disk.IsFull(err) {
		return fullBundle(err, file, "larder bundle create "+typed+" --mirror DIR needs it once")
	}
	if err == nil && f.Empty {
		err = sources.WithHint(errors.New("nothing to bundle: no provider is required here"),
			"run it in a root module, or name the providers: larder bundle create %s ADDRESS", typed)
	}
	if err != nil || opts.DryRun {
		return err
	}
	return createBundle(ctx, m, dir, file, opts)
}

// fillBundle puts what the filling selects into the temporary mirror of a bundle, without what the receiver has.
func fillBundle(
	ctx context.Context, f *job.Filling, m *site.Root, dir string, opts bundle.CreateOptions, skips job.Skipper,
) error {
	return f.RunMirror(ctx, func() (*builder.Builder, error) {
		return builder.Open(ctx, dir, m.Sharing(forBundle(m, opts)))
	}, skips, func(_ *builder.Builder, sum report.FillSum) error {
		if opts.DryRun {
			tellReceived(f.Output, opts.Since, sum, opts.Payload)
		}
		return nil
	})
}

// forBundle returns the options of the temporary mirror of a bundle.
func forBundle(m *site.Root, opts bundle.CreateOptions) builder.Options {
	return builder.Options{
		Records: opts.Records, Judge: m.Judge(), ReadOnly: opts.DryRun, Warn: m.Out.WarnOf, Place: "the bundle",
		Temporary: true,
	}
}

// fullBundle explains the errors of err that are about a full disk, which name the temporary mirror.
func fullBundle(err error, file, hint string) error {
	errs := sources.Errors(err)
	for i, err := range errs {
		full, ok := errors.AsType[*disk.FullError](err)
		if !ok {
			continue
		}
		full.Path = filepath.Dir(file)
		errs[i] = sources.WithHint(err, "until it is complete, a bundle takes the space of its packages twice; %s", hint)
	}
	return errors.Join(errs...)
}

// ErrAddresses is the usage error for addresses of providers beside a mirror to bundle.
var ErrAddresses = report.Usage(
	errors.New("--mirror takes every package there and cannot be combined with provider addresses"))

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
		return "", nil, site.CannotWrite(filepath.Dir(file), err)
	}
	return scratch.Path("mirror"), func() { scratch.Close(); in.Close() }, nil
}

// temporaryRecords returns the place for the records of a temporary mirror, which are removed with it. Only they tell
// which of its packages are approved.
func temporaryRecords(dir string, r store.Records) store.Records {
	return store.Records{Dir: filepath.Join(filepath.Dir(dir), "records"), Key: r.Key}
}

// createBundle writes the mirror in dir to a file.
func createBundle(ctx context.Context, m *site.Root, dir, file string, opts bundle.CreateOptions) error {
	opts.Judge, opts.Warn = m.BundleJudge(), m.Out.WarnOf
	if ours, _ := job.OwnPage(dir); ours {
		opts.Page = bundlePage
	}
	var packages []sources.Stored
	opts.Accept = func(all []sources.Stored) error {
		packages = all
		return cmp.Or(checkKnown(m, dir, all), m.Require(ctx, packages))
	}
	created, err := report.Work(m.Out, func(progress report.Report) (bundle.Created, error) {
		opts.Report = progress
		return bundle.Create(ctx, dir, file, opts)
	})
	if err != nil {
		return err
	}
	m.WarnUnusedKeys()
	manifest := created.Manifest
	sum := report.BundleSumOf(file, manifest, opts.DryRun)
	sum.Unchanged = created.Unchanged
	m.Out.Summary(sum)
	if manifest.Empty() && opts.Only == nil {
		m.Out.Say("The receiver has everything already, so %s is not written", m.Shown(file))
		return nil
	}
	if !opts.DryRun {
		m.Out.Private(m.Shown(file), created.Private)
	}
	for _, p := range report.CheckedOf(packages) {
		m.Out.Tell(p)
	}
	m.Out.Payload(manifest.Payload, bundle.Added)
	m.Out.BundledRemovals(manifest.Removed)
	m.Out.Sentence("%s  %s", m.Out.Shorten(file), ui.Size(created.Size))
	did := "Wrote"
	switch {
	case opts.DryRun:
		did = "Would write"
	case created.Unchanged:
		did = m.Shown(file) + " is unchanged:"
	}
	m.Out.Say("%s %s", did, report.ContentsText(manifest))
	return nil
}

// bundlePage returns the page of a bundle. It has neither verification results, which are for the receiver to find, nor
// times, so equal mirrors have equal bundles.
func bundlePage(packages []bundle.Package) ([]byte, error) {
	var all []builder.Entry
	for _, p := range packages {
		all = append(all, builder.Entry{ID: p.ID, Size: p.Size})
	}
	return job.Page(all, time.Time{})
}

// needReceiver is the hint for a path that should be that of a receiver.
const needReceiver = "name the manifest of the receiver, its mirror or the last bundle for it"

// receiverAt returns the receiver with the manifest, bundle or mirror at path.
func receiverAt(ctx context.Context, path string, records store.Records, warn func(error)) (*bundle.Receiver, error) {
	if cachedir.IsCache(path) {
		err := fmt.Errorf("%s is a plugin cache, which has no archives that a bundle could leave out", path)
		return nil, sources.WithHint(err, "name the mirror that receives the bundle, or its manifest")
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if err := job.CheckMirrorOrEmpty(path, needReceiver); err != nil {
			return nil, err
		}
	}
	return bundle.ReceiverAt(ctx, path, records, warn)
}

// skipsFor returns what skips packages that the receiver has. The receiver may be nil.
func skipsFor(r *bundle.Receiver) job.Skipper {
	if r == nil {
		return nil
	}
	return func(ctx context.Context, from sources.Source, s installer.Selected) bool {
		var locks [][]sources.Hash
		for _, w := range s.Wants {
			locks = append(locks, w.Locked.Hashes)
		}
		return r.Skips(ctx, from, s.ID, locks)
	}
}

// tellReceived prints the totals of a dry run. The receiver may be nil.
func tellReceived(out *report.Output, r *bundle.Receiver, sum report.FillSum, payload []bundle.Payload) {
	out.Payload(payload, bundle.Added)
	n := r.Skipped()
	if sum.Empty() {
		if n > 0 {
			out.Conclude("The receiver has everything already")
		}
		return
	}
	text := sum.Text(out) + report.PayloadText(payload)
	if n > 0 {
		text += fmt.Sprintf(", for a mirror that has %s already", ui.Count(n, "package"))
	}
	out.Conclude("%s", text)
}
