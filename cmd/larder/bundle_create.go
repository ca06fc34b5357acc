package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer/modules"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

func bundleCreateCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "write packages into a file",
		ArgsUsage: "FILE [PATH | ADDRESS[@VERSION]]... [FLAG...]",
		UsageText: "larder bundle create usb.tar -R .",
		Flags: slices.Concat(wantedFlags(), []cli.Flag{
			&cli.StringFlag{Category: selectionFlags, Name: "mirror", Usage: "all packages in the mirror in `DIR`"},
			&cli.StringFlag{Category: selectionFlags, Name: "since", Usage: "leave out packages in `PATH`: manifest, bundle or mirror"},
			&cli.BoolFlag{Name: "modules", Usage: "add the modules that terraform get installed"},
			&cli.StringFlag{Name: "engine-binary", Usage: "`FILE` add an engine's executable"},
			maxSizeFlag("split into files of at most a `SIZE`, such as 4G"),
			dryRunFlag("show what would be written"),
		}, trustFlags()),
		Action: func(c *cli.Context) error { return bundleCreate(c, out) },
	}
}

// bundleCreate writes a bundle. Without --mirror it first makes a temporary mirror beside
// FILE, on the same file system. So there is only one way to make bundles: from a mirror.
func bundleCreate(c *cli.Context, out *ui.Output) error {
	mirror := c.String("mirror")
	if err := sameSource(c, mirror != "", c.Bool("modules")); err != nil {
		return err
	}
	var opts bundle.CreateOptions
	var err error
	if opts.MaxSize, err = maxSize(c); err != nil {
		return err
	}
	f, err := newFilling(c, out)
	if err != nil {
		return err
	}
	typed, others, err := f.pick(target{"bundle create", "the FILE to write", mayBeBundle}, c.Args().Slice())
	if err != nil {
		return err
	}
	if err := f.take(others); err != nil {
		return err
	}
	if mirror != "" && len(f.addresses) > 0 {
		return errAddresses
	}
	if opts.Payload, err = f.gatherPayload(c); err != nil {
		return err
	}
	opts.DryRun = c.Bool("dry-run")
	file := absolute(f.dir, typed)
	m, err := f.root(c.Context, f.dir, out)
	if err != nil {
		return err
	}
	if opts.Key, err = m.recordKey(); err != nil {
		return err
	}
	var r *receiver
	if since := c.String("since"); since != "" {
		if r, err = receiverAt(c.Context, absolute(f.dir, since), opts.Key, out.WarnOf); err != nil {
			return err
		}
		opts.Since = &r.Manifest
	}
	if mirror != "" {
		return m.bundle(c, absolute(f.dir, mirror), file, opts)
	}
	dir, done, err := temporaryMirror(file, opts.DryRun, out.WarnOf)
	if err != nil {
		return err
	}
	defer done()
	var skips skipper
	if r != nil {
		skips = r.skips
	}
	err = f.runMirror(c.Context, func() (*builder.Builder, error) {
		return builder.Open(c.Context, dir, m.sharing(builder.Options{
			Key: opts.Key, Judge: m.judge(), ReadOnly: opts.DryRun, Warn: out.WarnOf, Place: "the bundle", Temporary: true,
		}))
	}, skips, func(_ *builder.Builder, sum fillSummary) error {
		if opts.DryRun {
			r.tell(out, sum, opts.Payload)
		}
		return nil
	})
	if disk.IsFull(err) {
		return sources.WithHint(err, "until it is complete, a bundle takes the space of its packages twice; larder bundle create %s --mirror DIR needs it once", c.Args().First())
	}
	if err == nil && f.empty {
		err = sources.WithHint(errors.New("nothing to bundle: no provider is required here"),
			"run it in a root module, or name the providers: larder bundle create %s hashicorp/aws", c.Args().First())
	}
	if err != nil || opts.DryRun {
		return err
	}
	if r != nil {
		opts.Base = slices.Collect(maps.Values(r.has))
	}
	return m.bundle(c, dir, file, opts)
}

// mayBeBundle reports whether path is a file that may be replaced with a bundle, and not a
// file that lists required providers.
func mayBeBundle(path string, info os.FileInfo) bool {
	return !info.IsDir() && !modules.IsConfiguration(filepath.Base(path)) && !strings.HasSuffix(path, ".lock.hcl")
}

var errAddresses = usageError{errors.New("--mirror takes every package there and cannot be combined with provider addresses")}

// sameSource fails if packages would come both from a mirror and from another source. With
// --modules, arguments and flags may still name root modules.
func sameSource(c *cli.Context, mirror, modules bool) error {
	if !mirror {
		return nil
	}
	if c.NArg() > 1 && !modules {
		return errAddresses
	}
	var elsewhere []string
	for _, f := range wantedFlags() {
		if name := f.Names()[0]; !modules || !slices.Contains([]string{"from", "recursive", "exclude"}, name) {
			elsewhere = append(elsewhere, name)
		}
	}
	return exclusive(c, "mirror", elsewhere...)
}

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
		return "", nil, fmt.Errorf("cannot write in %s: %w", filepath.Dir(file), disk.Cause(err))
	}
	return scratch.Path("mirror"), func() { scratch.Close(); in.Close() }, nil
}

// bundle writes the mirror in dir to a file.
func (m *rootModule) bundle(c *cli.Context, dir, file string, opts bundle.CreateOptions) error {
	opts.Check, opts.Judge, opts.Warn = m.known(dir), m.bundleJudge(), m.out.WarnOf
	var packages []sources.Stored
	opts.Accept = func(all []bundle.Verified) error {
		packages = bundledAs(all)
		return m.require(packages)
	}
	created, err := ui.Work(m.out, func(report ui.Report) (bundle.Created, error) {
		opts.Report = report
		return bundle.Create(c.Context, dir, file, opts)
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
	if m.out.JSON {
		m.out.Checked(ui.CheckedOf(packages))
	}
	manifest := created.Manifest
	showPayload(m.out, manifest.Payload, marks[bundle.Added])
	for i, file := range created.Files {
		info := infoOf(file, manifest)
		if manifest.Parts > 0 {
			info.Part = i + 1
		}
		m.out.Result("bundle", info, "%s  %s", m.out.Shorten(file), ui.Size(created.Sizes[i]))
	}
	did := "Wrote"
	if opts.DryRun {
		did = "Would write"
	}
	if len(manifest.Packages) == 0 && len(manifest.Payload) == 0 {
		m.out.Say("The receiver has everything already")
	}
	m.out.Summary(bundleSummary{len(created.Files), len(manifest.Packages), manifest.Size(), len(manifest.Base), len(manifest.Payload), opts.DryRun})
	m.out.Say("%s %s, %s%s%s", did, ui.Count(len(manifest.Packages), "package"), ui.Size(manifest.Size()), withPayload(manifest.Payload), basedOn(manifest))
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
