package main

import (
	"context"
	"slices"

	"github.com/larder-cli/larder/cmd/larder/job/mirror"
	"github.com/larder-cli/larder/cmd/larder/line"
	"github.com/larder-cli/larder/cmd/larder/site"
)

var bundleCreateCommand = &line.Command{
	Name:      "create",
	Does:      "write packages to a bundle",
	Arguments: "FILE [PATH | ADDRESS[@VERSION]]... [FLAG...]",
	Example:   "larder bundle create usb.tar -R .",
	Flags: slices.Concat(wantedFlags, []line.Flag{
		{Group: selectionFlags, Name: "mirror", Value: "DIR", Kind: line.Dir, Does: "write all packages in the mirror DIR"},
		{Group: selectionFlags, Name: "since", Value: "PATH", Kind: line.File,
			Does: "skip what this manifest, bundle or mirror has"},
		{Name: "modules", Does: "add the modules that terraform get has downloaded"},
		{Name: "engine-binary", Value: "FILE", Kind: line.File, Does: "add the executable of terraform or tofu"},
		{Name: "force", Does: "replace FILE if it exists"},
		dryRunFlag("show what would be written"),
		signKeyFlag,
	}, trustFlags),
	Leaves: "no bundle was written",
	Run:    atSite(bundleCreate),
}

// bundleCreate reads the flags of bundle create, and writes a bundle.
func bundleCreate(ctx context.Context, l *line.Line, s *site.Site) error {
	request := mirror.BundleRequest{
		FillRequest: readFill(l), Mirror: l.Text("mirror"), Since: l.Text("since"), Modules: l.Bool("modules"),
		Engine: l.Text("engine-binary"), Force: l.Bool("force"), SignKey: l.Text("sign-key"),
	}
	if err := sameSource(l, request); err != nil {
		return err
	}
	return mirror.CreateBundle(ctx, s, request)
}

// sameSource fails if packages would come both from a mirror and from another source. With
// --modules, arguments and flags may still name root modules.
func sameSource(l *line.Line, request mirror.BundleRequest) error {
	if request.Mirror == "" {
		return nil
	}
	if len(l.Words) > 1 && !request.Modules {
		return mirror.ErrAddresses
	}
	var elsewhere []string
	for _, f := range wantedFlags {
		if !request.Modules || !slices.Contains([]string{"from", "recursive", "exclude"}, f.Name) {
			elsewhere = append(elsewhere, f.Name)
		}
	}
	return l.Exclusive("mirror", elsewhere...)
}
