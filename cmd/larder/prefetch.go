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
		Usage:     "fill the plugin cache, for any number of root modules",
		ArgsUsage: "[FLAG...] [ADDRESS[@CONSTRAINT]...]",
		Description: "Takes what is locked, else the newest version that matches. Without arguments\n" +
			"and --from, that is for the root module here. No working directory is touched.",
		Flags:  fillFlags(dryRunFlag("tell what would be fetched, and fetch nothing")),
		Action: func(c *cli.Context) error { return prefetch(c, out) },
	}
}

// prefetch fills the plugin cache. It takes no lock on a root module and writes to none.
func prefetch(c *cli.Context, out *ui.Output) error {
	f, err := newFilling(c, out, c.Args().Slice())
	if err != nil {
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

// cacheToFill is the plugin cache of a supply. Unlike other commands, prefetch has no
// use without one.
func cacheToFill(s *supply) (d destination, err error) {
	path := s.cacheRoot()
	if path == "" {
		return d, errNoPlace
	}
	opts, err := s.cacheOptions()
	if err != nil {
		return d, err
	}
	opts.Shared = s.engineCache()
	d.Store, err = s.openCache(path, opts)
	d.engineCache, d.had = opts.Shared, installer.FromStore
	return d, err
}
