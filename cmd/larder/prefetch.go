package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/installer"
)

func prefetchCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "prefetch",
		Category:  forCache,
		Usage:     "fetch packages into the plugin cache",
		ArgsUsage: "[PATH | ADDRESS[@VERSION]]... [FLAG...]",
		UsageText: "larder prefetch -R . --platform linux_amd64,darwin_arm64",
		Description: "PATH is a root module or a lock file. Takes the locked version, else the newest\n" +
			"one allowed. Changes no working directory.",
		Flags:  fillFlags(dryRunFlag("show what would be fetched")),
		Action: func(c *cli.Context) error { return prefetch(c, out) },
	}
}

// prefetch fills the plugin cache. It takes no lock on a root module and writes to none.
func prefetch(c *cli.Context, out *ui.Output) error {
	f, err := newFilling(c, out)
	if err != nil {
		return err
	}
	if err := f.take(c.Args().Slice()); err != nil {
		return err
	}
	if f.flags.noCache {
		return usageError{errors.New("--no-cache leaves no cache to fill")}
	}
	sum, err := f.run(c.Context, cacheToFill, func(context.Context) error { return nil })
	if !sum.empty() {
		out.Conclude("%s", sum.text(out))
	}
	return err
}

// cacheToFill returns the plugin cache of a supply. Unlike other commands, prefetch fails
// without one.
func cacheToFill(s *supply) (d destination, err error) {
	path := s.cacheRoot()
	if path == "" {
		return d, errNoPlace
	}
	opts, err := s.cacheOptions()
	if err != nil {
		return d, err
	}
	opts.Shared, opts.KeepArchives = s.engineCache(), true
	d.Store, err = s.openCache(path, opts)
	d.engineCache, d.had = opts.Shared, installer.FromStore
	return d, err
}
