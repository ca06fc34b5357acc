package main

import (
	"context"
	"errors"

	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
)

// signKeyFlag is for commands that sign sets.
var signKeyFlag = line.Flag{Group: signatureFlags, Name: "sign-key", Value: "FILE", Kind: line.File,
	Does: "private key that signs the set of packages"}

var mirrorSignCommand = &line.Command{
	Name:      "sign",
	Does:      "sign the set of packages in a mirror",
	Arguments: "DIR --sign-key FILE [FLAG...]",
	Least:     1, Most: 1, Needs: needsMirror,
	Example: "larder mirror sign ./mirror --sign-key ops.key",
	About: "Writes .larder/manifest.json, .sig and .key. With approved_by in a policy, Larder uses\n" +
		"only packages in a set that one of these keys signed.",
	Flags:  []line.Flag{signKeyFlag},
	Leaves: "the mirror may have no valid signature",
	Run: atSite(func(ctx context.Context, l *line.Line, s *site.Site) error {
		if !l.IsSet("sign-key") {
			return report.Usage(errors.New("--sign-key is required"))
		}
		return mirror.Sign(ctx, s, l.Word(0), l.Text("sign-key"))
	}),
}
