package main

import (
	"errors"
	"fmt"
	"path"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cachedir"
	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/sources"
)

func cacheVerifyCommand(out *ui.Output) *cli.Command {
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

func cacheVerify(c *cli.Context, out *ui.Output) error {
	if err := noArguments(c); err != nil {
		return err
	}
	k, v, err := verifyCache(c, out, false)
	if err != nil || k.cache == nil {
		return err
	}
	for _, f := range v.Findings {
		out.Result("finding", ui.FindingOf(f.Kind, f.Path, f.Package, f.Text), "%s", f)
	}
	k.sum(v)
	if n := len(v.Findings); n > 0 {
		err := fmt.Errorf("%s found in the plugin cache", ui.Count(n, "thing"))
		return foundError{sources.WithHint(err, "larder cache repair sets aside what is wrong and fetches packages again")}
	}
	return nil
}

// sum says what was verified.
func (k *keeper) sum(v *cachedir.Verification) {
	k.out.Say("verified %s, %s", ui.Count(v.Packages, "package"), ui.Size(v.Bytes))
	if v.Unknown > 0 {
		k.out.Say("of %d of them nothing was recorded to compare with", v.Unknown)
	}
	k.besides(v.Besides)
}

// verifyCache verifies the cache, if there is one, and shows how far it is.
func verifyCache(c *cli.Context, out *ui.Output, repairs bool) (*keeper, *cachedir.Verification, error) {
	k, err := openCache(c, out, repairs)
	if err != nil || k.cache == nil {
		return k, nil, err
	}
	var v *cachedir.Verification
	err = out.Work(func(report func(done, of int64)) (err error) {
		v, err = k.cache.Verify(c.Context, cachedir.VerifyOptions{Vouch: k.vouchVerdict, Report: report})
		return err
	})
	return k, v, err
}

func cacheRepairCommand(out *ui.Output) *cli.Command {
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

func cacheRepair(c *cli.Context, out *ui.Output) error {
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
		out.Say("what was set aside is in %s", dir)
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
	k.out.Result("mended", struct {
		ui.Finding
		Do    string `json:"do"`
		Aside string `json:"aside,omitempty"`
		Fetch bool   `json:"fetch"`
	}{ui.FindingOf(m.Kind, m.Path, m.Package, m.Text), string(m.Do), m.Aside, m.Fetch()}, "%s: %s", m.Finding, did)
	return failed
}
