package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

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
			&cli.StringFlag{Category: selectionFlags, Name: "since", Usage: "leave out packages in the manifest in `FILE`"},
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
	if since := c.String("since"); since != "" {
		m, err := readManifest(absolute(f.dir, since))
		if err != nil {
			return err
		}
		opts.Since = &m
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
	if mirror != "" {
		return m.bundle(c, absolute(f.dir, mirror), file, opts)
	}
	dir, done, err := temporaryMirror(file, opts.DryRun)
	if err != nil {
		return err
	}
	defer done()
	err = f.runMirror(c.Context, func() (*builder.Builder, error) {
		return builder.Open(c.Context, dir, builder.Options{Key: opts.Key, ReadOnly: opts.DryRun, Warn: out.WarnOf, Place: "the bundle"})
	}, func(_ *builder.Builder, sum fillSummary) error {
		if opts.DryRun && !sum.empty() {
			out.Conclude("%s%s", sum.text(out), withPayload(opts.Payload))
			showPayload(out, opts.Payload, marks[bundle.Added])
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
	elsewhere := []string{"require-signed"}
	for _, f := range wantedFlags() {
		if name := f.Names()[0]; !modules || !slices.Contains([]string{"from", "recursive", "exclude"}, name) {
			elsewhere = append(elsewhere, name)
		}
	}
	return exclusive(c, "mirror", elsewhere...)
}

// temporaryMirror creates a directory for a mirror beside the file. The function done
// removes it. If nothing is to be written, the directory does not exist.
func temporaryMirror(file string, dryRun bool) (dir string, done func(), err error) {
	if dryRun {
		return file + ".larder-mirror", func() {}, nil
	}
	in, err := disk.Open(filepath.Dir(file))
	if err != nil {
		return "", nil, err
	}
	scratch, err := in.Scratch(".larder-bundle-")
	if err != nil {
		in.Close()
		return "", nil, fmt.Errorf("cannot write in %s: %w", filepath.Dir(file), disk.Cause(err))
	}
	return scratch.Path("mirror"), func() { scratch.Close(); in.Close() }, nil
}

// bundle writes the mirror in dir to a file.
func (m *rootModule) bundle(c *cli.Context, dir, file string, opts bundle.CreateOptions) error {
	opts.Check, opts.Vouch, opts.Warn = m.known(dir), m.vouch, m.out.WarnOf
	created, err := ui.Work(m.out, func(report ui.Report) (bundle.Created, error) {
		opts.Report = report
		return bundle.Create(c.Context, dir, file, opts)
	})
	if err != nil {
		return err
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
