package fsmirror_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/fsmirror"
	"github.com/larder-cli/larder/sources"
)

// elsewhere is a source that has every package at a URL, with a hash.
type elsewhere struct {
	sources.Source
	hash sources.Hash
	err  error
}

func (e elsewhere) Package(_ context.Context, id sources.PackageID) (sources.Package, error) {
	return sources.Package{ID: id, Location: sources.Location{URL: "https://example.test/x.zip"}, Hashes: []sources.Hash{e.hash}}, e.err
}

func TestNearby(t *testing.T) {
	const zhOfX = "zh:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
	dir := t.TempDir()
	path := filepath.Join(dir, "example.test", "acme", "widget", "terraform-provider-widget_1.0.0_linux_amd64.zip")
	check(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), 0o644)))
	p, _ := sources.ParseProvider("example.test/acme/widget", sources.Terraform)
	failed := errors.New("no answer")
	for _, test := range []struct {
		name    string
		version string
		from    elsewhere
		near    bool
	}{
		{"the same archive", "1.0.0", elsewhere{hash: zhOfX}, true},
		{"another archive", "1.0.0", elsewhere{hash: "zh:00"}, false},
		{"another version", "2.0.0", elsewhere{hash: zhOfX}, false},
		{"no answer", "1.0.0", elsewhere{hash: zhOfX, err: failed}, false},
	} {
		v, _ := sources.ParseVersion(test.version)
		id := sources.PackageID{Provider: p, Version: v, Platform: sources.Platform{OS: "linux", Arch: "amd64"}}
		mirrors := []*fsmirror.Mirror{fsmirror.New(filepath.Join(dir, "none"), fsmirror.Options{}), fsmirror.New(dir, fsmirror.Options{})}
		pkg, err := fsmirror.Nearby(test.from, mirrors).Package(context.Background(), id)
		if !errors.Is(err, test.from.err) || (pkg.Location.Archive == path) != test.near {
			t.Errorf("%s: got %+v, %v", test.name, pkg.Location, err)
		}
	}
}
