package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources"
)

var bundleImportCommand = &line.Command{
	Name:      "import",
	Does:      "add the packages in a bundle to a mirror",
	Arguments: "FILE DIR [FLAG...]",
	Least:     2, Most: 2, Needs: "takes the FILE of a bundle and the DIR of a mirror",
	Example: "larder bundle import usb.tar ./mirror",
	About: "Verifies the whole bundle before it changes DIR, and creates DIR if it is missing.\n" +
		"Fails if DIR doesn't contain the packages that bundle create --since left out. Last,\n" +
		"removes packages that the sender has removed: larder bundle show lists them.",
	Flags: slices.Concat([]line.Flag{
		{Name: "modules-to", Value: "DIR", Kind: line.Dir, Does: "write modules into the root modules in DIR"},
		{Name: "engine-to", Value: "DIR", Kind: line.Dir, Does: "write terraform or tofu into DIR"},
		{Name: "engine-sha256", Value: "SUM", Does: "expected checksum of the executable"},
		{Name: "keep", Does: "keep packages that the sender has removed"},
		{Name: "replace", Does: "replace existing modules and executables"},
		writeConfigFlag,
		dryRunFlag("verify everything, change nothing"),
	}, trustFlags),
	Leaves: continues,
	Run:    atSite(bundleImport),
}

// bundleImport reads the flags of bundle import, and imports a bundle.
func bundleImport(ctx context.Context, l *line.Line, s *site.Site) error {
	request := mirror.BundleImportRequest{
		File: l.Word(0), Dir: l.Word(1), ModulesTo: l.Text("modules-to"), EngineTo: l.Text("engine-to"),
		Replace: l.Bool("replace"), Keep: l.Bool("keep"), WriteConfig: l.Text("write-config"),
	}
	var err error
	if request.EngineSum, err = engineSHA256(l); err != nil {
		return err
	}
	return mirror.ImportBundle(ctx, s, request)
}

// engineSHA256 reads the checksum without which no engine is put anywhere, because nothing in a
// bundle is signed.
func engineSHA256(l *line.Line) (sum [sha256.Size]byte, err error) {
	switch {
	case l.IsSet("engine-to") != l.IsSet("engine-sha256"):
		err := errors.New("--engine-to and --engine-sha256 must be used together")
		return sum, report.Usage(sources.WithHint(err, "bundle create prints the SHA-256: ask the sender"))
	case !l.IsSet("engine-to"):
		return sum, nil
	}
	text := l.Text("engine-sha256")
	data, err := hex.DecodeString(text)
	if err != nil || len(data) != len(sum) {
		return sum, report.Usage(fmt.Errorf("--engine-sha256: %q is not a SHA-256 of 64 hexadecimal digits", text))
	}
	return [sha256.Size]byte(data), nil
}
