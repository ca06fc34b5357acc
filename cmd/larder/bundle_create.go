package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/fsmirror/bundle"
	"github.com/larder-cli/larder/installer"
	"github.com/larder-cli/larder/sources/disk"
)

func bundleCreateCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "create",
		Usage:     "write what a mirror has, or modules need, into a file",
		ArgsUsage: "FILE [FLAG...] [ADDRESS[@CONSTRAINT]...]",
		Description: "What is wanted is told as to \"larder mirror sync\"; with --mirror, it is all that\n" +
			"is there. The same packages make the same bytes. In parts, usb.tar becomes\n" +
			"usb-1of3.tar and so on.\n" +
			"Exit status: 0 done, 1 something could not be had, 2 used wrongly.",
		Flags: append(wantedFlags(),
			&cli.StringFlag{Name: "mirror", Usage: "take the packages from the mirror in `DIR`"},
			&cli.StringFlag{Name: "since", Usage: "leave out what the receiver has, by its manifest in `FILE`"},
			&cli.StringFlag{Name: "max-size", Usage: "write files of no more than a `SIZE` such as 4G"},
			&cli.BoolFlag{Name: "require-signed", Usage: "refuse packages that are less than signed"},
			trustKeyFlag(),
			&cli.BoolFlag{Name: "dry-run", Usage: "tell what would be done, and write nothing"},
		),
		Action: func(c *cli.Context) error { return bundleCreate(c, out) },
	}
}

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
	if c.IsSet("max-size") {
		if opts.MaxSize, err = ui.ParseSize(c.String("max-size")); err != nil {
			return usageError{fmt.Errorf("--max-size %s: %w", c.String("max-size"), err)}
		}
	}
	w, err := readWanted(c, c.Args().Tail())
	if err != nil {
		return err
	}
	if w.session, err = newSession(c, out); err != nil {
		return err
	}
	if since := c.String("since"); since != "" {
		m, err := readManifest(absolute(w.dir, since))
		if err != nil {
			return err
		}
		opts.Since = &m
	}
	opts.DryRun = c.Bool("dry-run")
	file := absolute(w.dir, c.Args().First())
	if mirror != "" {
		return w.bundle(c, absolute(w.dir, mirror), file, opts)
	}
	return w.bundleWanted(c, file, opts)
}

// sameSource refuses to take packages from a mirror and from elsewhere.
func sameSource(c *cli.Context, mirror bool) error {
	if !mirror {
		return nil
	}
	for _, f := range append(wantedFlags(), &cli.BoolFlag{Name: "require-signed"}) {
		if name := f.Names()[0]; c.IsSet(name) {
			return usageError{fmt.Errorf("--mirror and --%s exclude each other", name)}
		}
	}
	if c.NArg() > 1 {
		return usageError{errors.New("--mirror takes all that is there; name no providers besides")}
	}
	return nil
}

// bundleWanted makes a mirror of what is wanted, beside the file, and bundles that.
func (w *wanted) bundleWanted(c *cli.Context, file string, opts bundle.CreateOptions) (err error) {
	dir, done, err := temporaryMirror(file, opts.DryRun)
	if err != nil {
		return err
	}
	defer done()
	s := &syncing{
		wanted: w, fill: installer.FillOptions{DryRun: opts.DryRun}, requireSigned: c.Bool("require-signed"),
		slots: installer.NewSlots(w.flags.jobs),
	}
	k, err := w.carrier(c, w.out)
	if err != nil {
		return err
	}
	s.to, err = builder.Open(c.Context, dir, builder.Options{Key: k.key, ReadOnly: opts.DryRun, Warn: w.out.WarnOf})
	if err != nil {
		return err
	}
	if err := errors.Join(s.run(c.Context), s.to.Close()); err != nil || opts.DryRun {
		return err
	}
	return w.bundle(c, dir, file, opts)
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
		return "", nil, errors.Join(err, in.Close())
	}
	return scratch.Path("mirror"), func() { scratch.Close(); in.Close() }, nil
}

// bundle writes the mirror in dir into a file.
func (s *session) bundle(c *cli.Context, dir, file string, opts bundle.CreateOptions) error {
	k, err := s.carrier(c, s.out)
	if err != nil {
		return err
	}
	opts.Key, opts.Check, opts.Vouch, opts.Warn = k.key, k.known(dir), k.vouch, k.out.WarnOf
	var created bundle.Created
	err = k.out.Work(func(report func(done, of int64)) (err error) {
		opts.Report = report
		created, err = bundle.Create(c.Context, dir, file, opts)
		return err
	})
	if err != nil {
		return err
	}
	m := created.Manifest
	for i, file := range created.Files {
		info := infoOf(file, m)
		if m.Parts > 0 {
			info.Part = i + 1
		}
		s.out.Result("bundle", info, "%s  %s", s.out.Shorten(file), ui.Size(created.Sizes[i]))
	}
	did := "wrote"
	if opts.DryRun {
		did = "would write"
	}
	if len(m.Packages) == 0 {
		s.out.Say("the receiver has everything already")
	}
	s.out.Say("%s %s, %s%s", did, ui.Count(len(m.Packages), "package"), ui.Size(m.Size()), basedOn(m))
	return nil
}
