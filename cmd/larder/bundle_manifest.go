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
		Name:      "manifest",
		Usage:     "tell what a mirror has, for who makes bundles for it",
		ArgsUsage: "DIR [FLAG...]",
		Description: "Writes JSON, for \"larder bundle create --since\" on the other side. Reads only\n" +
			"those packages that have changed since they were last looked at.",
		Action: func(c *cli.Context) error { return bundleManifest(c, out) },
	}
}

// bundleManifest writes the manifest to standard output as it is, so that it can be
// redirected into a file and carried to the side where bundles are made.
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
