package main

import (
	"context"
	"errors"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/report"
	"github.com/larder-cli/larder/cmd/larder/site"
	"github.com/larder-cli/larder/sources"
)

var importCommand = &line.Command{
	Name:      "import",
	Job:       forStores,
	Does:      "add provider executables and zip files to a mirror",
	Arguments: "PATH... --to DIR [FLAG...]",
	Example:   "larder import ~/.terraform.d/plugins --to ./mirror --namespace acme",
	About: "PATH is an executable, a zip file, or a directory of these, such as a plugin\n" +
		"directory of Terraform 0.12. Doesn't change these files, and needs no network.",
	Flags: slices.Concat([]line.Flag{
		line.Flag{Name: "to", Value: "DIR", Kind: line.Dir, Does: "mirror directory, created if it is missing"},
		line.Flag{Name: "namespace", Value: "NAMESPACE", Does: "namespace, or HOST/NAMESPACE, of paths without one"},
		line.Flag{Name: "as", Value: "ADDRESS@VERSION", Does: "address and version of the provider", Excludes: "namespace"},
		line.Flag{Name: "platform", Value: "OS_ARCH", Does: "platform of paths without one", Default: thisOne,
			Offers: commonPlatforms},
		line.Flag{Name: "key", Value: "FILE", Kind: line.File, Does: "public key for SHA256SUMS beside the zip files"},
		line.Flag{Name: "sign-key", Value: "FILE", Kind: line.File, Does: "private key that signs if there is no signature"},
		line.Flag{Name: "unpacked", Does: "write directories, not archives"},
		line.Flag{Name: "replace", Does: "replace different packages in the mirror"},
		dryRunFlag("show what would be imported"),
	}, trustFlags),
	Leaves: continues,
	Run:    atSite(importAll),
}

// importAll reads the flags of import, and imports providers.
func importAll(ctx context.Context, l *line.Line, s *site.Site) error {
	switch {
	case l.Text("to") == "":
		return report.Usage(errors.New("import needs --to DIR, the mirror to import to"))
	case len(l.Words) == 0:
		return report.Usage(errors.New("import needs a PATH, a file or directory to import from"))
	}
	request := mirror.LegacyRequest{
		Paths: l.Words, To: l.Text("to"), As: l.Text("as"), Namespace: l.Text("namespace"), Key: l.Text("key"),
		SignKey: l.Text("sign-key"), Unpacked: l.Bool("unpacked"), Replace: l.Bool("replace"),
	}
	if l.IsSet("platform") {
		var err error
		if request.Platform, err = sources.ParseKnownPlatform(l.Text("platform")); err != nil {
			return report.Usage(err)
		}
	}
	return mirror.Import(ctx, s, request)
}
