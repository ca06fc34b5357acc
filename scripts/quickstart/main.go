// Command quickstart creates the mirror for the root module in
// testdata/quickstart. The result is always identical:
//
//	go run ./scripts/quickstart
//
// Run it in the root of the repository after changing the providers below. The
// signing key is derived from its name, so its signatures prove nothing.
package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/larder-cli/larder/fsmirror/builder"
	"github.com/larder-cli/larder/sources/sourcetest"
)

const mirror = "testdata/quickstart/terraform.d/plugins"

var releases = map[string][]string{
	"example.test/pantry/flour": {"1.0.0", "1.1.0"},
	"example.test/pantry/sugar": {"2.0.1", "2.1.0"},
	"example.test/pantry/salt":  {"0.9.0", "1.0.0"},
}

// platforms are the platforms that people may try Larder on.
var platforms = []string{
	"darwin_amd64", "darwin_arm64",
	"freebsd_amd64",
	"linux_386", "linux_amd64", "linux_arm", "linux_arm64",
	"windows_386", "windows_amd64", "windows_arm64",
}

func main() {
	s := &sourcetest.Script{Program: "quickstart"}
	defer s.End()
	sourcetest.Check(s, os.RemoveAll(mirror))
	write(s, mirror)
}

// write writes the mirror to dir, with the JSON that larder mirror index makes, and without what
// depends on the time and place of the run.
func write(t testing.TB, dir string) {
	w := sourcetest.New(t)
	description := sourcetest.Release{Platforms: platforms, Signer: sourcetest.NewKey("quickstart")}
	for provider, versions := range releases {
		for _, version := range versions {
			w.Add(provider, version, description)
		}
	}
	w.WritePacked(dir)
	w.WriteEvidence(dir)
	b, err := builder.Open(context.Background(), dir, builder.Options{})
	sourcetest.Check(t, err)
	_, _, err = b.Index(context.Background(), false, false)
	sourcetest.Check(t, errors.Join(err, b.Close()))
	for _, name := range []string{"known", "lock", "mirror.lock", "partial", "tmp"} {
		sourcetest.Check(t, os.RemoveAll(filepath.Join(dir, ".larder", name)))
	}
}
