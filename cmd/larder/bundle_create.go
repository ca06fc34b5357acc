package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/sources"
	"github.com/larder-cli/larder/sources/disk"
)

func bundleCreateCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "write what a mirror has, or modules need, into a file",
		ArgsUsage: "FILE [FLAG...] [ADDRESS[@CONSTRAINT]...]",
		Description: "What is wanted is told as to \"larder mirror sync\"; with --mirror, it is all that\n" +
			"is there. The same packages make the same bytes. In parts, usb.tar becomes\n" +
			"usb-1of3.tar and so on.",
		Flags: slices.Concat(wantedFlags(), []cli.Flag{
			&cli.StringFlag{Name: "mirror", Usage: "take the packages from the mirror in `DIR`"},
			&cli.StringFlag{Name: "since", Usage: "leave out what the receiver has, by its manifest in `FILE`"},
			maxSizeFlag("write files of no more than a `SIZE` such as 4G"),
			dryRunFlag("tell what would be done, and write nothing"),
		}, trustFlags()),
		Action: func(c *cli.Context) error { return bundleCreate(c, out) },
	}
}

// bundleCreate writes a bundle. Without --mirror it first makes a mirror in a temporary
// directory beside FILE, on the same file system, because a bundle is a copy of a
// mirror: one way to make bundles is enough.
func bundleCreate(c *cli.Context, out *ui.Output) error {
	if c.Args().First() == "" {
		return usageError{errors.New("bundle create needs the FILE to write")}
	}
	mirror := c.String("mirror")
	if err := sameSource(c, mirror != ""); err != nil {
		return err
	}
	var opts bundle.CreateOptions
	var err error
	if opts.MaxSize, err = maxSize(c); err != nil {
		return err
	}
	f, err := newFilling(c, out, c.Args().Tail())
	if err != nil {
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
	file := absolute(f.dir, c.Args().First())
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
	b, err := builder.Open(c.Context, dir, builder.Options{Key: opts.Key, ReadOnly: opts.DryRun, Warn: out.WarnOf, Place: "the bundle"})
	if err != nil {
		return err
	}
	err = f.runMirror(c.Context, b)
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

// sameSource refuses to take packages from a mirror and from elsewhere.
func sameSource(c *cli.Context, mirror bool) error {
	if !mirror {
		return nil
	}
	if c.NArg() > 1 {
		return usageError{errors.New("--mirror takes every package there and cannot be combined with provider addresses")}
	}
	elsewhere := []string{"require-signed"}
	for _, f := range wantedFlags() {
		elsewhere = append(elsewhere, f.Names()[0])
	}
	return exclusive(c, "mirror", elsewhere...)
}

// temporaryMirror is a directory beside the file for a mirror, which done removes.
// Without one to be written, it does not exist.
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

// bundle writes the mirror in dir into a file.
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
	for i, file := range created.Files {
		info := infoOf(file, manifest)
		if manifest.Parts > 0 {
			info.Part = i + 1
		}
		m.out.Result("bundle", info, "%s  %s", m.out.Shorten(file), ui.Size(created.Sizes[i]))
	}
	did := "wrote"
	if opts.DryRun {
		did = "would write"
	}
	if len(manifest.Packages) == 0 {
		m.out.Say("the receiver has everything already")
	}
	m.out.Say("%s %s, %s%s", did, ui.Count(len(manifest.Packages), "package"), ui.Size(manifest.Size()), basedOn(manifest))
	return nil
}
