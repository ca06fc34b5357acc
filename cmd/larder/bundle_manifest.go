package main

import (
	"encoding/json"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/larder-cli/larder/cmd/larder/ui"
	"github.com/larder-cli/larder/fsmirror/bundle"
)

func bundleManifestCommand(out *ui.Output) *cli.Command {
	return &cli.Command{
		Name:        "manifest",
		Usage:       "print what a mirror contains, for bundle create --since",
		ArgsUsage:   "DIR [FLAG...]",
		UsageText:   "larder bundle manifest ./mirror > inside.json",
		Description: "Prints JSON. Reads only packages that have changed since they were last read.",
		Action:      func(c *cli.Context) error { return bundleManifest(c, out) },
	}
}

// bundleManifest writes the unchanged manifest to standard output, for redirection into a
// file. That file can be used where the next bundle is made.
func bundleManifest(c *cli.Context, out *ui.Output) error {
	if c.NArg() != 1 {
		return usageError{errors.New("bundle manifest takes the directory of one mirror")}
	}
	m, err := here(c, out)
	if err != nil {
		return err
	}
	key, err := m.recordKey()
	if err != nil {
		return err
	}
	manifest, err := ui.Work(out, func(ui.Report) (bundle.Manifest, error) {
		return bundle.Describe(c.Context, absolute(m.dir, c.Args().First()), key, out.WarnOf)
	})
	if err != nil {
		return err
	}
	if out.JSON {
		out.Object("manifest", json.RawMessage(manifest.Text()))
		return nil
	}
	_, err = out.Stdout.Write(manifest.Text())
	return err
}
