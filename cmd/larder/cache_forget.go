package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

func cacheForgetCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:      "forget",
		Usage:     "remove the recorded hashes of a version",
		ArgsUsage: "ADDRESS@VERSION [FLAG...]",
		UsageText: "larder cache forget hashicorp/random@3.7.2",
		Description: "A version that was republished with different contents is refused while its hashes\n" +
			"are recorded. Ask its publisher first. Packages in the cache stay.",
		Flags: []cli.Flag{
			platformsFlag("platforms, in place of all"),
		},
		Action: func(c *cli.Context) error { return cacheForget(c, out) },
	}
}

// cacheForget removes the recorded hashes of a release, for the platforms of --platform or
// for all platforms. It sends no requests: the user decides to accept other contents.
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
	out.Summary(struct {
		Packages int `json:"packages"`
	}{forgotten})
	if forgotten == 0 {
		k.nothingRecorded(c.Context, p, v)
	} else {
		out.Say("Forgot the hashes of %s; the next one that is fetched is accepted as new", ui.Count(forgotten, "package"))
	}
	return nil
}

// nothingRecorded prints that nothing was recorded, with a similar release as a hint.
func (k *targetCache) nothingRecorded(ctx context.Context, p sources.Provider, v sources.Version) {
	text := fmt.Sprintf("no hashes are recorded for %s %s", p, v)
	versions := k.knownVersions(ctx, p)
	hint := ""
	if meant := nearestProvider(p, k.knownProviders(ctx)); len(versions) == 0 && meant != nil {
		hint = k.out.Name(*meant)
	} else if near := sources.Nearest(v.String(), sources.Texts(versions)); near != "" && near != v.String() {
		hint = k.out.Name(p) + "@" + near
	}
	if hint == "" {
		k.out.Warn("%s", text)
		return
	}
	k.out.WarnHint(fmt.Sprintf("did you mean %q?", hint), "%s", text)
}

// parseRelease parses ADDRESS@VERSION.
func parseRelease(text string, e sources.Engine) (p sources.Provider, v sources.Version, err error) {
	address, version, ok := sources.CutVersion(text)
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

// forget removes the record of a package, if there is one.
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
		H1 sources.Hash `json:"h1"`
		ZH sources.Hash `json:"zh,omitempty"`
		ui.Verification
		Origin string `json:"origin,omitempty"`
		Since  string `json:"since"`
	}{ui.InJSON(id), s.H1, s.ZH, ui.VerificationOf(s.Report), s.Origin, s.Since.UTC().Format(time.RFC3339)},
		"%s  %s, %s, seen on %s", id, hashes, ui.VerifiedAs(s.Report), s.Since.Format(time.DateOnly))
	return true, nil
}
