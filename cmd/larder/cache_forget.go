package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

func cacheForgetCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "forget",
		ArgsUsage: "[FLAG...] ADDRESS@VERSION",
		Usage:     "forget what the packages of a release hashed to",
		Description: "A release that was republished, with other contents, is refused until what it\n" +
			"was is forgotten. Ask its publisher first. A package in the cache stays there.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "platform", Usage: "forget that for `OS_ARCH` alone; may be repeated"},
		},
		Action: func(c *cli.Context) error { return cacheForget(c, out) },
	}
}

// cacheForget removes the recorded hashes of a release, for the platforms of --platform
// or for all. It asks no source: the decision to accept other contents is the user's.
func cacheForget(c *cli.Context, out *ui.Output) error {
	if c.NArg() != 1 {
		return usageError{errors.New("cache forget needs one ADDRESS@VERSION")}
	}
	k, err := openCache(c, out, true)
	if err != nil {
		return err
	}
	p, v, err := parseRelease(c.Args().First(), k.config.Engine)
	if err != nil || k.cache == nil {
		return err
	}
	platforms := k.flags.platforms
	if len(platforms) == 0 {
		if platforms, err = k.cache.Recorded(p, v); err != nil {
			return err
		}
	}
	forgotten := 0
	for _, platform := range platforms {
		done, err := k.forget(c.Context, sources.PackageID{Provider: p, Version: v, Platform: platform})
		if err != nil {
			return err
		}
		if done {
			forgotten++
		}
	}
	if forgotten == 0 {
		out.Say("there is no record of %s %s", p, v)
	}
	return nil
}

// parseRelease parses ADDRESS@VERSION.
func parseRelease(text string, e sources.Engine) (p sources.Provider, v sources.Version, err error) {
	address, version, ok := strings.Cut(text, "@")
	if !ok {
		return p, v, usageError{fmt.Errorf("%q is not of the form ADDRESS@VERSION", text)}
	}
	if p, err = sources.ParseProvider(address, e); err == nil {
		v, err = sources.ParseVersion(version)
	}
	if err != nil {
		return p, v, usageError{err}
	}
	return p, v, nil
}

// forget forgets a package, if anything is remembered of it.
func (k *targetCache) forget(ctx context.Context, id sources.PackageID) (bool, error) {
	s, err := k.cache.Recall(id)
	if errors.Is(err, sources.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		err = k.cache.Forget(ctx, id)
	}
	if err != nil {
		return false, err
	}
	hashes := string(s.H1)
	if s.ZH != "" {
		hashes += " or " + string(s.ZH)
	}
	k.out.Result("forgotten", struct {
		ui.PackageID
		H1      sources.Hash    `json:"h1"`
		ZH      sources.Hash    `json:"zh,omitempty"`
		Verdict sources.Verdict `json:"verdict"`
		Origin  string          `json:"origin,omitempty"`
		Since   string          `json:"since"`
	}{ui.InJSON(id), s.H1, s.ZH, s.Verdict, s.Origin, s.Since.UTC().Format(time.RFC3339)},
		"%s  forgotten: %s, %s, seen on %s", id, hashes, s.Verdict, s.Since.Format(time.DateOnly))
	return true, nil
}
