package main

import (
	"errors"
	"fmt"
	"path"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/sources"
)

// A foundError says that a check found something, which has been told.
type foundError struct{ error }

func (e foundError) Unwrap() error { return e.error }

func cacheVerifyCommand(out *output) *cli.Command {
	return &cli.Command{
		Name:      "verify",
		ArgsUsage: "[FLAG...]",
		Usage:     "hash everything in the plugin cache and name what is wrong",
		Description: "Compares each package with what was recorded when it was stored, or else with\n" +
			"what is remembered of it, and with the signed checksums that are kept with it.\n" +
			"Opens no connection and changes nothing.\n" +
			"Exit status: 0 all is well, 1 it could not be told, 3 something was found.",
		Action: func(c *cli.Context) error { return cacheVerify(c, out) },
	}
}

func cacheVerify(c *cli.Context, out *output) error {
	if err := noArguments(c); err != nil {
		return err
	}
	k, v, err := verifyCache(c, out, false)
	if err != nil || k.cache == nil {
		return err
	}
	for _, f := range v.Findings {
		out.result("finding", found(f), "%s", f)
	}
	k.sum(v)
	if n := len(v.Findings); n > 0 {
		err := fmt.Errorf("%s found in the plugin cache", count(n, "thing"))
		return foundError{sources.WithHint(err, "larder cache repair sets aside what is wrong and fetches packages again")}
	}
	return nil
}

// finding is a finding in JSON.
type finding struct {
	Kind     string `json:"kind"`
	Path     string `json:"path"`
	Provider string `json:"provider,omitempty"`
	Version  string `json:"version,omitempty"`
	Platform string `json:"platform,omitempty"`
	Text     string `json:"text"`
}

func found(f cachedir.Finding) finding {
	told := finding{Kind: string(f.Kind), Path: f.Path, Text: f.Text}
	if id := f.Package; id != nil {
		told.Provider, told.Version, told.Platform = id.Provider.String(), id.Version.String(), id.Platform.String()
	}
	return told
}

// sum says what was verified.
func (k *keeper) sum(v *cachedir.Verification) {
	k.out.say(normal, "verified %s, %s", count(v.Packages, "package"), humanSize(v.Bytes))
	if v.Unknown > 0 {
		k.out.say(normal, "of %d of them nothing was recorded to compare with", v.Unknown)
	}
	k.besides(v.Besides)
}

// verifyCache verifies the cache, if there is one, and shows how far it is.
func verifyCache(c *cli.Context, out *output, repairs bool) (*keeper, *cachedir.Verification, error) {
	k, err := openCache(c, out, repairs)
	if err != nil || k.cache == nil {
		return k, nil, err
	}
	shown := out.followed()
	shown.work(0, 0) // the first package may take a while
	v, err := k.cache.Verify(c.Context, cachedir.VerifyOptions{Vouch: k.vouchVerdict, Report: shown.work})
	shown.end(itemKey{})
	return k, v, err
}

func cacheRepairCommand(out *output) *cli.Command {
	return &cli.Command{
		Name:      "repair",
		ArgsUsage: "[FLAG...]",
		Usage:     "set aside what is wrong in the cache, and fetch it again",
		Description: "Verifies the cache first. What is wrong is moved into .larder/aside in it, where\n" +
			"you can look at it and delete it. Packages are fetched again, if they can be had\n" +
			"as they were; with --offline, from this machine. Exit status: 0 nothing is wrong\n" +
			"any more, 1 something is.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "tell what would be done, and do nothing"},
		},
		Action: func(c *cli.Context) error { return cacheRepair(c, out) },
	}
}

func cacheRepair(c *cli.Context, out *output) error {
	if err := noArguments(c); err != nil {
		return err
	}
	k, v, err := verifyCache(c, out, !c.Bool("dry-run"))
	if err != nil || k.cache == nil {
		return err
	}
	mendings := v.Mendings()
	if !c.Bool("dry-run") {
		replace, sourceErr := k.replacer(c.Context)
		if sourceErr != nil {
			return sourceErr
		}
		mendings, err = k.cache.Repair(c.Context, v, replace)
	}
	k.sum(v)
	for _, m := range mendings {
		err = errors.Join(err, k.mended(m, c.Bool("dry-run")))
	}
	if dir := k.cache.AsideDir(); dir != "" {
		out.say(normal, "what was set aside is in %s", dir)
	}
	return err
}

// mended writes what was done about a finding, or says why nothing was.
func (k *keeper) mended(m cachedir.Mending, planned bool) error {
	if m.Do == cachedir.Nothing && m.Err == nil {
		m.Err = errors.New(m.Text)
	}
	var failed error
	if m.Err != nil && !planned {
		failed = m.Err
		if named := (*sources.PackageError)(nil); !errors.As(failed, &named) {
			failed = fmt.Errorf("%s: %w", m.Path, failed)
		}
	}
	if failed != nil && m.Aside == "" {
		return sources.WithHint(failed, "look at it in %s", path.Join(k.path, m.Path))
	}
	did := string(m.Do)
	if planned {
		did = "would be " + did
		if m.Fetch() {
			did += " and fetched again"
		}
	}
	k.out.result("mended", struct {
		finding
		Do    string `json:"do"`
		Aside string `json:"aside,omitempty"`
		Fetch bool   `json:"fetch"`
	}{found(m.Finding), string(m.Do), m.Aside, m.Fetch()}, "%s: %s", m.Finding, did)
	return failed
}
